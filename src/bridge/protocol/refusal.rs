//! Refusals: the error replies to messages that were not carried out.

use dikala_actors::calls::CallError;
use serde_json::{Value, json};

use super::{
    MESSAGE_BYTES_MAX,
    request::{BridgeMessage, QueueKey, id_of, queue_key_of},
};

/// An error reply to a message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRefusal {
    /// The message's id, if one could be read.
    pub id: Option<String>,
    /// The message's ordering queue, if it could be read. The refusal is answered in that order.
    pub queue_key: Option<QueueKey>,
    pub code: &'static str,
    pub message: String,
    pub status: Option<&'static str>,
}

impl MessageRefusal {
    /// The message is invalid.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self {
            id: None,
            queue_key: None,
            code: "invalid_message",
            message: message.into(),
            status: None,
        }
    }

    /// A message that is larger than [`MESSAGE_BYTES_MAX`].
    pub fn too_large() -> Self {
        Self {
            code: "too_large",
            ..Self::invalid(format!("A message has at most {MESSAGE_BYTES_MAX} bytes."))
        }
    }

    /// There is no room for the message now.
    pub fn busy(request: &BridgeMessage) -> Self {
        Self {
            queue_key: request.queue_key(),
            ..Self::from((request.id.clone(), CallError::Busy))
        }
    }

    /// The message is a binary frame.
    pub fn binary() -> Self {
        Self::invalid("Messages are text frames.")
    }

    /// Adds the id and the queue key of the refused message.
    pub fn of(self, message: &Value) -> Self {
        Self {
            id: id_of(message),
            queue_key: queue_key_of(message),
            ..self
        }
    }

    /// The reply in the wire format.
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(status) = self.status {
            error["status"] = status.into();
        }
        json!({"replyTo": self.id, "ok": false, "error": error})
    }
}

impl From<(String, CallError)> for MessageRefusal {
    fn from((id, error): (String, CallError)) -> Self {
        let (code, message) = match error {
            CallError::UnknownNumber => (
                "unknown_number",
                "No tenant has the number in did; an operator can add it.",
            ),
            CallError::UnknownCall => ("unknown_call", "This bridge has no call with that callId."),
            CallError::InvalidTransition { .. }
            | CallError::NotActive
            | CallError::TransferNotAllowed
            | CallError::TooManyTransfers => (
                "invalid_transition",
                "The call's status does not allow this message.",
            ),
            CallError::Busy | CallError::Moved => (
                "busy",
                "Too much is going on; nothing happened. Send the message again in a moment.",
            ),
            CallError::Unavailable => (
                "unavailable",
                "The service cannot write at the moment. Send the message again in a moment.",
            ),
        };
        let status = match error {
            CallError::InvalidTransition { status } => Some(status.as_str()),
            _ => None,
        };
        Self {
            id: Some(id),
            queue_key: None,
            code,
            message: message.to_owned(),
            status,
        }
    }
}
