//! Deliveries: what became of each event on its way to a webhook, and sending it again.

use actix_web::web::Data;
use dikala_actors::webhooks::recovery::count;
use dikala_entities::{
    CallId, DeliveryId, DeliveryStatus, EventId, EventKind, Millis, RecoveryId, TenantId,
    WebhookId, attempt, delivery, event, recovery,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{Answer, Page, Unit, calls::raw, webhooks};
use crate::{
    error::{ApiError, Missing},
    extract::{Body, Caller, Fault, FieldCode, Form, Id, Query, instant, word},
    openapi::schema,
    services::Services,
};

/// Attempts shown of one delivery, newest first.
const ATTEMPTS_MAX: u64 = 100;
/// Recoveries of one webhook that may be under way at the same time.
const RECOVERIES_MAX: u64 = 10;

/// An event on its way to a webhook.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "dlv_01k9zv3m8rj2q4w6y8a0c2e4g6", "webhookId": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "eventId": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered",
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "status": "pending", "isTest": false, "attemptCount": 11,
    "nextAttemptAt": "2026-01-16T08:00:00.000Z", "createdAt": "2026-01-15T03:30:04.000Z", "completedAt": null
}))]
pub struct Delivery {
    #[schema(schema_with = schema::delivery_id)]
    id: DeliveryId,
    #[schema(schema_with = schema::webhook_id)]
    webhook_id: WebhookId,
    #[schema(schema_with = schema::event_id)]
    event_id: EventId,
    #[schema(schema_with = schema::event_kind)]
    event: EventKind,
    #[schema(schema_with = schema::call_id_or_null)]
    call_id: Option<CallId>,
    #[schema(schema_with = schema::delivery_status)]
    status: DeliveryStatus,
    is_test: bool,
    /// Attempts made so far.
    attempt_count: i64,
    /// Null once it is over.
    #[schema(schema_with = schema::instant_or_null)]
    next_attempt_at: Option<Millis>,
    #[schema(schema_with = schema::instant)]
    created_at: Millis,
    #[schema(schema_with = schema::instant_or_null)]
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
    delivery: Delivery,
    /// The body that is sent; null once it is no longer kept.
    #[schema(schema_with = schema::any_object_or_null)]
    payload: Option<Box<RawValue>>,
    /// Oldest first.
    attempts: Vec<Attempt>,
}

/// One HTTP exchange of a delivery.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    number: i64,
    #[schema(schema_with = schema::instant)]
    started_at: Millis,
    duration_ms: i64,
    /// Null where no answer came.
    status_code: Option<i64>,
    /// Why no answer came; null for an answer of any status.
    error: Option<String>,
    /// The beginning of the answer's body.
    response: String,
}

/// What is said to who skips too many deliveries.
const NARROW: &str = "narrow it with status; a call's own are found with its events";

/// A page of deliveries, newest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"deliveries": [], "limit": 50, "offset": 0, "hasMore": false}))]
pub struct DeliveryList {
    deliveries: Vec<Delivery>,
    limit: i64,
    offset: i64,
    has_more: bool,
}

/// From when (inclusive) to when (exclusive; now if left out). Counts both what was made and what was given up in that time.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"since": "2026-01-15T03:00:00Z", "until": "2026-01-15T05:00:00Z"}))]
pub struct Recovery {
    #[schema(schema_with = schema::instant_input)]
    since: Millis,
    #[schema(schema_with = schema::instant_input_or_null)]
    until: Option<Millis>,
}

/// How many deliveries have failed in that time: so many are sent again, the oldest first.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(example = json!({"deliveries": 17}))]
pub struct Recovered {
    deliveries: u64,
}

impl From<delivery::Model> for Delivery {
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

impl From<attempt::Model> for Attempt {
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

fn by_id(tenant: TenantId, id: DeliveryId) -> sea_orm::Select<delivery::Entity> {
    delivery::Entity::find_by_id(id).filter(delivery::Column::TenantId.eq(tenant))
}

/// A delivery with its payload and its attempts, or 404.
pub async fn detail(
    services: &Services,
    tenant: TenantId,
    id: DeliveryId,
) -> Result<DeliveryDetail, ApiError> {
    let db = services.store.api_reader();
    let missing = ApiError::NotFound(Missing::Delivery);
    let row = by_id(tenant, id).one(db).await?.ok_or(missing)?;
    let payload = event::Entity::find_by_id(row.event_id).one(db).await?;
    let mut attempts = attempt::Entity::find()
        .filter(attempt::Column::DeliveryId.eq(row.id))
        .order_by_desc(attempt::Column::Number)
        .limit(ATTEMPTS_MAX)
        .all(db)
        .await?;
    attempts.reverse();
    Ok(DeliveryDetail {
        delivery: row.into(),
        payload: payload.map(|event| raw(event.body, "null")),
        attempts: attempts.into_iter().map(Into::into).collect(),
    })
}

/// `GET /webhooks/{id}/deliveries`
pub async fn list(
    caller: Caller,
    services: Data<Services>,
    id: Id<WebhookId>,
    query: Query,
) -> Result<Answer, ApiError> {
    let webhook = webhooks::find(services.store.api_reader(), caller.tenant, id.0).await?;
    let (page, status) = query.0.read(&[], |form| {
        let page = Page::read(form);
        let status: Option<DeliveryStatus> = form.optional("status", None, word("a status"));
        Some((page, status))
    })?;
    let mut select = delivery::Entity::find()
        .filter(delivery::Column::WebhookId.eq(webhook.id))
        .order_by_desc(delivery::Column::Id);
    if let Some(status) = status {
        select = select.filter(delivery::Column::Status.eq(status));
    }
    let db = services.store.api_reader();
    let mut rows = Vec::new();
    if page.is_in_reach(db, &select, NARROW).await? {
        rows = page.of(select).all(db).await?;
    }
    Ok(Answer::ok(&DeliveryList {
        has_more: page.has_more(&mut rows),
        deliveries: rows.into_iter().map(Into::into).collect(),
        limit: page.limit,
        offset: page.offset,
    }))
}

/// `GET /deliveries/{id}`
pub async fn show(
    caller: Caller,
    services: Data<Services>,
    id: Id<DeliveryId>,
) -> Result<Answer, ApiError> {
    let shown = detail(&services, caller.tenant, id.0).await?;
    Ok(Answer::ok(&shown))
}

/// `POST /deliveries/{id}/resend`: due now, whatever became of it before. The webhook must still be there.
pub async fn resend(
    caller: Caller,
    services: Data<Services>,
    id: Id<DeliveryId>,
    body: Body,
) -> Result<Answer, ApiError> {
    let missing = || ApiError::NotFound(Missing::Delivery);
    let seen = by_id(caller.tenant, id.0)
        .one(services.store.api_reader())
        .await?
        .ok_or_else(missing)?;
    body.optional_form()?.expect_empty()?;
    let now = services.clock.now();
    let unit = Unit::begin(&services, &caller).await?;
    webhooks::find(unit.txn(), caller.tenant, seen.webhook_id).await?;
    let mut row = by_id(caller.tenant, id.0)
        .lock_exclusive()
        .one(unit.txn())
        .await?
        .ok_or_else(missing)?;
    // One that is about to be tried keeps its lease: it goes out once, not twice.
    if row.status != DeliveryStatus::Pending {
        row.lease_owner = None;
        row.lease_until = Millis::MIN;
    }
    row.status = DeliveryStatus::Pending;
    row.next_attempt_at = Some(row.next_attempt_at.map_or(now, |due| due.min(now)));
    row.completed_at = None;
    let change = row.clone().into_active_model().reset_all();
    change.update(unit.txn()).await?;
    let answer = unit.commit(Answer::accepted(&Delivery::from(row))).await?;
    services.outbound.wake();
    Ok(answer)
}

impl Recovery {
    fn read(form: &Form) -> Result<Self, ApiError> {
        form.read(&[], |form| {
            let since = form.required("since", None, instant);
            let until = form.optional("until", None, instant);
            let since = since?;
            if until.is_some_and(|until| until <= since) {
                let fault = Fault::new(FieldCode::TooSmall, "must be after since");
                form.fault("until", fault);
            }
            Some(Self { since, until })
        })
    }
}

/// `POST /webhooks/{id}/recover`: answered once it is certain to be done; the dispatcher does it, in batches.
pub async fn recover(
    caller: Caller,
    services: Data<Services>,
    id: Id<WebhookId>,
    body: Body,
) -> Result<Answer, ApiError> {
    let webhook = webhooks::find(services.store.api_reader(), caller.tenant, id.0).await?;
    let now = services.clock.now();
    let Recovery { since, until } = Recovery::read(&body.form()?)?;
    let asked = recovery::Model {
        id: RecoveryId::new(now),
        tenant_id: caller.tenant,
        webhook_id: webhook.id,
        since,
        until: until.unwrap_or(now.plus_ms(1)),
        after: DeliveryId::first_at(Millis::MIN),
        asked_at: now,
    };
    // Counted before the transaction, which on SQLite would hold up every other write for as long as that takes.
    let deliveries = count(services.store.api_reader(), &asked).await?;
    let unit = Unit::begin(&services, &caller).await?;
    if deliveries > 0 {
        webhooks::lock(unit.txn(), caller.tenant, webhook.id).await?;
        refuse_too_many(&unit, webhook.id).await?;
        recovery::Entity::insert(asked.into_active_model())
            .exec_without_returning(unit.txn())
            .await?;
    }
    let answer = unit
        .commit(Answer::accepted(&Recovered { deliveries }))
        .await?;
    services.outbound.wake();
    Ok(answer)
}

/// Counts under the lock of the webhook's row: two at once cannot both be the last.
async fn refuse_too_many(unit: &Unit, webhook: WebhookId) -> Result<(), ApiError> {
    let open = recovery::Entity::find()
        .filter(recovery::Column::WebhookId.eq(webhook))
        .count(unit.txn())
        .await?;
    if open < RECOVERIES_MAX {
        Ok(())
    } else {
        Err(ApiError::TooManyRecoveries(RECOVERIES_MAX))
    }
}
