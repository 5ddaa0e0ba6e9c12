//! Deliveries: the state of each event on its way to a webhook, and resending.

use std::collections::HashMap;

use dikala_actors::webhooks::TestError;
use dikala_entities::{
    CallId, DeliveryId, DeliveryStatus, EventId, EventKind, Millis, OfTenant, TenantId, WebhookId,
    attempt, delivery, event, webhook,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    Select, sea_query::Expr,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    http::{
        error::{ApiError, Missing},
        extract::{Id, Query, RequestBody, word},
        request_id::current_trace,
    },
    operations::{OperationContext, PageRange, list::lists, stored::Json, webhooks::kind_schema},
};

/// Attempts shown per delivery, the newest ones.
const ATTEMPTS_MAX: u64 = 100;

/// An event on its way to a webhook.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery, example = json!({
    "id": "dlv_01k9zv3m8rj2q4w6y8a0c2e4g6", "webhookId": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "eventId": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered",
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "status": "pending", "isTest": false, "attemptCount": 11,
    "nextAttemptAt": "2026-01-16T08:00:00.000Z", "createdAt": "2026-01-15T03:30:04.000Z", "completedAt": null
}))]
pub struct DeliveryView {
    pub id: DeliveryId,
    webhook_id: WebhookId,
    event_id: EventId,
    #[schema(schema_with = kind_schema)]
    event: EventKind,
    call_id: Option<CallId>,
    status: DeliveryStatus,
    is_test: bool,
    /// Attempts made so far.
    attempt_count: i64,
    /// Null once it is over.
    next_attempt_at: Option<Millis>,
    created_at: Millis,
    completed_at: Option<Millis>,
}

/// A delivery with its attempts.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "dlv_01k9zv3m8rj2q4w6y8a0c2e4g6", "webhookId": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "eventId": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered",
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "status": "succeeded", "isTest": false, "attemptCount": 1,
    "nextAttemptAt": null, "createdAt": "2026-01-15T03:30:04.000Z", "completedAt": "2026-01-15T03:30:04.120Z",
    "payload": {"event": "call.answered", "timestamp": "2026-01-15T03:30:04.000Z",
                "data": {"callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6",
                         "startedAt": "2026-01-15T03:30:00.000Z"}},
    "attempts": [{"number": 1, "startedAt": "2026-01-15T03:30:04.010Z", "durationMs": 110, "statusCode": 204,
                  "error": null, "response": ""}]
}))]
pub struct DeliveryDetail {
    #[serde(flatten)]
    #[schema(inline)]
    pub delivery: DeliveryView,
    /// The body that is sent; null once it is no longer kept.
    payload: Option<Json>,
    /// Oldest first.
    attempts: Vec<AttemptView>,
}

/// One HTTP exchange of a delivery.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub struct AttemptView {
    number: i64,
    started_at: Millis,
    duration_ms: i64,
    /// Null where no answer came.
    status_code: Option<i64>,
    /// Why no answer came; null for an answer of any status.
    error: Option<String>,
    /// The beginning of the answer's body.
    response: String,
}

/// A delivery, its event (none once it is no longer kept), and its last attempts, oldest first.
#[derive(Clone, Debug)]
pub struct DeliveryWithAttempts {
    pub delivery: delivery::Model,
    pub event: Option<event::Model>,
    pub attempts: Vec<attempt::Model>,
}

/// The outcome of a delivery's last attempt.
#[derive(Clone, Debug, FromQueryResult)]
pub struct LastAttempt {
    pub delivery_id: DeliveryId,
    pub status_code: Option<i64>,
    pub error_kind: Option<String>,
    pub duration_ms: i64,
}

/// The hint in the error for a too large `offset`.
const NARROW: &str = "narrow it with status; a call's own are found with its events";

lists! {
    /// A page of deliveries, newest first.
    DeliveryList { deliveries: DeliveryView, "deliveries" }
}

impl From<delivery::Model> for DeliveryView {
    fn from(row: delivery::Model) -> Self {
        Self {
            id: row.id,
            webhook_id: row.webhook_id,
            event_id: row.event_id,
            event: row.kind,
            call_id: row.call_id,
            status: row.status,
            is_test: row.is_test,
            attempt_count: row.attempts,
            next_attempt_at: row.next_attempt_at,
            created_at: row.created_at,
            completed_at: row.completed_at,
        }
    }
}

impl From<attempt::Model> for AttemptView {
    fn from(row: attempt::Model) -> Self {
        Self {
            number: row.number,
            started_at: row.started_at,
            duration_ms: row.duration_ms,
            status_code: row.status_code,
            error: row.error_kind,
            response: String::from_utf8_lossy(&row.response).into_owned(),
        }
    }
}

/// The tenant's delivery with its event and attempts, or 404.
pub async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: DeliveryId,
) -> Result<DeliveryWithAttempts, ApiError> {
    let missing = ApiError::NotFound(Missing::Delivery);
    let delivery = delivery::Entity::one_of(tenant, id)
        .one(db)
        .await?
        .ok_or(missing)?;
    let event = event::Entity::one_of(tenant, delivery.event_id)
        .one(db)
        .await?;
    let mut attempts = attempt::Entity::of_delivery(&delivery)
        .order_by_desc(attempt::Column::Number)
        .limit(ATTEMPTS_MAX)
        .all(db)
        .await?;
    attempts.reverse();
    Ok(DeliveryWithAttempts {
        delivery,
        event,
        attempts,
    })
}

/// Deliveries to a webhook, newest first.
fn newest(webhook: &webhook::Model, status: Option<DeliveryStatus>) -> Select<delivery::Entity> {
    let select = delivery::Entity::of_webhook(webhook).order_by_desc(delivery::Column::Id);
    match status {
        None => select,
        Some(status) => select.filter(delivery::Column::Status.eq(status)),
    }
}

/// At most `limit` deliveries to a webhook, newest first; only those older than `before`, if it is given.
pub async fn latest(
    db: &impl ConnectionTrait,
    webhook: &webhook::Model,
    status: Option<DeliveryStatus>,
    before: Option<DeliveryId>,
    limit: u64,
) -> Result<Vec<delivery::Model>, DbErr> {
    let mut select = newest(webhook, status);
    if let Some(before) = before {
        select = select.filter(delivery::Column::Id.lt(before));
    }
    select.limit(limit).all(db).await
}

/// The last attempt of each of these deliveries of a tenant, without the endpoint's answer.
pub async fn last_attempts(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    rows: &[delivery::Model],
) -> Result<HashMap<DeliveryId, LastAttempt>, DbErr> {
    let tried = rows.iter().filter(|row| row.attempts > 0);
    let ids: Vec<DeliveryId> = tried.map(|row| row.id).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<LastAttempt> = attempt::Entity::of(tenant)
        .select_only()
        .columns([
            attempt::Column::DeliveryId,
            attempt::Column::StatusCode,
            attempt::Column::ErrorKind,
            attempt::Column::DurationMs,
        ])
        .filter(attempt::Column::DeliveryId.is_in(ids))
        .order_by_asc(attempt::Column::Number)
        .into_model()
        .all(db)
        .await?;
    // Rows are ordered by attempt, so the map keeps the last one.
    let by_delivery = found.into_iter();
    Ok(by_delivery.map(|last| (last.delivery_id, last)).collect())
}

/// The number of pending deliveries to a webhook, counted up to `most`.
pub async fn waiting(
    db: &impl ConnectionTrait,
    webhook: &webhook::Model,
    most: u64,
) -> Result<u64, DbErr> {
    let waiting: Vec<DeliveryId> = delivery::Entity::of_webhook(webhook)
        .select_only()
        .column(delivery::Column::Id)
        // A literal, not a bound value, so that the partial index is used.
        .filter(Expr::cust("status = 'pending'"))
        .order_by_asc(delivery::Column::NextAttemptAt)
        .limit(most)
        .into_tuple()
        .all(db)
        .await?;
    Ok(u64::try_from(waiting.len()).unwrap_or(most))
}

/// A page of deliveries to a webhook.
pub async fn list(
    context: OperationContext,
    id: Id<WebhookId>,
    query: Query,
) -> Result<DeliveryList, ApiError> {
    let webhook = context.find_webhook(id.0).await?;
    let (page, status) = query.0.read(&[], |form| {
        let page = PageRange::read(form);
        let status: Option<DeliveryStatus> = form.optional("status", None, word("a status"));
        Some((page, status))
    })?;
    let select = newest(&webhook, status);
    let db = context.store().api_reader();
    let mut rows = Vec::new();
    if page.is_in_reach(db, &select, NARROW).await? {
        rows = page.of(select).all(db).await?;
    }
    let has_more = page.has_more(&mut rows);
    let deliveries = rows.into_iter().map(DeliveryView::from).collect();
    Ok(DeliveryList::new(page, deliveries, has_more))
}

/// One delivery with its attempts.
pub async fn show(
    context: OperationContext,
    id: Id<DeliveryId>,
) -> Result<DeliveryDetail, ApiError> {
    let tenant = context.tenant()?;
    let found = find(context.store().api_reader(), tenant, id.0).await?;
    Ok(DeliveryDetail {
        delivery: found.delivery.into(),
        payload: found.event.map(|event| Json::object(event.body)),
        attempts: found.attempts.into_iter().map(Into::into).collect(),
    })
}

/// Sends a signed sample of a subscribed kind and waits for its first attempt.
pub async fn test(
    context: OperationContext,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<DeliveryDetail, ApiError> {
    let webhook = context.find_webhook(id.0).await?;
    body.optional_form()?.expect_empty()?;
    let dispatcher = &context.serving()?.node.webhooks;
    let sent = dispatcher.test(webhook, current_trace()).await;
    let sent = sent.map_err(|error| {
        if !matches!(error, TestError::Busy) {
            tracing::error!(%error, "a delivery was not made");
        }
        ApiError::Unavailable
    })?;
    show(context, Id(sent)).await
}
