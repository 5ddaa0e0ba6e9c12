//! Telephony bridges and their tokens. A token is shown once; only its hash is kept.

use dikala_entities::{AuditAction, BRIDGE_TOKEN_SCHEME, BridgeId, Millis, bridge};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel, QueryOrder, QuerySelect,
    Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminError, TransactionScope, name};
use crate::audit::{AuditChange, ChangeOrigin};

/// A bridge in the operators' lists.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BridgeView {
    pub id: BridgeId,
    pub name: String,
    pub created_at: Millis,
    pub last_seen_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
}

/// A new bridge with its token, which is shown only here.
// Not `Debug`: it holds a credential in the clear.
#[derive(Clone, Serialize)]
pub struct BridgeWithToken {
    pub token: String,
    #[serde(flatten)]
    pub view: BridgeView,
}

impl From<bridge::Model> for BridgeView {
    fn from(row: bridge::Model) -> Self {
        Self {
            id: row.id,
            name: row.name,
            created_at: row.created_at,
            last_seen_at: row.last_seen_at,
            revoked_at: row.revoked_at,
        }
    }
}

/// Creates a bridge.
pub async fn create(
    work: impl Into<TransactionScope<'_>>,
    bridge_name: &str,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<BridgeWithToken, AdminError> {
    let token = BRIDGE_TOKEN_SCHEME.generate();
    let row = bridge::Model {
        id: BridgeId::new(now),
        name: name("name", bridge_name)?,
        hash: token.hash(),
        created_at: now,
        last_seen_at: None,
        node: None,
        last_frame_at: None,
        connected_at: None,
        revoked_at: None,
    };
    let txn = work.into().begin().await?;
    bridge::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(&*txn)
        .await?;
    let change = AuditChange::new(AuditAction::BridgeCreate, row.id).with(&row.name);
    by.write(&*txn, None, change, now).await?;
    txn.commit().await?;
    Ok(BridgeWithToken {
        token: token.expose().to_owned(),
        view: row.into(),
    })
}

/// All bridges, oldest first.
pub fn every() -> Select<bridge::Entity> {
    bridge::Entity::find().order_by_asc(bridge::Column::Id)
}

/// Revokes a bridge's token; idempotent. Its open sockets are closed within seconds.
pub async fn revoke(
    work: impl Into<TransactionScope<'_>>,
    id: BridgeId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<BridgeView, AdminError> {
    let txn = work.into().begin().await?;
    let found = bridge::Entity::find_by_id(id)
        .lock_exclusive()
        .one(&*txn)
        .await?;
    let mut bridge = found.ok_or_else(|| AdminError::not_found("bridge", id))?;
    if bridge.revoked_at.is_none() {
        let mut row = bridge.clone().into_active_model();
        row.revoked_at = Set(Some(now));
        row.update(&*txn).await?;
        bridge.revoked_at = Some(now);
        let change = AuditChange::new(AuditAction::BridgeRevoke, id).with(&bridge.name);
        by.write(&*txn, None, change, now).await?;
    }
    txn.commit().await?;
    Ok(bridge.into())
}
