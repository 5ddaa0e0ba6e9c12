//! The messages of a bridge, as the service reads them: field by field, and the first invalid one is named. Pure.

mod fields;
#[cfg(test)]
mod tests;

use dikala_entities::{
    ChannelKind, HangupInitiator, HangupReason, Millis, PhoneNumber, Speaker, VoiceProvider,
    nesting,
};
use serde_json::{Map, Value};

use self::fields::{MessageFields, missing};
use crate::{
    MESSAGE_BYTES_MAX,
    message::{
        BridgeMessage, CallMessage, CallReport, CalledParty, DETAIL_CHARS_MAX, FAILURE_REASONS,
        FunctionInvocation, HANGUP_REASONS, Heartbeat, IncomingCall, MessageContent, MessageType,
        NumberedTurn, SpokenTurn, VoiceReport,
    },
    reply::{ErrorCode, ReplyError},
};

const ID_CHARS_MAX: usize = 64;
const INSTANT_CHARS_MAX: usize = 64;
const BRIDGE_CALL_ID_CHARS_MAX: usize = 128;
const METADATA_BYTES_MAX: usize = 16 * 1024;
const SUMMARY_CHARS_MAX: usize = 16_000;
const TURNS_MAX: usize = 2_000;
const ACTIVE_CALLS_MAX: usize = 20_000;
const FUNCTION_NAME_CHARS_MAX: usize = 64;
/// A billion rupiah. No real call costs that much; the limit catches typing errors.
const AI_COST_IDR_MAX: u32 = 1_000_000_000;
/// The longest time to an answer: ten minutes.
const LATENCY_MS_MAX: u32 = 600_000;
/// Stalls, and interruptions, of a call.
const VOICE_COUNT_MAX: u32 = 100_000;

/// Reads one message.
pub fn parse(message: &Value) -> Result<BridgeMessage, ReplyError> {
    let Value::Object(fields) = message else {
        return Err(ReplyError::invalid("A message is a JSON object."));
    };
    let id = id_of(message).ok_or_else(|| {
        ReplyError::invalid(format!(
            "id is missing: a text of 1 to {ID_CHARS_MAX} characters."
        ))
    })?;
    if !(1..=ID_CHARS_MAX).contains(&id.chars().count()) {
        return Err(ReplyError::invalid(format!(
            "id must have 1 to {ID_CHARS_MAX} characters."
        )));
    }
    if !nesting::fits(fields) {
        return Err(ReplyError::invalid(format!(
            "A message must not be nested more than {} deep.",
            nesting::DEPTH_MAX
        )));
    }
    if has_nul(message) {
        return Err(ReplyError::invalid(
            "No text may contain the character U+0000.",
        ));
    }
    let content = content(&MessageFields(fields))?;
    Ok(BridgeMessage {
        id: id.to_owned(),
        content,
    })
}

/// The message id, if the message has one.
pub fn id_of(message: &Value) -> Option<&str> {
    message.get("id").and_then(Value::as_str)
}

fn content(fields: &MessageFields<'_>) -> Result<MessageContent, ReplyError> {
    let named = fields.text("type", 1, 64)?;
    let at = fields.instant("at")?;
    let kind = MessageType::ALL
        .into_iter()
        .find(|kind| kind.as_str() == named)
        .ok_or_else(|| unknown_type(named))?;
    match kind {
        MessageType::Incoming => incoming(fields, at).map(MessageContent::Incoming),
        MessageType::Heartbeat => heartbeat(fields, at).map(MessageContent::Heartbeat),
        // The call is read first here, and last in all others.
        MessageType::Function => {
            let call = fields.call()?;
            let report = CallReport::Function(function(fields)?);
            Ok(MessageContent::Call(CallMessage { call, at, report }))
        }
        MessageType::Answered
        | MessageType::Turn
        | MessageType::Transcript
        | MessageType::Transferred
        | MessageType::Hangup
        | MessageType::Failed => {
            let report = report(kind, fields)?;
            let call = fields.call()?;
            Ok(MessageContent::Call(CallMessage { call, at, report }))
        }
    }
}

fn unknown_type(named: &str) -> ReplyError {
    let known = MessageType::ALL.map(MessageType::as_str).join(", ");
    let shortened: String = named.chars().take(40).collect();
    ReplyError {
        code: ErrorCode::UnknownType,
        ..ReplyError::invalid(format!(
            "{shortened:?} is no type of message; it is one of {known}."
        ))
    }
}

fn ai_cost(fields: &MessageFields<'_>) -> Result<Option<u64>, ReplyError> {
    Ok(fields.whole("aiCostIdr", AI_COST_IDR_MAX)?.map(u64::from))
}

fn report(kind: MessageType, fields: &MessageFields<'_>) -> Result<CallReport, ReplyError> {
    Ok(match kind {
        MessageType::Transcript => CallReport::Transcript {
            summary: fields.text("summary", 0, SUMMARY_CHARS_MAX)?.to_owned(),
            turns: turns(fields)?,
        },
        MessageType::Turn => CallReport::Turn {
            turn: numbered_turn(fields)?,
        },
        MessageType::Transferred => CallReport::Transferred {
            to: number(fields, "to")?,
            ai_cost_idr: ai_cost(fields)?,
        },
        MessageType::Hangup => CallReport::Hangup {
            reason: fields
                .reason(HANGUP_REASONS)?
                .unwrap_or(HangupReason::Normal),
            initiator: initiator(fields)?,
            ai_cost_idr: ai_cost(fields)?,
            voice: voice(fields)?,
        },
        MessageType::Failed => CallReport::Failed {
            reason: fields
                .reason(FAILURE_REASONS)?
                .unwrap_or(HangupReason::BridgeError),
            detail: fields
                .optional_text("detail", 0, DETAIL_CHARS_MAX)?
                .map(ToOwned::to_owned),
            ai_cost_idr: ai_cost(fields)?,
            voice: voice(fields)?,
        },
        _ => CallReport::Answered,
    })
}

fn function(fields: &MessageFields<'_>) -> Result<FunctionInvocation, ReplyError> {
    Ok(FunctionInvocation {
        invocation_id: fields.text("invocationId", 1, ID_CHARS_MAX)?.to_owned(),
        name: fields.text("name", 1, FUNCTION_NAME_CHARS_MAX)?.to_owned(),
        parameters: fields
            .object("parameters")?
            .ok_or_else(|| missing("parameters"))?
            .clone(),
        trace: fields.trace(),
    })
}

fn incoming(fields: &MessageFields<'_>, at: Option<Millis>) -> Result<IncomingCall, ReplyError> {
    let channel = fields.word("channel", ChannelKind::WORDS)?;
    let called = called(fields, channel)?;
    let caller = fields.text("callerNumber", 1, 64)?;
    let draft = fields.object("draft")?.cloned();
    if draft.is_some() && channel != Some(ChannelKind::Web) {
        let words = "draft is for calls of the channel web.";
        return Err(ReplyError::invalid(words));
    }
    let metadata = fields.object("metadata")?.cloned();
    if metadata
        .as_ref()
        .is_some_and(|metadata| encoded_len(metadata) > METADATA_BYTES_MAX)
    {
        return Err(ReplyError::invalid("metadata must have at most 16 KiB."));
    }
    Ok(IncomingCall {
        bridge_call_id: fields
            .text("bridgeCallId", 1, BRIDGE_CALL_ID_CHARS_MAX)?
            .to_owned(),
        called,
        caller_number: caller
            .parse()
            .map_err(|error| ReplyError::invalid(format!("callerNumber {error}.")))?,
        channel,
        draft,
        metadata,
        at,
        trace: fields.trace(),
    })
}

/// A call from a browser names an agent, every other call a number.
fn called(
    fields: &MessageFields<'_>,
    channel: Option<ChannelKind>,
) -> Result<CalledParty, ReplyError> {
    if channel != Some(ChannelKind::Web) {
        return number(fields, "did").map(CalledParty::Number);
    }
    if fields.optional("did").is_some() {
        let words = "A call of the channel web has an agentId in place of a did.";
        return Err(ReplyError::invalid(words));
    }
    let agent = fields.text("agentId", 1, ID_CHARS_MAX)?.parse();
    let agent = agent.map_err(|error| ReplyError::invalid(format!("agentId is {error}.")))?;
    Ok(CalledParty::Agent(agent))
}

fn number(fields: &MessageFields<'_>, name: &str) -> Result<PhoneNumber, ReplyError> {
    let number = fields.text(name, 1, 64)?.parse();
    number.map_err(|error| ReplyError::invalid(format!("{name} {error}.")))
}

fn voice(fields: &MessageFields<'_>) -> Result<VoiceReport, ReplyError> {
    Ok(VoiceReport {
        voice_provider: fields.word("voiceProvider", VoiceProvider::WORDS)?,
        stalls: fields.whole("stalls", VOICE_COUNT_MAX)?,
        interruptions: fields.whole("interruptions", VOICE_COUNT_MAX)?,
    })
}

fn turns(fields: &MessageFields<'_>) -> Result<Vec<SpokenTurn>, ReplyError> {
    let Some(turns) = fields.array("turns")? else {
        return Ok(Vec::new());
    };
    if turns.len() > TURNS_MAX {
        return Err(ReplyError::invalid(
            "turns must have at most 2,000 entries.",
        ));
    }
    turns
        .iter()
        .enumerate()
        .map(|(index, turn)| self::turn(&format!("turns[{index}]"), turn))
        .collect()
}

fn numbered_turn(fields: &MessageFields<'_>) -> Result<NumberedTurn, ReplyError> {
    let given = fields.optional("turn").ok_or_else(|| missing("turn"))?;
    let turn = turn("turn", given)?;
    if turn.text.chars().count() > SUMMARY_CHARS_MAX {
        return Err(ReplyError::invalid(
            "turn has a text of more than 16,000 characters.",
        ));
    }
    if turn.at.is_none() {
        return Err(ReplyError::invalid("turn needs an at."));
    }
    let n = given["n"].as_u64().and_then(|n| usize::try_from(n).ok());
    let n = n.filter(|n| (1..=TURNS_MAX).contains(n));
    let wrong = || ReplyError::invalid(format!("turn needs an n from 1 to {TURNS_MAX}."));
    Ok(NumberedTurn {
        n: n.ok_or_else(wrong)? as u32,
        turn,
    })
}

fn turn(name: &str, turn: &Value) -> Result<SpokenTurn, ReplyError> {
    let wrong = |what: &str| ReplyError::invalid(format!("{name} {what}."));
    let Value::Object(fields) = turn else {
        return Err(wrong(
            "must be an object {role, text, at?, latencyMs?, interrupted?}",
        ));
    };
    let fields = MessageFields(fields);
    let role = fields
        .text("role", 1, 64)
        .map_err(|_| wrong("needs a role"))?;
    let role: Speaker = role.parse().map_err(|_| {
        let allowed = Speaker::WORDS.join(", ");
        wrong(&format!("has a role that is none of {allowed}"))
    })?;
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
    let latency_ms = fields.whole("latencyMs", LATENCY_MS_MAX).map_err(|_| {
        wrong(&format!(
            "has a latencyMs that is no whole number from 0 to {LATENCY_MS_MAX}"
        ))
    })?;
    let interrupted = match fields.optional("interrupted") {
        None => false,
        Some(Value::Bool(interrupted)) => *interrupted,
        Some(_) => return Err(wrong("has an interrupted that is neither true nor false")),
    };
    Ok(SpokenTurn {
        role,
        text: text.to_owned(),
        at,
        latency_ms,
        interrupted,
    })
}

fn initiator(fields: &MessageFields<'_>) -> Result<HangupInitiator, ReplyError> {
    match fields.optional_text("initiator", 1, 64)? {
        None | Some("caller") => Ok(HangupInitiator::Caller),
        Some("agent") => Ok(HangupInitiator::Agent),
        Some("bridge") => Ok(HangupInitiator::Bridge),
        Some(_) => Err(ReplyError::invalid(
            "initiator must be one of caller, agent, bridge.",
        )),
    }
}

fn heartbeat(fields: &MessageFields<'_>, at: Option<Millis>) -> Result<Heartbeat, ReplyError> {
    let active = match fields.array("activeCalls")? {
        None => None,
        Some(calls) if calls.len() > ACTIVE_CALLS_MAX => {
            return Err(ReplyError::invalid(
                "activeCalls must have at most 20,000 entries.",
            ));
        }
        Some(calls) => {
            let mut ids = Vec::with_capacity(calls.len());
            for call in calls {
                let id = call.as_str().and_then(|text| text.parse().ok());
                // If invalid entries were skipped, the list would claim that the bridge holds none of its calls.
                ids.push(id.ok_or_else(|| {
                    ReplyError::invalid("activeCalls must be an array of callIds: call_….")
                })?);
            }
            Some(ids)
        }
    };
    Ok(Heartbeat { active, at })
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
