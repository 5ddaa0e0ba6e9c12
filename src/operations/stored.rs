//! JSON that is stored as text and shown unchanged.

use dikala_entities::described;
use sea_orm::{ColIdx, QueryResult, TryGetError, TryGetable};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::openapi::schema::any_object;

/// A stored object that is shown unchanged.
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
    /// A stored object, or an empty one if the text is not JSON.
    pub fn object(stored: String) -> Self {
        Self(raw(stored, "{}"))
    }
}

impl TryGetable for Json {
    fn try_get_by<I: ColIdx>(row: &QueryResult, column: I) -> Result<Self, TryGetError> {
        String::try_get_by(row, column).map(Self::object)
    }
}

/// Stored JSON unchanged, or `otherwise` if the text is not JSON.
pub fn raw(json: String, otherwise: &'static str) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_else(|_| {
        RawValue::from_string(otherwise.to_owned()).expect("the fallback is JSON")
    })
}
