//! Schemas of values. They are inlined where they are used, so that client generators make no type for an id; it is a
//! text with a pattern.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type, schema::AdditionalProperties};

/// A text with a visible character. Slightly wider than the check, which knows all of Unicode.
const VISIBLE_PATTERN: &str = concat!(
    r"^[^\x00]*[^\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e",
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb][^\x00]*$",
);
/// A text without U+0000, which PostgreSQL cannot store.
const ANY_PATTERN: &str = r"^[^\x00]*$";

/// A text of `min` to `max` characters; with `visible`, one of them must be visible.
pub fn text(min: usize, max: usize, visible: bool) -> ObjectBuilder {
    let pattern = if visible {
        VISIBLE_PATTERN
    } else {
        ANY_PATTERN
    };
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(min))
        .max_length(Some(max))
        .pattern(Some(pattern))
}

pub fn integer(min: i64, max: i64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(min))
        .maximum(Some(max))
}

/// One of these words.
pub fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
}

/// An object with any fields. Explicit, because client generators take an object schema without it to have no fields.
pub fn any_object() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
}

pub(super) fn to_value(schema: &RefOr<Schema>) -> Value {
    serde_json::to_value(schema).expect("a schema is plain data")
}

/// True for a value, false for an object with known fields, which is a named schema.
pub(super) fn is_of_value(schema: &Value) -> bool {
    schema.get("properties").is_none() || schema["additionalProperties"] == true
}

/// Inlines the values that the schema refers to.
pub(super) fn with_values(schema: Value, values: &BTreeMap<String, Value>) -> Value {
    match schema {
        Value::Object(mut fields) => {
            if let Some(value) = named(&fields, values) {
                fields.remove("$ref");
                return beside(value, fields);
            }
            if let Some(value) = or_null(&fields, values) {
                fields.remove("oneOf");
                return beside(value, fields);
            }
            let inside = |(name, field)| (name, with_values(field, values));
            Value::Object(fields.into_iter().map(inside).collect())
        }
        Value::Array(items) => {
            let items = items.into_iter().map(|item| with_values(item, values));
            Value::Array(items.collect())
        }
        other => other,
    }
}

/// The referenced value.
fn named(fields: &Map<String, Value>, values: &BTreeMap<String, Value>) -> Option<Value> {
    let name = fields.get("$ref")?.as_str()?.rsplit('/').next()?;
    values.get(name).cloned()
}

/// A nullable value, which the library writes as `oneOf` of the value and null.
fn or_null(fields: &Map<String, Value>, values: &BTreeMap<String, Value>) -> Option<Value> {
    let [Value::Object(reference), null] = fields.get("oneOf")?.as_array()?.as_slice() else {
        return None;
    };
    let value = named(reference, values).filter(|_| null["type"] == "null")?;
    let mut beside_it = reference.clone();
    beside_it.remove("$ref");
    Some(nullable(beside(value, beside_it)))
}

/// The schema, or null.
pub(super) fn nullable(mut schema: Value) -> Value {
    if let Some(Value::String(kind)) = schema.get("type") {
        schema["type"] = json!([kind, "null"]);
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    if let Some(Value::Array(any)) = schema.get_mut("anyOf") {
        any.push(json!({"type": "null"}));
    }
    schema
}

/// Adds the fields of the referring schema, which override those of the value.
fn beside(mut value: Value, said: Map<String, Value>) -> Value {
    for (name, field) in said {
        value[name] = field;
    }
    value
}
