//! Erasing a call on request: what was said, numbers and metadata go; what it cost and when stays.

use std::collections::BTreeSet;

use actix_web::web::Data;
use dikala_actors::calls::without_personal_data;
use dikala_entities::{
    AuditAction, CallId, CallerNumber, DeliveryStatus, EventId, IdempotencyScope, Millis, OfTenant,
    TenantId, WebhookId, attempt, call, delivery, erasure, event, idempotency, invocation,
    rows::{ColumnType, json_rows, json_statement},
    store::Transaction,
    transcript,
};
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
    sea_query::{Expr, SelectStatement},
};
use serde::Serialize;

use super::Unit;
use crate::{
    api::context::Services,
    audit::Change,
    http::{
        answer::Answer,
        error::{ApiError, Missing},
        extract::{Caller, Id},
    },
};

/// What stands in the place of the caller's number.
pub const ERASED: &str = "erased";

/// `DELETE /calls/{id}`: once the call is over. Deliveries of its events that were not made yet are not made any more.
pub async fn erase(
    caller: Caller,
    services: Data<Services>,
    id: Id<CallId>,
) -> Result<Answer, ApiError> {
    let now = services.clock.now();
    // Looked for before the transaction, which on SQLite would hold up every other write for as long as that takes.
    let answers = answers_with(&services, caller.tenant, id.0).await?;
    let unit = Unit::begin(&services, &caller).await?;
    let txn = unit.txn();
    let call = call::Entity::one_of(caller.tenant, id.0)
        .lock_exclusive()
        .one(txn)
        .await?
        .filter(|call| !call.is_erased())
        .ok_or(ApiError::NotFound(Missing::Call))?;
    if !call.status.is_final() {
        return Err(ApiError::CallStillRunning);
    }
    erase_row(txn, &call).await?;
    let record = erasure::Model {
        call_id: id.0,
        tenant_id: caller.tenant,
        actor: caller.origin.actor,
        erased_at: now,
    };
    erasure::Entity::insert(record.into_active_model())
        .exec_without_returning(txn)
        .await?;
    transcript::Entity::delete_by_id(id.0).exec(txn).await?;
    invocation::Entity::delete_many()
        .filter(invocation::Column::CallId.eq(id.0))
        .exec(txn)
        .await?;
    let webhooks = erase_events(txn, &call, now).await?;
    forget_answers(txn, answers).await?;
    let change = Change::new(AuditAction::CallErase, id.0);
    let answer = unit.commit(Answer::no_content(), Some(change)).await?;
    tracing::info!(call = %id.0, tenant = %caller.tenant, actor = %caller.origin.actor, "call erased");
    for webhook in webhooks {
        services.outbound.refresh(webhook);
    }
    Ok(answer)
}

/// The row without all that is personal, and with an owner that no node is: who still has it in memory writes no more.
async fn erase_row(txn: &Transaction, call: &call::Model) -> Result<(), ApiError> {
    let nobody: CallerNumber = ERASED.parse().map_err(|_| ApiError::Internal)?;
    let change = call::ActiveModel {
        caller_number: Set(nobody),
        metadata: Set("{}".to_owned()),
        transcript_summary: Set(None),
        pending: Set(None),
        failure_detail: Set(None),
        owner: Set(call::NOBODY.to_owned()),
        epoch: Set(call.epoch + 1),
        ..Default::default()
    };
    call::Entity::update_many()
        .set(change)
        .filter(call::Column::Id.eq(call.id))
        .exec(txn)
        .await?;
    Ok(())
}

/// Blanks what the call announced and what receivers answered, and gives up deliveries that wait. Returns whose those were.
async fn erase_events(
    txn: &Transaction,
    call: &call::Model,
    now: Millis,
) -> Result<BTreeSet<WebhookId>, DbErr> {
    blank_bodies(txn, call).await?;
    let waiting = give_up_deliveries(txn, call, now).await?;
    let deliveries = delivery::Entity::of(call.tenant_id)
        .select_only()
        .column(delivery::Column::Id)
        .filter(delivery::Column::EventId.in_subquery(events_of(call)))
        .into_query();
    attempt::Entity::update_many()
        .col_expr(attempt::Column::Response, Expr::value(Vec::<u8>::new()))
        .filter(attempt::Column::DeliveryId.in_subquery(deliveries))
        .exec(txn)
        .await?;
    Ok(waiting)
}

/// The ids of what the call announced.
fn events_of(call: &call::Model) -> SelectStatement {
    event::Entity::of(call.tenant_id)
        .select_only()
        .column(event::Column::Id)
        .filter(event::Column::CallId.eq(call.id))
        .into_query()
}

async fn blank_bodies(txn: &Transaction, call: &call::Model) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: EventId,
        body: String,
    }
    let events: Vec<(EventId, String)> = event::Entity::of(call.tenant_id)
        .select_only()
        .columns([event::Column::Id, event::Column::Body])
        .filter(event::Column::CallId.eq(call.id))
        .into_tuple()
        .all(txn)
        .await?;
    let rows: Vec<Row> = events
        .into_iter()
        .map(|(id, body)| Row {
            id,
            body: without_personal_data(&body),
        })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[("id", ColumnType::Text), ("body", ColumnType::Text)],
    );
    let sql = format!("UPDATE events SET body = rows.body FROM {source} WHERE events.id = rows.id");
    let statement = json_statement(backend, sql, &rows)?;
    txn.execute_raw(statement).await.map(drop)
}

/// Returns whose deliveries waited.
async fn give_up_deliveries(
    txn: &Transaction,
    call: &call::Model,
    now: Millis,
) -> Result<BTreeSet<WebhookId>, DbErr> {
    // All, with their attempts, in the order of their ids, as by everybody who changes some, so that no two can wait for each other.
    let locked: Vec<(WebhookId, DeliveryStatus)> = delivery::Entity::of(call.tenant_id)
        .select_only()
        .column(delivery::Column::WebhookId)
        .column(delivery::Column::Status)
        .filter(delivery::Column::EventId.in_subquery(events_of(call)))
        .order_by_asc(delivery::Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(txn)
        .await?;
    let given_up = delivery::ActiveModel {
        status: Set(DeliveryStatus::Failed),
        next_attempt_at: Set(None),
        lease_owner: Set(None),
        completed_at: Set(Some(now)),
        ..Default::default()
    };
    delivery::Entity::update_many()
        .set(given_up)
        .filter(delivery::Column::EventId.in_subquery(events_of(call)))
        .filter(delivery::Column::Status.eq(DeliveryStatus::Pending))
        .exec(txn)
        .await?;
    let is_waiting = |(_, status): &(_, DeliveryStatus)| *status == DeliveryStatus::Pending;
    let waiting = locked.into_iter().filter(is_waiting);
    Ok(waiting.map(|(webhook, _)| webhook).collect())
}

/// A remembered answer: among whose requests, and under which key.
type Remembered = (IdempotencyScope, String);

/// The remembered answers in which the call stands, to requests of the tenant's and of operators.
async fn answers_with(
    services: &Services,
    tenant: TenantId,
    call: CallId,
) -> Result<Vec<Remembered>, DbErr> {
    let mut found = Vec::new();
    for scope in [
        IdempotencyScope::Tenant(tenant),
        IdempotencyScope::Operators,
    ] {
        let keys: Vec<Remembered> = idempotency::Entity::find()
            .select_only()
            .columns([idempotency::Column::Scope, idempotency::Column::Key])
            .filter(idempotency::Column::Scope.eq(scope))
            .filter(idempotency::Column::Body.contains(call.to_string()))
            .into_tuple()
            .all(services.store.api_reader())
            .await?;
        found.extend(keys);
    }
    Ok(found)
}

/// A repeat of those requests is answered with the code of the first answer and an empty object.
async fn forget_answers(txn: &Transaction, answers: Vec<Remembered>) -> Result<(), DbErr> {
    for (scope, key) in answers {
        idempotency::Entity::update_many()
            .col_expr(idempotency::Column::Body, Expr::value("{}"))
            .filter(idempotency::Column::Scope.eq(scope))
            .filter(idempotency::Column::Key.eq(key))
            .exec(txn)
            .await?;
    }
    Ok(())
}
