//! API keys of tenants. A key is shown once; only its hash is kept.

use dikala_entities::{
    API_KEY_SCHEME, Actor, ApiKeyId, AuditAction, Millis, Store, TenantId, UserId, api_key,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminError, TransactionScope, find_tenant, name, require_tenant};
use crate::audit::{AuditChange, ChangeOrigin};

/// A key in the operators' lists.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Key, example = json!({
    "id": "key_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "production",
    "prefix": "dkl_itGFjPev", "createdAt": "2026-01-15T03:30:00.000Z", "lastUsedAt": null, "revokedAt": null, "madeBy": null
}))]
pub struct KeyView {
    pub id: ApiKeyId,
    pub tenant_id: TenantId,
    pub name: String,
    pub prefix: String,
    pub created_at: Millis,
    pub last_used_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    /// The member that created it; none if an operator did.
    pub made_by: Option<UserId>,
}

/// A new key with its secret, which is shown only here.
// Not `Debug`: it holds a credential in the clear.
#[derive(Clone, Serialize, ToSchema)]
#[schema(example = json!({
    "key": "dkl_itGFjPev5uqCbxkB2DaILNaDNuKIjZ4V0ZmN", "id": "key_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "production", "prefix": "dkl_itGFjPev",
    "createdAt": "2026-01-15T03:30:00.000Z", "lastUsedAt": null, "revokedAt": null, "madeBy": null
}))]
pub struct NewKey {
    pub key: String,
    #[serde(flatten)]
    #[schema(inline)]
    pub view: KeyView,
}

impl From<api_key::Model> for KeyView {
    fn from(row: api_key::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            name: row.name,
            prefix: row.prefix,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            revoked_at: row.revoked_at,
            made_by: row.made_by,
        }
    }
}

/// Creates a key.
pub async fn create(
    work: impl Into<TransactionScope<'_>>,
    tenant: TenantId,
    key_name: &str,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<NewKey, AdminError> {
    let key = API_KEY_SCHEME.generate();
    let row = api_key::Model {
        id: ApiKeyId::new(now),
        tenant_id: tenant,
        name: name("name", key_name)?,
        prefix: key.prefix().to_owned(),
        hash: key.hash(),
        created_at: now,
        last_used_at: None,
        revoked_at: None,
        made_by: match by.actor {
            Actor::User(id) => Some(id),
            _ => None,
        },
    };
    let txn = work.into().begin().await?;
    find_tenant(&*txn, tenant).await?;
    api_key::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(&*txn)
        .await?;
    let change = AuditChange::new(AuditAction::KeyCreate, row.id).with(&row.name);
    by.write(&*txn, tenant, change, now).await?;
    txn.commit().await?;
    Ok(NewKey {
        key: key.expose().to_owned(),
        view: row.into(),
    })
}

/// A tenant's keys, oldest first.
pub fn of(tenant: TenantId) -> Select<api_key::Entity> {
    api_key::Entity::find()
        .filter(api_key::Column::TenantId.eq(tenant))
        .order_by_asc(api_key::Column::Id)
}

/// Lists a tenant's keys, oldest first.
pub async fn list(store: &Store, tenant: TenantId) -> Result<Vec<KeyView>, AdminError> {
    require_tenant(store, tenant).await?;
    let keys = of(tenant).all(store.reader()).await?;
    Ok(keys.into_iter().map(KeyView::from).collect())
}

/// Revokes a key; idempotent.
pub async fn revoke(
    work: impl Into<TransactionScope<'_>>,
    id: ApiKeyId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<KeyView, AdminError> {
    let txn = work.into().begin().await?;
    let found = api_key::Entity::find_by_id(id)
        .lock_exclusive()
        .one(&*txn)
        .await?;
    let mut key = found.ok_or_else(|| AdminError::not_found("key", id))?;
    if key.revoked_at.is_none() {
        let mut row = key.clone().into_active_model();
        row.revoked_at = Set(Some(now));
        row.update(&*txn).await?;
        key.revoked_at = Some(now);
        let change = AuditChange::new(AuditAction::KeyRevoke, id).with(&key.name);
        by.write(&*txn, key.tenant_id, change, now).await?;
    }
    txn.commit().await?;
    Ok(key.into())
}
