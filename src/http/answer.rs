//! A successful answer: status, JSON body, and the location of a created object.

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

/// A handler's answer, kept in parts so that it can be stored for a repeat of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAnswer {
    pub status: StatusCode,
    /// JSON, or server-sent events in a repeated answer; empty for 204.
    pub body: String,
    /// The path of what was created.
    pub location: Option<String>,
    /// The answer shows a secret, so it is encrypted when it is stored for a repeat.
    pub is_secret: bool,
    /// The call that the answer is about. The stored answer is erased with the call.
    pub about: Option<CallId>,
}

/// A response extension: the call that the response is about.
#[derive(Clone, Copy, Debug)]
pub struct AboutCall(pub CallId);

impl ApiAnswer {
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

    /// Marks the answer as being about that call.
    pub fn about(self, call: CallId) -> Self {
        Self {
            about: Some(call),
            ..self
        }
    }

    pub fn ok(content: &impl Serialize) -> Self {
        Self::new(StatusCode::OK, content)
    }

    /// 201, with the location.
    pub fn created_at(path: String, content: &impl Serialize) -> Self {
        Self {
            location: Some(path),
            ..Self::new(StatusCode::CREATED, content)
        }
    }

    /// 202: accepted, not finished.
    pub fn accepted(content: &impl Serialize) -> Self {
        Self::new(StatusCode::ACCEPTED, content)
    }

    pub const fn no_content() -> Self {
        Self {
            status: StatusCode::NO_CONTENT,
            body: String::new(),
            location: None,
            is_secret: false,
            about: None,
        }
    }

    pub fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status);
        if let Some(location) = self.location {
            response.insert_header((LOCATION, location));
        }
        let mut response = if self.status == StatusCode::NO_CONTENT {
            response.finish()
        } else {
            let kind = match self.body.starts_with("event: ") {
                true => "text/event-stream",
                false => "application/json",
            };
            response.insert_header((CONTENT_TYPE, kind)).body(self.body)
        };
        if let Some(call) = self.about {
            response.extensions_mut().insert(AboutCall(call));
        }
        response
    }
}

impl Responder for ApiAnswer {
    type Body = BoxBody;

    fn respond_to(self, _: &HttpRequest) -> HttpResponse {
        self.into_response()
    }
}

/// The output of an operation, which a route answers. Anything that can be serialised is 200.
pub trait Answer {
    fn answer(&self) -> ApiAnswer;
}

impl<T: Serialize> Answer for T {
    fn answer(&self) -> ApiAnswer {
        ApiAnswer::ok(self)
    }
}

impl Answer for ApiAnswer {
    fn answer(&self) -> ApiAnswer {
        self.clone()
    }
}

/// A created object: 201 with its location.
#[derive(Clone, Debug)]
pub struct Created<T> {
    pub value: T,
    path: String,
    is_secret: bool,
}

impl<T> Created<T> {
    pub const fn at(path: String, value: T) -> Self {
        Self {
            value,
            path,
            is_secret: false,
        }
    }

    /// Marks the object as holding a secret.
    pub fn secret(self) -> Self {
        Self {
            is_secret: true,
            ..self
        }
    }
}

impl<T: Serialize> Answer for Created<T> {
    fn answer(&self) -> ApiAnswer {
        ApiAnswer {
            is_secret: self.is_secret,
            ..ApiAnswer::created_at(self.path.clone(), &self.value)
        }
    }
}

/// A change that goes on after the answer: 202.
#[derive(Clone, Copy, Debug)]
pub struct Accepted<T>(pub T);

impl<T: Serialize> Answer for Accepted<T> {
    fn answer(&self) -> ApiAnswer {
        ApiAnswer::accepted(&self.0)
    }
}

/// An output that is about a call.
#[derive(Clone, Copy, Debug)]
pub struct OfCall<T>(pub CallId, pub T);

impl<T: Answer> Answer for OfCall<T> {
    fn answer(&self) -> ApiAnswer {
        self.1.answer().about(self.0)
    }
}

/// A removed object, which is not shown: 204.
#[derive(Clone, Copy, Debug)]
pub struct NoContent<T>(pub T);

impl<T> Answer for NoContent<T> {
    fn answer(&self) -> ApiAnswer {
        ApiAnswer::no_content()
    }
}
