//! Parameter schemas that are safe to compile and to run, whoever wrote them.
//!
//! A schema comes from a tenant and runs on a thread that all tenants share. So patterns run on an engine of linear time,
//! references stay inside the schema, and what they unfold to is bounded: a schema of a few hundred bytes can otherwise ask
//! for 2^60 checks, or for a recursion without end.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// The most nodes that a schema may unfold to when its references are followed.
const UNFOLDED_MAX: u64 = 2_000;
/// The nodes that a pattern counts as: it is compiled, kept, and run over every character.
const PATTERN_WEIGHT: u64 = 80;
/// The largest compiled pattern, and what its search may remember, in bytes: three characters of a pattern can otherwise ask for
/// megabytes.
const PATTERN_BYTES_MAX: usize = 128 * 1024;
/// The largest arguments that are checked, in bytes of JSON.
pub const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;
/// The most characters of an explanation that come from the schema or from the arguments.
const DETAIL_CHARS_MAX: usize = 200;

/// A schema that is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("references must point into the schema itself (\"#/…\")")]
    ForeignReference,
    #[error("references must not lead back to where they come from")]
    Recursive,
    #[error(
        "is too large once its references are followed; each pattern counts as {PATTERN_WEIGHT} of at most {UNFOLDED_MAX} nodes"
    )]
    TooLarge,
    #[error("is not a valid JSON Schema: {0}")]
    Invalid(String),
}

/// Compiles a schema, or says why it cannot be used.
pub fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    let mut sizes = HashMap::new();
    let size = unfolded(schema, schema, &mut sizes)?;
    if size > UNFOLDED_MAX {
        return Err(SchemaError::TooLarge);
    }
    jsonschema::options()
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(PATTERN_BYTES_MAX)
                .dfa_size_limit(PATTERN_BYTES_MAX),
        )
        .build(schema)
        .map_err(|error| SchemaError::Invalid(shortened(&error.to_string())))
}

/// Whether the arguments fit; else one sentence that says where they do not.
pub(super) fn check(validator: &Validator, arguments: &Value) -> Result<(), String> {
    if arguments.to_string().len() > ARGUMENTS_BYTES_MAX {
        return Err(format!(
            "The arguments have more than {ARGUMENTS_BYTES_MAX} bytes."
        ));
    }
    let Some(error) = validator.iter_errors(arguments).next() else {
        return Ok(());
    };
    let place = error.instance_path().to_string();
    let place = if place.is_empty() {
        String::new()
    } else {
        format!(" at {}", shortened(&place))
    };
    let detail = shortened(&error.to_string());
    Err(format!(
        "The arguments do not fit the function's parameters{place}: {detail}."
    ))
}

fn shortened(text: &str) -> String {
    let text = text.trim_end_matches('.');
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How many nodes the value holds when references are replaced by what they point at. `None` in `sizes` marks a reference
/// that is being followed.
fn unfolded<'a>(
    root: &'a Value,
    node: &'a Value,
    sizes: &mut HashMap<&'a str, Option<u64>>,
) -> Result<u64, SchemaError> {
    let mut size = 1_u64;
    match node {
        Value::Array(items) => {
            for item in items {
                size = size.saturating_add(unfolded(root, item, sizes)?);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                let more = match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => followed(root, target, sizes)?,
                    ("$dynamicRef" | "$recursiveRef" | "$id", Value::String(_)) => {
                        return Err(SchemaError::ForeignReference);
                    }
                    ("pattern", Value::String(_)) => PATTERN_WEIGHT,
                    ("patternProperties", Value::Object(patterns)) => {
                        let patterns = u64::try_from(patterns.len()).unwrap_or(u64::MAX);
                        let inside = unfolded(root, value, sizes)?;
                        inside.saturating_add(patterns.saturating_mul(PATTERN_WEIGHT))
                    }
                    _ => unfolded(root, value, sizes)?,
                };
                size = size.saturating_add(more);
            }
        }
        _ => {}
    }
    Ok(size)
}

fn followed<'a>(
    root: &'a Value,
    target: &'a str,
    sizes: &mut HashMap<&'a str, Option<u64>>,
) -> Result<u64, SchemaError> {
    match sizes.get(target) {
        Some(Some(size)) => return Ok(*size),
        Some(None) => return Err(SchemaError::Recursive),
        None => {}
    }
    let pointer = target
        .strip_prefix('#')
        .ok_or(SchemaError::ForeignReference)?;
    let node = root.pointer(pointer).ok_or(SchemaError::ForeignReference)?;
    sizes.insert(target, None);
    let size = unfolded(root, node, sizes)?;
    sizes.insert(target, Some(size));
    Ok(size)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compiled(schema: &Value) -> Result<(), SchemaError> {
        compile(schema).map(drop)
    }

    #[test]
    fn what_would_run_without_end_is_refused() {
        assert_eq!(
            compiled(&json!({"type": "object", "$ref": "#"})),
            Err(SchemaError::Recursive)
        );
        let there_and_back = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        assert_eq!(compiled(&there_and_back), Err(SchemaError::Recursive));
        let mut defs = serde_json::Map::new();
        for n in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            defs.insert(format!("d{n}"), json!({"allOf": [next.clone(), next]}));
        }
        defs.insert("d40".to_owned(), json!({"type": "object"}));
        let doubling = json!({"type": "object", "$ref": "#/$defs/d0", "$defs": defs});
        assert_eq!(compiled(&doubling), Err(SchemaError::TooLarge));
    }

    #[test]
    fn references_stay_inside() {
        for target in [
            "http://example.com/s",
            "file:///etc/passwd",
            "other.json",
            "#/nowhere",
        ] {
            let schema = json!({"type": "object", "properties": {"a": {"$ref": target}}});
            assert_eq!(
                compiled(&schema),
                Err(SchemaError::ForeignReference),
                "{target}"
            );
        }
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "integer"}}});
        let validator = compile(&schema).expect("a schema");
        assert!(check(&validator, &json!({"a": 1})).is_ok());
        assert!(check(&validator, &json!({"a": "x"})).is_err());
    }

    #[test]
    fn a_pattern_takes_linear_time() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
        let validator = compile(&schema).expect("a schema");
        let text = "a".repeat(50_000) + "!";
        assert!(check(&validator, &json!({"a": text})).is_err());
    }

    #[test]
    fn patterns_are_bounded_in_number_and_size() {
        let with = |count: usize, pattern: &str| {
            let property = |n: usize| {
                (
                    format!("p{n}"),
                    json!({"type": "string", "pattern": pattern}),
                )
            };
            let properties: serde_json::Map<String, Value> = (0..count).map(property).collect();
            json!({"type": "object", "properties": properties})
        };
        assert_eq!(compiled(&with(20, "^[A-Z]{2}-[0-9]{1,6}$")), Ok(()));
        assert_eq!(compiled(&with(30, "a")), Err(SchemaError::TooLarge));
        // Three megabytes and more, once compiled.
        for huge in [r"\p{L}{190}", r"(a{500}){500}"] {
            let refused = compiled(&with(1, huge));
            assert!(matches!(refused, Err(SchemaError::Invalid(_))), "{huge}");
        }
        let shared = json!({"$ref": "#/$defs/p"});
        let properties: serde_json::Map<String, Value> =
            (0..60).map(|n| (format!("p{n}"), shared.clone())).collect();
        let referred =
            json!({"type": "object", "properties": properties, "$defs": {"p": {"pattern": "a"}}});
        assert_eq!(compiled(&referred), Err(SchemaError::TooLarge));
        let names = (0..30).map(|n| (format!("^p{n}"), json!({}))).collect();
        let named = json!({"type": "object", "patternProperties": Value::Object(names)});
        assert_eq!(compiled(&named), Err(SchemaError::TooLarge));
    }

    #[test]
    fn the_sentence_says_where_and_is_short() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]});
        let validator = compile(&schema).expect("a schema");
        let sentence =
            check(&validator, &json!({"a": "x".repeat(10_000), "b": 1})).expect_err("does not fit");
        assert!(sentence.contains("/a"), "{sentence}");
        assert!(sentence.len() < 600, "{}", sentence.len());
        let sentence = check(&validator, &json!({})).expect_err("does not fit");
        assert!(sentence.contains("\"b\""), "{sentence}");
    }
}
