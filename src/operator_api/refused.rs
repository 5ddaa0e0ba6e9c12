//! Converts errors of the operators' work to errors of the API.

use serde_json::Value;

use crate::{
    admin::{AdminError, NAME_CHARS_MAX},
    http::{
        error::{ApiError, Missing},
        extract::{ParseResult, line},
        field::{FieldCode, ValueFault},
    },
};

/// Parses a name or label by the rules of the operators' work.
pub(super) fn name_of(value: &Value) -> ParseResult<String> {
    line(NAME_CHARS_MAX)(value)
}

/// The API's error for a refusal.
pub(super) fn refused(error: AdminError) -> ApiError {
    match error {
        AdminError::NotFound { what, .. } => ApiError::NotFound(match what {
            "tenant" => Missing::Tenant,
            "key" => Missing::Key,
            "user" => Missing::User,
            "number" => Missing::PhoneNumber,
            "bridge" => Missing::Bridge,
            "webhook" => Missing::Webhook,
            _ => Missing::Route,
        }),
        AdminError::Database(error) => error.into(),
        AdminError::Taken(sentence) | AdminError::Refused(sentence) => {
            tracing::error!(sentence, "a request was checked and refused all the same");
            ApiError::Internal
        }
    }
}

/// The error for a field whose tenant does not exist.
pub(super) fn no_such_tenant() -> ApiError {
    let fault = ValueFault::new(FieldCode::NotFound, "names no tenant");
    ApiError::field(fault.in_field("tenantId"))
}
