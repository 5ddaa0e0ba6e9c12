//! Frames of the service, read and matched with the messages of a call. Pure.

use std::time::Duration;

use dikala_entities::{CallId, CallStatus, HangupReason, foreign_json};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    agent::CallAgent,
    command::{Command, CommandKind},
    message::{CalledParty, MessageType},
    reply::{CallDecision, CalleeNames, EndedCalls, ErrorCode, InvocationOutcome, OutcomeReply},
};

/// A message from the service to a call.
#[derive(Debug, Clone)]
pub enum ServiceEvent {
    Reply(ServiceReply, ReplyDelay),
    Command(CommandKind),
    /// The service considers the call over.
    Over,
}

/// The time until a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplyDelay {
    /// Since the message was posted; includes losses of the socket and repeats.
    pub since_posted: Duration,
    /// Since the message was last sent.
    pub since_sent: Duration,
}

#[derive(Debug, Clone)]
pub enum ServiceReply {
    /// To `call.incoming`.
    Taken {
        call: CallId,
        /// The called number that belongs to a tenant, or the called agent.
        called: CalledParty,
        agent: Box<CallAgent>,
        callee: CalleeNames,
    },
    /// To `call.incoming`: the call is stored as failed, for this reason.
    Refused { reason: HangupReason },
    /// To `call.function`.
    Outcome {
        invocation_id: String,
        outcome: InvocationOutcome,
    },
    /// Any other message is carried out.
    Done(MessageType),
    /// A message is not accepted and never will be.
    Declined {
        message: MessageRef,
        code: String,
        words: String,
        /// The call's status, if it is the reason.
        status: Option<CallStatus>,
    },
}

/// A message of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRef {
    pub kind: MessageType,
    /// The called side that `call.incoming` reports.
    pub called: Option<CalledParty>,
    /// Of a function.
    pub invocation_id: Option<String>,
}

/// A parsed frame from the service.
#[derive(Debug)]
pub(super) enum ServiceFrame {
    Reply { to: String, body: ReplyBody },
    Command(Command),
}

/// The body of a reply, before it is matched with its message.
#[derive(Debug)]
pub(super) enum ReplyBody {
    Ok(Map<String, Value>),
    Error(ReadError),
}

impl ReplyBody {
    pub(super) fn is_error(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Error(error) if error.code == code.as_str())
    }
}

/// An error reply. Codes that this client does not know are kept as they are.
#[derive(Debug, Deserialize)]
pub(super) struct ReadError {
    pub(super) code: String,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    status: Option<String>,
}

impl ReadError {
    /// The code of a temporary refusal without effect: the message is to be sent again.
    pub(super) fn for_now(&self) -> Option<ErrorCode> {
        [ErrorCode::Busy, ErrorCode::Unavailable]
            .into_iter()
            .find(|code| code.as_str() == self.code)
    }
}

/// Parses a frame. `None` if it is neither reply nor command, or of an unknown kind.
pub(super) fn read(text: &str) -> Option<ServiceFrame> {
    let mut fields = foreign_json::object(text.as_bytes()).ok()?;
    let Some(to) = fields.get("replyTo") else {
        let command = serde_json::from_value(Value::Object(fields)).ok()?;
        return Some(ServiceFrame::Command(command));
    };
    let to = to.as_str()?.to_owned();
    let body = if fields.get("ok")? == &Value::Bool(true) {
        ReplyBody::Ok(fields)
    } else {
        ReplyBody::Error(serde_json::from_value(fields.remove("error")?).ok()?)
    };
    Some(ServiceFrame::Reply { to, body })
}

/// The calls that the reply to a heartbeat reports as over.
pub(super) fn ended_calls(body: ReplyBody) -> Vec<CallId> {
    let ReplyBody::Ok(fields) = body else {
        return Vec::new();
    };
    let read: Result<EndedCalls, _> = serde_json::from_value(Value::Object(fields));
    read.map(|calls| calls.ended).unwrap_or_default()
}

/// Interprets the reply to a message. Also returns the service's id of a call that it has just accepted.
pub(super) fn interpret(message: MessageRef, body: ReplyBody) -> (ServiceReply, Option<CallId>) {
    let fields = match body {
        ReplyBody::Ok(fields) => fields,
        ReplyBody::Error(error) => {
            let declined = ServiceReply::Declined {
                message,
                code: error.code,
                words: error.message,
                status: error.status.and_then(|status| status.parse().ok()),
            };
            return (declined, None);
        }
    };
    let call = fields
        .get("callId")
        .and_then(|id| id.as_str()?.parse().ok());
    let fields = Value::Object(fields);
    let reply = match message.kind {
        MessageType::Incoming => decided(&message, fields),
        MessageType::Function => outcome(&message, fields),
        kind => Some(ServiceReply::Done(kind)),
    };
    match reply {
        Some(refused @ ServiceReply::Refused { .. }) => (refused, None),
        Some(reply) => (reply, call),
        None => {
            let words = "The service's reply cannot be read.";
            (declined_here(message, "unreadable", words), call)
        }
    }
}

fn decided(message: &MessageRef, fields: Value) -> Option<ServiceReply> {
    let called = message.called.clone()?;
    let decision: CallDecision<Box<CallAgent>> = serde_json::from_value(fields).ok()?;
    Some(match decision {
        CallDecision::Answer {
            call,
            agent,
            callee,
        } => ServiceReply::Taken {
            call,
            called,
            agent,
            callee,
        },
        CallDecision::Reject { reason, .. } => ServiceReply::Refused { reason },
    })
}

fn outcome(message: &MessageRef, fields: Value) -> Option<ServiceReply> {
    let OutcomeReply { outcome } = serde_json::from_value(fields).ok()?;
    Some(ServiceReply::Outcome {
        invocation_id: message.invocation_id.clone()?,
        outcome,
    })
}

/// A message that is declined by this client itself.
pub(super) fn declined_here(message: MessageRef, code: &str, words: &str) -> ServiceReply {
    ServiceReply::Declined {
        message,
        code: code.to_owned(),
        words: words.to_owned(),
        status: None,
    }
}
