//! The section `webhooks` of the description. Each kind of event is a named schema, because client generators make
//! types of named schemas only.

use std::collections::BTreeSet;

use dikala_actors::{calls::without_personal_data, events::payload::SampleCall};
use dikala_entities::{EventKind, Millis, Speaker};
use serde_json::{Map, Value, json};

use super::{
    SchemaSet, reference,
    schema::{any_object, nullable, to_value, words},
    with_example,
};

/// One entry for each kind of event that webhooks get. The schemas include that of turns, which only event streams have.
pub fn webhooks(schemas: &mut SchemaSet) -> Value {
    let turn = EventKind::CallTurn;
    schemas.0.insert(name(turn), schema(turn));
    let entries: Map<String, Value> = EventKind::OF_WEBHOOKS
        .iter()
        .map(|kind| {
            let name = name(*kind);
            schemas.0.insert(name.clone(), schema(*kind));
            let body = with_example(reference(&name), schemas);
            let operation = operation(*kind, &body);
            (kind.as_str().to_owned(), json!({"post": operation}))
        })
        .collect();
    Value::Object(entries)
}

/// The schema's name: `CallEndedEvent`.
fn name(kind: EventKind) -> String {
    let mut name = String::new();
    for word in kind.as_str().split('.') {
        let (first, rest) = word.split_at(1);
        name += &first.to_uppercase();
        name += rest;
    }
    name + "Event"
}

fn operation(kind: EventKind, body: &Value) -> Value {
    let header = |name: &str, description: &str| json!({"name": name, "in": "header", "required": true, "description": description, "schema": {"type": "string"}});
    let mut trace = header(
        "traceparent",
        "The trace that the event's call is part of (W3C Trace Context), where its bridge named one.",
    );
    trace["required"] = json!(false);
    json!({
        "operationId": format!("events.{}", kind.as_str()),
        "tags": ["events"],
        "summary": summary(kind),
        "security": [],
        "parameters": [
            header("X-Service-Signature", "`sha256=` and the hexadecimal HMAC-SHA256 of the raw body under the webhook's secret."),
            header("X-Service-Event", "The kind of event."),
            header("X-Service-Delivery", "The delivery's id; the same on every attempt."),
            header("X-Service-Attempt", "1 for the first attempt."),
            header("webhook-id", "The event's id (Standard Webhooks)."),
            header("webhook-timestamp", "Unix seconds of the attempt (Standard Webhooks)."),
            header("webhook-signature", "The signatures of Standard Webhooks."),
            trace,
        ],
        "requestBody": {"required": true, "content": {"application/json": body}},
        "responses": {
            "2XX": {"description": "Taken."},
            "410": {"description": "Not wanted any more: the webhook is disabled."},
            "default": {"description": "Not taken: the same body comes again later."},
        },
    })
}

/// The summary of a kind of event.
const fn summary(kind: EventKind) -> &'static str {
    match kind {
        EventKind::CallStarted => "A call came in.",
        EventKind::CallAnswered => "The AI agent answered.",
        EventKind::CallEnded => "A call is over, in whichever final state.",
        EventKind::CallTurn => "A turn of a call was heard.",
        EventKind::CallTranscript => "The summary of a call is there.",
        EventKind::CreditsLow => "The balance fell below the threshold.",
        EventKind::FunctionCalled => "The AI called a function.",
    }
}

/// An example payload, the same in each build.
fn example(kind: EventKind) -> Value {
    const SOME: &str = "01k9zv3m8rj2q4w6y8a0c2e4g6";
    let call = SampleCall {
        id: format!("call_{SOME}").parse().expect("an id"),
        phone_number: format!("pn_{SOME}").parse().expect("an id"),
        agent: format!("agent_{SOME}").parse().expect("an id"),
        started_at: Millis::parse_rfc3339("2026-01-15T03:30:00.000Z").expect("an instant"),
    };
    serde_json::to_value(call.payload(kind)).expect("payloads are JSON")
}

fn schema(kind: EventKind) -> Value {
    let data = example(kind);
    let example = json!({"event": kind, "timestamp": "2026-01-15T03:31:34.000Z", "data": data});
    let goes = personal(&example);
    let fields: Map<String, Value> = data
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, example)| {
            let mut schema = field(name, example);
            if goes.contains(name) && schema["type"].is_string() {
                schema = nullable(schema);
                schema["description"] = json!("Null once the call was erased.");
            }
            (name.clone(), schema)
        })
        .collect();
    let names: Vec<&String> = fields.keys().collect();
    json!({
        "description": summary(kind),
        "type": "object",
        "required": ["event", "timestamp", "data"],
        "properties": {
            "event": {"type": "string", "const": kind},
            "timestamp": {"type": "string", "format": "date-time", "description": "When it happened."},
            "data": {"type": "object", "required": names, "properties": fields},
        },
        "example": example,
    })
}

/// The fields that are removed when the call is erased.
fn personal(event: &Value) -> BTreeSet<String> {
    if event["data"].get("callId").is_none() {
        return BTreeSet::new();
    }
    let erased = without_personal_data(&event.to_string());
    let erased: Value = serde_json::from_str(&erased).expect("JSON");
    let fields = erased["data"].as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| value.is_null())
        .map(|(name, _)| name.clone())
        .collect()
}

fn turn() -> Value {
    json!({
        "type": ["object", "null"],
        "description": "Null once the call was erased.",
        "required": ["n", "role", "text", "at"],
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "A later turn with the same number replaces it."},
            "role": to_value(&words(Speaker::ALL.iter().map(|role| role.as_str())).into()),
            "text": {"type": "string"},
            "at": {"type": "string", "format": "date-time"},
            "latencyMs": {"type": "integer", "description": "Time from the end of the caller's voice to the answer."},
            "interrupted": {"type": "boolean", "description": "It was heard up to its last word only."},
        },
    })
}

fn field(name: &str, example: &Value) -> Value {
    match (name, example) {
        ("transcriptSummary" | "agentId", _) => json!({"type": ["string", "null"]}),
        ("voiceProvider", _) => {
            json!({"type": ["string", "null"], "description": "The voice's provider at the end of the call."})
        }
        ("startedAt", _) => json!({"type": "string", "format": "date-time"}),
        ("turn", _) => turn(),
        (_, Value::Number(_)) => json!({"type": "integer"}),
        (_, Value::Object(_)) => to_value(&any_object().into()),
        _ => json!({"type": "string"}),
    }
}
