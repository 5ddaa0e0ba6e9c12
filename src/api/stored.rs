//! What is stored as JSON and shown as it is.

use dikala_entities::described;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::openapi::schema::any_object;

/// An object that is shown as it stands.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

described! { Json: any_object(); }

impl From<Box<RawValue>> for Json {
    fn from(object: Box<RawValue>) -> Self {
        Self(object)
    }
}

impl Json {
    /// An object from the store, or an empty one where it holds none.
    pub fn object(stored: String) -> Self {
        Self(raw(stored, "{}"))
    }
}

/// JSON from the store as it stands, or `otherwise` where it is none.
pub fn raw(json: String, otherwise: &'static str) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_else(|_| {
        RawValue::from_string(otherwise.to_owned()).expect("the fallback is JSON")
    })
}
