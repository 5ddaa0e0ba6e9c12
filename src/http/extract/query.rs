//! Query strings, as strict as bodies: unknown and repeated parameters are refused.

use std::future::{Ready, ready};

use actix_web::{FromRequest, HttpRequest, dev::Payload};
use serde_json::{Map, Value};

use super::FormFields;
use crate::http::error::ApiError;
use crate::http::field::{FieldCode, FieldError};

/// The parameters of the query string; every value is a string.
#[derive(Clone, Debug)]
pub struct Query(pub FormFields);

impl Query {
    /// Parses a query string. Faults are reported when the form is read.
    pub fn parse(query: &str) -> Self {
        let mut fields = Map::new();
        let mut faults: Vec<FieldError> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let mut fault = |code, predicate| {
                let known = faults.iter().any(|f| f.field == name);
                if !known {
                    faults.push(FieldError::new(name.clone().into_owned(), code, predicate));
                }
            };
            if value.contains(['\0', '\u{fffd}']) {
                fault(FieldCode::InvalidFormat, "must be UTF-8 without U+0000");
            }
            if fields.contains_key(name.as_ref()) {
                fault(FieldCode::Duplicate, "is there twice");
            }
            fields.insert(name.into_owned(), Value::String(value.into_owned()));
        }
        Self(FormFields::from_parts(fields, faults))
    }
}

/// The same for operators' pages, where an empty parameter counts as absent: HTML forms send empty fields.
#[derive(Clone, Debug)]
pub struct OperatorQuery(pub FormFields);

impl FromRequest for OperatorQuery {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let Query(form) = Query::parse(req.query_string());
        ready(Ok(Self(form.skipping_empty())))
    }
}

impl FromRequest for Query {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self::parse(req.query_string())))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::http::extract::digits;

    #[rstest]
    #[case("", None)]
    #[case("limit=5", None)]
    #[case("limit=5&limit=5", Some(("limit", "duplicate")))]
    #[case("limit=%00", Some(("limit", "invalid_format")))]
    #[case("limit=%ff", Some(("limit", "invalid_format")))]
    #[case("limit=", Some(("limit", "invalid_type")))]
    #[case("limt=5", Some(("limt", "unknown_field")))]
    #[case("=", Some(("", "unknown_field")))]
    fn parameters(#[case] query: &str, #[case] wrong: Option<(&str, &str)>) {
        let read = Query::parse(query).0.read(&[], |form| {
            Some(form.defaulted("limit", None, 50, digits(1, 100)))
        });
        let found = match &read {
            Err(ApiError::Validation(fields)) => {
                Some((fields[0].field.as_str(), fields[0].code.as_str()))
            }
            _ => None,
        };
        assert_eq!(found, wrong);
    }
}
