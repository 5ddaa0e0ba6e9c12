//! JSON from outside.
//!
//! [`Value`] reads an object whose first name is `$serde_json::private::RawValue` as JSON inside a string. It does so
//! with the feature `raw_value`, which sqlx and this project need. Strings in strings escape the parser's limit of depth, until the stack
//! overflows. So text from outside is read here, where such names are refused; what was read once is safe to store and
//! to read again.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Names that serde_json itself uses begin so.
const RESERVED: &str = "$serde_json::private::";

/// Parses JSON. Errors: syntax, more than 127 levels, a reserved name. They hold none of the content.
pub fn value(text: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(text).map(|ForeignValue(value)| value)
}

/// Parses a JSON object, as [`value`].
pub fn object(text: &[u8]) -> serde_json::Result<Map<String, Value>> {
    match value(text)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(Error::custom("it is not an object")),
    }
}

/// For `deserialize_with`: a field that takes any JSON, or a map or list of such.
pub fn field<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let ForeignValue(value) = ForeignValue::deserialize(from)?;
    serde_json::from_value(value).map_err(Error::custom)
}

struct ForeignValue(Value);

impl<'de> Deserialize<'de> for ForeignValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ValueVisitor).map(Self)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(ForeignValue(item)) = from.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            if name.starts_with(RESERVED) {
                return Err(Error::custom(format_args!(
                    "names that begin with {RESERVED} are reserved"
                )));
            }
            let ForeignValue(field) = from.next_value()?;
            fields.insert(name, field);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// JSON in strings in strings, each with 100 levels of its own.
    fn hidden(strings: usize) -> String {
        let mut text = "1".to_owned();
        for _ in 0..strings {
            let inner = format!("{}{text}{}", "[".repeat(100), "]".repeat(100));
            text = json!({"$serde_json::private::RawValue": inner}).to_string();
        }
        text
    }

    #[test]
    fn json_in_strings_is_not_parsed() {
        // Each level of strings doubles the backslashes, so few levels show it.
        for strings in 1..5 {
            let text = hidden(strings);
            let error = value(text.as_bytes()).expect_err("is refused");
            assert!(error.to_string().contains("reserved"), "{error}");
        }
    }

    #[test]
    fn reserved_names_are_refused_wherever_they_stand() {
        for text in [
            r#"{"$serde_json::private::RawValue":"x"}"#,
            r#"{"a":1,"$serde_json::private::RawValue":"{}"}"#,
            r#"{"\u0024serde_json::private::RawValue":"{}"}"#,
            r#"[[{"a":{"$serde_json::private::Number":"1"}}]]"#,
        ] {
            assert!(value(text.as_bytes()).is_err(), "{text}");
            assert!(object(text.as_bytes()).is_err(), "{text}");
        }
        // In a text it is a text.
        let text = br#"{"a":"$serde_json::private::RawValue"}"#;
        assert!(value(text).is_ok());
    }

    #[test]
    fn depth_is_limited() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(value(nested(127).as_bytes()).is_ok());
        assert!(value(nested(128).as_bytes()).is_err());
        assert!(value(nested(1_000_000).as_bytes()).is_err());
    }

    #[test]
    fn a_field_is_read_by_the_same_rules() {
        #[derive(Deserialize)]
        struct Message {
            #[serde(deserialize_with = "field")]
            args: Map<String, Value>,
        }
        let read = |args: &str| serde_json::from_str::<Message>(&format!("{{\"args\":{args}}}"));
        assert_eq!(read(r#"{"a":[1]}"#).expect("is read").args["a"], json!([1]));
        for wrong in [
            r#"{"$serde_json::private::RawValue":"x"}"#,
            r#"{"a":{"$serde_json::private::RawValue":"x"}}"#,
            "[]",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn everything_else_is_read_as_the_library_does(text in "[\\[\\]{}:,\"a0-9.eE\\-\\\\ tfn]{0,40}") {
            let own = value(text.as_bytes()).ok();
            prop_assert_eq!(own, serde_json::from_str::<Value>(&text).ok());
        }
    }
}
