//! Webhooks as operators see them: their health, and pausing their deliveries.

use dikala_entities::{
    AuditAction, EventKind, Millis, OutboundUrl, TenantId, WebhookId, WebhookState,
    webhook::{Column, Entity, Model},
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminError, TransactionScope};
use crate::audit::{AuditChange, ChangeOrigin};

/// A webhook in the operators' views.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Webhook, example = json!({
    "id": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "url": "https://example.com/hooks/dikala", "events": ["call.ended"], "isActive": true, "disabledReason": null,
    "pausedAt": null, "failingSince": "2026-01-15T03:30:00.000Z", "failedInRow": 2,
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct WebhookView {
    pub id: WebhookId,
    pub tenant_id: TenantId,
    /// Without the query, which may hold tokens.
    #[schema(value_type = OutboundUrl)]
    pub url: String,
    pub events: Vec<EventKind>,
    pub is_active: bool,
    /// The reason why the service switched it off.
    pub disabled_reason: Option<String>,
    /// The time since which its deliveries are paused.
    pub paused_at: Option<Millis>,
    /// The time of the first failed attempt since the last success.
    pub failing_since: Option<Millis>,
    /// Deliveries that were given up since the last success.
    pub failed_in_row: i64,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl From<Model> for WebhookView {
    fn from(row: Model) -> Self {
        Self {
            events: row.event_kinds(),
            id: row.id,
            tenant_id: row.tenant_id,
            url: address(row.url.as_str()).to_owned(),
            is_active: row.is_active,
            disabled_reason: row.disabled_reason,
            paused_at: row.paused_at,
            failing_since: row.failing_since,
            failed_in_row: row.failed_in_row,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

fn address(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// Webhooks, oldest first, filtered by state and tenant.
pub fn matching(state: Option<WebhookState>, tenant: Option<TenantId>) -> Select<Entity> {
    let mut select = Entity::find().order_by_asc(Column::Id);
    if let Some(tenant) = tenant {
        select = select.filter(Column::TenantId.eq(tenant));
    }
    match state {
        None => select,
        Some(WebhookState::Failing) => select
            .filter(Column::IsActive.eq(true))
            .filter(Column::FailingSince.is_not_null()),
        Some(WebhookState::Disabled) => select.filter(Column::IsActive.eq(false)),
        Some(WebhookState::Paused) => select.filter(Column::PausedAt.is_not_null()),
    }
}

/// Pauses or resumes the deliveries of a webhook; idempotent. Meanwhile events still become deliveries, and none is
/// lost.
pub async fn set_paused(
    work: impl Into<TransactionScope<'_>>,
    id: WebhookId,
    paused: bool,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<WebhookView, AdminError> {
    let txn = work.into().begin().await?;
    let found = Entity::find_by_id(id).lock_exclusive().one(&*txn).await?;
    let mut row = found.ok_or_else(|| AdminError::not_found("webhook", id))?;
    if row.paused_at.is_some() != paused {
        row.paused_at = paused.then_some(now);
        let mut changed = row.clone().into_active_model();
        changed.paused_at = Set(row.paused_at);
        changed.update(&*txn).await?;
        let action = match paused {
            true => AuditAction::WebhookPause,
            false => AuditAction::WebhookResume,
        };
        by.write(&*txn, row.tenant_id, AuditChange::new(action, id), now)
            .await?;
    }
    txn.commit().await?;
    Ok(row.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_an_address_is_shown_to_no_operator() {
        let shown = address("https://shop.example/hooks?token=secret#part");
        assert_eq!(shown, "https://shop.example/hooks");
        assert_eq!(address("https://shop.example/"), "https://shop.example/");
    }
}
