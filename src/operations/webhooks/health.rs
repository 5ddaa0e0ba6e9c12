//! Webhooks as operators see them: their health, and pausing their deliveries.

use dikala_entities::{
    AuditAction, EventKind, Millis, OutboundUrl, TenantId, WebhookId, WebhookState,
    webhook::{Column, Entity, Model},
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, Condition, IntoActiveModel, QueryFilter,
    QueryOrder, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    audit::AuditChange,
    http::{
        error::ApiError,
        extract::{Id, OperatorQuery, RequestBody, id, word},
    },
    operations::{
        OperationContext, PageRange,
        list::{lists, views},
    },
};

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

/// An address without query and fragment, which may hold tokens.
pub fn address(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

/// True for webhooks that fail, or were disabled by the service because they kept failing.
pub fn in_trouble() -> Condition {
    let disabled = Condition::all()
        .add(Column::IsActive.eq(false))
        .add(Column::DisabledReason.is_not_null());
    let failing = Condition::all()
        .add(Column::IsActive.eq(true))
        .add(Column::FailingSince.is_not_null());
    Condition::any().add(disabled).add(failing)
}

/// Those of the webhooks that have this state and tenant, oldest first.
pub fn matching(
    webhooks: Select<Entity>,
    state: Option<WebhookState>,
    tenant: Option<TenantId>,
) -> Select<Entity> {
    let mut select = webhooks.order_by_asc(Column::Id);
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

lists! {
    /// A page of webhooks, oldest first.
    WebhookList { webhooks: WebhookView, "webhooks" }
}

/// A page of all tenants' webhooks.
pub async fn list(
    context: OperationContext,
    query: OperatorQuery,
) -> Result<WebhookList, ApiError> {
    let (page, state, tenant) = query.0.read(&[], |form| {
        let page = PageRange::read(form);
        let state: Option<WebhookState> = form.optional("state", None, word("a state"));
        Some((page, state, form.optional("tenantId", None, id("a tenant"))))
    })?;
    let db = context.store().api_reader();
    let (webhooks, has_more) = views(db, page, matching(context.rows(), state, tenant)).await?;
    Ok(WebhookList::new(page, webhooks, has_more))
}

/// One webhook.
pub async fn show(context: OperationContext, id: Id<WebhookId>) -> Result<WebhookView, ApiError> {
    context.find_webhook(id.0).await.map(WebhookView::from)
}

/// Makes a webhook's deliveries wait. Meanwhile events still become deliveries, and none is lost. A repeat changes nothing.
pub async fn pause(
    context: OperationContext,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<WebhookView, ApiError> {
    set_paused(&context, id.0, &body, Some(context.now)).await
}

/// Continues a webhook's deliveries. A repeat changes nothing.
pub async fn resume(
    context: OperationContext,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<WebhookView, ApiError> {
    set_paused(&context, id.0, &body, None).await
}

async fn set_paused(
    context: &OperationContext,
    id: WebhookId,
    body: &RequestBody,
    paused_at: Option<Millis>,
) -> Result<WebhookView, ApiError> {
    context.find_webhook(id).await?;
    body.optional_form()?.expect_empty()?;
    let mut write = context.begin().await?;
    let mut row = super::lock(&write, id).await?;
    if row.paused_at.is_some() != paused_at.is_some() {
        row.paused_at = paused_at;
        let mut changed = row.clone().into_active_model();
        changed.paused_at = Set(paused_at);
        changed.update(&*write).await?;
        let action = match paused_at {
            Some(_) => AuditAction::WebhookPause,
            None => AuditAction::WebhookResume,
        };
        write
            .record(row.tenant_id, AuditChange::new(action, id))
            .await?;
    }
    let shown = write.commit(row.into()).await?;
    context.refresh_webhook(id);
    Ok(shown)
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
