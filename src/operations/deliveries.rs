//! Deliveries: lists for operators, resending one, and resending all that failed in a time.

use dikala_actors::webhooks::{ResendOutcome, recovery::count};
use dikala_entities::{
    AuditAction, CallId, DeliveryId, DeliveryStatus, EventId, EventKind, InstantOrDate, Millis,
    OfTenant, RecoveryId, TenantId, WebhookId, attempt,
    delivery::{self, Column},
    erasure, recovery,
    store::Transaction,
    webhook,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DbErr, DerivePartialModel, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    OperationContext, OperationWrite, PageRange,
    list::{lists, reach, views},
};
use crate::{
    audit::AuditChange,
    http::{
        answer::Accepted,
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery, RequestBody, id, instant, word},
        field::{FieldCode, ValueFault},
        request_id::current_trace,
    },
};

/// Attempts shown per delivery, the newest ones.
const ATTEMPTS_MAX: u64 = 100;
/// Concurrent recoveries of one webhook.
const RECOVERIES_MAX: u64 = 10;

/// An event on its way to a webhook of whatever tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery, example = json!({
    "id": "dlv_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "webhookId": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6", "eventId": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered",
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "status": "pending", "isTest": false, "attemptCount": 11,
    "nextAttemptAt": "2026-01-16T08:00:00.000Z", "createdAt": "2026-01-15T03:30:04.000Z", "completedAt": null
}))]
pub struct OperatorDelivery {
    pub id: DeliveryId,
    pub tenant_id: TenantId,
    pub webhook_id: WebhookId,
    pub event_id: EventId,
    pub event: EventKind,
    pub call_id: Option<CallId>,
    pub status: DeliveryStatus,
    pub is_test: bool,
    /// Attempts made so far.
    pub attempt_count: i64,
    /// Null once it is over.
    pub next_attempt_at: Option<Millis>,
    pub created_at: Millis,
    pub completed_at: Option<Millis>,
}

impl From<delivery::Model> for OperatorDelivery {
    fn from(row: delivery::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
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

/// One HTTP exchange of a delivery, without the endpoint's answer.
#[derive(Clone, Debug, PartialEq, Eq, DerivePartialModel, Serialize, ToSchema)]
#[sea_orm(entity = "attempt::Entity")]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub struct DeliveryAttempt {
    #[serde(skip)]
    pub delivery_id: DeliveryId,
    pub number: i64,
    pub started_at: Millis,
    pub duration_ms: i64,
    /// Null where no answer came.
    pub status_code: Option<i64>,
    /// Why no answer came; null for an answer of any status.
    #[sea_orm(from_col = "error_kind")]
    pub error: Option<String>,
}

/// A delivery with its attempts. What was sent and what was answered is not for operators.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryDetail, example = json!({
    "id": "dlv_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "webhookId": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6", "eventId": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered",
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "status": "pending", "isTest": false, "attemptCount": 1,
    "nextAttemptAt": "2026-01-15T03:30:09.100Z", "createdAt": "2026-01-15T03:30:04.000Z", "completedAt": null,
    "attempts": [{"number": 1, "startedAt": "2026-01-15T03:30:04.010Z", "durationMs": 84, "statusCode": 503, "error": null}]
}))]
pub struct OperatorDeliveryDetail {
    #[serde(flatten)]
    #[schema(inline)]
    pub delivery: OperatorDelivery,
    /// The last 100, oldest first.
    pub attempts: Vec<DeliveryAttempt>,
}

lists! {
    /// A page of deliveries, newest first.
    DeliveryList { deliveries: OperatorDelivery, "deliveries" }
}

/// The time range: from `since` (inclusive) to `until` (exclusive; now if left out). Includes deliveries that were
/// created or given up in that time.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"since": "2026-01-15T03:00:00Z", "until": "2026-01-15T05:00:00Z"}))]
pub struct Recovery {
    #[schema(value_type = InstantOrDate)]
    since: Millis,
    #[schema(value_type = Option<InstantOrDate>)]
    until: Option<Millis>,
}

/// The number of failed deliveries in that time, which are sent again, oldest first.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = Recovered, example = json!({"deliveries": 17}))]
pub struct RecoveryCount {
    pub deliveries: u64,
}

impl Recovery {
    fn read(form: &FormFields) -> Result<Self, ApiError> {
        form.read(&[], |form| {
            let since = form.required("since", None, instant);
            let until = form.optional("until", None, instant);
            let since = since?;
            if until.is_some_and(|until| until <= since) {
                let fault = ValueFault::new(FieldCode::TooSmall, "must be after since");
                form.fault("until", fault.in_words("fault-ends-too-early"));
            }
            Some(Self { since, until })
        })
    }

    /// A row for this recovery of the webhook.
    fn of(self, webhook: &webhook::Model, now: Millis) -> recovery::Model {
        recovery::Model {
            id: RecoveryId::new(now),
            tenant_id: webhook.tenant_id,
            webhook_id: webhook.id,
            since: self.since,
            until: self.until.unwrap_or(now.plus_ms(1)),
            after: DeliveryId::first_at(Millis::MIN),
            asked_at: now,
        }
    }
}

/// Deliveries, newest first. A webhook's come from its index; without a webhook, only the newest are searched.
async fn newest(
    context: &OperationContext,
    status: Option<DeliveryStatus>,
    to: Option<WebhookId>,
) -> Result<Select<delivery::Entity>, DbErr> {
    let newest = context.rows::<delivery::Entity>().order_by_desc(Column::Id);
    let mut select = newest.clone();
    match to {
        Some(webhook) => select = select.filter(Column::WebhookId.eq(webhook)),
        None => {
            let made = newest.filter(Column::Id.lt(DeliveryId::first_at(context.now.plus_ms(1))));
            let oldest: Option<DeliveryId> =
                reach(context.store().api_reader(), made, Column::Id).await?;
            let oldest = oldest.unwrap_or(DeliveryId::first_at(Millis::MIN));
            select = select.filter(Column::Id.gte(oldest));
        }
    }
    Ok(match status {
        None => select,
        Some(status) => select.filter(Column::Status.eq(status)),
    })
}

/// A page of deliveries: of one webhook, or of the newest 100,000 of all tenants.
pub async fn list(
    context: OperationContext,
    query: OperatorQuery,
) -> Result<DeliveryList, ApiError> {
    let (page, status, webhook) = query.0.read(&[], |form| {
        let page = PageRange::read(form);
        let status: Option<DeliveryStatus> = form.optional("status", None, word("a status"));
        Some((
            page,
            status,
            form.optional("webhookId", None, id("a webhook")),
        ))
    })?;
    let db = context.store().api_reader();
    let select = newest(&context, status, webhook).await?;
    let (deliveries, has_more) = views(db, page, select).await?;
    Ok(DeliveryList::new(page, deliveries, has_more))
}

/// One delivery with its last attempts.
pub async fn show(
    context: OperationContext,
    id: Id<DeliveryId>,
) -> Result<OperatorDeliveryDetail, ApiError> {
    let db = context.store().api_reader();
    let found = context.one_of::<delivery::Entity>(id.0).one(db).await?;
    let delivery = found.ok_or(ApiError::NotFound(Missing::Delivery))?;
    let mut attempts: Vec<DeliveryAttempt> = attempt::Entity::of_delivery(&delivery)
        .order_by_desc(attempt::Column::Number)
        .limit(ATTEMPTS_MAX)
        .into_partial_model()
        .all(db)
        .await?;
    attempts.reverse();
    Ok(OperatorDeliveryDetail {
        delivery: delivery.into(),
        attempts,
    })
}

/// Makes a delivery due now, whatever its status. Its webhook must exist, and its call must not be erased. `V` is the view for whoever asks.
pub async fn resend<V: From<delivery::Model> + Serialize>(
    context: OperationContext,
    id: Id<DeliveryId>,
    body: RequestBody,
) -> Result<Accepted<V>, ApiError> {
    let missing = || ApiError::NotFound(Missing::Delivery);
    let seen = context.one_of::<delivery::Entity>(id.0);
    let seen = seen.one(context.store().api_reader()).await?;
    let webhook = seen.ok_or_else(missing)?.webhook_id;
    body.optional_form()?.expect_empty()?;
    let mut write = context.begin().await?;
    let found = context.one_of::<webhook::Entity>(webhook);
    found
        .one(&*write)
        .await?
        .ok_or(ApiError::NotFound(Missing::Webhook))?;
    let locked = context.one_of::<delivery::Entity>(id.0).lock_exclusive();
    let mut row = locked.one(&*write).await?.ok_or_else(missing)?;
    if is_erased(&write, &row).await? {
        return Err(ApiError::DeliveryErased);
    }
    make_due(&write, &mut row, context.now).await?;
    let change = AuditChange::new(AuditAction::DeliveryResend, row.id).with(webhook);
    write.record(row.tenant_id, change).await?;
    let sent = write.commit(Accepted(row.into())).await?;
    context.wake_dispatcher();
    Ok(sent)
}

/// Sends a delivery again and waits for the attempt. Returns its webhook, and true if the attempt was made.
pub async fn resend_now(
    context: OperationContext,
    id: Id<DeliveryId>,
) -> Result<(WebhookId, bool), ApiError> {
    let sent = resend::<OperatorDelivery>(context.clone(), id, RequestBody::default());
    let Accepted(sent) = sent.await?;
    // The delivery is already due: if it cannot be awaited now, the dispatcher attempts it later.
    let dispatcher = &context.serving()?.node.webhooks;
    let (webhook, made) = (sent.webhook_id, sent.attempt_count);
    let resent = dispatcher.resend(webhook, id.0, made, current_trace());
    let is_made = matches!(resent.await, Ok(ResendOutcome::Made));
    Ok((webhook, is_made))
}

async fn is_erased(txn: &Transaction, row: &delivery::Model) -> Result<bool, DbErr> {
    let Some(call) = row.call_id else {
        return Ok(false);
    };
    let erased = erasure::Entity::of(row.tenant_id).filter(erasure::Column::CallId.eq(call));
    Ok(erased.one(txn).await?.is_some())
}

/// Makes a delivery due now, whatever its state.
async fn make_due(txn: &Transaction, row: &mut delivery::Model, now: Millis) -> Result<(), DbErr> {
    row.status = DeliveryStatus::Pending;
    row.next_attempt_at = Some(row.next_attempt_at.map_or(now, |due| due.min(now)));
    row.completed_at = None;
    let change = row.clone().into_active_model().reset_all();
    change.update(txn).await.map(drop)
}

/// Stores a recovery, unless there is nothing to recover. The dispatcher then carries it out in batches.
pub async fn recover(
    context: OperationContext,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<Accepted<RecoveryCount>, ApiError> {
    let webhook = context.find_webhook(id.0).await?;
    let recovery = Recovery::read(&body.form()?)?.of(&webhook, context.now);
    // Counted before the transaction: on SQLite a long transaction would delay every other write.
    let turn = context.read_turn().await?;
    let deliveries = count(context.store().api_reader(), &recovery).await?;
    drop(turn);
    let mut write = context.begin().await?;
    if deliveries > 0 {
        insert_recovery(&mut write, recovery, deliveries).await?;
    }
    let begun = write.commit(Accepted(RecoveryCount { deliveries })).await?;
    context.wake_dispatcher();
    Ok(begun)
}

/// Counts open recoveries under the webhook's row lock, so that two concurrent requests cannot both take the last place.
async fn insert_recovery(
    write: &mut OperationWrite<'_>,
    recovery: recovery::Model,
    deliveries: u64,
) -> Result<(), ApiError> {
    let locked = write.context.one_of::<webhook::Entity>(recovery.webhook_id);
    let locked = locked.lock_exclusive().one(&**write).await?;
    let webhook = locked.ok_or(ApiError::NotFound(Missing::Webhook))?;
    let open = recovery::Entity::of_webhook(&webhook)
        .count(&**write)
        .await?;
    if open >= RECOVERIES_MAX {
        return Err(ApiError::TooManyRecoveries(RECOVERIES_MAX));
    }
    recovery::Entity::insert(recovery.into_active_model())
        .exec_without_returning(&**write)
        .await?;
    let change = AuditChange::new(AuditAction::WebhookRecover, webhook.id)
        .with(format_args!("{deliveries} deliveries"));
    write.record(webhook.tenant_id, change).await
}
