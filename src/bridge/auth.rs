//! Bridge tokens: `Authorization: Bearer dkb_…`.

use actix_web::{Error, HttpRequest, http::header};
use dikala_entities::{BRIDGE_TOKEN_SCHEME, BridgeId, Store, bridge};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use crate::{error::ApiError, refusal::Refusal};

/// Who is speaking. Missing, malformed, unknown or revoked: 401.
pub async fn authenticate(request: &HttpRequest, store: &Store) -> Result<BridgeId, Error> {
    let header = request.headers().get(header::AUTHORIZATION);
    let token = header
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .and_then(|(_, token)| BRIDGE_TOKEN_SCHEME.parse(token.trim()));
    let token = token.ok_or_else(unknown)?;
    let bridge = bridge::Entity::find()
        .filter(bridge::Column::Hash.eq(token.hash()))
        .filter(bridge::Column::RevokedAt.is_null())
        .one(store.core_reader())
        .await
        .map_err(ApiError::from)?;
    bridge
        .map(|bridge| bridge.id)
        .ok_or_else(|| unknown().into())
}

fn unknown() -> Refusal {
    let message = "A bridge sends its token as `Authorization: Bearer dkb_…`; this one is missing, unknown or revoked.";
    Refusal::unauthorized("invalid_bridge_token", message)
}
