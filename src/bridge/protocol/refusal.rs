//! Refusals: the error replies to messages that were not carried out.

use std::collections::BTreeMap;

use dikala_actors::calls::CallError;
use dikala_entities::foreign_json;
use dikala_protocol::{BridgeMessage, ErrorCode, ReplyError, read, reply::error_reply};
use serde_json::{Value, value::RawValue};

use super::queue_key::QueueKey;

/// An error reply to a message.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRefusal {
    /// The message's id, if one could be read.
    pub id: Option<String>,
    /// The message's ordering queue, if it could be read. The refusal is answered in that order.
    pub queue_key: Option<QueueKey>,
    error: ReplyError,
}

/// Parses the text of one message.
pub fn parse_text(text: &[u8]) -> Result<BridgeMessage, MessageRefusal> {
    match foreign_json::value(text) {
        Ok(value) => parse(&value),
        Err(_) => {
            let words = "The message is not a JSON object, or a name in it is reserved.";
            let refusal = MessageRefusal::from(ReplyError::invalid(words));
            Err(refusal.of(&id_alone(text)))
        }
    }
}

/// The names of a message that cannot be read whole: its id and its call, so that the refusal can be answered in order.
pub fn id_alone(text: &[u8]) -> Value {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(text).unwrap_or_default();
    let texts = ["id", "callId", "bridgeCallId"]
        .into_iter()
        .filter_map(|name| {
            let text: String = serde_json::from_str(fields.get(name)?.get()).ok()?;
            Some((name.to_owned(), text.into()))
        });
    Value::Object(texts.collect())
}

/// Parses one message.
fn parse(message: &Value) -> Result<BridgeMessage, MessageRefusal> {
    read::parse(message).map_err(|error| MessageRefusal::from(error).of(message))
}

impl MessageRefusal {
    /// A message that is larger than the protocol allows.
    pub fn too_large() -> Self {
        ReplyError::of(ErrorCode::TooLarge).into()
    }

    /// There is no room for the message now.
    pub fn busy(message: &BridgeMessage) -> Self {
        Self {
            queue_key: QueueKey::of(message),
            ..Self::from((message.id.clone(), CallError::Busy))
        }
    }

    /// The message is a binary frame.
    pub fn binary() -> Self {
        ReplyError::invalid("Messages are text frames.").into()
    }

    /// Adds the id and the queue key of the refused message.
    pub fn of(self, message: &Value) -> Self {
        Self {
            id: read::id_of(message).map(ToOwned::to_owned),
            queue_key: QueueKey::of_invalid(message),
            ..self
        }
    }

    /// Its code.
    pub fn code(&self) -> ErrorCode {
        self.error.code
    }

    /// The reply in the wire format.
    pub fn to_json(&self) -> Value {
        error_reply(self.id.as_deref(), &self.error)
    }
}

impl From<ReplyError> for MessageRefusal {
    fn from(error: ReplyError) -> Self {
        Self {
            id: None,
            queue_key: None,
            error,
        }
    }
}

impl From<(String, ReplyError)> for MessageRefusal {
    fn from((id, error): (String, ReplyError)) -> Self {
        Self {
            id: Some(id),
            ..error.into()
        }
    }
}

impl From<(String, CallError)> for MessageRefusal {
    fn from((id, error): (String, CallError)) -> Self {
        Self::from((id, reply_error(error)))
    }
}

/// The error of a message that a call did not carry out.
pub fn reply_error(error: CallError) -> ReplyError {
    let code = match error {
        CallError::UnknownNumber => ErrorCode::UnknownNumber,
        CallError::UnknownAgent => ErrorCode::UnknownAgent,
        CallError::NotWeb => ErrorCode::NotAllowed,
        CallError::UnknownCall => ErrorCode::UnknownCall,
        CallError::InvalidTransition { .. }
        | CallError::NotActive
        | CallError::TransferNotAllowed
        | CallError::TooManyTransfers
        | CallError::Joined => ErrorCode::InvalidTransition,
        CallError::Busy | CallError::Moved => ErrorCode::Busy,
        CallError::Unavailable => ErrorCode::Unavailable,
    };
    let status = match error {
        CallError::InvalidTransition { status } => Some(status),
        _ => None,
    };
    ReplyError {
        status,
        ..ReplyError::of(code)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_carries_the_id_and_the_status() {
        let status = dikala_entities::CallStatus::Ended;
        let error = CallError::InvalidTransition { status };
        let json = MessageRefusal::from(("7".to_owned(), error)).to_json();
        assert_eq!(json["replyTo"], "7");
        assert_eq!(json["error"]["status"], "ended");
        assert_eq!(json["ok"], false);
        let refusal = parse(&json!({"id": "8", "type": "call.paused", "callId": "nonsense"}));
        let json = refusal.map_err(|refusal| refusal.to_json());
        let json = json.expect_err("there is no such type");
        assert_eq!(json["replyTo"], "8");
        assert_eq!(json["error"]["code"], "unknown_type");
        let json = MessageRefusal::too_large().to_json();
        assert_eq!(json["replyTo"], Value::Null);
        let hidden = br#"{"id":"9","type":"call.function","callId":"c","parameters":{"$serde_json::private::RawValue":"x"}}"#;
        let refusal = parse_text(hidden).expect_err("the name is reserved");
        assert_eq!(refusal.to_json()["replyTo"], "9");
        let odd = br#"{"id":"8","id":"9","callId":5,"x":{"$serde_json::private::RawValue":"x"}}"#;
        let refusal = parse_text(odd).expect_err("the name is reserved");
        assert_eq!(refusal.to_json()["replyTo"], "9");
        let refusal = parse_text(b"{").expect_err("is no JSON");
        assert_eq!(refusal.id, None);
    }
}
