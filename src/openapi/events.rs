//! The outgoing events, as the section `webhooks` of the description.

use dikala_entities::EventKind;
use serde_json::{Map, Value, json};

/// One entry for each kind of event.
pub(super) fn webhooks() -> Value {
    let entries: Map<String, Value> = EventKind::ALL
        .iter()
        .map(|kind| (kind.as_str().to_owned(), json!({"post": operation(*kind)})))
        .collect();
    Value::Object(entries)
}

fn operation(kind: EventKind) -> Value {
    let (summary, data) = payload(kind);
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
        "summary": summary,
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

/// What happened, and the payload's fields by example.
fn payload(kind: EventKind) -> (&'static str, Value) {
    let (call, number) = (
        "call_01k9zv3m8rj2q4w6y8a0c2e4g6",
        "pn_01k9zv3m8rj2q4w6y8a0c2e4g6",
    );
    match kind {
        EventKind::CallStarted => (
            "A call came in.",
            json!({"callId": call, "phoneNumberId": number, "callerNumber": "+6281298765432", "did": "+6281234567890"}),
        ),
        EventKind::CallAnswered => (
            "The AI agent answered.",
            json!({"callId": call, "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "startedAt": "2026-01-15T03:30:00.000Z"}),
        ),
        EventKind::CallEnded => (
            "A call is over, in whichever final state.",
            json!({
                "callId": call, "phoneNumberId": number, "callerNumber": "+6281298765432",
                "calleeNumber": "+6281234567890", "durationSeconds": 94, "talkTimeSeconds": 90,
                "hangupReason": "normal", "hangupInitiator": "caller", "transcriptSummary": null, "aiCostIdr": 450,
            }),
        ),
        EventKind::CallTranscript => (
            "The summary of a call is there.",
            json!({"callId": call, "transcriptSummary": "The caller asked for an appointment on Friday."}),
        ),
        EventKind::CreditsLow => (
            "The balance fell below the threshold.",
            json!({"balanceMinutes": 29, "threshold": 30}),
        ),
        EventKind::FunctionCalled => (
            "The AI called a function.",
            json!({"callId": call, "functionName": "check_stock", "parameters": {"sku": "A-100"}, "result": {"pieces": 12}}),
        ),
    }
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
