//! Parsed messages of a bridge.

use dikala_actors::calls::{CallInput, IncomingCall};
use dikala_entities::{CallId, Millis, TraceParent};
use serde_json::{Map, Value};

/// A parsed message.
#[derive(Clone, Debug)]
pub struct BridgeMessage {
    /// The message id, which the bridge chose.
    pub id: String,
    pub body: MessageContent,
}

impl BridgeMessage {
    /// Adds the transport's trace, if the message names none itself.
    pub fn within(mut self, trace: Option<&TraceParent>) -> Self {
        let own = match &mut self.body {
            MessageContent::Incoming(incoming) => &mut incoming.trace,
            MessageContent::FunctionCall(function) => &mut function.trace,
            MessageContent::Call { .. } | MessageContent::Heartbeat { .. } => return self,
        };
        *own = own.take().or_else(|| trace.cloned());
        self
    }

    /// The ordering queue of the message; none for a heartbeat.
    pub fn queue_key(&self) -> Option<QueueKey> {
        match &self.body {
            MessageContent::Incoming(incoming) => {
                Some(QueueKey::Opening(incoming.bridge_call_id.clone()))
            }
            MessageContent::Call { call, .. } => Some(QueueKey::Call(*call)),
            MessageContent::FunctionCall(function) => Some(QueueKey::Call(function.call)),
            MessageContent::Heartbeat { .. } => None,
        }
    }
}

/// The content of a message.
#[derive(Clone, Debug)]
pub enum MessageContent {
    Incoming(IncomingCall),
    Call {
        call: CallId,
        input: CallInput,
    },
    FunctionCall(FunctionInvocation),
    Heartbeat {
        active: Option<Vec<CallId>>,
        at: Option<Millis>,
    },
}

impl MessageContent {
    /// The type of the message in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Incoming(_) => "call.incoming",
            Self::FunctionCall(_) => "call.function",
            Self::Heartbeat { .. } => "heartbeat",
            Self::Call { input, .. } => match input {
                CallInput::Answered { .. } => "call.answered",
                CallInput::Transcript { .. } => "call.transcript",
                CallInput::Failed { .. } => "call.failed",
                _ => "call.hangup",
            },
        }
    }
}

/// `call.function`
#[derive(Clone, Debug)]
pub struct FunctionInvocation {
    pub call: CallId,
    pub invocation_id: String,
    pub name: String,
    pub parameters: Map<String, Value>,
    pub at: Option<Millis>,
    pub trace: Option<TraceParent>,
}

/// The messages of an ordering queue are carried out and answered one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueueKey {
    /// A call without an id yet; holds the bridge's own id.
    Opening(String),
    Call(CallId),
}

/// The message id, if the message has one.
pub(super) fn id_of(message: &Value) -> Option<String> {
    message
        .get("id")
        .and_then(Value::as_str)
        .map(ToOwned::to_owned)
}

pub(super) fn queue_key_of(message: &Value) -> Option<QueueKey> {
    let text = |field: &str| message.get(field).and_then(Value::as_str);
    match text("callId") {
        Some(call) => call.parse().ok().map(QueueKey::Call),
        None => Some(QueueKey::Opening(text("bridgeCallId")?.to_owned())),
    }
}
