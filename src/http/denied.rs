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
}

impl HttpRefusal {
    /// A missing or invalid token.
    pub fn unauthorized(code: &'static str, message: &'static str) -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            code,
            message,
        }
    }

    /// Something is missing here, or for now.
    pub fn unavailable(code: &'static str, message: &'static str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code,
            message,
        }
    }

    /// A malformed request.
    pub fn bad_request(code: &'static str, message: &'static str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            code,
            message,
        }
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
        response.json(json!({
            "error": {"code": self.code, "message": self.message, "requestId": current_request_id()},
        }))
    }
}
