//! Erases a call on request: transcript, numbers and metadata are removed; times and costs stay.

use std::collections::BTreeSet;

use dikala_actors::{
    calls::without_personal_data,
    events::sequences::read_subscribers,
    webhooks::{ExistingRows, UnwrittenDelivery, insert_rows},
};
use dikala_entities::{
    AuditAction, CallId, CallerNumber, DeliveryStatus, EventId, Millis, OfTenant, WebhookId,
    attempt, call, delivery, erasure, event, idempotency, invocation,
    rows::{ColumnType, json_rows, json_statement},
    store::Transaction,
    transcript,
};
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait, UpdateMany,
    sea_query::{Expr, SelectStatement},
};
use serde::Serialize;

use super::callers;
use crate::{
    audit::AuditChange,
    http::{
        answer::NoContent,
        error::{ApiError, Missing},
        extract::Id,
    },
    operations::OperationContext,
};

/// Replaces the caller's number.
pub const ERASED: &str = "erased";

/// Erases a call, only once it is over. Pending deliveries of its events are given up.
pub async fn erase(
    context: OperationContext,
    id: Id<CallId>,
) -> Result<NoContent<CallId>, ApiError> {
    let mut write = context.begin().await?;
    let found = context.one_of::<call::Entity>(id.0).lock_exclusive();
    let call = found.one(&*write).await?.filter(|call| !call.is_erased());
    let call = call.ok_or(ApiError::NotFound(Missing::Call))?;
    if !call.status.is_final() {
        return Err(ApiError::CallStillRunning);
    }
    erase_row(&write, &call).await?;
    callers::forget(&*write, call.tenant_id, &call.caller_number).await?;
    let record = erasure::Model {
        call_id: call.id,
        tenant_id: call.tenant_id,
        actor: context.origin.actor,
        erased_at: context.now,
    };
    erasure::Entity::insert(record.into_active_model())
        .exec_without_returning(&*write)
        .await?;
    transcript::Entity::delete_by_id(call.id)
        .exec(&*write)
        .await?;
    invocation::Entity::delete_many()
        .filter(invocation::Column::CallId.eq(call.id))
        .exec(&*write)
        .await?;
    let webhooks = erase_events(&write, &call, context.now).await?;
    answers_of(call.id).exec(&*write).await?;
    let change = AuditChange::new(AuditAction::CallErase, call.id);
    write.record(call.tenant_id, change).await?;
    let done = write.commit(NoContent(call.id)).await?;
    tracing::info!(call = %call.id, tenant = %call.tenant_id, actor = %context.origin.actor, "call erased");
    if let Some(telephony) = context.telephony(call.bridge_id) {
        telephony.forget_ladder(&call.bridge_call_id);
    }
    for webhook in webhooks {
        context.refresh_webhook(webhook);
    }
    Ok(done)
}

/// Removes all personal data from the row. The row gets an owner that is no node, so an actor that still has the call
/// in memory can write no more.
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

/// Blanks the call's events and the receivers' answers, and gives up pending deliveries. Returns the webhooks of
/// those.
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

/// The ids of the call's events.
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

/// Returns the webhooks that had pending deliveries.
async fn give_up_deliveries(
    txn: &Transaction,
    call: &call::Model,
    now: Millis,
) -> Result<BTreeSet<WebhookId>, DbErr> {
    write_deliveries(txn, call).await?;
    // Both lock all deliveries in the order of their ids, like every other writer, so that no two can deadlock.
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

/// Writes rows for deliveries that have none, so that they can be given up, and locks the others.
async fn write_deliveries(txn: &Transaction, call: &call::Model) -> Result<(), DbErr> {
    let events = event::Entity::of(call.tenant_id)
        .filter(event::Column::CallId.eq(call.id))
        .all(txn)
        .await?;
    let mut unwritten = Vec::new();
    for event in events {
        let (Some(announced_at), Some(subscribers)) = (event.announced_at, &event.subscribers)
        else {
            continue;
        };
        let of = |(webhook, sequence)| UnwrittenDelivery {
            tenant: event.tenant_id,
            webhook,
            event: event.id,
            call: event.call_id,
            kind: event.kind,
            announced_at,
            sequence,
        };
        unwritten.extend(read_subscribers(subscribers)?.into_iter().map(of));
    }
    insert_rows(txn, &unwritten, ExistingRows::Locked).await
}

/// Clears the stored answers about the call. A repeat of their requests gets the first answer's code and an empty
/// object.
fn answers_of(call: CallId) -> UpdateMany<idempotency::Entity> {
    idempotency::Entity::update_many()
        .col_expr(idempotency::Column::Body, Expr::value("{}"))
        .filter(idempotency::Column::CallId.eq(call))
}

#[cfg(test)]
mod tests {
    use dikala_testkit::both;
    use sea_orm::{DbBackend, Statement};

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);
    /// Stored answers about no call, or about other calls.
    const ANSWERS: usize = 50_000;
    /// Pages of 8 KiB that PostgreSQL may read to erase the answers about one call; all answers take about 800.
    const PAGES_MAX: i64 = 100;

    /// Without the index, a request would exceed its time limit with millions of answers.
    #[actix_web::test]
    async fn erasing_a_call_reads_the_answers_about_that_call_alone() {
        for (_keep, store) in both().await {
            let call = CallId::new(NOW);
            let numbers = match store.backend() {
                DbBackend::Postgres => {
                    format!("SELECT n FROM generate_series(1, {ANSWERS}) AS g(n)")
                }
                _ => format!(
                    "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < {ANSWERS}) SELECT n FROM g"
                ),
            };
            let db = store.writer();
            for sql in [
                format!(
                    "INSERT INTO idempotency_keys (scope, key, fingerprint, status, body, created_at, node, call_id) \
                     SELECT 'operators', 'k' || n, 'f', 202, '{{\"id\":\"' || n || '\"}}', 1, 'n', \
                     CASE WHEN n % 10 = 0 THEN 'call_' || n END FROM ({numbers}) AS numbers"
                ),
                format!("UPDATE idempotency_keys SET call_id = '{call}' WHERE key IN ('k7', 'k8')"),
                "ANALYZE".to_owned(),
            ] {
                db.execute_unprepared(&sql).await.expect("is done");
            }
            let erase = answers_of(call).build(store.backend());
            let sql = match store.backend() {
                DbBackend::Postgres => format!("EXPLAIN (ANALYZE, BUFFERS) {}", erase.sql),
                _ => format!("EXPLAIN QUERY PLAN {}", erase.sql),
            };
            let explain = Statement {
                sql,
                ..erase.clone()
            };
            let lines = db.query_all_raw(explain).await.expect("is explained");
            let column = match store.backend() {
                DbBackend::Postgres => "QUERY PLAN",
                _ => "detail",
            };
            let lines = lines.iter().map(|line| line.try_get("", column));
            let plan: Vec<String> = lines.collect::<Result<_, _>>().expect("text");
            let plan = plan.join("\n");
            assert!(plan.contains("idempotency_keys_of_calls"), "{plan}");
            let done = plan.split("Planning:").next().unwrap_or_default();
            let pages = done.split("shared hit=").skip(1).map(|rest| {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<i64>().expect("a number")
            });
            assert!(pages.max().unwrap_or(0) <= PAGES_MAX, "{plan}");
            db.execute_raw(erase).await.expect("is erased");
            let blank = idempotency::Entity::find().filter(idempotency::Column::Body.eq("{}"));
            let mut blank: Vec<String> = blank
                .all(db)
                .await
                .expect("reads")
                .into_iter()
                .map(|row| row.key)
                .collect();
            blank.sort();
            assert_eq!(blank, ["k7", "k8"]);
        }
    }
}
