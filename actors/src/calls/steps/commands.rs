//! What the bridge is told to do, and what of that was promised to a tenant: hang-ups and transfers. A promise is stored before
//! it is made.

use dikala_entities::{CommandId, HangupInitiator, HangupReason, Millis, PhoneNumber, audit, call};

use crate::{
    bridges::{Command, CommandKind},
    calls::{
        error::CallError,
        machine::{CallState, PendingHangup},
        owned::OwnedCall,
        pending::Pending,
    },
    journal::Entry,
};

/// What is kept of who asked.
type Audit = Option<Box<audit::Model>>;

/// What tells the engine's own commands about one call apart, in their ids, and where it stands there.
const WARNING: u128 = 1;
const CUT: u128 = 2;
const OF_CUTS: u32 = 72;

/// Transfers that a call takes in all.
pub const TRANSFERS_MAX: u32 = 5;

/// The tenant or an operator wants the call to end.
pub(in crate::calls) async fn request_hangup(
    call: &mut OwnedCall,
    by: HangupInitiator,
    audit: Audit,
    now: Millis,
) -> Result<(), CallError> {
    if call.state.is_over() {
        return Err(CallError::NotActive);
    }
    let reason = match by {
        HangupInitiator::Operator => HangupReason::Operator,
        _ => HangupReason::Requested,
    };
    let pending = PendingHangup {
        id: CommandId::new(now),
        reason,
        initiator: by,
        due_at: now,
        issued_at: now,
    };
    match call.state.request_hangup(pending) {
        Some(next) => {
            write_pending(call, &next, audit).await?;
            call.state = next;
            send_hangup(call);
        }
        // A hang-up that is under way already is what was asked for. The engine's own is not stored until somebody counts
        // on it: after a crash a top-up would take it back.
        None => write_pending(call, &call.state.clone(), audit).await?,
    }
    Ok(())
}

/// The tenant wants the caller to be connected to a person.
pub(in crate::calls) async fn request_transfer(
    call: &mut OwnedCall,
    to: PhoneNumber,
    audit: Audit,
    now: Millis,
) -> Result<(), CallError> {
    if call.state.is_over() {
        return Err(CallError::NotActive);
    }
    if !call.parts.transfers.allow(&to) {
        return Err(CallError::TransferNotAllowed);
    }
    if call.state.transfers >= TRANSFERS_MAX {
        return Err(CallError::TooManyTransfers);
    }
    let id = CommandId::new(now);
    let next = CallState {
        transfer: Some(to.clone()),
        transfer_id: Some(id),
        transfers: call.state.transfers + 1,
        ..call.state.clone()
    };
    write_pending(call, &next, audit).await?;
    call.state = next;
    send_transfer(call);
    Ok(())
}

async fn write_pending(
    call: &mut OwnedCall,
    next: &CallState,
    audit: Audit,
) -> Result<(), CallError> {
    let pending = Pending::of(next);
    let json = serde_json::to_string(&pending).map_err(|_| CallError::Unavailable)?;
    if call.row.pending.as_ref() == Some(&json) {
        return Ok(());
    }
    let row = call::Model {
        pending: Some(json),
        ..call.row.clone()
    };
    let entry = Entry {
        audit: audit.map(|audit| *audit),
        ..Entry::of(row.tenant_id)
    };
    call.write_with(row, entry).await
}

/// The engine itself cuts the call at `due_at`, for its length or for want of credit.
pub(super) fn cut(call: &mut OwnedCall, reason: HangupReason, due_at: Millis, now: Millis) {
    call.state.hangup = Some(PendingHangup {
        id: id_of_cut(call, reason, due_at, CUT),
        reason,
        initiator: HangupInitiator::System,
        due_at,
        issued_at: now,
    });
    send_hangup(call);
}

/// The engine will cut the call.
pub(super) fn warn(call: &OwnedCall, reason: HangupReason, seconds_left: i64, now: Millis) {
    let cut_at = call.state.to_be_cut_at(reason).unwrap_or(now);
    let command = Command {
        id: id_of_cut(call, reason, cut_at, WARNING),
        call: call.row.id,
        kind: CommandKind::Warn {
            reason,
            seconds_left,
        },
    };
    call.parts.bridges.send(call.row.bridge_id, command);
}

/// What the engine does by itself is stored nowhere: where the call moves, and after a restart, the next one says it again. By its id
/// the bridge knows that it has done it.
fn id_of_cut(call: &OwnedCall, reason: HangupReason, cut_at: Millis, what: u128) -> CommandId {
    let reason = u128::from(reason == HangupReason::CreditsExhausted);
    // Ids of calls that came in together differ in their last bits.
    let rest = call.row.id.as_u128() ^ ((what << 1 | reason) << OF_CUTS);
    CommandId::derived(cut_at, rest)
}

/// After a restart, or where the call moved, the bridge is told again what was acknowledged to the tenant. A socket that was told
/// already is not told twice.
pub(in crate::calls) fn repeat(call: &OwnedCall) {
    if call.state.is_over() {
        return;
    }
    send_hangup(call);
    send_transfer(call);
}

fn send_transfer(call: &OwnedCall) {
    let Some(to) = call.state.transfer.clone() else {
        return;
    };
    let now = call.parts.clock.now();
    let command = Command {
        id: call
            .state
            .transfer_id
            .unwrap_or_else(|| CommandId::new(now)),
        call: call.row.id,
        kind: CommandKind::Transfer { to },
    };
    call.parts.bridges.send(call.row.bridge_id, command);
}

fn send_hangup(call: &OwnedCall) {
    if let Some(pending) = &call.state.hangup {
        let command = Command {
            id: pending.id,
            call: call.row.id,
            kind: CommandKind::Hangup {
                reason: pending.reason,
            },
        };
        call.parts.bridges.send(call.row.bridge_id, command);
    }
}
