//! What a bridge is told to do with a call.

use dikala_entities::{CallId, CommandId, HangupReason, PhoneNumber};
use serde::{Deserialize, Serialize};

/// What a bridge is told to do with a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub id: CommandId,
    #[serde(flatten)]
    pub kind: CommandKind,
    #[serde(rename = "callId")]
    pub call: CallId,
}

/// The kinds of command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum CommandKind {
    /// End the call and confirm with that reason.
    Hangup { reason: HangupReason },
    /// Let the agent say goodbye.
    #[serde(rename_all = "camelCase")]
    Warn {
        reason: HangupReason,
        seconds_left: i64,
    },
    /// Connect the caller to a person.
    Transfer { to: PhoneNumber },
}
