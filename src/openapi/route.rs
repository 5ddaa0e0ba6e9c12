//! A route: its parameters, answers and errors. The tenants' routes are in [`ROUTES`](crate::routes::ROUTES), the
//! operators' in [`operator_api`](crate::operator_api).

use actix_web::http::Method;
use dikala_entities::AuditAction;
use serde_json::Value;
use utoipa::ToSchema;

use super::SchemaSet;
use crate::http::error::Code;

/// The kind of request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    Required,
    Optional,
    /// A JSON merge patch.
    Patch,
}

/// Adds the schema of a request body and returns a reference to it.
type InputSchema = fn(&mut SchemaSet, &ApiRoute, BodyKind) -> Value;

/// Mounts a handler.
pub type Handler = fn(actix_web::Route) -> actix_web::Route;

#[derive(Clone, Copy, Debug)]
pub struct ApiRoute {
    pub method: &'static Method,
    /// Below the API's base path.
    pub path: &'static str,
    /// The operation id.
    pub id: &'static str,
    pub summary: &'static str,
    /// The status of success.
    pub status: u16,
    /// True if the answer has a `Location`.
    pub(super) located: bool,
    /// True if the answer can also be 200, for a repeat.
    pub or_ok: bool,
    pub query: &'static [&'static str],
    /// Headers that this route reads, besides the common ones.
    pub headers: &'static [&'static str],
    /// Set if the answer is a stream of server-sent events.
    pub streams: Option<&'static StreamedEvents>,
    pub(super) input: Option<(BodyKind, InputSchema)>,
    /// Fields of the body that are accepted and ignored.
    pub(super) ignored: &'static [&'static str],
    /// Fields of the body that are accepted with their current value only.
    pub(super) kept: &'static [&'static str],
    pub(super) answer: Option<fn(&mut SchemaSet) -> Value>,
    /// Errors of this route, besides the common ones.
    pub(super) errors: &'static [Code],
    /// The audit's action, if the route changes something of the tenant's.
    pub audit: Option<AuditAction>,
    pub handler: Handler,
}

/// The description of a stream of server-sent events.
#[derive(Debug)]
pub struct StreamedEvents {
    /// The data of an event, in words.
    pub about: &'static str,
    /// An event as it is sent.
    pub example: &'static str,
}

pub const fn get(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> ApiRoute {
    ApiRoute::new(&Method::GET, path, id, handler, summary)
}

pub const fn post(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> ApiRoute {
    ApiRoute::new(&Method::POST, path, id, handler, summary)
}

pub const fn patch(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> ApiRoute {
    ApiRoute::new(&Method::PATCH, path, id, handler, summary)
}

pub const fn delete(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> ApiRoute {
    ApiRoute::new(&Method::DELETE, path, id, handler, summary)
}

impl ApiRoute {
    const fn new(
        method: &'static Method,
        path: &'static str,
        id: &'static str,
        handler: Handler,
        summary: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            id,
            summary,
            status: 204,
            located: false,
            or_ok: false,
            query: &[],
            headers: &[],
            streams: None,
            input: None,
            ignored: &[],
            kept: &[],
            answer: None,
            errors: &[],
            audit: None,
            handler,
        }
    }

    pub const fn ok<T: ToSchema>(self) -> Self {
        self.answers::<T>(200)
    }

    /// Answers 201 with a `Location`.
    pub const fn created<T: ToSchema>(mut self) -> Self {
        self.located = true;
        self.answers::<T>(201)
    }

    /// Answers 200 to a repeat.
    pub const fn or_ok(mut self) -> Self {
        self.or_ok = true;
        self
    }

    pub const fn accepted<T: ToSchema>(self) -> Self {
        self.answers::<T>(202)
    }

    pub const fn answers<T: ToSchema>(mut self, status: u16) -> Self {
        self.status = status;
        self.answer = Some(SchemaSet::answer::<T>);
        self
    }

    pub const fn takes<T: ToSchema>(self) -> Self {
        self.input::<T>(BodyKind::Required)
    }

    pub const fn may_take<T: ToSchema>(self) -> Self {
        self.input::<T>(BodyKind::Optional)
    }

    pub const fn patches<T: ToSchema>(self) -> Self {
        self.input::<T>(BodyKind::Patch)
    }

    pub const fn input<T: ToSchema>(mut self, input: BodyKind) -> Self {
        self.input = Some((input, SchemaSet::input::<T>));
        self
    }

    /// Accepts and ignores these fields in the body.
    pub const fn ignores(mut self, fields: &'static [&'static str]) -> Self {
        self.ignored = fields;
        self
    }

    /// Accepts these fields in the body with their current value only.
    pub const fn keeps(mut self, fields: &'static [&'static str]) -> Self {
        self.kept = fields;
        self
    }

    pub const fn query(mut self, parameters: &'static [&'static str]) -> Self {
        self.query = parameters;
        self
    }

    pub const fn headers(mut self, names: &'static [&'static str]) -> Self {
        self.headers = names;
        self
    }

    pub const fn streams(mut self, events: &'static StreamedEvents) -> Self {
        self.status = 200;
        self.streams = Some(events);
        self
    }

    pub const fn fails(mut self, errors: &'static [Code]) -> Self {
        self.errors = errors;
        self
    }

    /// Writes this action to the audit.
    pub const fn leaves(mut self, action: AuditAction) -> Self {
        self.audit = Some(action);
        self
    }

    /// The resource of the route.
    pub fn tag(&self) -> &'static str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// True for a POST, which accepts an `Idempotency-Key`.
    pub fn is_post(&self) -> bool {
        *self.method == Method::POST
    }
}
