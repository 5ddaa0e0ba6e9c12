//! Commands to bridges.

use dikala_entities::{CallId, CommandId, HangupReason, PhoneNumber};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub id: CommandId,
    #[serde(flatten)]
    pub kind: CommandKind,
    #[serde(rename = "callId")]
    pub call: CallId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum CommandKind {
    /// End the call, and confirm with that reason.
    Hangup { reason: HangupReason },
    /// Let the agent say goodbye.
    #[serde(rename_all = "camelCase")]
    Warn {
        reason: HangupReason,
        seconds_left: u64,
    },
    /// Connect the caller to a person.
    Transfer { to: PhoneNumber },
}
