//! Generates arguments for an agent's functions from their schemas.

use serde_json::{Map, Value, json};

/// Maximum depth of objects in arguments.
const DEPTH_MAX: usize = 8;
/// Maximum length of a text that a schema requires to be long.
const TEXT_CHARS_MAX: usize = 1_000;

/// Arguments that fit an object schema by its types, enumerations and simple limits. They contain the required
/// members, or all if none is required.
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
    use dikala_testkit::json_schema;

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
        assert_eq!(json_schema::mismatch(&schema, &arguments), None);
        assert!(arguments.get("unasked").is_none());
        assert_eq!(sample_arguments(&json!({"type": "object"})), Map::new());
        assert_eq!(sample_arguments(&json!(null)), Map::new());
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
