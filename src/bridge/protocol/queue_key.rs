//! Ordering queues of messages.

use dikala_entities::CallId;
use dikala_protocol::{BridgeMessage, MessageContent};
use serde_json::Value;

/// The messages of an ordering queue are carried out and answered one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueueKey {
    /// A call without an id yet; holds the bridge's own id.
    Opening(String),
    Call(CallId),
}

impl QueueKey {
    /// The queue of a message; none for a heartbeat.
    pub fn of(message: &BridgeMessage) -> Option<Self> {
        match &message.content {
            MessageContent::Incoming(incoming) => {
                Some(Self::Opening(incoming.bridge_call_id.clone()))
            }
            MessageContent::Call(message) => Some(Self::Call(message.call)),
            MessageContent::Heartbeat(_) => None,
        }
    }

    /// The queue of a message that is invalid, if it can be read.
    pub(super) fn of_invalid(message: &Value) -> Option<Self> {
        let text = |field: &str| message.get(field).and_then(Value::as_str);
        match text("callId") {
            Some(call) => call.parse().ok().map(Self::Call),
            None => Some(Self::Opening(text("bridgeCallId")?.to_owned())),
        }
    }
}
