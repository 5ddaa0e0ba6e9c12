//! What calls announce; the shapes are those of the API's event table.

use dikala_entities::{
    AgentId, CallId, CallerNumber, EventKind, HangupInitiator, HangupReason, Millis, PhoneNumber,
    PhoneNumberId, call,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::ending::Ending;
use crate::events::outbox::NewEvent;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Started<'a> {
    call_id: CallId,
    phone_number_id: PhoneNumberId,
    caller_number: &'a CallerNumber,
    did: &'a PhoneNumber,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    call_id: CallId,
    agent_id: Option<AgentId>,
    started_at: Millis,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended<'a> {
    call_id: CallId,
    phone_number_id: PhoneNumberId,
    caller_number: &'a CallerNumber,
    callee_number: &'a PhoneNumber,
    duration_seconds: i64,
    talk_time_seconds: i64,
    hangup_reason: HangupReason,
    hangup_initiator: HangupInitiator,
    transcript_summary: Option<&'a str>,
    ai_cost_idr: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Transcript<'a> {
    call_id: CallId,
    transcript_summary: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCalled<'a> {
    call_id: CallId,
    function_name: &'a str,
    parameters: &'a Map<String, Value>,
    result: &'a Value,
}

fn event(
    call: &call::Model,
    kind: EventKind,
    at: Millis,
    now: Millis,
    data: &impl Serialize,
) -> NewEvent {
    NewEvent {
        trace: call.traceparent.clone(),
        ..NewEvent::new(kind, call.tenant_id, Some(call.id), at, now, data)
    }
}

/// `call.started`
pub(super) fn started(call: &call::Model, now: Millis) -> NewEvent {
    let data = Started {
        call_id: call.id,
        phone_number_id: call.phone_number_id,
        caller_number: &call.caller_number,
        did: &call.callee_number,
    };
    event(call, EventKind::CallStarted, call.started_at, now, &data)
}

/// `call.answered`
pub(super) fn answered(call: &call::Model, at: Millis, now: Millis) -> NewEvent {
    let data = Answered {
        call_id: call.id,
        agent_id: call.agent_id,
        started_at: call.started_at,
    };
    event(call, EventKind::CallAnswered, at, now, &data)
}

/// `call.ended`
pub(super) fn ended(
    call: &call::Model,
    ending: &Ending,
    ai_cost_idr: i64,
    now: Millis,
) -> NewEvent {
    let data = Ended {
        call_id: call.id,
        phone_number_id: call.phone_number_id,
        caller_number: &call.caller_number,
        callee_number: &call.callee_number,
        duration_seconds: ending.duration_seconds,
        talk_time_seconds: ending.talk_seconds,
        hangup_reason: ending.reason,
        hangup_initiator: ending.initiator,
        transcript_summary: call.transcript_summary.as_deref(),
        ai_cost_idr,
    };
    event(call, EventKind::CallEnded, ending.at, now, &data)
}

/// `call.transcript`
pub(super) fn transcript(call: &call::Model, summary: &str, at: Millis, now: Millis) -> NewEvent {
    let data = Transcript {
        call_id: call.id,
        transcript_summary: summary,
    };
    event(call, EventKind::CallTranscript, at, now, &data)
}

/// `function.called`
pub(super) fn function_called(
    call: &call::Model,
    function_name: &str,
    parameters: &Map<String, Value>,
    result: &Value,
    now: Millis,
) -> NewEvent {
    let data = FunctionCalled {
        call_id: call.id,
        function_name,
        parameters,
        result,
    };
    event(call, EventKind::FunctionCalled, now, now, &data)
}
