//! Bridge tokens: `Authorization: Bearer dkb_…`.

use actix_web::{
    Error, HttpMessage,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{self, HeaderMap},
    middleware::Next,
    web,
};
use dikala_entities::{BRIDGE_TOKEN_SCHEME, BridgeId, Credential, Store, bridge};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::BridgeContext;
use crate::http::{
    context::HttpContext, denied::HttpRefusal, error::ApiError, gate::UnknownClient,
};

/// Lets in a request that shows a valid token, before its body is read. Handlers find the [`BridgeId`] in the
/// request's data. A missing, malformed, unknown or revoked token is answered 401.
pub async fn require_token(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match authenticate(&req).await {
        Ok(bridge) => {
            req.extensions_mut().insert(bridge);
            Ok(next.call(req).await?.map_into_boxed_body())
        }
        Err(error) => Ok(req.error_response(error.into_error())),
    }
}

async fn authenticate(req: &ServiceRequest) -> Result<BridgeId, TokenError> {
    let context = req.app_data::<web::Data<BridgeContext>>();
    let http = req.app_data::<web::Data<HttpContext>>();
    let (Some(context), Some(http)) = (context, http) else {
        return Err(ApiError::Internal.into());
    };
    let stranger = UnknownClient::of(req.request(), &http.settings, http.clock.now());
    let strangers = &http.gate.strangers;
    let found = match presented_token(req.headers()) {
        Some(token) => {
            let bridge = find(&context.runtime.store, &token);
            let is_refusal = |error: &TokenError| matches!(error, TokenError::Token(_));
            strangers
                .look_up(&stranger, token.hash(), bridge, is_refusal)
                .await
        }
        None => Err(strangers.refused(&stranger, unknown().into())),
    };
    if let Err(error) = &found {
        tracing::info!(address = %stranger, %error, "refused a bridge's token");
    }
    found
}

/// The reason why a bridge's request is refused.
#[derive(Debug, thiserror::Error)]
enum TokenError {
    #[error(transparent)]
    Token(#[from] HttpRefusal),
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl TokenError {
    fn into_error(self) -> Error {
        match self {
            Self::Token(refusal) => refusal.into(),
            Self::Api(error) => error.into(),
        }
    }
}

fn presented_token(headers: &HeaderMap) -> Option<Credential> {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .and_then(|(_, token)| BRIDGE_TOKEN_SCHEME.parse(token.trim()))
}

async fn find(store: &Store, token: &Credential) -> Result<BridgeId, TokenError> {
    let bridge = bridge::Entity::find()
        .filter(bridge::Column::Hash.eq(token.hash()))
        .filter(bridge::Column::RevokedAt.is_null())
        .one(store.critical_reader())
        .await
        .map_err(ApiError::from)?;
    Ok(bridge.ok_or_else(unknown)?.id)
}

fn unknown() -> HttpRefusal {
    let message = "A bridge sends its token as `Authorization: Bearer dkb_…`; this one is missing, unknown or revoked.";
    HttpRefusal::unauthorized("invalid_bridge_token", message)
}
