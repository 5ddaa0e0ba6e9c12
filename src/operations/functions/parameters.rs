//! A function's `parameters`: an object schema that the AI fills in and every invocation is checked against. Pure.

use dikala_actors::functions::schema::{FaultKind, Schema, SchemaFault};
use dikala_entities::described;
use serde_json::{Map, Value, json};
use utoipa::openapi::{ArrayBuilder, Object, Type};

use crate::{
    http::{
        extract::{ParseResult, not_allowed, object},
        field::{FieldCode, ValueFault, ValueFaults},
    },
    openapi::schema::{any_object, words},
};

/// The largest schema, in bytes of compact JSON.
const BYTES_MAX: usize = 16_384;

/// A schema of parameters. Has no values; only for the OpenAPI description.
#[derive(Clone, Copy, Debug)]
pub enum Parameters {}

described! {
    Parameters: any_object()
        .property("type", words(["object"]))
        .property("properties", any_object().description(Some("Valid JSON Schemas by name.")))
        .property(
            "required",
            ArrayBuilder::new()
                .items(Object::with_type(Type::String))
                .unique_items(true)
                .description(Some("Names of properties.")),
        )
        .required("type")
        .description(Some(format!("A JSON Schema of at most {BYTES_MAX} bytes.")));
}

/// The schema of a function without parameters.
pub fn empty() -> Value {
    json!({"type": "object", "properties": {}, "required": []})
}

/// Checks a schema and fills in `properties` and `required` where they were left out.
pub fn parse(value: &Value) -> ParseResult<Value> {
    let mut sent = object(value).map_err(|faults| -> ValueFaults {
        let told = |fault: ValueFault| fault.in_words("fault-schema-object");
        faults.into_iter().map(told).collect()
    })?;
    if value.to_string().len() > BYTES_MAX {
        let predicate = format!("must have at most {BYTES_MAX} bytes");
        let fault = ValueFault::new(FieldCode::TooLong, predicate);
        let fault = fault.bounded(BYTES_MAX as i64);
        return Err(fault.in_words("fault-too-many-bytes").into());
    }
    let mut faults = Vec::from_iter(kind(&sent));
    if let Err(wrong) = Schema::new(value) {
        // `kind` reports faults of the type in better words.
        let others = wrong.into_iter().filter(|fault| fault.at != ".type");
        faults.extend(others.map(told));
    } else {
        faults.extend(required(&sent));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    sent.entry("properties").or_insert_with(|| json!({}));
    sent.entry("required").or_insert_with(|| json!([]));
    Ok(Value::Object(sent))
}

fn told(fault: SchemaFault) -> ValueFault {
    let (code, sentence) = match fault.kind {
        FaultKind::UnknownKeyword => (FieldCode::UnknownField, "fault-schema-keyword"),
        FaultKind::WrongType => (FieldCode::InvalidType, "fault-schema-type"),
        FaultKind::Invalid => (FieldCode::InvalidFormat, "fault-schema-value"),
        FaultKind::NotAllowed => (FieldCode::NotAllowed, "fault-schema-value"),
        FaultKind::Duplicate => (FieldCode::Duplicate, "fault-twice"),
        FaultKind::TooLarge => (FieldCode::TooLarge, "fault-schema-too-large"),
    };
    let told = ValueFault::new(code, fault.predicate).inside(&fault.at);
    told.in_part(sentence)
}

fn kind(schema: &Map<String, Value>) -> Option<ValueFault> {
    let fault = match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => return None,
        Some(Value::String(kind)) => {
            not_allowed(kind, "the type of parameters", ["object"].into_iter())
                .in_part("fault-schema-value")
        }
        Some(Value::Null) | None => ValueFault::new(FieldCode::Required, "is required"),
        Some(_) => ValueFault::new(FieldCode::InvalidType, "must be the string \"object\"")
            .in_part("fault-schema-type"),
    };
    Some(fault.inside(".type"))
}

/// Every required name must be a property: the AI could never give a mistyped one.
fn required(schema: &Map<String, Value>) -> Vec<ValueFault> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let known = || {
        properties
            .into_iter()
            .flat_map(Map::keys)
            .map(String::as_str)
    };
    let names = schema.get("required").and_then(Value::as_array);
    let unknown = |(index, name): (usize, &Value)| {
        let name = name
            .as_str()
            .filter(|name| !known().any(|known| known == *name))?;
        let fault = not_allowed(
            name,
            "one of the properties",
            Vec::from_iter(known()).into_iter(),
        );
        let fault = fault.in_part("fault-schema-property");
        Some(fault.inside(&format!(".required[{index}]")))
    };
    names
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(unknown)
        .collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn faults(value: &Value) -> Vec<(String, &'static str)> {
        let faults = parse(value).err().unwrap_or_default();
        faults
            .into_iter()
            .map(|f| f.in_field("p"))
            .map(|e| (e.field, e.code.as_str()))
            .collect()
    }

    #[rstest]
    #[case(json!([]), "p", "invalid_type")]
    #[case(json!({}), "p.type", "required")]
    #[case(json!({"type": "array"}), "p.type", "not_allowed")]
    #[case(json!({"type": ["object"]}), "p.type", "invalid_type")]
    #[case(json!({"type": "object", "properties": []}), "p.properties", "invalid_type")]
    #[case(json!({"type": "object", "properties": {"a": {"type": "strin"}}}), "p.properties.a.type", "not_allowed")]
    #[case(json!({"type": "object", "properties": {"a": 5}}), "p.properties.a", "invalid_type")]
    #[case(json!({"type": "object", "properties": {"a": true}}), "p.properties.a", "invalid_type")]
    #[case(json!({"type": "object", "properties": {"a": {}}, "required": "a"}), "p.required", "invalid_type")]
    #[case(json!({"type": "object", "properties": {"a": {}}, "required": ["a", 5]}), "p.required[1]", "invalid_type")]
    #[case(json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}), "p.required[1]", "not_allowed")]
    #[case(json!({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}), "p.required[1]", "duplicate")]
    #[case(json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}}), "p.properties.a.$ref", "invalid_format")]
    #[case(json!({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}), "p.properties.a.$ref", "invalid_format")]
    #[case(json!({"type": "object", "properties": {"a": {"pattern": "("}}}), "p.properties.a.pattern", "invalid_format")]
    #[case(json!({"type": "object", "patternProperties": {"^a": {}}}), "p.patternProperties", "unknown_field")]
    #[case(json!({"type": "object", "properties": {"a": {"exclusiveMinimum": true}}}), "p.properties.a.exclusiveMinimum", "invalid_type")]
    #[case(json!({"type": "object", "description": "x".repeat(17_000)}), "p", "too_long")]
    fn wrong_schemas(#[case] value: Value, #[case] field: &str, #[case] code: &str) {
        assert_eq!(faults(&value), [(field.to_owned(), code)]);
    }

    #[test]
    fn a_schema_is_kept_and_completed() {
        let sent = json!({"type": "object", "properties": {"sku": {"type": "string", "description": "Article"}},
            "required": ["sku"], "additionalProperties": false});
        assert_eq!(parse(&sent), Ok(sent));
        assert_eq!(parse(&json!({"type": "object"})), Ok(empty()));
    }
}
