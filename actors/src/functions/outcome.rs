//! The outcome of an invocation, as reported to the AI.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{outbound::ErrorKind, runtime::answer::MessageReply};

/// The outcome in the form sent to the bridge: `{"status":"ok","result":{…}}` or
/// `{"status":"error","code":…,"message":…}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Outcome {
    Ok {
        /// The JSON object of the endpoint's answer.
        result: Map<String, Value>,
    },
    Error {
        code: FaultCode,
        /// One sentence for the AI and for people.
        message: String,
    },
}

/// The reason for an invocation without a result. A closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultCode {
    Timeout,
    Connection,
    BlockedTarget,
    HttpStatus,
    InvalidResponse,
    TooLarge,
    InvalidArguments,
    UnknownFunction,
    Disabled,
    CircuitOpen,
}

/// An outcome and its duration.
#[derive(Clone, Debug, PartialEq)]
pub struct InvocationReport {
    pub outcome: Outcome,
    /// 0 if nothing was sent.
    pub duration_ms: i64,
    /// The endpoint's answer, for tests only, to be shown to the developer.
    pub answered: Option<EndpointAnswer>,
}

/// An endpoint's raw answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAnswer {
    pub status: u16,
    /// The part of the body that arrived, up to the size limit.
    pub body: Vec<u8>,
}

impl MessageReply for InvocationReport {
    const MAY_FAIL: bool = true;

    fn is_error(&self) -> bool {
        matches!(self.outcome, Outcome::Error { .. })
    }
}

impl InvocationReport {
    pub(crate) fn at_once(outcome: Outcome) -> Self {
        Self {
            outcome,
            duration_ms: 0,
            answered: None,
        }
    }
}

impl FaultCode {
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::Connection,
        Self::BlockedTarget,
        Self::HttpStatus,
        Self::InvalidResponse,
        Self::TooLarge,
        Self::InvalidArguments,
        Self::UnknownFunction,
        Self::Disabled,
        Self::CircuitOpen,
    ];

    /// The code as it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::BlockedTarget => "blocked_target",
            Self::HttpStatus => "http_status",
            Self::InvalidResponse => "invalid_response",
            Self::TooLarge => "too_large",
            Self::InvalidArguments => "invalid_arguments",
            Self::UnknownFunction => "unknown_function",
            Self::Disabled => "disabled",
            Self::CircuitOpen => "circuit_open",
        }
    }
}

impl Outcome {
    pub fn error(code: FaultCode, message: impl Into<String>) -> Self {
        Self::Error {
            code,
            message: message.into(),
        }
    }

    /// The agent has no function of that name.
    pub fn unknown_function(name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        Self::error(
            FaultCode::UnknownFunction,
            format!("The agent has no function named \"{name}\"."),
        )
    }

    /// The agent has the function but has not enabled it as a tool.
    pub fn disabled(name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        Self::error(
            FaultCode::Disabled,
            format!("The function \"{name}\" is not enabled for this agent."),
        )
    }

    pub(crate) fn busy() -> Self {
        Self::error(
            FaultCode::Connection,
            "The service is too busy to call the function now.",
        )
    }

    pub(crate) fn interrupted() -> Self {
        Self::error(
            FaultCode::Connection,
            "The service was interrupted while it called the function's endpoint. Whether the endpoint did what it was asked for is \
             not known, and it was not asked again.",
        )
    }

    pub(crate) fn circuit_open() -> Self {
        Self::error(
            FaultCode::CircuitOpen,
            "The function's endpoint did not answer the last times and is not called for a while.",
        )
    }

    pub(crate) fn no_answer(kind: ErrorKind) -> Self {
        let (code, message) = match kind {
            ErrorKind::Timeout => (
                FaultCode::Timeout,
                "The function's endpoint did not answer in time.",
            ),
            ErrorKind::BlockedTarget => (
                FaultCode::BlockedTarget,
                "The function's endpoint is at an address that may not be called.",
            ),
            ErrorKind::Dns => (
                FaultCode::Connection,
                "The name of the function's endpoint has no address.",
            ),
            ErrorKind::Connect => (
                FaultCode::Connection,
                "The function's endpoint could not be reached.",
            ),
            ErrorKind::Tls => (
                FaultCode::Connection,
                "No secure connection to the function's endpoint could be made.",
            ),
            ErrorKind::Reset => (
                FaultCode::Connection,
                "The function's endpoint closed the connection before it had answered.",
            ),
            ErrorKind::InvalidResponse => (
                FaultCode::InvalidResponse,
                "The function's endpoint did not answer with valid HTTP.",
            ),
            ErrorKind::Busy => return Self::busy(),
        };
        Self::error(code, message)
    }

    pub const fn fault(&self) -> Option<FaultCode> {
        match self {
            Self::Ok { .. } => None,
            Self::Error { code, .. } => Some(*code),
        }
    }

    /// The `result` of the `function.called` event: the endpoint's object, or `{"error":{"code","message"}}`.
    pub fn event_result(&self) -> Value {
        match self {
            Self::Ok { result } => Value::Object(result.clone()),
            Self::Error { code, message } => {
                serde_json::json!({ "error": { "code": code.as_str(), "message": message } })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_form_is_the_protocols() {
        let ok = Outcome::Ok {
            result: Map::from_iter([("a".to_owned(), Value::from(1))]),
        };
        assert_eq!(
            serde_json::to_string(&ok).expect("plain"),
            r#"{"status":"ok","result":{"a":1}}"#
        );
        let error = Outcome::error(FaultCode::HttpStatus, "It answered 500.");
        assert_eq!(
            serde_json::to_string(&error).expect("plain"),
            r#"{"status":"error","code":"http_status","message":"It answered 500."}"#
        );
        assert_eq!(
            error.event_result().to_string(),
            r#"{"error":{"code":"http_status","message":"It answered 500."}}"#
        );
    }

    #[test]
    fn a_code_is_written_the_same_everywhere() {
        for code in [
            FaultCode::Timeout,
            FaultCode::Connection,
            FaultCode::BlockedTarget,
            FaultCode::HttpStatus,
            FaultCode::InvalidResponse,
            FaultCode::TooLarge,
            FaultCode::InvalidArguments,
            FaultCode::UnknownFunction,
            FaultCode::Disabled,
            FaultCode::CircuitOpen,
        ] {
            assert_eq!(serde_json::to_value(code).expect("plain"), code.as_str());
        }
    }
}
