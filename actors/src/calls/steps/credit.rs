//! Requests for minutes: ahead of talk during the call, and for talk without granted minutes after it.

use std::sync::Arc;

use dikala_entities::Millis;

use crate::{
    calls::{ending::CallEnding, error::CallError, machine::DueAction, owned::OwnedCall},
    ledger::{Extend, LedgerError},
};

/// Requests before a settlement: one for a lost answer, one for the rest, and some for a hold that changed.
const QUESTIONS_MAX: usize = 8;

/// Asks for minutes of talk that were not granted: it was reported late, or the grant was lost. Returns when they are granted,
/// or when no more are available.
pub(super) async fn cover(call: &mut OwnedCall, ending: &CallEnding) -> Result<(), CallError> {
    let mut refusals = 0;
    for _ in 0..QUESTIONS_MAX {
        let Some(DueAction::Extend { started, want, .. }) = call.state.uncovered(ending, refusals)
        else {
            return Ok(());
        };
        let refused = extend(call, started, want).await?;
        refusals = if refused { refusals + 1 } else { 0 };
    }
    Err(CallError::Unavailable)
}

/// Returns true if no more minutes are available. Fails if the ledger did not answer; a refusal is an answer.
pub(super) async fn extend(
    call: &mut OwnedCall,
    started: i64,
    want: i64,
) -> Result<bool, CallError> {
    let request = call.state.credit.request + 1;
    let extend = Extend {
        call: call.row.id,
        tenant: call.row.tenant_id,
        owner: Arc::from(call.row.owner.as_str()),
        epoch: call.row.epoch,
        request,
        started,
        want,
    };
    let answer = call.deps.ledger.extend(extend).await;
    let now = call.deps.clock.now();
    match answer {
        Ok(grant) => {
            call.state = call.state.granted(request, grant.total, grant.last, now);
            Ok(grant.last)
        }
        // The ledger and this actor disagree on the last request: the ledger's hold counts.
        Err(LedgerError::Stale | LedgerError::OutOfOrder | LedgerError::Settled) => {
            reread_hold(call, now).await
        }
        Err(LedgerError::NotOwner) => Err(call.disown()),
        Err(_) => {
            call.state = call.state.ledger_away(now);
            Err(CallError::Unavailable)
        }
    }
}

/// Adopts the ledger's hold. Returns true if no more minutes are available.
async fn reread_hold(call: &mut OwnedCall, now: Millis) -> Result<bool, CallError> {
    let Ok(Some(hold)) = call.deps.ledger.hold(call.row.id).await else {
        call.state = call.state.ledger_away(now);
        return Err(CallError::Unavailable);
    };
    let last = hold.last || hold.settled_at.is_some();
    let granted = hold.held + hold.used;
    call.state = call.state.granted(hold.request, granted, last, now);
    Ok(last)
}
