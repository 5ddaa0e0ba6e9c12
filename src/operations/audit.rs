//! The audit log: all changes, of all tenants and of the service itself, with author, time and address.

use dikala_entities::{
    Actor, AuditAction, AuditId, Millis, TenantId,
    audit::{Column, Model},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    OperationContext, PageRange,
    list::{lists, reach, views},
};
use crate::{
    audit::AuditQuery,
    http::{
        error::ApiError,
        extract::{OperatorQuery, id, instant, word},
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

/// The requested page: of one tenant's entries, or of the newest 100,000 entries before `to`.
pub async fn list(context: OperationContext, query: OperatorQuery) -> Result<EntryList, ApiError> {
    let (page, mut entries) = query.0.read(&[], |form| {
        let page = PageRange::read(form);
        let tenant = form.optional("tenantId", None, id("a tenant"));
        let entries = AuditQuery {
            tenant: context.principal.scope().or(tenant),
            actor: form.optional("actor", None, id("an actor")),
            action: form.optional("action", None, word("an action")),
            from: form.optional("from", None, instant),
            to: form.optional("to", None, instant),
        };
        Some((page, entries))
    })?;
    let db = context.store().api_reader();
    if entries.tenant.is_none() {
        // Entries that match a filter may be rare, so the search is limited.
        entries.to = entries.to.or(Some(context.now.plus_ms(1)));
        let newest = AuditQuery {
            to: entries.to,
            ..AuditQuery::default()
        };
        entries.from = entries
            .from
            .max(reach(db, newest.select(), Column::At).await?);
    }
    let (entries, has_more) = views(db, page, entries.select()).await?;
    Ok(EntryList::new(page, entries, has_more))
}
