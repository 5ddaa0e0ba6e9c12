//! Refusals outside the tenants' API. The body has the same form, but the API's codes are a closed list.

use actix_web::{HttpResponse, ResponseError, http::StatusCode};
use serde_json::json;

use super::request_id::current_request_id;

/// The refused request of a bridge or an operator.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct HttpRefusal {
    status: StatusCode,
    code: &'static str,
    message: &'static str,
    /// Seconds for the header `Retry-After`.
    retry_after: Option<i64>,
}

impl HttpRefusal {
    /// A refusal with any status.
    pub const fn new(status: StatusCode, code: &'static str, message: &'static str) -> Self {
        Self {
            status,
            code,
            message,
            retry_after: None,
        }
    }

    /// The request may succeed after this time.
    pub const fn after(self, seconds: i64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// A missing or invalid token.
    pub const fn unauthorized(code: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, message)
    }

    /// Something is missing here, or for now.
    pub const fn unavailable(code: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    /// A malformed request.
    pub const fn bad_request(code: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }
}

impl ResponseError for HttpRefusal {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if self.status == StatusCode::UNAUTHORIZED {
            response.insert_header(("WWW-Authenticate", "Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            response.insert_header(("Retry-After", seconds.to_string()));
        }
        response.json(json!({
            "error": {"code": self.code, "message": self.message, "requestId": current_request_id()},
        }))
    }
}
