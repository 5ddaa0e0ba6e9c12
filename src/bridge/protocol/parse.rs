//! A message read, field by field; the first that is wrong is named.

use dikala_actors::{
    calls::{
        CallInput, IncomingCall,
        ending::{FAILURE_REASONS, HANGUP_REASONS},
    },
    nesting,
};
use dikala_entities::{HangupInitiator, HangupReason, Millis, Speaker};
use serde_json::{Map, Value, json};

use super::{
    MESSAGE_BYTES_MAX,
    fields::{MessageFields, missing},
    refusal::MessageRefusal,
    request::{BridgeMessage, FunctionInvocation, MessageContent, id_of},
};

const ID_CHARS_MAX: usize = 64;
const INSTANT_CHARS_MAX: usize = 64;
const BRIDGE_CALL_ID_CHARS_MAX: usize = 128;
const METADATA_BYTES_MAX: usize = 16 * 1024;
const SUMMARY_CHARS_MAX: usize = 16_000;
const TURNS_MAX: usize = 2_000;
pub(super) const ACTIVE_CALLS_MAX: usize = 20_000;
const DETAIL_CHARS_MAX: usize = 500;
const FUNCTION_NAME_CHARS_MAX: usize = 64;
/// A billion rupiah. No real call costs that much; the limit catches typing errors.
const AI_COST_IDR_MAX: i64 = 1_000_000_000;

pub(super) const TYPES: &[&str] = &[
    "call.incoming",
    "call.answered",
    "call.function",
    "call.transcript",
    "call.hangup",
    "call.failed",
    "heartbeat",
];

/// Parses the text of one message.
pub fn parse_text(text: &[u8]) -> Result<BridgeMessage, MessageRefusal> {
    match serde_json::from_slice::<Value>(text) {
        Ok(value) => parse(&value),
        Err(_) => Err(MessageRefusal::invalid("The frame is not a JSON object.")),
    }
}

/// Parses one message.
pub fn parse(message: &Value) -> Result<BridgeMessage, MessageRefusal> {
    parse_message(message).map_err(|refusal| refusal.of(message))
}

fn parse_message(message: &Value) -> Result<BridgeMessage, MessageRefusal> {
    let Value::Object(fields) = message else {
        return Err(MessageRefusal::invalid("A message is a JSON object."));
    };
    let id = id_of(message).ok_or_else(|| {
        MessageRefusal::invalid(format!(
            "id is missing: a text of 1 to {ID_CHARS_MAX} characters."
        ))
    })?;
    if !(1..=ID_CHARS_MAX).contains(&id.chars().count()) {
        return Err(MessageRefusal::invalid(format!(
            "id must have 1 to {ID_CHARS_MAX} characters."
        )));
    }
    if !nesting::fits(fields) {
        return Err(MessageRefusal::invalid(format!(
            "A message must not be nested more than {} deep.",
            nesting::DEPTH_MAX
        )));
    }
    if has_nul(message) {
        return Err(MessageRefusal::invalid(
            "No text may contain the character U+0000.",
        ));
    }
    let body = parse_body(&MessageFields(fields), &id)?;
    Ok(BridgeMessage { id, body })
}

fn parse_body(fields: &MessageFields<'_>, id: &str) -> Result<MessageContent, MessageRefusal> {
    let kind = fields.text("type", 1, 64)?;
    let at = fields.instant("at")?;
    match kind {
        "call.incoming" => incoming(fields, at).map(MessageContent::Incoming),
        "call.answered" => fields.for_call(CallInput::Answered {
            at,
            message_id: id.to_owned(),
        }),
        "call.function" => Ok(MessageContent::FunctionCall(FunctionInvocation {
            call: fields.call()?,
            invocation_id: fields.text("invocationId", 1, ID_CHARS_MAX)?.to_owned(),
            name: fields.text("name", 1, FUNCTION_NAME_CHARS_MAX)?.to_owned(),
            parameters: fields
                .object("parameters")?
                .ok_or_else(|| missing("parameters"))?
                .clone(),
            at,
            trace: fields.trace(),
        })),
        "call.transcript" => fields.for_call(CallInput::Transcript {
            at,
            summary: fields.text("summary", 0, SUMMARY_CHARS_MAX)?.to_owned(),
            turns: turns(fields)?,
        }),
        "call.hangup" => fields.for_call(CallInput::HangUp {
            at,
            reason: fields
                .reason(HANGUP_REASONS)?
                .unwrap_or(HangupReason::Normal),
            initiator: initiator(fields)?,
            ai_cost_idr: ai_cost(fields)?,
        }),
        "call.failed" => fields.for_call(CallInput::Failed {
            at,
            reason: fields
                .reason(FAILURE_REASONS)?
                .unwrap_or(HangupReason::BridgeError),
            detail: fields
                .optional_text("detail", 0, DETAIL_CHARS_MAX)?
                .map(ToOwned::to_owned),
        }),
        "heartbeat" => heartbeat(fields, at),
        other => Err(MessageRefusal {
            code: "unknown_type",
            ..MessageRefusal::invalid(format!(
                "{:?} is no type of message; it is one of {}.",
                shortened(other),
                TYPES.join(", ")
            ))
        }),
    }
}

fn incoming(
    fields: &MessageFields<'_>,
    at: Option<Millis>,
) -> Result<IncomingCall, MessageRefusal> {
    let did = fields.text("did", 1, 64)?;
    let caller = fields.text("callerNumber", 1, 64)?;
    let metadata = fields.object("metadata")?.cloned();
    if metadata
        .as_ref()
        .is_some_and(|metadata| encoded_len(metadata) > METADATA_BYTES_MAX)
    {
        return Err(MessageRefusal::invalid(
            "metadata must have at most 16 KiB.",
        ));
    }
    Ok(IncomingCall {
        bridge_call_id: fields
            .text("bridgeCallId", 1, BRIDGE_CALL_ID_CHARS_MAX)?
            .to_owned(),
        did: did
            .parse()
            .map_err(|error| MessageRefusal::invalid(format!("did {error}.")))?,
        caller_number: caller
            .parse()
            .map_err(|error| MessageRefusal::invalid(format!("callerNumber {error}.")))?,
        metadata,
        at,
        trace: fields.trace(),
    })
}

fn turns(fields: &MessageFields<'_>) -> Result<Vec<Value>, MessageRefusal> {
    let Some(turns) = fields.array("turns")? else {
        return Ok(Vec::new());
    };
    if turns.len() > TURNS_MAX {
        return Err(MessageRefusal::invalid(
            "turns must have at most 2,000 entries.",
        ));
    }
    turns
        .iter()
        .enumerate()
        .map(|(index, turn)| self::turn(index, turn))
        .collect()
}

fn turn(index: usize, turn: &Value) -> Result<Value, MessageRefusal> {
    let wrong = |what: &str| MessageRefusal::invalid(format!("turns[{index}] {what}."));
    let Value::Object(fields) = turn else {
        return Err(wrong("must be an object {role, text, at?}"));
    };
    let fields = MessageFields(fields);
    let role = fields
        .text("role", 1, 64)
        .map_err(|_| wrong("needs a role"))?;
    if let Err(unknown) = role.parse::<Speaker>() {
        let allowed = unknown.allowed.join(", ");
        return Err(wrong(&format!("has a role that is none of {allowed}")));
    }
    let text = fields
        .text("text", 0, MESSAGE_BYTES_MAX)
        .map_err(|_| wrong("needs a text"))?;
    let at = fields
        .optional_text("at", 1, INSTANT_CHARS_MAX)
        .map_err(|_| {
            wrong(&format!(
                "has an at that is no text of 1 to {INSTANT_CHARS_MAX} characters"
            ))
        })?;
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

fn initiator(fields: &MessageFields<'_>) -> Result<HangupInitiator, MessageRefusal> {
    match fields.optional_text("initiator", 1, 64)? {
        None | Some("caller") => Ok(HangupInitiator::Caller),
        Some("agent") => Ok(HangupInitiator::Agent),
        Some("bridge") => Ok(HangupInitiator::Bridge),
        Some(_) => Err(MessageRefusal::invalid(
            "initiator must be one of caller, agent, bridge.",
        )),
    }
}

fn ai_cost(fields: &MessageFields<'_>) -> Result<Option<i64>, MessageRefusal> {
    match fields.optional("aiCostIdr") {
        None => Ok(None),
        Some(value) => match value.as_i64() {
            Some(cost) if (0..=AI_COST_IDR_MAX).contains(&cost) => Ok(Some(cost)),
            _ => Err(MessageRefusal::invalid(format!(
                "aiCostIdr must be a whole number from 0 to {AI_COST_IDR_MAX}."
            ))),
        },
    }
}

fn heartbeat(
    fields: &MessageFields<'_>,
    at: Option<Millis>,
) -> Result<MessageContent, MessageRefusal> {
    let active = match fields.array("activeCalls")? {
        None => None,
        Some(calls) if calls.len() > ACTIVE_CALLS_MAX => {
            return Err(MessageRefusal::invalid(
                "activeCalls must have at most 20,000 entries.",
            ));
        }
        Some(calls) => {
            let mut ids = Vec::with_capacity(calls.len());
            for call in calls {
                let id = call.as_str().and_then(|text| text.parse().ok());
                // If invalid entries were skipped, the list would claim that the bridge holds none of its calls.
                ids.push(id.ok_or_else(|| {
                    MessageRefusal::invalid("activeCalls must be an array of callIds: call_….")
                })?);
            }
            Some(ids)
        }
    };
    Ok(MessageContent::Heartbeat { active, at })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

fn encoded_len(object: &Map<String, Value>) -> usize {
    serde_json::to_vec(object).map_or(usize::MAX, |bytes| bytes.len())
}

/// True if any text in it contains U+0000, which PostgreSQL cannot store.
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
