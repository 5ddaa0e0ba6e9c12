//! The errors of operations and requests. Their codes are in [`codes`].

mod codes;

use std::fmt::Write as _;

use actix_web::{
    HttpResponse, ResponseError,
    http::{
        StatusCode,
        header::{ALLOW, CACHE_CONTROL, RETRY_AFTER, WWW_AUTHENTICATE},
    },
};
use dikala_actors::calls::versions::OPENING_MS;
use dikala_entities::store::{is_transient, lost_a_race, took_too_long};
use sea_orm::DbErr;
use serde::Serialize;

pub use self::codes::Code;
use super::{body::BODY_BYTES_MAX, field::FieldError, request_id::current_request_id};

/// `Retry-After` of a 503, in seconds.
const UNAVAILABLE_RETRY_SECONDS: u64 = 2;
/// `Retry-After` when too many recoveries run, in seconds.
const RECOVERIES_RETRY_SECONDS: u64 = 5;
/// `Retry-After` when too many streams are open, in seconds. A stream whose client has left is noticed within this
/// time.
const STREAMS_RETRY_SECONDS: u64 = 20;
/// `Retry-After` when the operator has to configure something first, in seconds.
const CONFIGURED_RETRY_SECONDS: u64 = 3_600;
/// `Retry-After` when too many large answers are unread, in seconds.
const UNREAD_RETRY_SECONDS: u64 = 5;
/// `Retry-After` when earlier versions take too much room, in seconds. Versions are kept at least this long.
const VERSIONS_RETRY_SECONDS: i64 = OPENING_MS / 1_000;
/// Fields named in one answer, at most.
const FIELDS_MAX: usize = 100;

/// The kind of object that was not found. Another tenant's object counts as not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Agent,
    PhoneNumber,
    Call,
    SipMessages,
    Webhook,
    Function,
    Delivery,
    Chat,
    Widget,
    Route,
    Tenant,
    Key,
    User,
    Bridge,
    Transaction,
    Actor,
}

/// The reason why a request failed, in the tenant's terms.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// The parser's message.
    #[error("The body cannot be read as JSON: {0}.")]
    InvalidJson(String),
    #[error("Every request needs an API key in the header x-api-key.")]
    MissingApiKey,
    #[error("The header x-api-key does not hold a valid API key.")]
    InvalidApiKey,
    #[error("This API key was revoked; use another one.")]
    RevokedApiKey,
    #[error("The operators' listener asks for `Authorization: Bearer` and one of its tokens.")]
    MissingOperatorToken,
    #[error("The header Authorization does not hold one of the operators' tokens.")]
    InvalidOperatorToken,
    #[error("This account is suspended; ask the operator of the service.")]
    TenantSuspended,
    #[error(
        "Without operator.token this listener answers requests to localhost or 127.0.0.1 only, and from no other page."
    )]
    ForeignHost,
    #[error("operator.read_token only reads; this takes operator.token.")]
    ReadOnlyToken,
    #[error("You may look at this, but not change it.")]
    ViewOnly,
    #[error("{}", Self::missing_code(*.0).meaning())]
    NotFound(Missing),
    /// The allowed methods, as in the header `Allow`.
    #[error("This path takes {allow} only.")]
    MethodNotAllowed { allow: String },
    #[error("The body did not arrive in time; send it faster or make it smaller.")]
    RequestTimeout,
    /// The function's name.
    #[error("This agent has a function named \"{0}\" already.")]
    FunctionExists(String),
    /// The limit.
    #[error("An account can have at most {0} webhooks; delete one first.")]
    WebhookLimitReached(usize),
    /// The limit.
    #[error("An account can have at most {0} widgets; delete one first.")]
    WidgetLimitReached(usize),
    /// Somebody saved it after the form was opened. Only pages find this out.
    #[error("This was changed in the meantime; look at it again.")]
    ChangedMeanwhile,
    #[error("The call is over.")]
    CallNotActive,
    #[error("The message before is still being answered; wait for that.")]
    ChatAnswering,
    /// The limit.
    #[error("A chat can have at most {0} messages, and not endlessly long ones; begin a new one.")]
    ChatFull(i64),
    #[error("No language model is configured; the operator can set telephony.pipeline.llm.")]
    NoTextModel,
    #[error("The call is still running; end it, then it can be erased.")]
    CallStillRunning,
    #[error("The call of this delivery was erased; there is nothing left to send.")]
    DeliveryErased,
    #[error("The first request with this Idempotency-Key is still running; ask again in a moment.")]
    IdempotencyInProgress,
    /// The phone number.
    #[error("{0} belongs to a tenant already; move it with its tenantId.")]
    PhoneNumberExists(String),
    #[error("Somebody has that address already; give another one.")]
    UserExists,
    #[error("The last owner stays; make somebody else an owner first.")]
    LastOwner,
    #[error(
        "The reference was used for another booking of this tenant; give each booking a reference of its own."
    )]
    ReferenceConflict,
    /// The available minutes.
    #[error(
        "The tenant has only {0} minutes available; those that running calls hold cannot be taken."
    )]
    InsufficientMinutes(i64),
    #[error("The ledger is being verified already; wait for that.")]
    VerificationRunning,
    #[error("The body must have at most {} bytes.", BODY_BYTES_MAX)]
    BodyTooLarge,
    /// The accepted media types.
    #[error("The body must be {0}.")]
    UnsupportedMediaType(&'static str),
    #[error("{}", summary(.0))]
    Validation(Vec<FieldError>),
    #[error("This Idempotency-Key was used for another request; use a new key for each operation.")]
    IdempotencyKeyReused,
    #[error(
        "The request with this Idempotency-Key was carried out, and its large answer is no longer kept; read what it made, and use a \
         new key to do it again."
    )]
    IdempotencyAnswerGone,
    /// Seconds until the next request is accepted.
    #[error("Too many requests; come back in {retry_after_seconds} s.")]
    RateLimited { retry_after_seconds: i64 },
    /// The limit.
    #[error("{0} recoveries of this webhook are under way already; ask again when one is done.")]
    TooManyRecoveries(u64),
    /// The limit, and the seconds until the oldest one is removed.
    #[error(
        "{0} chats were begun within an hour; come back in {1} s, when the oldest of them is removed."
    )]
    TooManyChats(u64, i64),
    /// The limit.
    #[error("{0} streams of events are open already; close one, or come back in a moment.")]
    TooManyStreams(usize),
    #[error(
        "Large answers are on their way already and not read; read those first, or ask for less with limit and offset."
    )]
    TooMuchUnread,
    #[error(
        "A file is being written for the account already, or for many others; take this one when that is done."
    )]
    ExportRunning,
    /// The limit, in bytes.
    #[error(
        "What is kept of earlier versions of the account's agents would weigh more than {0} bytes of JSON; change agents less often, \
         or delete one that is not needed."
    )]
    TooManyVersions(i64),
    /// A stored secret that no configured key opens.
    #[error("{0}")]
    Unreadable(String),
    #[error("Something went wrong on our side; the requestId helps us to find it.")]
    Internal,
    #[error("The service cannot answer right now; try again in a moment.")]
    Unavailable,
    /// The database did not answer a commit.
    #[error(
        "The database did not answer, and whether this was done is not known; send it again with the same Idempotency-Key or \
         reference, or look first whether it is there."
    )]
    OutcomeUnknown,
    /// The database rolled the transaction back after a conflict. Nothing was changed, and the request may be
    /// [repeated](super::again).
    #[error("Others change the same just now; try again in a moment.")]
    RolledBack,
    #[error(
        "This takes too long to read and was broken off; ask for less, with a narrower time, fewer filters or a smaller page."
    )]
    TookTooLong,
}

impl ApiError {
    /// The code. The match is exhaustive, so a new error needs a code to compile.
    pub const fn code(&self) -> Code {
        match self {
            Self::InvalidJson(_) => Code::InvalidJson,
            Self::MissingApiKey => Code::MissingApiKey,
            Self::InvalidApiKey => Code::InvalidApiKey,
            Self::RevokedApiKey => Code::RevokedApiKey,
            Self::MissingOperatorToken => Code::MissingOperatorToken,
            Self::InvalidOperatorToken => Code::InvalidOperatorToken,
            Self::TenantSuspended => Code::TenantSuspended,
            Self::ForeignHost => Code::ForeignHost,
            Self::ReadOnlyToken | Self::ViewOnly => Code::ReadOnlyToken,
            Self::NotFound(missing) => Self::missing_code(*missing),
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
            Self::RequestTimeout => Code::RequestTimeout,
            Self::FunctionExists(_) => Code::FunctionExists,
            Self::WebhookLimitReached(_) => Code::WebhookLimitReached,
            Self::WidgetLimitReached(_) => Code::WidgetLimitReached,
            Self::CallNotActive | Self::CallStillRunning | Self::DeliveryErased => {
                Code::CallNotActive
            }
            Self::ChatAnswering => Code::ChatAnswering,
            Self::ChatFull(_) => Code::ChatFull,
            Self::NoTextModel => Code::NoTextModel,
            Self::IdempotencyInProgress => Code::IdempotencyInProgress,
            Self::PhoneNumberExists(_) => Code::PhoneNumberExists,
            Self::UserExists => Code::UserExists,
            Self::ReferenceConflict => Code::ReferenceConflict,
            Self::InsufficientMinutes(_) => Code::InsufficientMinutes,
            Self::VerificationRunning => Code::VerificationRunning,
            Self::BodyTooLarge => Code::BodyTooLarge,
            Self::UnsupportedMediaType(_) => Code::UnsupportedMediaType,
            Self::Validation(_) | Self::LastOwner | Self::ChangedMeanwhile => {
                Code::ValidationFailed
            }
            Self::IdempotencyKeyReused | Self::IdempotencyAnswerGone => Code::IdempotencyKeyReused,
            Self::RateLimited { .. }
            | Self::TooManyRecoveries(_)
            | Self::TooManyStreams(_)
            | Self::TooManyChats(..)
            | Self::TooMuchUnread
            | Self::ExportRunning
            | Self::TooManyVersions(_) => Code::RateLimited,
            Self::Internal | Self::Unreadable(_) => Code::InternalError,
            Self::Unavailable | Self::OutcomeUnknown | Self::RolledBack | Self::TookTooLong => {
                Code::Unavailable
            }
        }
    }

    const fn missing_code(missing: Missing) -> Code {
        match missing {
            Missing::Agent => Code::AgentNotFound,
            Missing::PhoneNumber => Code::PhoneNumberNotFound,
            Missing::Call => Code::CallNotFound,
            Missing::SipMessages => Code::SipMessagesNotFound,
            Missing::Webhook => Code::WebhookNotFound,
            Missing::Function => Code::FunctionNotFound,
            Missing::Delivery => Code::DeliveryNotFound,
            Missing::Chat => Code::ChatNotFound,
            Missing::Widget => Code::WidgetNotFound,
            Missing::Route => Code::RouteNotFound,
            Missing::Tenant => Code::TenantNotFound,
            Missing::Key => Code::KeyNotFound,
            Missing::User => Code::UserNotFound,
            Missing::Bridge => Code::BridgeNotFound,
            Missing::Transaction => Code::TransactionNotFound,
            Missing::Actor => Code::ActorNotFound,
        }
    }

    /// One wrong field.
    pub fn field(error: FieldError) -> Self {
        Self::Validation(vec![error])
    }

    /// The error for a library's error, of which only the status is known.
    pub fn from_status(status: StatusCode, allow: Option<String>) -> Self {
        match status.as_u16() {
            404 => Self::NotFound(Missing::Route),
            405 => Self::MethodNotAllowed {
                allow: allow.unwrap_or_default(),
            },
            408 => Self::RequestTimeout,
            413 => Self::BodyTooLarge,
            415 => Self::UnsupportedMediaType("application/json"),
            400..=499 => Self::InvalidJson("the request is malformed".to_owned()),
            503 => Self::Unavailable,
            _ => Self::Internal,
        }
    }

    fn body(&self) -> ErrorBody<'_> {
        let fields = match self {
            Self::Validation(fields) => Some(&fields[..fields.len().min(FIELDS_MAX)]),
            _ => None,
        };
        ErrorBody {
            error: ErrorContent {
                code: self.code().as_str(),
                message: self.to_string(),
                request_id: current_request_id(),
                fields,
            },
        }
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorContent<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorContent<'a> {
    code: &'static str,
    message: String,
    request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<&'a [FieldError]>,
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.code().status()).expect("the table holds HTTP statuses")
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        response.insert_header((CACHE_CONTROL, "no-store"));
        match self {
            Self::MissingOperatorToken | Self::InvalidOperatorToken => {
                response.insert_header((WWW_AUTHENTICATE, "Bearer"));
            }
            Self::MethodNotAllowed { allow } => {
                response.insert_header((ALLOW, allow.as_str()));
            }
            Self::RateLimited {
                retry_after_seconds,
            }
            | Self::TooManyChats(_, retry_after_seconds) => {
                response.insert_header((RETRY_AFTER, retry_after_seconds.to_string()));
            }
            Self::TooManyRecoveries(_) => {
                response.insert_header((RETRY_AFTER, RECOVERIES_RETRY_SECONDS));
            }
            Self::TooMuchUnread | Self::ExportRunning => {
                response.insert_header((RETRY_AFTER, UNREAD_RETRY_SECONDS));
            }
            Self::TooManyVersions(_) => {
                response.insert_header((RETRY_AFTER, VERSIONS_RETRY_SECONDS.to_string()));
            }
            Self::NoTextModel => {
                response.insert_header((RETRY_AFTER, CONFIGURED_RETRY_SECONDS));
            }
            Self::TooManyStreams(_) => {
                response.insert_header((RETRY_AFTER, STREAMS_RETRY_SECONDS));
            }
            Self::Unavailable | Self::OutcomeUnknown | Self::RolledBack | Self::TookTooLong => {
                response.insert_header((RETRY_AFTER, UNAVAILABLE_RETRY_SECONDS));
            }
            // The rest of the body is not read.
            Self::RequestTimeout => {
                response.force_close();
            }
            _ => {}
        }
        response.json(self.body())
    }
}

/// Writes "2 fields are invalid: name, voiceId."
fn summary(fields: &[FieldError]) -> String {
    const NAMED: usize = 10;
    let mut text = match fields.len() {
        1 => "1 field is invalid: ".to_owned(),
        n => format!("{n} fields are invalid: "),
    };
    let names: Vec<&str> = fields
        .iter()
        .take(NAMED)
        .map(|f| f.field.as_str())
        .collect();
    text.push_str(&names.join(", "));
    if fields.len() > NAMED {
        let _ = write!(text, " and {} more", fields.len() - NAMED);
    }
    text.push('.');
    text
}

impl ApiError {
    /// The error of a commit. If the database is unavailable, the outcome is unknown.
    pub fn of_commit(error: DbErr) -> Self {
        match Self::from(error) {
            Self::Unavailable => Self::OutcomeUnknown,
            other => other,
        }
    }
}

/// An unavailable database is 503; any other database error is an internal error.
impl From<DbErr> for ApiError {
    fn from(error: DbErr) -> Self {
        if took_too_long(&error) {
            tracing::warn!(%error, "cancelled a statement that took too long; the request gets 503");
            Self::TookTooLong
        } else if lost_a_race(&error) {
            tracing::info!(%error, "the database rolled back a transaction because of a concurrent one");
            Self::RolledBack
        } else if is_transient(&error) {
            tracing::warn!(%error, "the database is unavailable; the request gets 503");
            Self::Unavailable
        } else {
            tracing::error!(%error, "a statement failed; the request gets 500");
            Self::Internal
        }
    }
}

#[cfg(test)]
mod tests;
