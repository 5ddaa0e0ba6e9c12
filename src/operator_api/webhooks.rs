//! `/webhooks` and `/deliveries`: lists of all tenants' webhooks and deliveries, pausing, and sending again.

use actix_web::web::Data;
use dikala_actors::webhooks::recovery::count;
use dikala_entities::{
    AuditAction, CallId, DeliveryId, DeliveryStatus, EventId, EventKind, Millis, TenantId,
    WebhookId, WebhookState,
    delivery::{self, Column},
    recovery,
    store::Transaction,
    webhook,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    desk::{OperatorContext, OperatorUnit},
    list::{lists, reach, views},
    refused::refused,
};
use crate::{
    admin::webhooks::{WebhookView, matching, set_paused},
    api::{
        PageRange,
        deliveries::{Recovery, RecoveryCount, begin_recovery, make_due},
    },
    audit::{AuditChange, ChangeOrigin},
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery, OperatorRequest, RequestBody, id, word},
    },
};

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

lists! {
    /// A page of webhooks, oldest first.
    WebhookList { webhooks: WebhookView, "webhooks" }
    /// A page of deliveries, newest first.
    DeliveryList { deliveries: OperatorDelivery, "deliveries" }
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

/// The requested page of all tenants' webhooks.
pub async fn page(db: &impl ConnectionTrait, asked: &FormFields) -> Result<WebhookList, ApiError> {
    let (page, state, tenant) = asked.read(&[], |form| {
        let page = PageRange::read(form);
        let state: Option<WebhookState> = form.optional("state", None, word("a state"));
        Some((page, state, form.optional("tenantId", None, id("a tenant"))))
    })?;
    let (webhooks, has_more) = views(db, page, matching(state, tenant)).await?;
    Ok(WebhookList::new(page, webhooks, has_more))
}

/// `POST /webhooks/{id}/pause`
pub async fn pause(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    pause_or_resume(&desk, &operator, id.0, &body, true).await
}

/// `POST /webhooks/{id}/resume`
pub async fn resume(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    pause_or_resume(&desk, &operator, id.0, &body, false).await
}

async fn pause_or_resume(
    desk: &OperatorContext,
    operator: &OperatorRequest,
    id: WebhookId,
    body: &RequestBody,
    paused: bool,
) -> Result<ApiAnswer, ApiError> {
    find(desk.node.store.api_reader(), id).await?;
    body.optional_form()?.expect_empty()?;
    let unit = OperatorUnit::begin(desk, operator).await?;
    let changed = set_paused(unit.txn(), id, paused, &operator.origin, desk.now()).await;
    let answer = ApiAnswer::ok(&changed.map_err(refused)?);
    let answer = unit.commit(answer).await?;
    desk.node.webhooks.refresh(id);
    Ok(answer)
}

/// One webhook, or 404.
pub async fn find(db: &impl ConnectionTrait, id: WebhookId) -> Result<webhook::Model, ApiError> {
    let found = webhook::Entity::find_by_id(id).one(db).await?;
    found.ok_or(ApiError::NotFound(Missing::Webhook))
}

/// `POST /webhooks/{id}/recover`: answers once the recovery is stored; the dispatcher then carries it out in
/// batches.
pub async fn recover(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let db = desk.node.store.api_reader();
    let webhook = find(db, id.0).await?;
    let wanted = RequestedRecovery::read(db, &webhook, &body.form()?, desk.now()).await?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let begun = wanted.begin(unit.txn(), &operator.origin).await?;
    let answer = unit.commit(ApiAnswer::accepted(&begun)).await?;
    desk.node.webhooks.wake();
    Ok(answer)
}

/// A requested recovery.
#[derive(Debug)]
pub struct RequestedRecovery {
    recovery: recovery::Model,
    deliveries: u64,
}

impl RequestedRecovery {
    /// Reads the requested time range. The deliveries are counted before the transaction, which on SQLite would
    /// block all other writes.
    pub async fn read(
        db: &impl ConnectionTrait,
        webhook: &webhook::Model,
        asked: &FormFields,
        now: Millis,
    ) -> Result<Self, ApiError> {
        let recovery = Recovery::read(asked)?.of(webhook, now);
        let deliveries = count(db, &recovery).await?;
        Ok(Self {
            recovery,
            deliveries,
        })
    }

    /// Stores the recovery and its audit entry.
    pub async fn begin(
        self,
        txn: &Transaction,
        by: &ChangeOrigin,
    ) -> Result<RecoveryCount, ApiError> {
        let Self {
            recovery,
            deliveries,
        } = self;
        let (tenant, now) = (recovery.tenant_id, recovery.asked_at);
        if let Some(change) = begin_recovery(txn, recovery, deliveries).await? {
            by.write(txn, tenant, change, now).await?;
        }
        Ok(RecoveryCount { deliveries })
    }
}

/// Deliveries, newest first. A webhook's come from its index; without a webhook, only the newest are searched.
async fn newest(
    db: &impl ConnectionTrait,
    status: Option<DeliveryStatus>,
    to: Option<WebhookId>,
    now: Millis,
) -> Result<Select<delivery::Entity>, DbErr> {
    let newest = delivery::Entity::find().order_by_desc(Column::Id);
    let mut select = newest.clone();
    match to {
        Some(webhook) => select = select.filter(Column::WebhookId.eq(webhook)),
        None => {
            let made = newest.filter(Column::Id.lt(DeliveryId::first_at(now.plus_ms(1))));
            let oldest: Option<DeliveryId> = reach(db, made, Column::Id).await?;
            let oldest = oldest.unwrap_or(DeliveryId::first_at(Millis::MIN));
            select = select.filter(Column::Id.gte(oldest));
        }
    }
    Ok(match status {
        None => select,
        Some(status) => select.filter(Column::Status.eq(status)),
    })
}

/// `GET /deliveries`
pub async fn deliveries(
    desk: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    let listed = deliveries_page(desk.node.store.api_reader(), &filters.0, desk.now()).await?;
    Ok(ApiAnswer::ok(&listed))
}

/// The requested page: of one webhook's deliveries, or of the newest 100,000 of all tenants.
pub async fn deliveries_page(
    db: &impl ConnectionTrait,
    asked: &FormFields,
    now: Millis,
) -> Result<DeliveryList, ApiError> {
    let (page, status, webhook) = asked.read(&[], |form| {
        let page = PageRange::read(form);
        let status: Option<DeliveryStatus> = form.optional("status", None, word("a status"));
        Some((
            page,
            status,
            form.optional("webhookId", None, id("a webhook")),
        ))
    })?;
    let select = newest(db, status, webhook, now).await?;
    let (deliveries, has_more) = views(db, page, select).await?;
    Ok(DeliveryList::new(page, deliveries, has_more))
}

/// `POST /deliveries/{id}/resend`: makes the delivery due now, whatever its status. Its webhook must exist.
pub async fn resend(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<DeliveryId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let seen = delivery::Entity::find_by_id(id.0);
    let seen = seen.one(desk.node.store.api_reader()).await?;
    seen.ok_or(ApiError::NotFound(Missing::Delivery))?;
    body.optional_form()?.expect_empty()?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let row = send_again(unit.txn(), id.0, &operator.origin, desk.now()).await?;
    let answer = unit.commit(ApiAnswer::accepted(&row)).await?;
    desk.node.webhooks.wake();
    Ok(answer)
}

/// Makes a delivery due now and writes the audit entry.
pub async fn send_again(
    txn: &Transaction,
    id: DeliveryId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<OperatorDelivery, ApiError> {
    let locked = delivery::Entity::find_by_id(id).lock_exclusive();
    let row = locked.one(txn).await?;
    let mut row = row.ok_or(ApiError::NotFound(Missing::Delivery))?;
    find(txn, row.webhook_id).await?;
    make_due(txn, &mut row, now).await?;
    let change = AuditChange::new(AuditAction::DeliveryResend, row.id).with(row.webhook_id);
    by.write(txn, row.tenant_id, change, now).await?;
    Ok(row.into())
}
