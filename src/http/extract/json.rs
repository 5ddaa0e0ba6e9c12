//! Parses JSON with limits that the parser lacks.

use dikala_entities::foreign_json;
use serde_json::{Map, Value};

use crate::http::error::ApiError;
use crate::http::field::{FieldCode, FieldError, shown};

/// The deepest nesting of arrays and objects.
pub const DEPTH_MAX: usize = 64;
/// Texts with faults reported for one body, at most.
const FAULTS_MAX: usize = 100;

/// Parses a body. Errors: syntax, encoding, depth.
pub fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| ApiError::InvalidJson("it is not UTF-8".to_owned()))?;
    if text.trim().is_empty() {
        return Err(ApiError::InvalidJson("it is empty".to_owned()));
    }
    if depth(text) > DEPTH_MAX {
        return Err(too_deep());
    }
    // The parser's message holds line and column, and none of the content.
    foreign_json::value(bytes).map_err(|error| ApiError::InvalidJson(error.to_string()))
}

fn too_deep() -> ApiError {
    ApiError::InvalidJson(format!("it is nested deeper than {DEPTH_MAX} levels"))
}

/// Fails if a value that was not parsed here is nested deeper than a body may be.
pub fn check_depth(value: &Value) -> Result<(), ApiError> {
    fn levels(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or(0),
            _ => 0,
        }
    }
    if levels(value) <= DEPTH_MAX {
        Ok(())
    } else {
        Err(too_deep())
    }
}

/// The nesting depth of arrays and objects. Exact for valid JSON, an upper bound otherwise.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The faults of all texts that contain U+0000, which PostgreSQL cannot store.
pub fn nul_faults(fields: &Map<String, Value>) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (name, value) in fields {
        let path = shown(name);
        if name.contains('\0') {
            report(&path, &mut faults);
        }
        visit(&path, value, &mut faults);
    }
    faults
}

fn visit(path: &str, value: &Value, faults: &mut Vec<FieldError>) {
    match value {
        Value::String(text) if text.contains('\0') => report(path, faults),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                visit(&format!("{path}[{i}]"), item, faults);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let inner = format!("{path}.{}", shown(name));
                if name.contains('\0') {
                    report(&inner, faults);
                }
                visit(&inner, value, faults);
            }
        }
        _ => {}
    }
}

fn report(path: &str, faults: &mut Vec<FieldError>) {
    if faults.len() < FAULTS_MAX {
        let predicate = "must not contain the character U+0000";
        let fault = FieldError::new(path, FieldCode::InvalidFormat, predicate);
        faults.push(fault.in_words("fault-nul"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_cannot_be_parsed() {
        let nested = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n)).into_bytes();
        let cases: [&[u8]; 8] = [
            b"",
            b" ",
            b"{",
            b"{\"a\":\xff}",
            b"nope",
            b"{'a':1}",
            b"{\"a\":1}x",
            &nested(65),
        ];
        for wrong in cases {
            assert!(
                matches!(parse(wrong), Err(ApiError::InvalidJson(_))),
                "{wrong:?}"
            );
        }
        assert!(parse(&nested(64)).is_ok());
        assert!(parse(&nested(100_000)).is_err());
    }

    #[test]
    fn brackets_in_strings_do_not_nest() {
        assert_eq!(depth(r#"{"a":"[[[\"[["}"#), 1);
        assert_eq!(depth(r#"{"a\\":[{}]}"#), 3);
    }
}
