//! Builds a call's timeline: its steps, what was said, and the functions that the AI called. Pure.

use dikala_entities::{
    EventKind, HangupInitiator, HangupReason, Millis, Speaker, call, invocation,
};
use serde_json::Value;

use super::{
    by_hand::ManualAct,
    record::{CallEvent, CallRecord, TranscriptTurn},
};

/// An entry of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineEntry {
    pub at: Millis,
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
        }
    }
}

/// The entries in chronological order.
pub fn of(record: &CallRecord) -> Vec<TimelineEntry> {
    let call = &record.call;
    let step = |at: Option<Millis>, what| at.map(|at| TimelineEntry { at, what });
    let over = TimelineEvent::Over {
        reason: call.hangup_reason,
        by: call.hangup_initiator,
        hand: record.hand.clone(),
    };
    let functions = functions(&record.invocations, &record.events);
    let said = turns(call, record.turns(), &functions);
    let mut entries: Vec<TimelineEntry> = [
        step(Some(call.started_at), TimelineEvent::Rang),
        step(call.answered_at, TimelineEvent::Answered),
        step(call.joined_at, TimelineEvent::Joined),
        step(call.ended_at, over),
    ]
    .into_iter()
    .flatten()
    .collect();
    entries.extend(functions);
    entries.extend(said);
    entries.sort_by_key(|entry| (entry.at, entry.what.rank()));
    entries
}

/// The utterances. One without a time takes that of the one before; the first takes the time of the answer. Turns of
/// tools that are among the functions are left out: the functions say more.
fn turns(
    call: &call::Model,
    turns: &[TranscriptTurn],
    functions: &[TimelineEntry],
) -> Vec<TimelineEntry> {
    let name = |entry: &TimelineEntry| match &entry.what {
        TimelineEvent::Called(function) => Some(function.name.clone()),
        _ => None,
    };
    let mut named: Vec<String> = functions.iter().filter_map(name).collect();
    let mut is_function = |turn: &TranscriptTurn| {
        let place = named.iter().position(|name| *name == turn.text);
        let place = place.filter(|_| turn.role == Speaker::Tool);
        place.map(|place| named.remove(place)).is_some()
    };
    let mut at = call.answered_at.unwrap_or(call.started_at);
    let entry = |turn: &TranscriptTurn| {
        at = turn.at.unwrap_or(at);
        let what = TimelineEvent::Said(turn.clone());
        (!is_function(turn)).then_some(TimelineEntry { at, what })
    };
    turns.iter().filter_map(entry).collect()
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
            what: TimelineEvent::Called(invoked(invocation, event)),
        });
    }
    // Events of functions whose invocations were not read.
    let only_announced = |event: &&CallEvent| TimelineEntry {
        at: event.at,
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

    use dikala_entities::{CallId, CallStatus, EventId, TenantId};
    use dikala_testkit::rows;
    use serde_json::json;

    use super::{super::record::CallTranscript, *};

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
            heard: Vec::new(),
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
                turn(Speaker::Tool, "check_stock", Some(18_500)),
                turn(Speaker::Tool, "a tool of the bridge", None),
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
            "a tool of the bridge",
            "check_stock",
            "three",
            "over",
        ];
        assert_eq!(names(&entries), expected);
        assert_eq!(
            entries[6].at,
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
