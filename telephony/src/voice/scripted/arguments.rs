//! Generates arguments that match a function's schema.

use serde_json::{Map, Value};

/// Nesting depth up to which objects are filled.
const DEPTH_MAX: usize = 8;

/// The required arguments. The first text or number gets `keys`, the keys that the caller pressed.
pub(super) fn arguments(schema: &Value, keys: Option<&str>) -> Map<String, Value> {
    let mut keys = keys.map(str::to_owned);
    object(schema, &mut keys, DEPTH_MAX)
}

fn object(schema: &Value, keys: &mut Option<String>, depth: usize) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    names
        .map(|name| {
            let field = schema.get("properties").and_then(|all| all.get(name));
            let field = field.unwrap_or(&Value::Null);
            (name.to_owned(), value(field, keys, depth))
        })
        .collect()
}

fn value(schema: &Value, keys: &mut Option<String>, depth: usize) -> Value {
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|all| all.get(0)) {
        return first.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("integer" | "number") => number(schema, keys),
        Some("boolean") => Value::Bool(true),
        Some("null") => Value::Null,
        Some("array") => array(schema, keys, depth),
        Some("object") if depth > 0 => Value::Object(object(schema, keys, depth - 1)),
        Some("object") => Value::Object(Map::new()),
        _ => text(schema, keys),
    }
}

fn number(schema: &Value, keys: &mut Option<String>) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1));
    let pressed = keys.take().and_then(|keys| keys.parse::<i64>().ok());
    pressed.or(least).unwrap_or(1).into()
}

fn array(schema: &Value, keys: &mut Option<String>, depth: usize) -> Value {
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let items = schema.get("items").unwrap_or(&Value::Null);
    let items = (0..least.min(16)).map(|_| match depth {
        0 => Value::Null,
        _ => value(items, keys, depth - 1),
    });
    Value::Array(items.collect())
}

fn text(schema: &Value, keys: &mut Option<String>) -> Value {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let bound = |name: &str, usual| usize::try_from(bound(name).unwrap_or(usual)).unwrap_or(0);
    let (least, most) = (bound("minLength", 0).min(1_000), bound("maxLength", 1_000));
    let mut text = keys.take().unwrap_or_else(|| "1001".to_owned());
    while text.len() < least {
        text.push('1');
    }
    Value::String(text.chars().take(most).collect())
}

/// The first run of digits in an answer, at most `most` of them.
pub(super) fn digits(answer: &Value, most: usize) -> Vec<u8> {
    match answer {
        Value::Number(number) => digits_of(&number.to_string(), most),
        Value::String(text) => digits_of(text, most),
        Value::Array(items) => first(items.iter(), most),
        Value::Object(fields) => first(fields.values(), most),
        Value::Bool(_) | Value::Null => Vec::new(),
    }
}

fn digits_of(text: &str, most: usize) -> Vec<u8> {
    let first = text.chars().skip_while(|c| !c.is_ascii_digit());
    let run = first.take_while(char::is_ascii_digit);
    run.filter_map(|c| c.to_digit(10).and_then(|digit| u8::try_from(digit).ok()))
        .take(most)
        .collect()
}

fn first<'a>(mut values: impl Iterator<Item = &'a Value>, most: usize) -> Vec<u8> {
    let found = values.find_map(|value| Some(digits(value, most)).filter(|run| !run.is_empty()));
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_required_is_filled() {
        for (fields, required, keys, expected) in [
            (
                json!({"orderId": {"type": "string"}}),
                json!(["orderId"]),
                Some("427"),
                json!({"orderId": "427"}),
            ),
            (
                json!({"orderId": {"type": "string"}, "note": {"type": "string"}}),
                json!(["orderId"]),
                None,
                json!({"orderId": "1001"}),
            ),
            (
                json!({"n": {"type": "integer", "minimum": 5}, "s": {"type": "string"}}),
                json!(["n", "s"]),
                Some("42"),
                json!({"n": 42, "s": "1001"}),
            ),
            (
                json!({"n": {"type": "integer", "minimum": 5}}),
                json!(["n"]),
                None,
                json!({"n": 5}),
            ),
            (
                json!({"size": {"enum": ["small", "large"]}, "hot": {"type": "boolean"}}),
                json!(["size", "hot"]),
                None,
                json!({"size": "small", "hot": true}),
            ),
            (
                json!({"who": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 2}}, "required": ["name"]}}),
                json!(["who"]),
                None,
                json!({"who": {"name": "10"}}),
            ),
            (
                json!({"items": {"type": "array", "minItems": 2, "items": {"type": "string", "minLength": 6}}}),
                json!(["items"]),
                None,
                json!({"items": ["100111", "100111"]}),
            ),
            (
                json!({}),
                json!(["unknown"]),
                None,
                json!({"unknown": "1001"}),
            ),
            (
                json!({"a": {"type": "string"}}),
                json!([]),
                Some("1"),
                json!({}),
            ),
        ] {
            let schema = json!({"type": "object", "properties": fields, "required": required});
            assert_eq!(
                Value::Object(arguments(&schema, keys)),
                expected,
                "{schema}"
            );
        }
        assert!(arguments(&json!("nonsense"), None).is_empty());
    }

    #[test]
    fn the_first_number_of_an_answer_is_found() {
        for (answer, expected) in [
            (json!({"arrivesInMinutes": 20}), vec![2, 0]),
            (
                json!({"ok": true, "status": "on its way", "eta": {"text": "in 15 min, or 20"}}),
                vec![1, 5],
            ),
            (json!({"price": -12.5}), vec![1, 2]),
            (
                json!({"id": "99887766554433"}),
                vec![9, 9, 8, 8, 7, 7, 6, 6],
            ),
            (json!({"done": true}), vec![]),
        ] {
            assert_eq!(digits(&answer, 8), expected, "{answer}");
        }
    }
}
