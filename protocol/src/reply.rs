//! The replies of the service, written by the service and read by bridges.

use std::borrow::Cow;

use dikala_entities::{CallId, CallStatus, HangupReason};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::MESSAGE_BYTES_MAX;

/// The reply to a message that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reply<'a, B> {
    #[serde(rename = "replyTo")]
    pub to: &'a str,
    /// Always true.
    ok: bool,
    #[serde(flatten)]
    pub body: B,
}

impl<'a, B> Reply<'a, B> {
    pub fn new(to: &'a str, body: B) -> Self {
        Self { to, ok: true, body }
    }
}

/// The body of a reply that says no more than `ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Done {}

/// The body of the reply to `call.incoming`. `A` is the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum CallDecision<A> {
    Answer {
        #[serde(rename = "callId")]
        call: CallId,
        agent: A,
        #[serde(flatten)]
        callee: CalleeNames,
    },
    /// The call is stored as failed, for this reason.
    Reject {
        #[serde(rename = "callId")]
        call: CallId,
        reason: HangupReason,
    },
}

/// The names that belong to the called number. Only an older service sends none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CalleeNames {
    /// The tenant's name.
    #[serde(default)]
    pub business_name: Option<String>,
    /// The number's label; `None` if it has none.
    #[serde(default)]
    pub number_label: Option<String>,
}

/// The body of the reply to `call.function`. `O` is the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutcomeReply<O> {
    pub outcome: O,
}

/// The outcome of a function, as a bridge reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum InvocationOutcome {
    Ok {
        result: Map<String, Value>,
    },
    Error {
        code: String,
        #[serde(default)]
        message: String,
    },
}

/// The body of the reply to `heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EndedCalls {
    /// The listed calls that the service holds to be over.
    #[serde(default)]
    pub ended: Vec<CallId>,
}

/// Codes of error replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    InvalidMessage,
    UnknownType,
    UnknownNumber,
    UnknownAgent,
    NotAllowed,
    UnknownCall,
    InvalidTransition,
    Busy,
    Unavailable,
    TooLarge,
}

impl ErrorCode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidMessage => "invalid_message",
            Self::UnknownType => "unknown_type",
            Self::UnknownNumber => "unknown_number",
            Self::UnknownAgent => "unknown_agent",
            Self::NotAllowed => "not_allowed",
            Self::UnknownCall => "unknown_call",
            Self::InvalidTransition => "invalid_transition",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::TooLarge => "too_large",
        }
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// The error of a message that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplyError {
    pub code: ErrorCode,
    /// For people.
    pub message: Cow<'static, str>,
    /// The call's status, if it does not allow the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
}

/// An error reply in the wire format. `to` is `None` if the message's id could not be read.
pub fn error_reply(to: Option<&str>, error: &ReplyError) -> Value {
    serde_json::json!({"replyTo": to, "ok": false, "error": error})
}

impl ReplyError {
    /// An error with the usual words of its code.
    pub fn of(code: ErrorCode) -> Self {
        let message = match code {
            ErrorCode::InvalidMessage => "The message is invalid.".into(),
            ErrorCode::UnknownType => "The type of the message is unknown.".into(),
            ErrorCode::UnknownNumber => {
                "No tenant has the number in did; an operator can add it.".into()
            }
            ErrorCode::UnknownAgent => "There is no agent with that agentId.".into(),
            ErrorCode::NotAllowed => {
                "Only a bridge that is marked for calls from browsers may report one; an operator can make one with `dikala bridge \
                 create --web`."
                    .into()
            }
            ErrorCode::UnknownCall => "This bridge has no call with that callId.".into(),
            ErrorCode::InvalidTransition => "The call's status does not allow this message.".into(),
            ErrorCode::Busy => {
                "Too much is going on; nothing happened. Send the message again in a moment.".into()
            }
            ErrorCode::Unavailable => {
                "The service cannot write at the moment. Send the message again in a moment.".into()
            }
            ErrorCode::TooLarge => {
                format!("A message has at most {MESSAGE_BYTES_MAX} bytes.").into()
            }
        };
        Self {
            code,
            message,
            status: None,
        }
    }

    /// An invalid message; `message` names what is wrong.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: ErrorCode::InvalidMessage,
            message: message.into(),
            status: None,
        }
    }
}
