//! A successful answer: a status, JSON, and where the new thing is.

use actix_web::{
    HttpRequest, HttpResponse, Responder,
    body::BoxBody,
    http::{
        StatusCode,
        header::{CONTENT_TYPE, LOCATION},
    },
};
use dikala_entities::CallId;
use serde::Serialize;

/// What a handler answers. In parts, so that it can be stored for a repeat of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    /// JSON; empty for 204.
    pub body: String,
    /// The path of what was created.
    pub location: Option<String>,
    /// Shows a secret this once: for a repeat of the request it is stored sealed.
    pub is_secret: bool,
    /// The call that it is about: the stored answer is erased with the call.
    pub about: Option<CallId>,
}

/// The call that a response is about; one of its extensions.
#[derive(Clone, Copy, Debug)]
pub struct About(pub CallId);

impl Answer {
    fn new(status: StatusCode, content: &impl Serialize) -> Self {
        Self {
            status,
            body: serde_json::to_string(content)
                .expect("views have string keys and nothing that fails to serialize"),
            location: None,
            is_secret: false,
            about: None,
        }
    }

    /// The same answer, marked as being about that call.
    pub fn about(self, call: CallId) -> Self {
        Self {
            about: Some(call),
            ..self
        }
    }

    /// 200.
    pub fn ok(content: &impl Serialize) -> Self {
        Self::new(StatusCode::OK, content)
    }

    /// 201, with the path below `/api/v1` at which the new thing is.
    pub fn created(path: &str, content: &impl Serialize) -> Self {
        Self::created_at(format!("{}{path}", super::route::BASE), content)
    }

    /// 201, with the path at which the new thing is.
    pub fn created_at(path: String, content: &impl Serialize) -> Self {
        Self {
            location: Some(path),
            ..Self::new(StatusCode::CREATED, content)
        }
    }

    /// The same answer, which shows a secret this once.
    pub fn secret(self) -> Self {
        Self {
            is_secret: true,
            ..self
        }
    }

    /// 202: under way.
    pub fn accepted(content: &impl Serialize) -> Self {
        Self::new(StatusCode::ACCEPTED, content)
    }

    /// 204.
    pub const fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: String::new(),
            location: None,
            is_secret: false,
            about: None,
        }
    }

    /// The HTTP response.
    pub fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if let Some(location) = self.location {
            response.insert_header((LOCATION, location));
        }
        let mut response = if self.status == StatusCode::NO_CONTENT {
            response.finish()
        } else {
            response
                .insert_header((CONTENT_TYPE, "application/json"))
                .body(self.body)
        };
        if let Some(call) = self.about {
            response.extensions_mut().insert(About(call));
        }
        response
    }
}

impl Responder for Answer {
    type Body = BoxBody;

    fn respond_to(self, _: &HttpRequest) -> HttpResponse {
        self.into_response()
    }
}
