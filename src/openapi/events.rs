//! The outgoing events, as the section `webhooks` of the description.

use dikala_actors::events::payload::SampleCall;
use dikala_entities::{EventKind, Millis};
use serde_json::{Map, Value, json};

/// One entry for each kind of event.
pub fn webhooks() -> Value {
    let entries: Map<String, Value> = EventKind::ALL
        .iter()
        .map(|kind| (kind.as_str().to_owned(), json!({"post": operation(*kind)})))
        .collect();
    Value::Object(entries)
}

fn operation(kind: EventKind) -> Value {
    let data = example(kind);
    let example = json!({"event": kind, "timestamp": "2026-01-15T03:31:34.000Z", "data": data});
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
        "requestBody": {"required": true, "content": {"application/json": {"schema": schema(kind, &data), "example": example}}},
        "responses": {
            "2XX": {"description": "Taken."},
            "410": {"description": "Not wanted any more: the webhook is disabled."},
            "default": {"description": "Not taken: the same body comes again later."},
        },
    })
}

/// What happened.
const fn summary(kind: EventKind) -> &'static str {
    match kind {
        EventKind::CallStarted => "A call came in.",
        EventKind::CallAnswered => "The AI agent answered.",
        EventKind::CallEnded => "A call is over, in whichever final state.",
        EventKind::CallTranscript => "The summary of a call is there.",
        EventKind::CreditsLow => "The balance fell below the threshold.",
        EventKind::FunctionCalled => "The AI called a function.",
    }
}

/// A payload of this kind: the same in each description.
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

fn schema(kind: EventKind, data: &Value) -> Value {
    let fields: Map<String, Value> = data
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, example)| (name.clone(), field(name, example)))
        .collect();
    let names: Vec<&String> = fields.keys().collect();
    json!({
        "type": "object",
        "required": ["event", "timestamp", "data"],
        "properties": {
            "event": {"type": "string", "enum": [kind]},
            "timestamp": {"type": "string", "format": "date-time", "description": "When it happened."},
            "data": {"type": "object", "required": names, "properties": fields},
        },
    })
}

fn field(name: &str, example: &Value) -> Value {
    match (name, example) {
        ("transcriptSummary" | "agentId", _) => json!({"type": ["string", "null"]}),
        ("startedAt", _) => json!({"type": "string", "format": "date-time"}),
        (_, Value::Number(_)) => json!({"type": "integer"}),
        (_, Value::Object(_)) => json!({"type": "object"}),
        _ => json!({"type": "string"}),
    }
}
