//! Commands to the bridge. Hang-ups and transfers that are acknowledged to a tenant are stored first.

use dikala_entities::{CommandId, HangupInitiator, HangupReason, Millis, PhoneNumber, audit, call};
use dikala_protocol::{Command, CommandKind};

use crate::{
    calls::{
        error::CallError,
        machine::{MachineState, PendingHangup},
        owned::OwnedCall,
        pending::PendingCommands,
    },
    commit::CommitEntry,
};

/// The audit entry of the request.
type Audit = Option<Box<audit::Model>>;

/// Parts of the ids of the service's own commands, and their bit position.
const WARNING: u128 = 1;
const CUT: u128 = 2;
const OF_CUTS: u32 = 72;

/// Transfers per call.
pub const TRANSFERS_MAX: u32 = 5;

/// The tenant or an operator ends the call.
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
        // A pending hang-up is what was asked for. The service's own is not stored until someone relies on it: after a crash a
        // top-up would cancel it.
        None => write_pending(call, &call.state.clone(), audit).await?,
    }
    Ok(())
}

/// The tenant transfers the caller to a person.
pub(in crate::calls) async fn request_transfer(
    call: &mut OwnedCall,
    to: PhoneNumber,
    audit: Audit,
    now: Millis,
) -> Result<(), CallError> {
    if call.state.is_over() {
        return Err(CallError::NotActive);
    }
    if call.state.joined_at.is_some() {
        return Err(CallError::Joined);
    }
    if !call.deps.transfers.allow(&to) {
        return Err(CallError::TransferNotAllowed);
    }
    if call.state.transfers >= TRANSFERS_MAX {
        return Err(CallError::TooManyTransfers);
    }
    let id = CommandId::new(now);
    let next = MachineState {
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
    next: &MachineState,
    audit: Audit,
) -> Result<(), CallError> {
    let json = PendingCommands::of(next).to_json()?;
    if call.row.pending.as_ref() == Some(&json) {
        return Ok(());
    }
    let row = call::Model {
        pending: Some(json),
        ..call.row.clone()
    };
    let entry = CommitEntry {
        audit: audit.map(|audit| *audit),
        ..CommitEntry::of(row.tenant_id)
    };
    call.write_with(row, entry).await
}

/// The service itself cuts the call at `due_at`, for its length or for lack of credit.
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

/// Warns the bridge of a cut.
pub(super) fn warn(call: &OwnedCall, reason: HangupReason, seconds_left: i64, now: Millis) {
    let cut_at = call.state.to_be_cut_at(reason).unwrap_or(now);
    let command = Command {
        id: id_of_cut(call, reason, cut_at, WARNING),
        call: call.row.id,
        kind: CommandKind::Warn {
            reason,
            seconds_left: seconds_left.unsigned_abs(),
        },
    };
    call.deps.bridges.send(call.row.bridge_id, command);
}

/// The service's own commands are not stored. After a restart or a take-over the next owner sends them again. By their id the
/// bridge recognises those that it carried out.
fn id_of_cut(call: &OwnedCall, reason: HangupReason, cut_at: Millis, what: u128) -> CommandId {
    let reason = u128::from(reason == HangupReason::CreditsExhausted);
    // Ids of calls that came in together differ in their last bits.
    let rest = call.row.id.as_u128() ^ ((what << 1 | reason) << OF_CUTS);
    CommandId::derived(cut_at, rest)
}

/// After a restart or a take-over, sends the commands that were acknowledged to the tenant again. A socket that has a command
/// does not get it twice.
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
    let now = call.deps.clock.now();
    let command = Command {
        id: call
            .state
            .transfer_id
            .unwrap_or_else(|| CommandId::new(now)),
        call: call.row.id,
        kind: CommandKind::Transfer { to },
    };
    call.deps.bridges.send(call.row.bridge_id, command);
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
        call.deps.bridges.send(call.row.bridge_id, command);
    }
}
