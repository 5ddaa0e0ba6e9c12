//! Commands that were acknowledged to a tenant and must survive a restart: JSON in the call's row.

use dikala_entities::{CommandId, Millis, PhoneNumber, call};
use serde::{Deserialize, Serialize};

use super::{
    error::CallError,
    machine::{MachineState, PendingHangup},
};

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PendingCommands {
    hangup: Option<PendingHangup>,
    transfer: Option<PhoneNumber>,
    #[serde(default)]
    transfer_id: Option<CommandId>,
    /// Number of transfers requested so far.
    #[serde(default)]
    transfers: u32,
}

impl PendingCommands {
    pub(super) fn of(state: &MachineState) -> Self {
        Self {
            hangup: state.hangup.clone(),
            transfer: state.transfer.clone(),
            transfer_id: state.transfer_id,
            transfers: state.transfers,
        }
    }

    pub(super) fn to_json(&self) -> Result<String, CallError> {
        serde_json::to_string(self).map_err(|_| CallError::Unavailable)
    }

    /// Reads a row's commands. Unreadable ones are dropped, and the call continues without them.
    pub(super) fn read(row: &call::Model) -> Self {
        row.pending
            .as_deref()
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default()
    }

    /// Restores them into a call's state. Times after `now` are set to `now`.
    pub(super) fn restore(self, state: &mut MachineState, now: Millis) {
        state.hangup = self.hangup.map(|hangup| PendingHangup {
            due_at: hangup.due_at.min(now),
            issued_at: hangup.issued_at.min(now),
            ..hangup
        });
        state.transfer = self.transfer;
        state.transfer_id = self.transfer_id;
        state.transfers = self.transfers;
    }
}
