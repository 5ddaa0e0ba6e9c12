//! `/audit`: all changes, of all tenants and of the service itself, with author, time and address.

use actix_web::web::Data;
use dikala_entities::{
    Actor, AuditAction, AuditId, Millis, TenantId,
    audit::{Column, Model},
};
use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};
use serde::Serialize;
use utoipa::ToSchema;

use super::context::OperatorContext;
use crate::{
    audit::{all, of},
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{FormFields, OperatorQuery, id, instant, word},
    },
    operations::{
        PageRange,
        list::{lists, reach, views},
    },
};

/// A change.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Entry, example = json!({
    "id": "aud_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "actor": "operator",
    "action": "tenant.suspend", "target": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "detail": "", "at": "2026-01-15T03:30:00.000Z",
    "address": "127.0.0.1", "requestId": "req_01k9zv3m8rj2q4w6y8a0c2e4g6", "node": "main"
}))]
pub struct AuditEntry {
    pub id: AuditId,
    /// Null for what belongs to the service, such as a bridge.
    pub tenant_id: Option<TenantId>,
    /// `operator`, `cli`, or the id of a user or a key.
    #[schema(value_type = String)]
    pub actor: Actor,
    pub action: AuditAction,
    /// The id of what was changed.
    pub target: String,
    /// The change in words.
    pub detail: String,
    pub at: Millis,
    pub address: Option<String>,
    pub request_id: Option<String>,
    pub node: String,
}

impl From<Model> for AuditEntry {
    fn from(row: Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            actor: row.actor,
            action: row.action,
            target: row.target,
            detail: row.detail,
            at: row.at,
            address: row.address,
            request_id: row.request_id,
            node: row.node,
        }
    }
}

lists! {
    /// A page of changes, newest first.
    EntryList { entries: AuditEntry, "entries" }
}

/// `GET /audit`
pub async fn list(
    process: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    let listed = page(process.node.store.api_reader(), &filters.0, process.now()).await?;
    Ok(ApiAnswer::ok(&listed))
}

/// The requested page: of one tenant's entries, or of the newest 100,000 entries before `to`.
pub async fn page(
    db: &impl ConnectionTrait,
    asked: &FormFields,
    now: Millis,
) -> Result<EntryList, ApiError> {
    let (page, tenant, mut entries) = asked.read(&[], |form| {
        let page = PageRange::read(form);
        let tenant: Option<TenantId> = form.optional("tenantId", None, id("a tenant"));
        let mut entries = tenant.map_or_else(all, of);
        entries.actor = form.optional("actor", None, id("an actor"));
        entries.action = form.optional("action", None, word("an action"));
        entries.from = form.optional("from", None, instant);
        entries.to = form.optional("to", None, instant);
        Some((page, tenant, entries))
    })?;
    if tenant.is_none() {
        // Entries that match a filter may be rare, so the search is limited.
        let to = entries.to.unwrap_or(now.plus_ms(1));
        entries.to = Some(to);
        let newest = all().select().filter(Column::At.lt(to));
        let oldest = reach(db, newest, Column::At).await?;
        entries.from = entries.from.max(oldest);
    }
    let (entries, has_more) = views(db, page, entries.select()).await?;
    Ok(EntryList::new(page, entries, has_more))
}
