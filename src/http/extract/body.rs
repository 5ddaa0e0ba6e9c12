//! A received body that is not parsed yet. The handler parses it after its look-ups, so that an unknown object is 404
//! whatever the body says.

use std::future::{Ready, ready};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload, http::header::CONTENT_TYPE};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{FormFields, KeyOrder, json};
use crate::http::{body::RawBody, error::ApiError};

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// The body of a request, or the fields of a form or a command, which no media type and no syntax apply to.
#[derive(Clone, Debug)]
pub enum RequestBody {
    Sent {
        bytes: Bytes,
        media_type: Option<String>,
    },
    Fields(Value),
}

impl RequestBody {
    /// The fields that a page or a command makes.
    pub const fn of(fields: Value) -> Self {
        Self::Fields(fields)
    }

    /// The same with one more field, as JSON text whose names keep their order.
    pub fn with_json(fields: &Map<String, Value>, name: &str, json: &str) -> Self {
        let pair = |(name, value): (&String, &Value)| format!("{}:{value}", json!(name));
        let others = fields.iter().filter(|(other, _)| *other != name).map(pair);
        let pairs: Vec<String> = others.chain([format!("{}:{json}", json!(name))]).collect();
        Self::Sent {
            bytes: format!("{{{}}}", pairs.join(",")).into(),
            media_type: Some(JSON.to_owned()),
        }
    }

    /// The order of the names in the body. Fields that a page or a command makes have none.
    pub fn key_order(&self) -> KeyOrder {
        match self {
            Self::Sent { bytes, .. } => KeyOrder::of(bytes),
            Self::Fields(_) => KeyOrder::default(),
        }
    }

    /// The fields of a required body.
    pub fn form(&self) -> Result<FormFields, ApiError> {
        self.fields(&[JSON], JSON)
    }

    /// The fields of a JSON merge patch (RFC 7396).
    pub fn patch(&self) -> Result<FormFields, ApiError> {
        let wanted = "application/json or application/merge-patch+json";
        self.fields(&[JSON, MERGE_PATCH], wanted)
    }

    /// The fields of an optional body.
    pub fn optional_form(&self) -> Result<FormFields, ApiError> {
        match self {
            Self::Sent { bytes, .. } if bytes.is_empty() => Ok(FormFields::default()),
            _ => self.form(),
        }
    }

    fn fields(&self, allowed: &[&str], wanted: &'static str) -> Result<FormFields, ApiError> {
        match self {
            Self::Fields(fields) => {
                json::check_depth(fields)?;
                FormFields::from_body(fields.clone())
            }
            Self::Sent { bytes, media_type }
                if media_type
                    .as_deref()
                    .is_some_and(|sent| allowed.contains(&sent)) =>
            {
                FormFields::from_body(json::parse(bytes)?)
            }
            Self::Sent { .. } => Err(ApiError::UnsupportedMediaType(wanted)),
        }
    }
}

impl Default for RequestBody {
    fn default() -> Self {
        Self::Fields(json!({}))
    }
}

impl FromRequest for RequestBody {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let bytes = req
            .extensions()
            .get::<RawBody>()
            .cloned()
            .unwrap_or_default()
            .0;
        ready(Ok(Self::Sent {
            bytes,
            media_type: media_type(req),
        }))
    }
}

/// The only declared media type, lower-case and without parameters. None if a charset other than UTF-8 is declared.
fn media_type(req: &HttpRequest) -> Option<String> {
    let mut headers = req.headers().get_all(CONTENT_TYPE);
    let declared = headers.next()?.to_str().ok()?;
    if headers.next().is_some() {
        return None;
    }
    let mut parts = declared.split(';').map(str::trim);
    let essence = parts.next()?.to_ascii_lowercase();
    let other_charset = parts.any(|parameter| {
        parameter.split_once('=').is_some_and(|(name, value)| {
            name.trim().eq_ignore_ascii_case("charset")
                && !matches!(
                    value.trim().trim_matches('"').to_ascii_lowercase().as_str(),
                    "utf-8" | "utf8" | "us-ascii"
                )
        })
    });
    (!other_charset).then_some(essence)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("application/json", true)]
    #[case("Application/JSON; charset=UTF-8", true)]
    #[case("application/json;charset=\"utf-8\"", true)]
    #[case("application/json; charset=utf-16", false)]
    #[case("application/merge-patch+json", false)]
    #[case("text/json", false)]
    #[case("", false)]
    fn content_types(#[case] declared: &str, #[case] taken: bool) {
        let req = TestRequest::default()
            .insert_header((CONTENT_TYPE, declared))
            .to_http_request();
        let body = RequestBody::Sent {
            bytes: Bytes::from_static(b"{}"),
            media_type: media_type(&req),
        };
        assert_eq!(body.form().is_ok(), taken, "{declared}");
    }

    #[test]
    fn a_patch_takes_two_types_and_an_optional_body_none() {
        let body = |media: &str, bytes| RequestBody::Sent {
            bytes: Bytes::from_static(bytes),
            media_type: Some(media.into()),
        };
        assert!(body(MERGE_PATCH, b"{}").patch().is_ok());
        assert!(body(JSON, b"{}").patch().is_ok());
        assert!(body("text/plain", b"").optional_form().is_ok());
        assert!(body("text/plain", b"{}").optional_form().is_err());
    }
}
