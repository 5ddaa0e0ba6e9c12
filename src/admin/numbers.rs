//! Phone numbers. A `did` belongs to one tenant; only operators create numbers.

use dikala_entities::{
    AgentId, AuditAction, Millis, PhoneNumber, PhoneNumberId, Store, TenantId, phone_number,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminError, TransactionScope, find_tenant, name, require_tenant, unless_taken};
use crate::audit::{AuditChange, ChangeOrigin, switched};

/// A number in the operators' lists.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PhoneNumber, example = json!({
    "id": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "displayNumber": "+6281234567890", "label": "Main line", "isActive": true, "agentId": null, "did": "+6281234567890",
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct NumberView {
    pub id: PhoneNumberId,
    pub tenant_id: TenantId,
    pub display_number: PhoneNumber,
    pub label: String,
    pub is_active: bool,
    pub agent_id: Option<AgentId>,
    /// The same value as `displayNumber`, under its name in requests.
    pub did: PhoneNumber,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl From<phone_number::Model> for NumberView {
    fn from(row: phone_number::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            display_number: row.did.clone(),
            label: row.label,
            is_active: row.is_active,
            agent_id: row.agent_id,
            did: row.did,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// Creates a number.
pub async fn add(
    work: impl Into<TransactionScope<'_>>,
    tenant: TenantId,
    did: &str,
    label: &str,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<NumberView, AdminError> {
    let txn = work.into().begin().await?;
    find_tenant(&*txn, tenant).await?;
    let did: PhoneNumber = did
        .parse()
        .map_err(|error| AdminError::Refused(format!("did {error}")))?;
    let row = phone_number::Model {
        id: PhoneNumberId::new(now),
        tenant_id: tenant,
        did: did.clone(),
        label: name("label", label)?,
        is_active: true,
        agent_id: None,
        created_at: now,
        updated_at: now,
    };
    phone_number::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(&*txn)
        .await
        .map_err(|error| {
            unless_taken(error, || {
                format!(
                    "{} belongs to a tenant already; `dikala number list` shows whose it is",
                    did.as_str()
                )
            })
        })?;
    let change = AuditChange::new(AuditAction::NumberCreate, row.id).with(&row.label);
    by.write(&*txn, tenant, change, now).await?;
    txn.commit().await?;
    Ok(row.into())
}

/// Numbers, oldest first: all, or those of one tenant.
pub fn of(tenant: Option<TenantId>) -> Select<phone_number::Entity> {
    let select = phone_number::Entity::find().order_by_asc(phone_number::Column::Id);
    match tenant {
        Some(tenant) => select.filter(phone_number::Column::TenantId.eq(tenant)),
        None => select,
    }
}

/// Lists numbers: all, or those of one tenant.
pub async fn list(store: &Store, tenant: Option<TenantId>) -> Result<Vec<NumberView>, AdminError> {
    if let Some(tenant) = tenant {
        require_tenant(store, tenant).await?;
    }
    let numbers = of(tenant).all(store.reader()).await?;
    Ok(numbers.into_iter().map(NumberView::from).collect())
}

/// An operator's changes to a number. Absent fields stay as they are.
#[derive(Clone, Debug, Default)]
pub struct NumberChanges {
    /// The tenant that it moves to. The assigned agent is removed, because it belongs to the previous tenant.
    pub tenant: Option<TenantId>,
    pub label: Option<String>,
    pub is_active: Option<bool>,
}

/// Changes a number.
pub async fn update(
    work: impl Into<TransactionScope<'_>>,
    id: PhoneNumberId,
    changes: NumberChanges,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<NumberView, AdminError> {
    let txn = work.into().begin().await?;
    let before = find(&*txn, id).await?;
    let mut row = before.clone();
    if let Some(label) = changes.label {
        row.label = name("label", &label)?;
    }
    if let Some(is_active) = changes.is_active {
        row.is_active = is_active;
    }
    if let Some(tenant) = changes.tenant.filter(|tenant| *tenant != before.tenant_id) {
        find_tenant(&*txn, tenant).await?;
        (row.tenant_id, row.agent_id) = (tenant, None);
    }
    if row == before {
        return Ok(row.into());
    }
    let change = AuditChange::new(AuditAction::NumberUpdate, id).fields(&[
        ("tenantId", row.tenant_id != before.tenant_id),
        ("label", row.label != before.label),
        switched(row.is_active, before.is_active),
    ]);
    row.updated_at = now;
    row.clone()
        .into_active_model()
        .reset_all()
        .update(&*txn)
        .await?;
    if row.tenant_id != before.tenant_id {
        // The previous tenant's audit gets the entry too.
        by.write(&*txn, before.tenant_id, change.clone(), now)
            .await?;
    }
    by.write(&*txn, row.tenant_id, change, now).await?;
    txn.commit().await?;
    Ok(row.into())
}

/// Deletes a number; its calls stay.
pub async fn remove(
    work: impl Into<TransactionScope<'_>>,
    id: PhoneNumberId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<NumberView, AdminError> {
    let txn = work.into().begin().await?;
    let row = find(&*txn, id).await?;
    phone_number::Entity::delete_by_id(id).exec(&*txn).await?;
    let change = AuditChange::new(AuditAction::NumberDelete, id).with(&row.label);
    by.write(&*txn, row.tenant_id, change, now).await?;
    txn.commit().await?;
    Ok(row.into())
}

/// Finds a number and locks its row until the transaction ends.
async fn find(
    db: &impl sea_orm::ConnectionTrait,
    id: PhoneNumberId,
) -> Result<phone_number::Model, AdminError> {
    let found = phone_number::Entity::find_by_id(id)
        .lock_exclusive()
        .one(db)
        .await?;
    found.ok_or_else(|| AdminError::not_found("number", id))
}
