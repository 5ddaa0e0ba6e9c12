//! Reads the fields of an object one by one and collects all faults.
//!
//! Not `serde`, for two reasons. A merge patch (RFC 7396) distinguishes an absent field from `null`. And `serde`
//! stops at the first fault, while an answer here names all faults, and for an unknown field the closest known name.

use serde::Serialize;
use serde_json::{Map, Value};

use super::json;
use crate::http::error::ApiError;
use crate::http::field::{
    FieldCode, FieldError, ValueFault, ValueFaults, quoted, shown, suggestion,
};

/// The result of parsing one value.
pub type ParseResult<T> = Result<T, ValueFaults>;

/// The fields of a body or a query string, not parsed yet.
#[derive(Clone, Debug, Default)]
pub struct FormFields {
    fields: Map<String, Value>,
    /// Faults that do not depend on the meaning of the fields.
    faults: Vec<FieldError>,
    /// True if a blank field counts as absent.
    skips_empty: bool,
}

impl FormFields {
    /// From a JSON body, which must be an object.
    pub fn from_body(value: Value) -> Result<Self, ApiError> {
        let Value::Object(fields) = value else {
            let predicate = "must be a JSON object";
            return Err(ApiError::field(FieldError::new(
                "body",
                FieldCode::InvalidType,
                predicate,
            )));
        };
        let faults = json::nul_faults(&fields);
        Ok(Self {
            fields,
            faults,
            skips_empty: false,
        })
    }

    pub(super) fn from_parts(fields: Map<String, Value>, faults: Vec<FieldError>) -> Self {
        Self {
            fields,
            faults,
            skips_empty: false,
        }
    }

    /// Makes blank fields count as absent.
    pub(super) fn skipping_empty(self) -> Self {
        Self {
            skips_empty: true,
            ..self
        }
    }

    /// A field's text as sent, if it is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// Parses the fields with `read`. Fields in `read_only` are accepted and ignored, so that a client can send back
    /// what it read. `read` returns `None` only after it reported a fault.
    pub fn read<T>(
        &self,
        read_only: &[&'static str],
        read: impl FnOnce(&mut FormReader<'_>) -> Option<T>,
    ) -> Result<T, ApiError> {
        let mut reader = FormReader {
            form: self,
            known: Vec::new(),
            errors: Vec::new(),
        };
        let value = read(&mut reader);
        let errors = reader.finish(read_only);
        match value {
            Some(value) if errors.is_empty() => Ok(value),
            _ => Err(ApiError::Validation(errors)),
        }
    }

    /// Refuses any field.
    pub fn expect_empty(&self) -> Result<(), ApiError> {
        self.read(&[], |_| Some(()))
    }

    fn faults_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a FieldError> {
        self.faults.iter().filter(move |fault| {
            fault
                .field
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }
}

/// The state while one form is read.
#[derive(Debug)]
pub struct FormReader<'f> {
    form: &'f FormFields,
    known: Vec<&'static str>,
    errors: Vec<FieldError>,
}

enum SentField<'f> {
    Absent,
    Null,
    Value(&'f Value),
    /// Already reported.
    Faulty,
}

impl<'f> FormReader<'f> {
    fn sent(&mut self, name: &'static str) -> SentField<'f> {
        self.known.push(name);
        let form = self.form;
        let before = self.errors.len();
        self.errors.extend(form.faults_of(name).cloned());
        if self.errors.len() > before {
            return SentField::Faulty;
        }
        match form.fields.get(name) {
            None => SentField::Absent,
            Some(Value::String(text)) if form.skips_empty && text.trim().is_empty() => {
                SentField::Absent
            }
            Some(Value::Null) => SentField::Null,
            Some(value) => SentField::Value(value),
        }
    }

    fn parse<T>(
        &mut self,
        name: &'static str,
        value: &Value,
        parse: impl FnOnce(&Value) -> ParseResult<T>,
    ) -> Option<T> {
        match parse(value) {
            Ok(value) => Some(value),
            Err(faults) => {
                let errors = faults.into_iter().map(|fault| fault.in_field(name));
                self.errors.extend(errors);
                None
            }
        }
    }

    /// A required field: its parsed value, or `current` if it is absent and an object is changed.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        current: Option<T>,
        parse: impl FnOnce(&Value) -> ParseResult<T>,
    ) -> Option<T> {
        match (self.sent(name), current) {
            (SentField::Value(value), _) => self.parse(name, value, parse),
            (SentField::Absent, Some(current)) => Some(current),
            (SentField::Absent | SentField::Null, _) => {
                self.fault(name, ValueFault::new(FieldCode::Required, "is required"));
                None
            }
            (SentField::Faulty, _) => None,
        }
    }

    /// An optional field: absent keeps `current`, `null` removes the value.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        current: Option<T>,
        parse: impl FnOnce(&Value) -> ParseResult<T>,
    ) -> Option<T> {
        match self.sent(name) {
            SentField::Value(value) => self.parse(name, value, parse),
            SentField::Absent => current,
            SentField::Null | SentField::Faulty => None,
        }
    }

    /// A field with a default: absent keeps `current` or takes the default, `null` resets to the default.
    pub fn defaulted<T>(
        &mut self,
        name: &'static str,
        current: Option<T>,
        default: T,
        parse: impl FnOnce(&Value) -> ParseResult<T>,
    ) -> T {
        match self.sent(name) {
            SentField::Value(value) => self.parse(name, value, parse).unwrap_or(default),
            SentField::Absent => current.unwrap_or(default),
            SentField::Null | SentField::Faulty => default,
        }
    }

    /// A field that is an object with fields of its own, which `read` merges into `current`. `null` resets all of them.
    pub fn merged<T: Clone>(
        &mut self,
        name: &'static str,
        current: T,
        default: T,
        read: impl FnOnce(&mut FormReader<'_>, T) -> T,
    ) -> T {
        let fields = match self.sent(name) {
            SentField::Value(Value::Object(fields)) => fields.clone(),
            SentField::Value(_) => {
                self.fault(
                    name,
                    ValueFault::new(FieldCode::InvalidType, "must be an object"),
                );
                return current;
            }
            SentField::Absent => return current,
            SentField::Null | SentField::Faulty => return default,
        };
        let inner = FormFields::from_parts(fields, Vec::new());
        let merged = inner.read(&[], |form| Some(read(form, current.clone())));
        merged.unwrap_or_else(|error| {
            if let ApiError::Validation(errors) = error {
                let errors = errors.into_iter().map(|error| error.inside(name));
                self.errors.extend(errors);
            }
            current
        })
    }

    /// A required field that may be `null`.
    pub fn nullable<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&Value) -> ParseResult<T>,
    ) -> Option<Option<T>> {
        match self.sent(name) {
            SentField::Value(value) => self.parse(name, value, parse).map(Some),
            SentField::Null => Some(None),
            SentField::Absent => {
                self.fault(name, ValueFault::new(FieldCode::Required, "is required"));
                None
            }
            SentField::Faulty => None,
        }
    }

    /// A field that this request cannot change: accepted with its current value, refused with any other.
    pub fn unchanged(&mut self, name: &'static str, current: &impl Serialize, predicate: &str) {
        let current = serde_json::to_value(current).unwrap_or_default();
        let is_another = match self.sent(name) {
            SentField::Absent | SentField::Faulty => false,
            SentField::Null => !current.is_null(),
            SentField::Value(sent) => *sent != current,
        };
        if is_another {
            self.fault(name, ValueFault::new(FieldCode::NotAllowed, predicate));
        }
    }

    /// Reports a fault that depends on several fields or on the store.
    pub fn fault(&mut self, name: &str, fault: ValueFault) {
        self.errors.push(fault.in_field(name));
    }

    fn finish(mut self, read_only: &[&'static str]) -> Vec<FieldError> {
        let unknown: Vec<&String> = self
            .form
            .fields
            .keys()
            .filter(|key| !self.known.contains(&key.as_str()) && !read_only.contains(&key.as_str()))
            .collect();
        for key in unknown {
            let hint = match suggestion(key, self.known.iter().copied()) {
                Some(name) => format!("; did you mean \"{name}\"?"),
                None if self.known.is_empty() => "; none is taken here.".to_owned(),
                None => format!("; known are: {}.", self.known.join(", ")),
            };
            let sentence = format!("{} is not a known field{hint}", quoted(key));
            self.errors.push(
                ValueFault::sentence(FieldCode::UnknownField, sentence).in_field(&shown(key)),
            );
        }
        // Faults inside unknown or read-only fields are reported too.
        for fault in &self.form.faults {
            let seen = |error: &FieldError| fault.field.starts_with(&error.field);
            if !self.errors.iter().any(seen) {
                self.errors.push(fault.clone());
            }
        }
        self.errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::extract::{BlankRule, integer, text};

    type Sample = (String, Option<String>, i64);

    fn read(
        value: Value,
        current: Option<(&str, i64)>,
    ) -> Result<Sample, Vec<(String, &'static str)>> {
        let form = FormFields::from_body(value).expect("an object");
        form.read(&["id"], |form| {
            let name = form.required(
                "name",
                current.map(|c| c.0.to_owned()),
                text(1, 5, BlankRule::Trim),
            );
            let note = form.optional("note", None, text(1, 5, BlankRule::Keep));
            let size = form.defaulted("size", current.map(|c| c.1), 10, integer(1, 240));
            Some((name?, note, size))
        })
        .map_err(|error| match error {
            ApiError::Validation(fields) => fields
                .into_iter()
                .map(|f| (f.field, f.code.as_str()))
                .collect(),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn all_that_is_wrong_comes_at_once() {
        let wrong = read(json!({"nmae": "x", "note": 5, "size": 0}), None).unwrap_err();
        let wrong: Vec<(&str, &str)> = wrong.iter().map(|(f, c)| (f.as_str(), *c)).collect();
        assert_eq!(
            wrong,
            [
                ("name", "required"),
                ("note", "invalid_type"),
                ("size", "too_small"),
                ("nmae", "unknown_field")
            ]
        );
    }

    #[test]
    fn merge_patch_keeps_resets_and_replaces() {
        assert_eq!(read(json!({}), Some(("a", 7))), Ok(("a".into(), None, 7)));
        assert_eq!(
            read(json!({"size": null, "name": "b"}), Some(("a", 7))),
            Ok(("b".into(), None, 10))
        );
        assert_eq!(
            read(json!({"name": null}), Some(("a", 7))).unwrap_err()[0].1,
            "required"
        );
        assert_eq!(
            read(json!({"id": "agent_1"}), Some(("a", 7))),
            Ok(("a".into(), None, 7))
        );
    }

    #[test]
    fn nul_is_refused_wherever_it_stands() {
        assert_eq!(
            read(json!({"name": "a\u{0}"}), None).unwrap_err(),
            [("name".to_owned(), "invalid_format")]
        );
        assert_eq!(
            read(json!({"name": "a", "id": ["\u{0}"]}), None).unwrap_err(),
            [("id[0]".to_owned(), "invalid_format")]
        );
        assert_eq!(
            read(json!({"name": "a", "x\u{0}": 1}), None)
                .unwrap_err()
                .len(),
            1
        );
    }

    #[test]
    fn the_message_says_what_was_probably_meant() {
        let form = FormFields::from_body(json!({"nmae": "x"})).expect("an object");
        let error = form.read(&[], |form| {
            form.optional("name", None, text(1, 5, BlankRule::Trim))
                .or(Some(String::new()))
        });
        let Err(ApiError::Validation(fields)) = error else {
            panic!("taken")
        };
        assert_eq!(
            fields[0].message,
            "\"nmae\" is not a known field; did you mean \"name\"?"
        );
    }

    #[test]
    fn an_object_inside_is_merged_and_its_faults_have_a_path() {
        let merge = |value: Value| {
            let form = FormFields::from_body(json!({"inner": value})).expect("an object");
            form.read(&[], |form| {
                let read = |form: &mut FormReader<'_>, (a, b): (i64, i64)| {
                    let a = form.defaulted("a", Some(a), 1, integer(1, 9));
                    (a, form.defaulted("b", Some(b), 2, integer(1, 9)))
                };
                Some(form.merged("inner", (5, 6), (1, 2), read))
            })
        };
        for (sent, expected) in [
            (json!({}), (5, 6)),
            (json!({"a": 7}), (7, 6)),
            (json!({"b": null}), (5, 2)),
            (json!(null), (1, 2)),
        ] {
            assert_eq!(merge(sent), Ok(expected));
        }
        for (sent, expected) in [
            (json!([]), "inner must be an object."),
            (json!({"a": 0}), "inner.a must be at least 1."),
            (
                json!({"colour": 0}),
                "\"colour\" is not a known field; known are: a, b.",
            ),
        ] {
            let Err(ApiError::Validation(errors)) = merge(sent) else {
                panic!("taken");
            };
            let told: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
            assert_eq!(told, [expected]);
            assert!(errors[0].field.starts_with("inner"), "{}", errors[0].field);
        }
    }

    #[test]
    fn an_array_is_no_object() {
        let Err(ApiError::Validation(fields)) = FormFields::from_body(json!([])) else {
            panic!("taken")
        };
        assert_eq!(
            (fields[0].field.as_str(), fields[0].code),
            ("body", FieldCode::InvalidType)
        );
    }
}
