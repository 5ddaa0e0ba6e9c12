//! The events of calls.

use dikala_entities::{Millis, call};
use dikala_protocol::NumberedTurn;
use serde_json::{Map, Value};

use super::ending::CallEnding;
use crate::events::{outbox::NewEvent, payload::Payload};

fn event(call: &call::Model, at: Millis, now: Millis, data: &Payload<'_>) -> NewEvent {
    NewEvent {
        trace: call.traceparent.clone(),
        ..NewEvent::new(call.tenant_id, Some(call.id), at, now, data)
    }
}

/// `call.started`
pub(super) fn started(call: &call::Model, now: Millis) -> NewEvent {
    let data = Payload::CallStarted {
        call_id: call.id,
        phone_number_id: call.phone_number_id,
        caller_number: call.caller_number.as_str(),
        did: call.callee_number.as_str(),
    };
    event(call, call.started_at, now, &data)
}

/// `call.answered`
pub(super) fn answered(call: &call::Model, at: Millis, now: Millis) -> NewEvent {
    let data = Payload::CallAnswered {
        call_id: call.id,
        agent_id: call.agent_id,
        started_at: call.started_at,
    };
    event(call, at, now, &data)
}

/// `call.ended`
pub(super) fn ended(
    call: &call::Model,
    ending: &CallEnding,
    ai_cost_idr: i64,
    now: Millis,
) -> NewEvent {
    let data = Payload::CallEnded {
        call_id: call.id,
        phone_number_id: call.phone_number_id,
        caller_number: call.caller_number.as_str(),
        callee_number: call.callee_number.as_str(),
        duration_seconds: ending.duration_seconds,
        talk_time_seconds: ending.talk_seconds,
        hangup_reason: ending.reason,
        hangup_initiator: ending.initiator,
        transcript_summary: call.transcript_summary.as_deref(),
        ai_cost_idr,
        voice_provider: call.voice_provider,
    };
    event(call, ending.at, now, &data)
}

/// `call.turn`
pub(super) fn turn(call: &call::Model, turn: NumberedTurn, at: Millis, now: Millis) -> NewEvent {
    let data = Payload::CallTurn {
        call_id: call.id,
        turn,
    };
    event(call, at, now, &data)
}

/// `call.transcript`
pub(super) fn transcript(call: &call::Model, summary: &str, at: Millis, now: Millis) -> NewEvent {
    let data = Payload::CallTranscript {
        call_id: call.id,
        transcript_summary: summary,
    };
    event(call, at, now, &data)
}

/// `function.called`
pub(super) fn function_called(
    call: &call::Model,
    function_name: &str,
    parameters: &Map<String, Value>,
    result: &Value,
    now: Millis,
) -> NewEvent {
    let data = Payload::FunctionCalled {
        call_id: call.id,
        function_name,
        parameters,
        result,
    };
    event(call, now, now, &data)
}
