//! A function's `parameters`: an object schema that the AI fills in and every invocation is checked against. Pure.

use dikala_actors::functions::schema;
use serde_json::{Map, Value, json};

use crate::extract::{Fault, FieldCode, Parsed, list, not_allowed, object};

/// The largest schema, in bytes of JSON without blanks.
const BYTES_MAX: usize = 16_384;

/// The schema of a function without parameters.
pub fn empty() -> Value {
    json!({"type": "object", "properties": {}, "required": []})
}

/// Checks a schema and fills in `properties` and `required` where they were left out.
pub fn parse(value: &Value) -> Parsed<Value> {
    let mut sent = object(value)?;
    if value.to_string().len() > BYTES_MAX {
        let predicate = format!("must have at most {BYTES_MAX} bytes");
        return Err(Fault::new(FieldCode::TooLong, predicate).into());
    }
    let mut faults = Vec::new();
    faults.extend(kind(&sent));
    let names = match properties(&sent) {
        Ok(names) => names,
        Err(wrong) => {
            faults.extend(wrong);
            Vec::new()
        }
    };
    // Without properties every required name would be wrong, which helps nobody.
    if faults.is_empty() {
        faults.extend(required(&sent, &names));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    schema::compile(value)
        .map_err(|error| Fault::new(FieldCode::InvalidFormat, error.to_string()))?;
    if !sent.contains_key("$schema") {
        sent.entry("properties").or_insert_with(|| json!({}));
        sent.entry("required").or_insert_with(|| json!([]));
    }
    Ok(Value::Object(sent))
}

fn kind(schema: &Map<String, Value>) -> Option<Fault> {
    let fault = match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => return None,
        Some(Value::String(kind)) => {
            not_allowed(kind, "the type of parameters", ["object"].into_iter())
        }
        Some(Value::Null) | None => Fault::new(FieldCode::Required, "is required"),
        Some(_) => Fault::new(FieldCode::InvalidType, "must be the string \"object\""),
    };
    Some(fault.inside(".type"))
}

/// The names of the properties.
fn properties(schema: &Map<String, Value>) -> Parsed<Vec<String>> {
    let Some(properties) = schema.get("properties") else {
        return Ok(Vec::new());
    };
    let inside = |faults: Vec<Fault>| {
        faults
            .into_iter()
            .map(|fault| fault.inside(".properties"))
            .collect::<Vec<_>>()
    };
    let properties = object(properties).map_err(inside)?;
    let faults: Vec<Fault> = properties
        .iter()
        .filter(|(_, property)| !jsonschema::draft202012::meta::is_valid(property))
        .map(|(name, _)| {
            Fault::new(FieldCode::InvalidFormat, "must be a valid JSON Schema")
                .inside(&format!(".properties.{name}"))
        })
        .collect();
    if faults.is_empty() {
        Ok(properties.into_iter().map(|(name, _)| name).collect())
    } else {
        Err(faults)
    }
}

fn required(schema: &Map<String, Value>, names: &[String]) -> Vec<Fault> {
    let Some(required) = schema.get("required") else {
        return Vec::new();
    };
    let name = |value: &Value| -> Parsed<String> {
        let name = value
            .as_str()
            .ok_or_else(|| Fault::new(FieldCode::InvalidType, "must be a string"))?;
        if names.iter().any(|known| known == name) {
            Ok(name.to_owned())
        } else {
            Err(not_allowed(
                name,
                "one of the properties",
                names.iter().map(String::as_str),
            )
            .into())
        }
    };
    match list(0, name, String::eq)(required) {
        Ok(_) => Vec::new(),
        Err(faults) => faults
            .into_iter()
            .map(|fault| fault.inside(".required"))
            .collect(),
    }
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
    #[case(json!({"type": "object", "properties": {"a": {"type": "strin"}}}), "p.properties.a", "invalid_format")]
    #[case(json!({"type": "object", "properties": {"a": 5}}), "p.properties.a", "invalid_format")]
    #[case(json!({"type": "object", "properties": {"a": {}}, "required": "a"}), "p.required", "invalid_type")]
    #[case(json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}), "p.required[1]", "not_allowed")]
    #[case(json!({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}), "p.required[1]", "duplicate")]
    #[case(json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}}), "p", "invalid_format")]
    #[case(json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}), "p", "invalid_format")]
    #[case(json!({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}), "p", "invalid_format")]
    #[case(json!({"type": "object", "properties": {"a": {"pattern": "("}}}), "p", "invalid_format")]
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
