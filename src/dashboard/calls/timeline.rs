//! Builds a call's timeline. Pure.

use dikala_entities::{
    EventId, EventKind, HangupInitiator, HangupReason, Millis, call, invocation,
};
use serde_json::Value;

use super::{
    by_hand::ManualAct,
    record::{CallEvent, CallRecord, CallTranscript, TranscriptTurn},
};

/// An entry of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineEntry {
    pub at: Millis,
    /// The event that announced it, if it is kept.
    pub event: Option<EventId>,
    pub what: TimelineEvent,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TimelineEvent {
    Rang,
    Answered,
    /// A person was joined to the caller.
    Joined,
    Said(TranscriptTurn),
    Called(InvokedFunction),
    Over {
        reason: Option<HangupReason>,
        by: Option<HangupInitiator>,
        hand: Option<ManualAct>,
    },
    Summed(String),
}

/// A function that the AI called.
#[derive(Clone, Debug, PartialEq)]
pub struct InvokedFunction {
    pub name: String,
    /// `None` if they were not kept.
    pub parameters: Option<Value>,
    /// The endpoint's object, or the error that the AI received.
    pub result: Option<Value>,
    /// The code, if the outcome is an error.
    pub fault: Option<String>,
    /// `None` if it was not kept.
    pub duration_ms: Option<i64>,
}

impl TimelineEvent {
    /// Orders entries with equal times.
    const fn rank(&self) -> u8 {
        match self {
            Self::Rang => 0,
            Self::Answered => 1,
            Self::Said(_) => 2,
            Self::Called(_) => 3,
            Self::Joined => 4,
            Self::Over { .. } => 5,
            Self::Summed(_) => 6,
        }
    }
}

/// The entries in chronological order.
pub fn of(record: &CallRecord) -> Vec<TimelineEntry> {
    let announced = |kind: EventKind| {
        let event = record.events.iter().find(|event| event.kind == kind);
        event.map(|event| event.id)
    };
    let call = &record.call;
    let mut entries = vec![TimelineEntry {
        at: call.started_at,
        event: announced(EventKind::CallStarted),
        what: TimelineEvent::Rang,
    }];
    entries.extend(call.answered_at.map(|at| TimelineEntry {
        at,
        event: announced(EventKind::CallAnswered),
        what: TimelineEvent::Answered,
    }));
    entries.extend(call.joined_at.map(|at| TimelineEntry {
        at,
        event: None,
        what: TimelineEvent::Joined,
    }));
    entries.extend(functions(&record.invocations, &record.events));
    if let Some(said) = &record.transcript {
        entries.extend(turns(call, &said.turns));
    }
    entries.extend(call.ended_at.map(|at| TimelineEntry {
        at,
        event: announced(EventKind::CallEnded),
        what: TimelineEvent::Over {
            reason: call.hangup_reason,
            by: call.hangup_initiator,
            hand: record.hand.clone(),
        },
    }));
    entries.extend(summed(record));
    entries.sort_by_key(|entry| (entry.at, entry.what.rank()));
    entries
}

/// The utterances. One without a time takes that of the one before; the first takes the time of the answer.
fn turns(call: &call::Model, turns: &[TranscriptTurn]) -> Vec<TimelineEntry> {
    let mut at = call.answered_at.unwrap_or(call.started_at);
    let entry = |turn: &TranscriptTurn| {
        at = turn.at.unwrap_or(at);
        TimelineEntry {
            at,
            event: None,
            what: TimelineEvent::Said(turn.clone()),
        }
    };
    turns.iter().map(entry).collect()
}

fn summed(record: &CallRecord) -> Option<TimelineEntry> {
    let announced = record
        .events
        .iter()
        .find(|event| event.kind == EventKind::CallTranscript);
    let said: Option<&CallTranscript> = record.transcript.as_ref();
    let summary = said
        .map(|said| said.summary.clone())
        .or(record.call.transcript_summary.clone())?;
    let at = announced
        .map(|event| event.at)
        .or(said.map(|said| said.at))
        .or(record.call.ended_at);
    Some(TimelineEntry {
        at: at.unwrap_or(record.call.started_at),
        event: announced.map(|event| event.id),
        what: TimelineEvent::Summed(summary),
    })
}

/// The functions, each with its event: both were committed at the same time.
fn functions(invocations: &[invocation::Model], events: &[CallEvent]) -> Vec<TimelineEntry> {
    let mut announced: Vec<&CallEvent> = events
        .iter()
        .filter(|event| event.kind == EventKind::FunctionCalled)
        .collect();
    let mut entries = Vec::new();
    for invocation in invocations {
        let tells = |event: &&CallEvent| {
            event.at == invocation.created_at
                && event.function["functionName"] == invocation.function_name.as_str()
        };
        let event = announced
            .iter()
            .position(tells)
            .map(|place| announced.remove(place));
        entries.push(TimelineEntry {
            at: invocation.created_at.plus_ms(-invocation.duration_ms),
            event: event.map(|event| event.id),
            what: TimelineEvent::Called(invoked(invocation, event)),
        });
    }
    // Events of functions whose invocations were not read.
    let only_announced = |event: &&CallEvent| TimelineEntry {
        at: event.at,
        event: Some(event.id),
        what: TimelineEvent::Called(told(event)),
    };
    entries.extend(announced.iter().map(only_announced));
    entries
}

fn invoked(invocation: &invocation::Model, event: Option<&CallEvent>) -> InvokedFunction {
    let mut outcome: Value = serde_json::from_str(&invocation.outcome).unwrap_or_default();
    let told = if invocation.fault.is_none() {
        "result"
    } else {
        "message"
    };
    let result = outcome.get_mut(told).map(Value::take);
    InvokedFunction {
        name: invocation.function_name.clone(),
        parameters: event.and_then(|event| kept(event, "parameters")),
        result: result.filter(|result| !result.is_null()),
        fault: invocation.fault.clone(),
        duration_ms: Some(invocation.duration_ms),
    }
}

/// A field of an event; `None` if it was erased.
fn kept(event: &CallEvent, field: &str) -> Option<Value> {
    Some(event.function[field].clone()).filter(|value| !value.is_null())
}

fn told(event: &CallEvent) -> InvokedFunction {
    let code = event.function["result"]["error"]["code"].as_str();
    InvokedFunction {
        name: event.function["functionName"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        parameters: kept(event, "parameters"),
        result: kept(event, "result"),
        fault: code.map(str::to_owned),
        duration_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use dikala_entities::{CallId, CallStatus, Speaker, TenantId};
    use dikala_testkit::rows;
    use serde_json::json;

    use super::*;

    const START: Millis = Millis::from_i64(1_768_447_800_000);

    fn after(ms: i64) -> Millis {
        START.plus_ms(ms)
    }

    /// A call that was answered after 4 s and ended after 60.
    fn call() -> call::Model {
        call::Model {
            status: CallStatus::Ended,
            answered_at: Some(after(4_000)),
            ended_at: Some(after(60_000)),
            duration_seconds: Some(60),
            talk_time_seconds: Some(56),
            hangup_reason: Some(HangupReason::Normal),
            hangup_initiator: Some(HangupInitiator::Caller),
            ai_cost_idr: Some(0),
            agent_version: Some(1),
            ..rows::call(TenantId::new(START), START)
        }
    }

    fn record() -> CallRecord {
        CallRecord {
            connection: None,
            call: call(),
            agent: None,
            number: None,
            hold: None,
            hand: None,
            events: Vec::new(),
            invocations: Vec::new(),
            transcript: None,
            deliveries: HashMap::new(),
            is_cut: false,
        }
    }

    fn turn(role: Speaker, text: &str, at: Option<i64>) -> TranscriptTurn {
        TranscriptTurn {
            role,
            text: text.to_owned(),
            at: at.map(after),
            latency_ms: None,
            interrupted: false,
        }
    }

    fn invocation(name: &str, at: i64, duration_ms: i64, fault: Option<&str>) -> invocation::Model {
        let outcome = match fault {
            None => json!({"status": "ok", "result": {"stock": 3}}),
            Some(code) => json!({"status": "error", "code": code, "message": "It took too long."}),
        };
        invocation::Model {
            call_id: CallId::new(START),
            invocation_id: format!("i{at}"),
            tenant_id: TenantId::new(START),
            function_name: name.to_owned(),
            outcome: outcome.to_string(),
            duration_ms,
            created_at: after(at),
            function_id: None,
            fault: fault.map(str::to_owned),
        }
    }

    fn announced(kind: EventKind, at: i64, function: Value) -> CallEvent {
        CallEvent {
            id: EventId::new(after(at)),
            position: Some(at),
            kind,
            at: after(at),
            function,
        }
    }

    fn called(name: &str, at: i64) -> CallEvent {
        let data =
            json!({"functionName": name, "parameters": {"item": at}, "result": {"stock": 3}});
        announced(EventKind::FunctionCalled, at, data)
    }

    fn names(entries: &[TimelineEntry]) -> Vec<String> {
        let name = |entry: &TimelineEntry| match &entry.what {
            TimelineEvent::Rang => "rang".to_owned(),
            TimelineEvent::Answered => "answered".to_owned(),
            TimelineEvent::Joined => "joined".to_owned(),
            TimelineEvent::Said(turn) => turn.text.clone(),
            TimelineEvent::Called(function) => function.name.clone(),
            TimelineEvent::Over { .. } => "over".to_owned(),
            TimelineEvent::Summed(_) => "summed".to_owned(),
        };
        entries.iter().map(name).collect()
    }

    #[test]
    fn everything_stands_where_it_happened() {
        let mut record = record();
        record.invocations = vec![invocation("check_stock", 20_000, 1_500, None)];
        record.events = vec![called("check_stock", 20_000)];
        record.transcript = Some(CallTranscript {
            summary: "About stock.".to_owned(),
            turns: vec![
                turn(Speaker::Agent, "hello", None),
                turn(Speaker::Caller, "stock?", Some(10_000)),
                turn(Speaker::Agent, "a moment", None),
                turn(Speaker::Agent, "three", Some(21_000)),
            ],
            at: after(70_000),
        });
        let entries = of(&record);
        let expected = [
            "rang",
            "answered",
            "hello",
            "stock?",
            "a moment",
            "check_stock",
            "three",
            "over",
            "summed",
        ];
        assert_eq!(names(&entries), expected);
        assert_eq!(
            entries[5].at,
            after(18_500),
            "when it was called, not when it answered"
        );
    }

    #[test]
    fn a_function_is_shown_once_with_what_it_was_asked() {
        let mut record = record();
        record.invocations = vec![
            invocation("f", 20_000, 10, None),
            invocation("f", 30_000, 5_000, Some("timeout")),
        ];
        record.events = vec![
            called("f", 30_000),
            called("f", 20_000),
            called("g", 40_000),
        ];
        let entries = of(&record);
        let functions: Vec<&InvokedFunction> = entries
            .iter()
            .filter_map(|entry| match &entry.what {
                TimelineEvent::Called(function) => Some(function),
                _ => None,
            })
            .collect();
        let asked: Vec<_> = functions
            .iter()
            .map(|function| function.parameters.clone())
            .collect();
        assert_eq!(
            asked,
            [20_000, 30_000, 40_000].map(|at| Some(json!({"item": at})))
        );
        assert_eq!(functions[0].result, Some(json!({"stock": 3})));
        assert_eq!(
            (functions[1].fault.as_deref(), functions[1].result.clone()),
            (Some("timeout"), Some(json!("It took too long.")))
        );
        assert_eq!(
            (functions[2].name.as_str(), functions[2].duration_ms),
            ("g", None)
        );
    }

    #[test]
    fn what_is_announced_is_told_with_what_it_announces() {
        let mut record = record();
        let kinds = [
            EventKind::CallStarted,
            EventKind::CallAnswered,
            EventKind::CallEnded,
            EventKind::CallTranscript,
        ];
        let events = kinds.into_iter().zip([0, 4_000, 60_000, 65_000]);
        record.events = events
            .map(|(kind, at)| announced(kind, at, Value::Null))
            .collect();
        record.call.transcript_summary = Some("Short.".to_owned());
        let entries = of(&record);
        assert_eq!(names(&entries), ["rang", "answered", "over", "summed"]);
        let told: Vec<_> = entries.iter().map(|entry| entry.event).collect();
        let expected: Vec<_> = record.events.iter().map(|event| Some(event.id)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn a_call_that_rings_has_nothing_else() {
        let mut record = record();
        (record.call.answered_at, record.call.ended_at) = (None, None);
        assert_eq!(names(&of(&record)), ["rang"]);
    }

    #[test]
    fn what_was_erased_is_not_made_up() {
        let mut record = record();
        let mut event = called("f", 9_000);
        event.function["parameters"] = Value::Null;
        event.function["result"] = Value::Null;
        record.events = vec![event];
        let TimelineEvent::Called(function) = &of(&record)[2].what else {
            panic!("no function");
        };
        assert_eq!((&function.parameters, &function.result), (&None, &None));
    }
}
