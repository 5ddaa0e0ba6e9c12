//! Ids in paths. A malformed id is answered like an unknown one.

use std::{
    future::{Ready, ready},
    str::FromStr,
};

use actix_web::{FromRequest, HttpRequest, dev::Payload};
use dikala_entities::{
    AgentId, ApiKeyId, BridgeId, CallId, ChatId, DeliveryId, PhoneNumberId, TenantId,
    TransactionId, UserId, WebhookId, WidgetId,
};

use crate::http::error::{ApiError, Missing};

/// The id in the path's `{id}`.
#[derive(Clone, Copy, Debug)]
pub struct Id<T>(pub T);

/// The path's `{name}`, unchecked.
#[derive(Clone, Debug)]
pub struct FunctionName(pub String);

/// The path's `{type}`, unchecked.
#[derive(Clone, Debug)]
pub struct TypeName(pub String);

/// The number in the path's `{version}`.
#[derive(Clone, Copy, Debug)]
pub struct VersionNumber(pub i64);

/// An id in a path, with the object that it stands for.
pub trait PathId: FromStr {
    /// The error for an unknown id.
    const MISSING: Missing;
}

impl PathId for AgentId {
    const MISSING: Missing = Missing::Agent;
}

impl PathId for PhoneNumberId {
    const MISSING: Missing = Missing::PhoneNumber;
}

impl PathId for CallId {
    const MISSING: Missing = Missing::Call;
}

impl PathId for WebhookId {
    const MISSING: Missing = Missing::Webhook;
}

impl PathId for DeliveryId {
    const MISSING: Missing = Missing::Delivery;
}

impl PathId for ChatId {
    const MISSING: Missing = Missing::Chat;
}

impl PathId for WidgetId {
    const MISSING: Missing = Missing::Widget;
}

impl PathId for ApiKeyId {
    const MISSING: Missing = Missing::Key;
}

impl PathId for UserId {
    const MISSING: Missing = Missing::User;
}

impl PathId for TenantId {
    const MISSING: Missing = Missing::Tenant;
}

impl PathId for BridgeId {
    const MISSING: Missing = Missing::Bridge;
}

impl PathId for TransactionId {
    const MISSING: Missing = Missing::Transaction;
}

impl<T: PathId + 'static> FromRequest for Id<T> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let id = req.match_info().get("id").and_then(|id| id.parse().ok());
        ready(id.map(Self).ok_or(ApiError::NotFound(T::MISSING)))
    }
}

impl FromRequest for VersionNumber {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let text = req.match_info().get("version").unwrap_or_default();
        let number = text
            .parse()
            .ok()
            .filter(|number: &i64| number.to_string() == text);
        ready(number.map(Self).ok_or(ApiError::NotFound(Missing::Agent)))
    }
}

impl FromRequest for TypeName {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let name = req.match_info().get("type").unwrap_or_default();
        ready(Ok(Self(name.to_owned())))
    }
}

impl FromRequest for FunctionName {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        let name = req.match_info().get("name").unwrap_or_default();
        ready(Ok(Self(name.to_owned())))
    }
}
