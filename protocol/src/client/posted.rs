//! A message of a call on its way to the service. Pure.

use dikala_entities::{CallId, Millis};

use super::events::MessageRef;
use crate::{
    MESSAGE_BYTES_MAX,
    message::{BridgeMessage, CallMessage, CallReport, IncomingCall, MessageContent, MessageType},
};

/// Room for the id of the message, the id of the call and the time.
const ENVELOPE_BYTES_MAX: usize = 256;

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

    /// The message ends the call.
    pub(super) fn is_final(&self) -> bool {
        matches!(self.kind(), MessageType::Hangup | MessageType::Failed)
    }

    /// Later messages of the call wait for its reply.
    pub(super) fn is_in_order(&self) -> bool {
        self.kind() != MessageType::Function
    }

    pub(super) fn named(&self) -> MessageRef {
        let invocation_id = match self {
            Self::Report(CallReport::Function(function), _) => Some(function.invocation_id.clone()),
            _ => None,
        };
        MessageRef {
            kind: self.kind(),
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
