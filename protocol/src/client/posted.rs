//! A message of a call on its way to the service. Pure.

use dikala_entities::{CallId, Millis, PhoneNumber};

use super::events::MessageRef;
use crate::{
    MESSAGE_BYTES_MAX,
    message::{BridgeMessage, CallMessage, CallReport, IncomingCall, MessageContent, MessageType},
};

/// Room for the id of the message, the id of the call and the time.
const ENVELOPE_BYTES_MAX: usize = 256;

/// Messages of one call that may be under way: its functions, and a few of its own.
pub(super) const MESSAGES_OF_A_CALL_MAX: usize = 64;

/// A call to report.
#[derive(Debug)]
pub struct OpenedCall {
    pub incoming: IncomingCall,
    /// Called numbers to try, in this order, if no tenant has that of `incoming`.
    pub other_dids: Vec<PhoneNumber>,
}

impl From<IncomingCall> for OpenedCall {
    fn from(incoming: IncomingCall) -> Self {
        Self {
            incoming,
            other_dids: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(super) enum PostedMessage {
    Incoming(IncomingCall),
    Report(CallReport, Option<Millis>),
}

impl PostedMessage {
    pub(super) fn kind(&self) -> MessageType {
        match self {
            Self::Incoming(_) => MessageType::Incoming,
            Self::Report(report, _) => report.kind(),
        }
    }

    /// The same `call.incoming` with another called number; `None` for other messages.
    pub(super) fn with_did(&self, did: PhoneNumber) -> Option<Self> {
        match self {
            Self::Incoming(incoming) => Some(Self::Incoming(IncomingCall {
                called: did.into(),
                ..incoming.clone()
            })),
            Self::Report(..) => None,
        }
    }

    /// The message ends the call.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.kind(), MessageType::Hangup | MessageType::Failed)
    }

    /// Later messages of the call wait for its reply.
    pub(super) fn is_in_order(&self) -> bool {
        !matches!(self.kind(), MessageType::Function | MessageType::Turn)
    }

    /// The number of queued messages of its call from which on it is declined. A call's own messages are few; only functions and
    /// turns can be too many. Turns leave room for functions.
    pub(super) fn queued_max(&self) -> usize {
        match self.kind() {
            MessageType::Function => MESSAGES_OF_A_CALL_MAX,
            MessageType::Turn => MESSAGES_OF_A_CALL_MAX / 2,
            _ => usize::MAX,
        }
    }

    pub(super) fn named(&self) -> MessageRef {
        let invocation_id = match self {
            Self::Report(CallReport::Function(function), _) => Some(function.invocation_id.clone()),
            _ => None,
        };
        let called = match self {
            Self::Incoming(incoming) => Some(incoming.called.clone()),
            Self::Report(..) => None,
        };
        MessageRef {
            kind: self.kind(),
            called,
            invocation_id,
        }
    }

    /// The message as text; `None` if it needs the service's id of the call, and there is none yet.
    pub(super) fn encode(&self, id: String, call: Option<CallId>) -> Option<String> {
        let content = match self {
            Self::Incoming(incoming) => MessageContent::Incoming(incoming.clone()),
            Self::Report(report, at) => MessageContent::Call(CallMessage {
                call: call?,
                at: *at,
                report: report.clone(),
            }),
        };
        Some(BridgeMessage { id, content }.to_text())
    }

    pub(super) fn is_too_large(&self) -> bool {
        match self {
            // Its fields have limits.
            Self::Incoming(_) => false,
            Self::Report(report, _) => {
                report.encoded_len() > MESSAGE_BYTES_MAX - ENVELOPE_BYTES_MAX
            }
        }
    }
}
