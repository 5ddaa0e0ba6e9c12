//! Due deliveries and their claims, in SQL. The same text runs on SQLite and PostgreSQL.

use std::{collections::HashMap, sync::Arc};

use dikala_entities::{
    CallId, DeliveryId, EventId, EventKind, Millis, Store, TenantId, TraceParent, WebhookId, call,
    event,
    rows::{ColumnType, json_rows, json_statement},
    webhook,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter, QueryResult,
    QuerySelect, Statement, Value,
};
use serde::Serialize;

use crate::{
    events::outbox::{Dispatch, NewEvent},
    webhooks::scheduler::{DueWebhook, QueuedDelivery, Refill},
};

/// Maximum number of a deleted webhook's deliveries closed by one statement.
pub(in crate::webhooks) const CLOSE_BATCH: i64 = 500;
/// After this time a delivery of this node is no longer on its way from its commit, in milliseconds.
pub(in crate::webhooks) const ON_ITS_WAY_MS: i64 = 1_000;
/// Delivery `d`, committed or claimed by another node, belongs to the owner of its webhook's endpoint queue. A test does so
/// once its node is gone. Ending a node writes nothing for its deliveries, because that would cost as much as their
/// number.
const NOT_OURS: &str =
    "(d.lease_owner <> $1 AND (NOT d.is_test OR d.lease_owner NOT IN (SELECT id FROM nodes)))";

fn statement(backend: DbBackend, sql: &str, values: Vec<Value>) -> Statement {
    let sql = match backend {
        DbBackend::Postgres => sql.to_owned(),
        _ => sql.replace('$', "?"),
    };
    Statement::from_sql_and_values(backend, sql, values)
}

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
pub(in crate::webhooks) async fn due(
    store: &Store,
    node: &str,
    now: Millis,
) -> Result<Vec<DueWebhook>, DbErr> {
    let due = due_statement(store.backend(), node, now);
    let rows = store.reader().query_all_raw(due).await?;
    rows.iter().map(due_row).collect()
}

pub(in crate::webhooks) fn due_statement(backend: DbBackend, node: &str, now: Millis) -> Statement {
    // The order is that of the partial index, so both databases use it.
    let sql = format!(
        "WITH RECURSIVE w(id) AS ( \
            SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = 'pending' \
                ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1) \
            UNION ALL \
            SELECT (SELECT d.webhook_id FROM deliveries d WHERE d.status = 'pending' AND d.webhook_id > w.id \
                ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1) \
            FROM w WHERE w.id IS NOT NULL) \
        SELECT w.id AS id, webhooks.tenant_id AS tenant_id, \
            (SELECT d.next_attempt_at FROM deliveries d \
             WHERE d.status = 'pending' AND d.webhook_id = w.id \
               AND (d.lease_owner IS NULL OR (d.lease_owner = $1 AND d.next_attempt_at <= $2) OR {NOT_OURS}) \
             ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1) AS due_at \
        FROM w LEFT JOIN webhooks ON webhooks.id = w.id \
        WHERE w.id IS NOT NULL AND (webhooks.id IS NULL OR (webhooks.is_active AND webhooks.paused_at IS NULL))"
    );
    let values = vec![node.into(), now.plus_ms(-ON_ITS_WAY_MS).as_i64().into()];
    statement(backend, &sql, values)
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

/// Claims due deliveries of one webhook, oldest first, if this node has its queue. The second part are those whose
/// event is gone. If another node has the queue by now, it claims nothing.
pub(in crate::webhooks) async fn claim(
    store: &Store,
    claim: &Refill,
    node: &str,
    now: Millis,
) -> Result<(Vec<QueuedDelivery>, Vec<DeliveryId>), DbErr> {
    let claiming = claim_statement(store.backend(), claim, node, now)?;
    let rows = store.writer().query_all_raw(claiming).await?;
    let mut taken: Vec<Taken> = rows.iter().map(taken_row).collect::<Result<_, _>>()?;
    taken.sort_unstable_by_key(|taken| (taken.due_at, taken.delivery));
    with_bodies(store, taken, now).await
}

/// Claims deliveries that other nodes committed too, except tests: those are made on the node that received the
/// request, while it lives.
///
/// After a call moved, an event from another node waits for an earlier one in `coming`, which is on its way here from
/// its commit. Due times follow the order of commits, so only deliveries that became due recently are read for this.
pub(in crate::webhooks) fn claim_statement(
    backend: DbBackend,
    claim: &Refill,
    node: &str,
    now: Millis,
) -> Result<Statement, DbErr> {
    let (known, lock) = match backend {
        DbBackend::Postgres => (
            "SELECT json_array_elements_text($7::json)",
            "FOR UPDATE OF d SKIP LOCKED",
        ),
        _ => ("SELECT value FROM json_each($7)", ""),
    };
    let sql = format!(
        "WITH coming AS MATERIALIZED ( \
            SELECT o.call_id, MIN(o.id) AS first FROM deliveries o \
            WHERE o.webhook_id = $2 AND o.status = 'pending' AND o.next_attempt_at > $4 AND o.next_attempt_at <= $3 \
              AND o.lease_owner = $1 AND o.attempts = 0 AND o.call_id IS NOT NULL AND o.id > $5 AND o.id NOT IN ({known}) \
            GROUP BY o.call_id), \
        picked AS MATERIALIZED ( \
            SELECT d.id FROM deliveries d \
            WHERE d.webhook_id = $2 AND d.status = 'pending' AND d.next_attempt_at <= $3 \
              AND (d.lease_owner IS NULL OR (d.lease_owner = $1 AND (d.next_attempt_at <= $4 OR d.id <= $5)) \
                OR ({NOT_OURS} AND (d.next_attempt_at <= $4 \
                  OR NOT EXISTS (SELECT 1 FROM coming WHERE coming.call_id = d.call_id AND coming.first < d.id)))) \
              AND d.id NOT IN ({known}) \
              AND NOT EXISTS (SELECT 1 FROM webhook_lanes l WHERE l.webhook_id = $2 AND l.node <> $1) \
            ORDER BY d.next_attempt_at, d.id LIMIT $6 {lock}) \
        UPDATE deliveries SET lease_owner = $1 WHERE id IN (SELECT id FROM picked) \
        RETURNING id, tenant_id, webhook_id, event_id, call_id, kind, attempts, is_test, created_at, next_attempt_at"
    );
    let known = serde_json::to_string(&claim.known).map_err(|e| DbErr::Json(e.to_string()))?;
    let left_behind = claim
        .left_behind
        .map(|id| id.to_string())
        .unwrap_or_default();
    let values = vec![
        node.into(),
        claim.webhook.to_string().into(),
        now.as_i64().into(),
        now.plus_ms(-ON_ITS_WAY_MS).as_i64().into(),
        left_behind.into(),
        i64::try_from(claim.limit).unwrap_or(i64::MAX).into(),
        known.into(),
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
    due_at: Millis,
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
        due_at: row.try_get("", "next_attempt_at")?,
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
            has_moved: false,
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
        UPDATE deliveries SET status = 'failed', completed_at = $1, next_attempt_at = NULL, \
            lease_owner = NULL WHERE id IN (SELECT id FROM open)",
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
        UPDATE deliveries SET status = 'failed', completed_at = lost.now, next_attempt_at = NULL, \
            lease_owner = NULL FROM lost WHERE deliveries.id = lost.id",
        lock(store.backend())
    );
    store
        .writer()
        .execute_raw(json_statement(store.backend(), sql, &rows)?)
        .await
        .map(drop)
}

/// Writes an event for one webhook only, with its delivery.
pub(in crate::webhooks) async fn insert_test(
    store: &Store,
    event: &NewEvent,
    delivery: &Dispatch,
    node: &str,
    now: Millis,
) -> Result<(), DbErr> {
    let txn = store.begin().await?;
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
    txn.execute_raw(statement(store.backend(), sql, values))
        .await?;
    let sql = "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, \
            next_attempt_at, lease_owner, is_test, created_at) \
        VALUES ($1, $2, $3, $4, NULL, $5, 'pending', 0, $6, $7, true, $6)";
    let values = vec![
        delivery.delivery.to_string().into(),
        delivery.tenant.to_string().into(),
        delivery.webhook.to_string().into(),
        delivery.event.to_string().into(),
        delivery.kind.as_str().into(),
        now.as_i64().into(),
        node.into(),
    ];
    txn.execute_raw(statement(store.backend(), sql, values))
        .await?;
    txn.commit().await
}
