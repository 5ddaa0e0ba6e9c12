//! The messages of a simulated bridge, as JSON texts, and the arguments it makes up for functions.

use dikala_entities::PhoneNumber;
use serde_json::{Map, Value, json};

use super::call::Say;

/// How deep objects in arguments go.
const DEPTH_MAX: usize = 8;
/// The longest text that is made up because a schema wants it long.
const TEXT_CHARS_MAX: usize = 1_000;

/// What is said in calls whose AI calls no function, and comes of it.
const TALKS: [(&str, &str); 3] = [
    (
        "Until when are you open?",
        "The caller asked about opening hours and was told them.",
    ),
    (
        "Do you have oat milk?",
        "The caller asked for oat milk; there is some.",
    ),
    (
        "How do I get there?",
        "The caller asked for the way and was told it.",
    ),
];

/// `call.incoming`
pub fn incoming(id: &str, bridge_call_id: &str, did: &PhoneNumber, caller: &str) -> String {
    let message = json!({
        "id": id, "type": "call.incoming", "bridgeCallId": bridge_call_id, "did": did, "callerNumber": caller,
        "metadata": {"simulated": true},
    });
    message.to_string()
}

/// What is said about a call that has its id. `invocation` names an invocation; a repeat of the message repeats it.
pub fn about_call(id: &str, call_id: &str, invocation: &str, say: &Say) -> String {
    let message = match say {
        Say::Answered => json!({"id": id, "type": "call.answered", "callId": call_id}),
        Say::Ask { name, parameters } => json!({
            "id": id, "type": "call.function", "callId": call_id, "invocationId": invocation, "name": name,
            "parameters": parameters,
        }),
        Say::Transcript { topic, asked } => transcript(id, call_id, *topic, asked.as_deref()),
        Say::HangUp { reason, initiator } => json!({
            "id": id, "type": "call.hangup", "callId": call_id, "reason": reason, "initiator": initiator,
        }),
    };
    message.to_string()
}

/// A transcript that tells of the function that was called, if one was.
fn transcript(id: &str, call_id: &str, topic: usize, asked: Option<&str>) -> Value {
    let (question, summary) = match asked {
        Some(name) if name.contains("order") => (
            "Where is my order?",
            format!(
                "The caller wanted to know where an order is; the agent looked it up with {name}."
            ),
        ),
        Some(name) => (
            "Could you look something up?",
            format!("The caller had a question that the agent answered with {name}."),
        ),
        None => {
            let (question, summary) = TALKS[topic % TALKS.len()];
            (question, summary.to_owned())
        }
    };
    let mut turns = vec![
        json!({"role": "agent", "text": "Hello, how can I help?"}),
        json!({"role": "caller", "text": question}),
    ];
    turns.extend(asked.map(|name| json!({"role": "tool", "text": name})));
    turns.push(json!({"role": "agent", "text": "Here is what I know. Have a nice day!"}));
    json!({"id": id, "type": "call.transcript", "callId": call_id, "summary": summary, "turns": turns})
}

/// Arguments that fit an object schema as far as its types, enumerations and simple limits say: what is required, or
/// everything where nothing is.
pub fn sample_arguments(schema: &Value) -> Map<String, Value> {
    sample_object(schema, DEPTH_MAX)
}

fn sample_object(schema: &Value, depth: usize) -> Map<String, Value> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    properties
        .iter()
        .filter(|(name, _)| required.is_empty() || required.contains(&name.as_str()))
        .map(|(name, schema)| (name.clone(), sample(schema, depth - 1)))
        .collect()
}

fn sample(schema: &Value, depth: usize) -> Value {
    let given = schema
        .get("const")
        .or_else(|| schema.get("default"))
        .or_else(|| schema["enum"].get(0));
    if let Some(value) = given {
        return value.clone();
    }
    let kind = schema["type"]
        .as_str()
        .or_else(|| schema["type"].get(0).and_then(Value::as_str));
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        Some("array") => sample_array(schema, depth),
        Some("object") if depth > 0 => Value::Object(sample_object(schema, depth)),
        Some("object") => json!({}),
        _ => json!(sample_text(schema)),
    }
}

fn sample_array(schema: &Value, depth: usize) -> Value {
    let wants_some = schema["minItems"].as_u64().is_some_and(|least| least > 0);
    if wants_some && depth > 0 {
        json!([sample(&schema["items"], depth - 1)])
    } else {
        json!([])
    }
}

fn sample_text(schema: &Value) -> String {
    let text = match schema["format"].as_str() {
        Some("date") => "2026-01-15",
        Some("date-time") => "2026-01-15T03:30:00Z",
        Some("time") => "03:30:00Z",
        Some("email") => "caller@example.com",
        Some("uri") => "https://example.com/",
        Some("uuid") => "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
        _ => "1001",
    };
    let least = schema["minLength"]
        .as_u64()
        .and_then(|least| usize::try_from(least).ok())
        .unwrap_or(0);
    let most = schema["maxLength"]
        .as_u64()
        .and_then(|most| usize::try_from(most).ok())
        .unwrap_or(usize::MAX);
    format!("{text:0<width$}", width = least.min(TEXT_CHARS_MAX))
        .chars()
        .take(most)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_fit_their_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "order": {"type": "string", "minLength": 6},
                "count": {"type": "integer", "minimum": 3},
                "size": {"enum": ["small", "large"]},
                "when": {"type": "string", "format": "date"},
                "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"sku": {"type": ["string", "null"], "maxLength": 2}}}},
                "urgent": {"type": "boolean"},
                "unasked": {"type": "string", "pattern": "^x$"},
            },
            "required": ["order", "count", "size", "when", "lines", "urgent"],
        });
        let arguments = Value::Object(sample_arguments(&schema));
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        assert!(validator.is_valid(&arguments), "{arguments}");
        assert!(arguments.get("unasked").is_none());
        assert_eq!(sample_arguments(&json!({"type": "object"})), Map::new());
        assert_eq!(sample_arguments(&json!(null)), Map::new());
    }

    #[test]
    fn a_transcript_tells_of_the_function_that_was_called_and_of_no_other() {
        let of = |asked: Option<&str>, topic| {
            let asked = asked.map(str::to_owned);
            about_call("m", "call", "i", &Say::Transcript { topic, asked })
        };
        assert!(of(Some("check_order"), 0).contains("an order"));
        assert!(of(Some("findTable"), 0).contains("findTable"));
        for topic in 0..10 {
            let text = of(None, topic);
            assert!(!text.contains("order") && !text.contains("tool"), "{text}");
        }
    }

    #[test]
    fn a_schema_without_end_has_an_end() {
        let mut schema = json!({"type": "object"});
        for _ in 0..100 {
            schema = json!({"type": "object", "properties": {"deeper": schema}});
        }
        let text = Value::Object(sample_arguments(&schema)).to_string();
        assert_eq!(text.matches("deeper").count(), DEPTH_MAX);
    }
}
