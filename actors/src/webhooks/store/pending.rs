//! Due deliveries and refills, in SQL. A refill first writes the rows of deliveries that so far are only in the log of events. The same text runs on SQLite and PostgreSQL.

use std::{collections::HashMap, num::NonZeroUsize, sync::Arc, time::Instant};

use dikala_entities::{
    CallId, DeliveryId, EventId, EventKind, Millis, Store, TenantId, TraceParent, WebhookId, call,
    event,
    rows::{ColumnType, json_rows, json_statement},
    webhook,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter, QueryResult,
    QuerySelect, Statement,
};
use serde::Serialize;

use super::{log::write_rows, statement::statement};
use crate::{
    events::outbox::{AHEAD_MS_MAX, Dispatch, NewEvent},
    webhooks::scheduler::{DueWebhook, QueuedDelivery, Refill, Refilled},
};

/// Pages of the log that one refill writes rows for.
const LOG_PAGES_MAX: usize = 4;
/// Maximum number of a deleted webhook's deliveries closed by one statement.
pub(in crate::webhooks) const CLOSE_BATCH: i64 = 500;
/// Ends a `SELECT` of ids. Every change of deliveries locks them in this order first, which prevents deadlocks.
/// SQLite has one writer.
fn lock(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => "ORDER BY d.id FOR UPDATE OF d",
        _ => "",
    }
}

/// Every webhook with pending deliveries, except disabled and paused ones, whose deliveries stay pending. Walks the
/// index from webhook to webhook, so the cost does not depend on the number of pending deliveries.
pub(in crate::webhooks) async fn due(store: &Store) -> Result<Vec<DueWebhook>, DbErr> {
    let due = due_statement(store.backend());
    let rows = store.reader().query_all_raw(due).await?;
    rows.iter().map(due_row).collect()
}

pub(in crate::webhooks) fn due_statement(backend: DbBackend) -> Statement {
    // The order is that of the partial index, so both databases use it.
    let sql = "WITH RECURSIVE w(id) AS ( \
            SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = 'pending' \
                ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1) \
            UNION ALL \
            SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = 'pending' AND d.webhook_id > w.id \
                ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1) \
            FROM w WHERE w.id IS NOT NULL) \
        SELECT w.id AS id, webhooks.tenant_id AS tenant_id, \
            (SELECT d.next_attempt_at FROM deliveries d WHERE d.status = 'pending' AND d.webhook_id = w.id \
             ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1) AS due_at \
        FROM w LEFT JOIN webhooks ON webhooks.id = w.id \
        WHERE w.id IS NOT NULL AND (webhooks.id IS NULL OR (webhooks.is_active AND webhooks.paused_at IS NULL))";
    Statement::from_string(backend, sql)
}

fn due_row(row: &QueryResult) -> Result<DueWebhook, DbErr> {
    Ok(DueWebhook {
        webhook: row.try_get("", "id")?,
        tenant: row.try_get("", "tenant_id")?,
        at: row
            .try_get::<Option<i64>>("", "due_at")?
            .map(Millis::from_i64),
    })
}

/// The webhooks with these ids that exist.
pub(in crate::webhooks) async fn webhooks(
    store: &Store,
    ids: &[WebhookId],
) -> Result<Vec<webhook::Model>, DbErr> {
    webhook::Entity::find()
        .filter(webhook::Column::Id.is_in(ids.iter().copied()))
        .all(store.reader())
        .await
}

/// The result of a refill.
#[derive(Debug)]
pub(in crate::webhooks) struct StoredRefill {
    /// The queue's part: due deliveries, oldest first.
    pub(in crate::webhooks) refilled: Refilled,
    /// Due deliveries whose event is gone.
    pub(in crate::webhooks) lost: Vec<DeliveryId>,
}

/// Writes rows for the events of a webhook that have none, and reads its due deliveries, except those in memory. None if
/// another node has the cursor by now.
pub(in crate::webhooks) async fn refill(
    store: &Store,
    refill: &Refill,
    node: &str,
    now: Millis,
) -> Result<Option<StoredRefill>, DbErr> {
    let mut written = (refill.from, false);
    for _ in 0..LOG_PAGES_MAX {
        let Some(next) = write_rows(store, refill, written.0, node).await? else {
            return Ok(None);
        };
        written = next;
        if written.1 {
            break;
        }
    }
    let mut given = StoredRefill {
        refilled: Refilled {
            items: Vec::new(),
            written: written.0,
            is_log_end: written.1,
            is_complete: false,
        },
        lost: Vec::new(),
    };
    let Some(most) = refill.most else {
        return Ok(Some(given));
    };
    let read_at = Instant::now();
    let due = due_rows_statement(store.backend(), refill, most, node, now)?;
    let rows = store.reader().query_all_raw(due).await?;
    let taken: Vec<Taken> = rows.iter().map(taken_row).collect::<Result<_, _>>()?;
    given.refilled.is_complete = written.1 && taken.len() < most.get();
    if !taken.is_empty() {
        store.confirm(read_at).await?;
        (given.refilled.items, given.lost) = with_bodies(store, taken, now).await?;
    }
    Ok(Some(given))
}

/// First attempts are due even if the clock of the node that announced their event is ahead. Otherwise later events of the
/// same call would overtake them.
pub(in crate::webhooks) fn due_rows_statement(
    backend: DbBackend,
    refill: &Refill,
    most: NonZeroUsize,
    node: &str,
    now: Millis,
) -> Result<Statement, DbErr> {
    let known = match backend {
        DbBackend::Postgres => "SELECT json_array_elements_text($3::json)",
        _ => "SELECT value FROM json_each($3)",
    };
    let sql = format!(
        "SELECT d.id, d.tenant_id, d.webhook_id, d.event_id, d.call_id, d.kind, d.attempts, d.is_test, d.created_at \
         FROM deliveries d WHERE d.webhook_id = $1 AND d.status = 'pending' AND d.next_attempt_at <= $6 \
            AND (d.next_attempt_at <= $2 OR d.attempts = 0) AND d.id NOT IN ({known}) \
            AND EXISTS (SELECT 1 FROM webhook_cursors c WHERE c.webhook_id = $1 AND c.node = $4) \
         ORDER BY d.next_attempt_at, d.id LIMIT $5"
    );
    let known = serde_json::to_string(&refill.known).map_err(|e| DbErr::Json(e.to_string()))?;
    let values = vec![
        refill.webhook.to_string().into(),
        now.as_i64().into(),
        known.into(),
        node.into(),
        i64::try_from(most.get()).unwrap_or(i64::MAX).into(),
        now.plus_ms(AHEAD_MS_MAX).as_i64().into(),
    ];
    Ok(statement(backend, &sql, values))
}

struct Taken {
    delivery: DeliveryId,
    tenant: TenantId,
    webhook: WebhookId,
    event: EventId,
    call: Option<CallId>,
    kind: EventKind,
    attempts: i64,
    is_test: bool,
    created: Millis,
}

fn taken_row(row: &QueryResult) -> Result<Taken, DbErr> {
    Ok(Taken {
        delivery: row.try_get("", "id")?,
        tenant: row.try_get("", "tenant_id")?,
        webhook: row.try_get("", "webhook_id")?,
        event: row.try_get("", "event_id")?,
        call: row.try_get("", "call_id")?,
        kind: row.try_get("", "kind")?,
        attempts: row.try_get("", "attempts")?,
        is_test: row.try_get("", "is_test")?,
        created: row.try_get("", "created_at")?,
    })
}

async fn with_bodies(
    store: &Store,
    taken: Vec<Taken>,
    read_at: Millis,
) -> Result<(Vec<QueuedDelivery>, Vec<DeliveryId>), DbErr> {
    if taken.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let events = event::Entity::find()
        .filter(event::Column::Id.is_in(taken.iter().map(|taken| taken.event)))
        .all(store.reader())
        .await?;
    let bodies: HashMap<EventId, Arc<str>> = events
        .into_iter()
        .map(|event| (event.id, event.body.into()))
        .collect();
    let calls: Vec<CallId> = taken.iter().filter_map(|taken| taken.call).collect();
    let traces = traces(store, calls).await?;
    let mut items = Vec::with_capacity(taken.len());
    let mut lost = Vec::new();
    for taken in taken {
        match bodies.get(&taken.event) {
            Some(body) => {
                let trace = taken.call.and_then(|call| traces.get(&call)).cloned();
                items.push(item(&taken, Arc::clone(body), trace, read_at));
            }
            None => lost.push(taken.delivery),
        }
    }
    Ok((items, lost))
}

/// The traces of calls, for those that have one.
async fn traces(store: &Store, calls: Vec<CallId>) -> Result<HashMap<CallId, TraceParent>, DbErr> {
    if calls.is_empty() {
        return Ok(HashMap::new());
    }
    let traced: Vec<(CallId, Option<TraceParent>)> = call::Entity::find()
        .select_only()
        .columns([call::Column::Id, call::Column::Traceparent])
        .filter(call::Column::Id.is_in(calls))
        .into_tuple()
        .all(store.reader())
        .await?;
    let traced = traced.into_iter();
    Ok(traced
        .filter_map(|(call, trace)| Some((call, trace?)))
        .collect())
}

fn item(
    taken: &Taken,
    body: Arc<str>,
    trace: Option<TraceParent>,
    read_at: Millis,
) -> QueuedDelivery {
    QueuedDelivery {
        dispatch: Dispatch {
            delivery: taken.delivery,
            webhook: taken.webhook,
            tenant: taken.tenant,
            event: taken.event,
            kind: taken.kind,
            call: taken.call,
            body,
            attempts: taken.attempts,
            is_test: taken.is_test,
            trace,
            place: None,
        },
        read_at,
        created: taken.created,
    }
}

/// Closes some pending deliveries of a deleted webhook. Returns their number.
pub(in crate::webhooks) async fn close_deleted(
    store: &Store,
    webhook: WebhookId,
    now: Millis,
) -> Result<u64, DbErr> {
    let sql = format!(
        "WITH open AS MATERIALIZED (SELECT d.id FROM deliveries d WHERE d.status = 'pending' AND d.id IN \
            (SELECT id FROM deliveries WHERE webhook_id = $2 AND status = 'pending' LIMIT $3) {}) \
        UPDATE deliveries SET status = 'failed', completed_at = $1, next_attempt_at = NULL \
        WHERE id IN (SELECT id FROM open)",
        lock(store.backend())
    );
    let values = vec![
        now.as_i64().into(),
        webhook.to_string().into(),
        CLOSE_BATCH.into(),
    ];
    let closed = store
        .writer()
        .execute_raw(statement(store.backend(), &sql, values))
        .await?;
    Ok(closed.rows_affected())
}

/// Closes deliveries without an event, because it was swept.
pub(in crate::webhooks) async fn close_lost(
    store: &Store,
    ids: &[DeliveryId],
    now: Millis,
) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
        now: i64,
    }
    let rows: Vec<Row> = ids
        .iter()
        .map(|id| Row {
            id: *id,
            now: now.as_i64(),
        })
        .collect();
    let source = json_rows(
        store.backend(),
        &[("id", ColumnType::Text), ("now", ColumnType::BigInt)],
    );
    let sql = format!(
        "WITH lost AS MATERIALIZED (SELECT d.id, rows.now FROM {source} JOIN deliveries d ON d.id = rows.id \
            WHERE d.status = 'pending' {}) \
        UPDATE deliveries SET status = 'failed', completed_at = lost.now, next_attempt_at = NULL \
        FROM lost WHERE deliveries.id = lost.id",
        lock(store.backend())
    );
    store
        .writer()
        .execute_raw(json_statement(store.backend(), sql, &rows)?)
        .await
        .map(drop)
}

/// Writes the event of a test.
pub(in crate::webhooks) async fn insert_test(store: &Store, event: &NewEvent) -> Result<(), DbErr> {
    // Without a position, because no follower should see it.
    let sql = "INSERT INTO events (id, tenant_id, call_id, kind, occurred_at, body, is_test) \
        VALUES ($1, $2, NULL, $3, $4, $5, true)";
    let values = vec![
        event.id.to_string().into(),
        event.tenant.to_string().into(),
        event.kind.as_str().into(),
        event.at.as_i64().into(),
        event.body.as_ref().into(),
    ];
    store
        .writer()
        .execute_raw(statement(store.backend(), sql, values))
        .await
        .map(drop)
}
