//! The wire format of `dikala.bridge.v1`: JSON text to typed requests, outcomes to JSON. Pure.

use dikala_actors::{
    bridges::Command,
    call::{
        CallError, Incoming, Input, Reply,
        ending::{FAILURE_REASONS, HANGUP_REASONS},
    },
    nesting,
};
use dikala_entities::{CallId, HangupInitiator, HangupReason, Millis};
use serde_json::{Map, Value, json};

/// The WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "dikala.bridge.v1";
/// The largest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// The most messages in one HTTP request.
pub const MESSAGES_MAX: usize = 100;

const ID_CHARS_MAX: usize = 64;
const BRIDGE_CALL_ID_CHARS_MAX: usize = 128;
const METADATA_BYTES_MAX: usize = 16 * 1024;
const SUMMARY_CHARS_MAX: usize = 16_000;
const TURNS_MAX: usize = 2_000;
const ACTIVE_CALLS_MAX: usize = 20_000;
const DETAIL_CHARS_MAX: usize = 500;
const FUNCTION_NAME_CHARS_MAX: usize = 64;
/// A thousand million rupiah: nobody talks for that much, but a typing error can.
const AI_COST_IDR_MAX: i64 = 1_000_000_000;

const TYPES: &[&str] = &[
    "call.incoming",
    "call.answered",
    "call.function",
    "call.transcript",
    "call.hangup",
    "call.failed",
    "heartbeat",
];

/// A message that was understood.
#[derive(Clone, Debug)]
pub struct Request {
    /// The bridge's id for it.
    pub id: String,
    pub body: Body,
}

impl Request {
    /// The messages in whose order it is carried out, if in any.
    pub fn lane(&self) -> Option<Lane> {
        match &self.body {
            Body::Incoming(incoming) => Some(Lane::Opening(incoming.bridge_call_id.clone())),
            Body::Call { call, .. } => Some(Lane::Call(*call)),
            Body::Function(function) => Some(Lane::Call(function.call)),
            Body::Heartbeat { .. } => None,
        }
    }
}

/// What a message says.
#[derive(Clone, Debug)]
pub enum Body {
    Incoming(Incoming),
    Call {
        call: CallId,
        input: Input,
    },
    Function(Function),
    Heartbeat {
        active: Option<Vec<CallId>>,
        at: Option<Millis>,
    },
}

/// `call.function`
#[derive(Clone, Debug)]
pub struct Function {
    pub call: CallId,
    pub invocation_id: String,
    pub name: String,
    pub parameters: Map<String, Value>,
    pub at: Option<Millis>,
}

/// The messages that are carried out, and answered, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Of a call that has no id yet: the bridge's own.
    Opening(String),
    Call(CallId),
}

/// A message that was not understood, or not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The message's id, if one could be read.
    pub id: Option<String>,
    /// What the message is about, if that could be read.
    pub lane: Option<Lane>,
    pub code: &'static str,
    pub message: String,
    pub status: Option<&'static str>,
}

impl Refusal {
    fn invalid(message: impl Into<String>) -> Self {
        Self {
            id: None,
            lane: None,
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

    /// A message for which there is no room now.
    pub fn busy(request: &Request) -> Self {
        Self {
            lane: request.lane(),
            ..Self::from((request.id.clone(), CallError::Busy))
        }
    }

    /// A binary frame.
    pub fn binary() -> Self {
        Self::invalid("Messages are text frames.")
    }

    /// The refusal of this message.
    pub fn of(self, message: &Value) -> Self {
        Self {
            id: id_of(message),
            lane: lane_of(message),
            ..self
        }
    }

    /// The reply as it is sent.
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(status) = self.status {
            error["status"] = status.into();
        }
        json!({"replyTo": self.id, "ok": false, "error": error})
    }
}

impl From<(String, CallError)> for Refusal {
    fn from((id, error): (String, CallError)) -> Self {
        let (code, message) = match error {
            CallError::UnknownNumber => (
                "unknown_number",
                "No tenant has the number in did; an operator can add it.",
            ),
            CallError::UnknownCall => ("unknown_call", "This bridge has no call with that callId."),
            CallError::InvalidTransition { .. }
            | CallError::NotActive
            | CallError::NoTransferTarget
            | CallError::TransferNotAllowed
            | CallError::TooManyTransfers => (
                "invalid_transition",
                "The call's status does not allow this message.",
            ),
            CallError::Busy => (
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
            lane: None,
            code,
            message: message.to_owned(),
            status,
        }
    }
}

/// What a message that was carried out is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    Call(Reply),
    Function(Value),
    Heartbeat { ended: Vec<CallId> },
}

/// The reply as it is sent.
pub fn reply(id: &str, answer: &Answer) -> Value {
    match answer {
        Answer::Call(Reply::Taken { call, agent }) => json!({
            "replyTo": id, "ok": true, "callId": call, "action": "answer", "agent": &**agent,
        }),
        Answer::Call(Reply::Refused { call, reason }) => json!({
            "replyTo": id, "ok": true, "callId": call, "action": "reject", "reason": reason,
        }),
        Answer::Call(Reply::Done) => json!({"replyTo": id, "ok": true}),
        Answer::Function(outcome) => json!({"replyTo": id, "ok": true, "outcome": outcome}),
        Answer::Heartbeat { ended } => json!({"replyTo": id, "ok": true, "ended": ended}),
    }
}

/// A command as it is sent.
pub fn command(command: &Command) -> Value {
    serde_json::to_value(command).unwrap_or_default()
}

/// The id of a message of any kind, as far as it has one.
fn id_of(message: &Value) -> Option<String> {
    message
        .get("id")
        .and_then(Value::as_str)
        .map(ToOwned::to_owned)
}

fn lane_of(message: &Value) -> Option<Lane> {
    let text = |field: &str| message.get(field).and_then(Value::as_str);
    match text("callId") {
        Some(call) => call.parse().ok().map(Lane::Call),
        None => Some(Lane::Opening(text("bridgeCallId")?.to_owned())),
    }
}

/// Reads the text of one message.
pub fn parse_text(text: &[u8]) -> Result<Request, Refusal> {
    match serde_json::from_slice::<Value>(text) {
        Ok(value) => parse(&value),
        Err(_) => Err(Refusal::invalid("The frame is not a JSON object.")),
    }
}

/// Reads one message.
pub fn parse(message: &Value) -> Result<Request, Refusal> {
    parse_message(message).map_err(|refusal| refusal.of(message))
}

fn parse_message(message: &Value) -> Result<Request, Refusal> {
    let Value::Object(fields) = message else {
        return Err(Refusal::invalid("A message is a JSON object."));
    };
    let id = id_of(message)
        .ok_or_else(|| Refusal::invalid("id is missing: a text of 1 to 64 characters."))?;
    if !(1..=ID_CHARS_MAX).contains(&id.chars().count()) {
        return Err(Refusal::invalid("id must have 1 to 64 characters."));
    }
    if !nesting::fits(fields) {
        return Err(Refusal::invalid(format!(
            "A message must not be nested more than {} deep.",
            nesting::DEPTH_MAX
        )));
    }
    if has_nul(message) {
        return Err(Refusal::invalid(
            "No text may contain the character U+0000.",
        ));
    }
    let body = parse_body(&Fields(fields), &id)?;
    Ok(Request { id, body })
}

fn parse_body(fields: &Fields<'_>, id: &str) -> Result<Body, Refusal> {
    let kind = fields.text("type", 1, 64)?;
    let at = fields.instant("at")?;
    match kind {
        "call.incoming" => incoming(fields, at).map(Body::Incoming),
        "call.answered" => fields.for_call(Input::Answered {
            at,
            message_id: id.to_owned(),
        }),
        "call.function" => Ok(Body::Function(Function {
            call: fields.call()?,
            invocation_id: fields.text("invocationId", 1, ID_CHARS_MAX)?.to_owned(),
            name: fields.text("name", 1, FUNCTION_NAME_CHARS_MAX)?.to_owned(),
            parameters: fields
                .object("parameters")?
                .ok_or_else(|| missing("parameters"))?
                .clone(),
            at,
        })),
        "call.transcript" => fields.for_call(Input::Transcript {
            at,
            summary: fields.text("summary", 0, SUMMARY_CHARS_MAX)?.to_owned(),
            turns: turns(fields)?,
        }),
        "call.hangup" => fields.for_call(Input::HangUp {
            at,
            reason: fields
                .reason(HANGUP_REASONS)?
                .unwrap_or(HangupReason::Normal),
            initiator: initiator(fields)?,
            ai_cost_idr: ai_cost(fields)?,
        }),
        "call.failed" => fields.for_call(Input::Failed {
            at,
            reason: fields
                .reason(FAILURE_REASONS)?
                .unwrap_or(HangupReason::BridgeError),
            detail: fields
                .optional_text("detail", 0, DETAIL_CHARS_MAX)?
                .map(ToOwned::to_owned),
        }),
        "heartbeat" => heartbeat(fields, at),
        other => Err(Refusal {
            code: "unknown_type",
            ..Refusal::invalid(format!(
                "{:?} is no type of message; it is one of {}.",
                shortened(other),
                TYPES.join(", ")
            ))
        }),
    }
}

fn incoming(fields: &Fields<'_>, at: Option<Millis>) -> Result<Incoming, Refusal> {
    let did = fields.text("did", 1, 64)?;
    let caller = fields.text("callerNumber", 1, 64)?;
    let metadata = fields.object("metadata")?.cloned();
    if metadata
        .as_ref()
        .is_some_and(|metadata| encoded_len(metadata) > METADATA_BYTES_MAX)
    {
        return Err(Refusal::invalid("metadata must have at most 16 KiB."));
    }
    Ok(Incoming {
        bridge_call_id: fields
            .text("bridgeCallId", 1, BRIDGE_CALL_ID_CHARS_MAX)?
            .to_owned(),
        did: did
            .parse()
            .map_err(|error| Refusal::invalid(format!("did {error}.")))?,
        caller_number: caller
            .parse()
            .map_err(|error| Refusal::invalid(format!("callerNumber {error}.")))?,
        metadata,
        at,
    })
}

fn turns(fields: &Fields<'_>) -> Result<Vec<Value>, Refusal> {
    let Some(turns) = fields.array("turns")? else {
        return Ok(Vec::new());
    };
    if turns.len() > TURNS_MAX {
        return Err(Refusal::invalid("turns must have at most 2,000 entries."));
    }
    turns
        .iter()
        .enumerate()
        .map(|(index, turn)| self::turn(index, turn))
        .collect()
}

fn turn(index: usize, turn: &Value) -> Result<Value, Refusal> {
    let wrong = |what: &str| Refusal::invalid(format!("turns[{index}] {what}."));
    let Value::Object(fields) = turn else {
        return Err(wrong("must be an object {role, text, at?}"));
    };
    let fields = Fields(fields);
    let role = fields
        .text("role", 1, 64)
        .map_err(|_| wrong("needs a role"))?;
    if !["caller", "agent", "tool"].contains(&role) {
        return Err(wrong("has a role that is none of caller, agent, tool"));
    }
    let text = fields
        .text("text", 0, MESSAGE_BYTES_MAX)
        .map_err(|_| wrong("needs a text"))?;
    let at = fields
        .optional_text("at", 1, 64)
        .map_err(|_| wrong("has an at that is no text of 1 to 64 characters"))?;
    let at = at
        .map(Millis::parse_rfc3339)
        .transpose()
        .map_err(|error| wrong(&format!("has an at that is {error}")))?;
    let mut turn = json!({"role": role, "text": text});
    if let Some(at) = at {
        turn["at"] = json!(at);
    }
    Ok(turn)
}

fn initiator(fields: &Fields<'_>) -> Result<HangupInitiator, Refusal> {
    match fields.optional_text("initiator", 1, 64)? {
        None | Some("caller") => Ok(HangupInitiator::Caller),
        Some("agent") => Ok(HangupInitiator::Agent),
        Some("bridge") => Ok(HangupInitiator::Bridge),
        Some(_) => Err(Refusal::invalid(
            "initiator must be one of caller, agent, bridge.",
        )),
    }
}

fn ai_cost(fields: &Fields<'_>) -> Result<Option<i64>, Refusal> {
    match fields.optional("aiCostIdr") {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(cost) if (0..=AI_COST_IDR_MAX).contains(&cost) => Ok(Some(cost)),
            _ => Err(Refusal::invalid(format!(
                "aiCostIdr must be a whole number from 0 to {AI_COST_IDR_MAX}."
            ))),
        },
    }
}

fn heartbeat(fields: &Fields<'_>, at: Option<Millis>) -> Result<Body, Refusal> {
    let active = match fields.array("activeCalls")? {
        None => None,
        Some(calls) if calls.len() > ACTIVE_CALLS_MAX => {
            return Err(Refusal::invalid(
                "activeCalls must have at most 20,000 entries.",
            ));
        }
        Some(calls) => {
            let mut ids = Vec::with_capacity(calls.len());
            for call in calls {
                let id = call.as_str().and_then(|text| text.parse().ok());
                // A list of anything else would say that the bridge holds none of its calls.
                ids.push(id.ok_or_else(|| {
                    Refusal::invalid("activeCalls must be an array of callIds: call_….")
                })?);
            }
            Some(ids)
        }
    };
    Ok(Body::Heartbeat { active, at })
}

/// Reads fields; the first that is wrong is named. `null` counts as absent.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn optional(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn optional_text(
        &self,
        name: &str,
        least: usize,
        most: usize,
    ) -> Result<Option<&'a str>, Refusal> {
        let Some(value) = self.optional(name) else {
            return Ok(None);
        };
        let text = value
            .as_str()
            .ok_or_else(|| Refusal::invalid(format!("{name} must be a text.")))?;
        if (least..=most).contains(&text.chars().count()) {
            Ok(Some(text))
        } else {
            Err(Refusal::invalid(format!(
                "{name} must have {least} to {most} characters."
            )))
        }
    }

    fn text(&self, name: &str, least: usize, most: usize) -> Result<&'a str, Refusal> {
        self.optional_text(name, least, most)?
            .ok_or_else(|| missing(name))
    }

    fn object(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, Refusal> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(Refusal::invalid(format!("{name} must be an object."))),
        }
    }

    fn array(&self, name: &str) -> Result<Option<&'a Vec<Value>>, Refusal> {
        match self.optional(name) {
            None => Ok(None),
            Some(Value::Array(array)) => Ok(Some(array)),
            Some(_) => Err(Refusal::invalid(format!("{name} must be an array."))),
        }
    }

    fn instant(&self, name: &str) -> Result<Option<Millis>, Refusal> {
        let text = self.optional_text(name, 1, 64)?;
        text.map(Millis::parse_rfc3339)
            .transpose()
            .map_err(|error| Refusal::invalid(format!("{name} is {error}.")))
    }

    fn call(&self) -> Result<CallId, Refusal> {
        let text = self.text("callId", 1, 128)?;
        text.parse()
            .map_err(|_| Refusal::from((String::new(), CallError::UnknownCall)))
    }

    fn for_call(&self, input: Input) -> Result<Body, Refusal> {
        Ok(Body::Call {
            call: self.call()?,
            input,
        })
    }

    fn reason(&self, allowed: &[HangupReason]) -> Result<Option<HangupReason>, Refusal> {
        let Some(text) = self.optional_text("reason", 1, 64)? else {
            return Ok(None);
        };
        let known = allowed
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text);
        known.map(Some).ok_or_else(|| {
            let allowed: Vec<&str> = allowed.iter().map(|reason| reason.as_str()).collect();
            Refusal::invalid(format!("reason must be one of {}.", allowed.join(", ")))
        })
    }
}

fn missing(name: &str) -> Refusal {
    Refusal::invalid(format!("{name} is missing."))
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

fn encoded_len(object: &Map<String, Value>) -> usize {
    serde_json::to_vec(object).map_or(usize::MAX, |bytes| bytes.len())
}

/// Whether any text in it contains U+0000, which PostgreSQL does not store.
fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(message: Value) -> (&'static str, String) {
        match parse(&message) {
            Ok(request) => panic!("was taken: {request:?}"),
            Err(refusal) => (refusal.code, refusal.message),
        }
    }

    const CALL: &str = "call_01k9zv3m8rj2q4w6y8a0c2e4g6";

    #[test]
    fn each_fault_is_named() {
        for (message, expected, word) in [
            (json!([]), "invalid_message", "object"),
            (json!({"type": "heartbeat"}), "invalid_message", "id"),
            (
                json!({"id": "", "type": "heartbeat"}),
                "invalid_message",
                "id",
            ),
            (json!({"id": "1"}), "invalid_message", "type"),
            (
                json!({"id": "1", "type": "call.paused"}),
                "unknown_type",
                "call.paused",
            ),
            (
                json!({"id": "1", "type": "call.answered"}),
                "invalid_message",
                "callId",
            ),
            (
                json!({"id": "1", "type": "call.answered", "callId": "nonsense"}),
                "unknown_call",
                "callId",
            ),
            (
                json!({"id": "1", "type": "call.answered", "callId": CALL, "at": "soon"}),
                "invalid_message",
                "at",
            ),
            (
                json!({"id": "1", "type": "call.answered", "callId": CALL, "at": "1969-12-31T23:59:59Z"}),
                "invalid_message",
                "at is too old",
            ),
            (
                json!({"id": "1", "type": "call.transcript", "callId": CALL, "summary": "s", "turns": [{"role": "agent", "text": "w", "at": "1950-01-01T00:00:00Z"}]}),
                "invalid_message",
                "turns[0] has an at that is too old",
            ),
            (
                json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b", "did": "+0812345678", "callerNumber": "x"}),
                "invalid_message",
                "did",
            ),
            (
                json!({"id": "1", "type": "call.hangup", "callId": CALL, "reason": "bored"}),
                "invalid_message",
                "credits_exhausted",
            ),
            (
                json!({"id": "1", "type": "call.hangup", "callId": CALL, "reason": "no_agent"}),
                "invalid_message",
                "normal",
            ),
            (
                json!({"id": "1", "type": "call.hangup", "callId": CALL, "aiCostIdr": -1}),
                "invalid_message",
                "aiCostIdr",
            ),
            (
                json!({"id": "1", "type": "call.hangup", "callId": CALL, "aiCostIdr": 1.5}),
                "invalid_message",
                "aiCostIdr",
            ),
            (
                json!({"id": "1", "type": "call.hangup", "callId": CALL, "initiator": "tenant"}),
                "invalid_message",
                "initiator",
            ),
            (
                json!({"id": "1", "type": "call.function", "callId": CALL, "invocationId": "i", "name": "f"}),
                "invalid_message",
                "parameters",
            ),
            (
                json!({"id": "1", "type": "call.transcript", "callId": CALL, "summary": "s", "turns": [{"role": "dog", "text": "w"}]}),
                "invalid_message",
                "turns[0]",
            ),
            (
                json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b", "did": "0812", "callerNumber": "x"}),
                "invalid_message",
                "did",
            ),
            (
                json!({"id": "1", "type": "call.incoming", "bridgeCallId": "b\u{0}", "did": "+6281234567890", "callerNumber": "x"}),
                "invalid_message",
                "U+0000",
            ),
            (
                json!({"id": "1", "type": "heartbeat", "activeCalls": [7]}),
                "invalid_message",
                "activeCalls",
            ),
            (
                json!({"id": "1", "type": "heartbeat", "activeCalls": [CALL, "sip-4711"]}),
                "invalid_message",
                "call_",
            ),
            (
                json!({"id": "1", "type": "heartbeat", "activeCalls": vec![CALL; ACTIVE_CALLS_MAX + 1]}),
                "invalid_message",
                "20,000",
            ),
        ] {
            let (code, text) = code(message.clone());
            assert_eq!(code, expected, "{message}");
            assert!(text.contains(word), "{message}: {text}");
        }
    }

    #[test]
    fn a_refusal_carries_the_id_and_the_status() {
        let status = dikala_entities::CallStatus::Ended;
        let refusal = Refusal::from(("7".to_owned(), CallError::InvalidTransition { status }));
        let json = refusal.to_json();
        assert_eq!(json["replyTo"], "7");
        assert_eq!(json["error"]["status"], "ended");
        assert_eq!(json["ok"], false);
    }

    #[test]
    fn defaults_are_those_of_the_protocol() {
        let hangup =
            parse(&json!({"id": "1", "type": "call.hangup", "callId": CALL})).expect("parses");
        assert!(matches!(
            hangup.body,
            Body::Call {
                input: Input::HangUp {
                    reason: HangupReason::Normal,
                    initiator: HangupInitiator::Caller,
                    ai_cost_idr: None,
                    at: None
                },
                ..
            }
        ));
        let failed =
            parse(&json!({"id": "1", "type": "call.failed", "callId": CALL})).expect("parses");
        assert!(matches!(
            failed.body,
            Body::Call {
                input: Input::Failed {
                    reason: HangupReason::BridgeError,
                    ..
                },
                ..
            }
        ));
    }

    proptest! {
        #[test]
        fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_text(&bytes);
        }

        #[test]
        fn no_fields_bring_it_down(kind in 0..TYPES.len(), name in "[a-zA-Z]{1,12}", text in ".{0,20}", number in any::<i64>()) {
            for value in [json!(text), json!(number), json!([text]), json!({"a": number}), json!(null)] {
                let message = json!({"id": "1", "type": TYPES[kind], "callId": CALL, &name: value});
                if let Err(refusal) = parse(&message) {
                    prop_assert_eq!(refusal.id.as_deref(), message["id"].as_str());
                }
            }
        }
    }
}
