//! Results of attempts, written in batches: webhooks' health, deliveries and the log of attempts.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashSet},
};

use dikala_entities::{
    AttemptOutcome, CallId, DeliveryId, DeliveryStatus, EventId, EventKind, MailKind, Millis,
    Store, TenantId, WebhookId,
    batch::BatchWrite,
    rows::{ColumnType, json_rows, json_statement},
    store::Transaction,
    webhook_stat::{hour_of, up_to},
};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};
use serde::Serialize;

use super::recordable::written_before;
use crate::{
    mails,
    outbound::ErrorKind,
    webhooks::{
        attempt::AttemptRecord,
        retry::{AttemptVerdict, Health},
    },
};

/// A webhook that the attempts of a batch disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::webhooks) struct DisabledWebhook {
    pub(in crate::webhooks) webhook: WebhookId,
    pub(in crate::webhooks) tenant: TenantId,
    pub(in crate::webhooks) reason: &'static str,
    pub(in crate::webhooks) at: Millis,
}

/// The result of recording a batch.
#[derive(Debug, Default)]
pub(in crate::webhooks) struct RecordedBatch {
    pub(in crate::webhooks) disabled: Vec<DisabledWebhook>,
    /// Deliveries of which nothing is written, because another node delivers to their webhook by now.
    pub(in crate::webhooks) refused: HashSet<DeliveryId>,
    /// Deliveries of which nothing is written, because their results cannot be recorded.
    pub(in crate::webhooks) set_aside: HashSet<DeliveryId>,
    /// Deliveries of which nothing is written yet, because another session has locked their row or their webhook's.
    pub(in crate::webhooks) locked: HashSet<DeliveryId>,
}

/// Records a batch of attempts that `node` made in one transaction: deliveries, webhooks' health, log and statistics.
/// Deliveries of webhooks whose cursor another node took while this node was paused or cut off are skipped.
pub(in crate::webhooks) async fn record(
    store: &Store,
    node: &str,
    batch: &[impl Borrow<AttemptRecord>],
) -> Result<RecordedBatch, DbErr> {
    let mut batch: Vec<&AttemptRecord> = batch.iter().map(Borrow::borrow).collect();
    let txn = store.begin_shared().await?;
    let recorded = record_deliveries(&txn, node, &batch).await?;
    let is_refused = |record: &&&AttemptRecord| !recorded.contains(&record.delivery);
    let mut refused: HashSet<DeliveryId> = batch
        .iter()
        .filter(is_refused)
        .map(|record| record.delivery)
        .collect();
    if !refused.is_empty() {
        let written = written_before(&txn, &batch).await?;
        batch.retain(|record| !refused.contains(&record.delivery));
        for delivery in written {
            refused.remove(&delivery);
        }
    }
    let batch = batch.as_slice();
    let disabled = record_health(&txn, batch).await?;
    let mail_rows = disabled.iter().map(|disabled| {
        let subject = disabled.webhook.to_string();
        mails::to_owners(
            MailKind::WebhookDisabled,
            disabled.tenant,
            subject,
            disabled.at,
        )
    });
    mails::write(&txn, mail_rows).await?;
    record_attempts(&txn, batch).await?;
    count(&txn, batch).await?;
    txn.commit().await?;
    Ok(RecordedBatch {
        disabled,
        refused,
        ..RecordedBatch::default()
    })
}

#[derive(Serialize)]
struct HealthRow {
    id: WebhookId,
    failed_in_row: i64,
    failing_since: Option<i64>,
    reason: Option<&'static str>,
    now: i64,
}

async fn record_health(
    txn: &Transaction,
    batch: &[&AttemptRecord],
) -> Result<Vec<DisabledWebhook>, DbErr> {
    let mut changed = Vec::new();
    let mut disabled = Vec::new();
    for (webhook, before, is_active, updated_at) in health_before(txn, batch).await? {
        let (mut health, mut disabled_now, mut last) = (before, None, Millis::MIN);
        // Attempts with an earlier version of the webhook concern its old address, or the time before it was
        // enabled.
        let counts = |record: &&&AttemptRecord| {
            record.webhook == webhook && !record.is_test && record.webhook_updated_at == updated_at
        };
        for record in batch.iter().filter(counts) {
            health = health.after(record.verdict, record.ended_at);
            let reason = health.disabled_reason(record.verdict, record.ended_at);
            disabled_now = disabled_now.or(reason.map(|reason| DisabledWebhook {
                webhook,
                tenant: record.tenant,
                reason,
                at: record.ended_at,
            }));
            last = record.ended_at;
        }
        let disabled_now = disabled_now.filter(|_| is_active);
        if health == before && disabled_now.is_none() {
            continue;
        }
        disabled.extend(disabled_now);
        changed.push(HealthRow {
            id: webhook,
            failed_in_row: health.failed_in_row,
            failing_since: health.failing_since.map(Millis::as_i64),
            reason: disabled_now.map(|disabled| disabled.reason),
            now: last.as_i64(),
        });
    }
    write_health(txn, &changed).await?;
    Ok(disabled)
}

/// The webhooks whose health this batch may change: those with a failure, and those that were failing. Locked in the
/// order of their ids, which prevents deadlocks between nodes.
async fn health_before(
    txn: &Transaction,
    batch: &[&AttemptRecord],
) -> Result<Vec<(WebhookId, Health, bool, Millis)>, DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: WebhookId,
        failed: i64,
    }
    let mut rows: BTreeMap<WebhookId, i64> = BTreeMap::new();
    for record in batch.iter().filter(|record| !record.is_test) {
        let failed = rows.entry(record.webhook).or_insert(0);
        *failed |= i64::from(record.verdict != AttemptVerdict::Delivered);
    }
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|(id, failed)| Row { id, failed })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[("id", ColumnType::Text), ("failed", ColumnType::BigInt)],
    );
    let lock = match backend {
        DbBackend::Postgres => "FOR UPDATE OF webhooks",
        _ => "",
    };
    let sql = format!(
        "SELECT webhooks.id AS id, webhooks.failed_in_row AS failed_in_row, \
            webhooks.failing_since AS failing_since, webhooks.is_active AS is_active, \
            webhooks.updated_at AS updated_at \
        FROM {source} JOIN webhooks ON webhooks.id = rows.id \
        WHERE rows.failed = 1 OR webhooks.failing_since IS NOT NULL \
        ORDER BY webhooks.id {lock}"
    );
    let found = txn
        .query_all_raw(json_statement(backend, sql, &rows)?)
        .await?;
    found
        .iter()
        .map(|row| {
            let health = Health {
                failed_in_row: row.try_get("", "failed_in_row")?,
                failing_since: row.try_get("", "failing_since")?,
            };
            Ok((
                row.try_get("", "id")?,
                health,
                row.try_get("", "is_active")?,
                row.try_get("", "updated_at")?,
            ))
        })
        .collect()
}

async fn write_health(txn: &Transaction, rows: &[HealthRow]) -> Result<(), DbErr> {
    if rows.is_empty() {
        return Ok(());
    }
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", ColumnType::Text),
            ("failed_in_row", ColumnType::BigInt),
            ("failing_since", ColumnType::BigInt),
            ("reason", ColumnType::Text),
            ("now", ColumnType::BigInt),
        ],
    );
    let sql = format!(
        "UPDATE webhooks SET failed_in_row = rows.failed_in_row, failing_since = rows.failing_since, \
            is_active = CASE WHEN rows.reason IS NULL THEN webhooks.is_active ELSE false END, \
            disabled_reason = COALESCE(rows.reason, webhooks.disabled_reason), \
            updated_at = CASE WHEN rows.reason IS NULL THEN webhooks.updated_at \
                WHEN rows.now > webhooks.updated_at THEN rows.now ELSE webhooks.updated_at + 1 END \
        FROM {source} WHERE webhooks.id = rows.id"
    );
    txn.execute_raw(json_statement(backend, sql, rows)?)
        .await
        .map(drop)
}

/// The row of a delivery after an attempt.
#[derive(Serialize)]
struct DeliveryRow {
    id: DeliveryId,
    tenant_id: TenantId,
    webhook_id: WebhookId,
    event_id: EventId,
    call_id: Option<CallId>,
    kind: EventKind,
    status: DeliveryStatus,
    number: i64,
    next_attempt_at: Option<i64>,
    is_test: i64,
    beside_cursor: i64,
    created_at: i64,
    completed_at: Option<i64>,
}

impl DeliveryRow {
    fn after(record: &AttemptRecord) -> Self {
        let (status, next) = match record.verdict {
            AttemptVerdict::Delivered => (DeliveryStatus::Succeeded, None),
            AttemptVerdict::Retry { at } => (DeliveryStatus::Pending, Some(at.as_i64())),
            AttemptVerdict::GivenUp | AttemptVerdict::Gone => (DeliveryStatus::Failed, None),
        };
        Self {
            id: record.delivery,
            tenant_id: record.tenant,
            webhook_id: record.webhook,
            event_id: record.event,
            call_id: record.call,
            kind: record.kind,
            status,
            number: record.number,
            next_attempt_at: next,
            is_test: i64::from(record.is_test),
            beside_cursor: i64::from(record.is_test || record.is_beside_queue),
            created_at: record.delivery.time().as_i64(),
            completed_at: next.is_none().then_some(record.ended_at.as_i64()),
        }
    }
}

/// Writes the state of deliveries after their attempts: a new row after the first attempt, unless there is one. Returns
/// those that were written. Not written are attempts that were made before, or by a node that does not have the cursor.
/// Tests bypass the cursors, and so do attempts by hand, and those of webhooks that were deleted meanwhile. The order of ids prevents deadlocks.
async fn record_deliveries(
    txn: &Transaction,
    node: &str,
    batch: &[&AttemptRecord],
) -> Result<HashSet<DeliveryId>, DbErr> {
    let rows: Vec<DeliveryRow> = batch
        .iter()
        .map(|record| DeliveryRow::after(record))
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", ColumnType::Text),
            ("tenant_id", ColumnType::Text),
            ("webhook_id", ColumnType::Text),
            ("event_id", ColumnType::Text),
            ("call_id", ColumnType::Text),
            ("kind", ColumnType::Text),
            ("status", ColumnType::Text),
            ("number", ColumnType::BigInt),
            ("next_attempt_at", ColumnType::BigInt),
            ("is_test", ColumnType::BigInt),
            ("beside_cursor", ColumnType::BigInt),
            ("created_at", ColumnType::BigInt),
            ("completed_at", ColumnType::BigInt),
        ],
    );
    // A delivery that was closed meanwhile, because its call was erased or its webhook deleted, stays closed, unless it arrived.
    let while_pending = |column: &str| {
        format!(
            "{column} = CASE WHEN deliveries.status = 'pending' OR excluded.status = 'succeeded' \
                THEN excluded.{column} ELSE deliveries.{column} END"
        )
    };
    let sql = format!(
        "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, next_attempt_at, \
            is_test, created_at, completed_at) \
        SELECT id, tenant_id, webhook_id, event_id, call_id, kind, status, number, next_attempt_at, is_test = 1, \
            created_at, completed_at \
        FROM {source} \
        WHERE (number = 1 OR EXISTS (SELECT 1 FROM deliveries d WHERE d.id = rows.id)) AND (beside_cursor = 1 \
            OR EXISTS (SELECT 1 FROM webhook_cursors c WHERE c.webhook_id = rows.webhook_id AND c.node = {me}) \
            OR NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = rows.webhook_id)) \
        ORDER BY id \
        ON CONFLICT (id) DO UPDATE SET attempts = excluded.attempts, {}, {}, {} \
            WHERE deliveries.attempts = excluded.attempts - 1 \
        RETURNING id",
        while_pending("status"),
        while_pending("next_attempt_at"),
        while_pending("completed_at"),
        me = if backend == DbBackend::Postgres {
            "$2"
        } else {
            "?2"
        },
    );
    let rows = serde_json::to_string(&rows).map_err(|error| DbErr::Json(error.to_string()))?;
    let values = [Value::from(rows), Value::from(node)];
    let written = txn
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    written.iter().map(|row| row.try_get("", "id")).collect()
}

/// Locks deliveries in the order of their ids, as every change of several deliveries does, which prevents deadlocks.
/// SQLite has one writer.
pub async fn lock_deliveries(txn: &Transaction, ids: &[DeliveryId]) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
    }
    let backend = txn.get_database_backend();
    if backend != DbBackend::Postgres {
        return Ok(());
    }
    let rows: Vec<Row> = ids.iter().map(|id| Row { id: *id }).collect();
    let source = json_rows(backend, &[("id", ColumnType::Text)]);
    let sql = format!(
        "SELECT deliveries.id FROM {source} JOIN deliveries ON deliveries.id = rows.id \
        ORDER BY deliveries.id FOR UPDATE OF deliveries"
    );
    txn.query_all_raw(json_statement(backend, sql, &rows)?)
        .await
        .map(drop)
}

async fn record_attempts(txn: &Transaction, batch: &[&AttemptRecord]) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
        call_id: Option<CallId>,
        number: i64,
        tenant_id: TenantId,
        started_at: i64,
        duration_ms: i64,
        status_code: Option<u16>,
        error_kind: Option<&'static str>,
        response: String,
    }
    let rows: Vec<Row> = batch
        .iter()
        .map(|record| Row {
            id: record.delivery,
            call_id: record.call,
            number: record.number,
            tenant_id: record.tenant,
            started_at: record.started_at.as_i64(),
            duration_ms: record.duration_ms,
            status_code: record.status_code,
            error_kind: record.error_kind.map(ErrorKind::as_str),
            response: hex::encode(&record.response),
        })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", ColumnType::Text),
            ("call_id", ColumnType::Text),
            ("number", ColumnType::BigInt),
            ("tenant_id", ColumnType::Text),
            ("started_at", ColumnType::BigInt),
            ("duration_ms", ColumnType::BigInt),
            ("status_code", ColumnType::BigInt),
            ("error_kind", ColumnType::Text),
            ("response", ColumnType::Text),
        ],
    );
    let (response, nothing) = match backend {
        DbBackend::Postgres => ("decode(response, 'hex')", "''::bytea"),
        _ => ("unhex(response)", "x''"),
    };
    // An answer to an attempt during which the call was erased may repeat the call's data, so it is not kept. `WHERE
    // true`, because otherwise SQLite takes the `ON CONFLICT` after a `SELECT` for a join's `ON`.
    let sql = format!(
        "INSERT INTO delivery_attempts (delivery_id, number, tenant_id, started_at, duration_ms, \
            status_code, error_kind, response) \
        SELECT id, number, tenant_id, started_at, duration_ms, status_code, error_kind, \
            CASE WHEN EXISTS (SELECT 1 FROM erasures e WHERE e.call_id = rows.call_id) \
            THEN {nothing} ELSE {response} END \
        FROM {source} WHERE true ON CONFLICT DO NOTHING"
    );
    txn.execute_raw(json_statement(backend, sql, &rows)?)
        .await
        .map(drop)
}

/// Counts attempts, except tests. In the order of the key, which prevents deadlocks
/// between nodes.
async fn count(txn: &Transaction, batch: &[&AttemptRecord]) -> Result<(), DbErr> {
    let mut counts: BTreeMap<(WebhookId, Millis, AttemptOutcome, i64), i64> = BTreeMap::new();
    for done in batch.iter().filter(|done| !done.is_test) {
        let outcome = match done.verdict {
            AttemptVerdict::Delivered => AttemptOutcome::Delivered,
            AttemptVerdict::Retry { .. } => AttemptOutcome::Failed,
            AttemptVerdict::GivenUp | AttemptVerdict::Gone => AttemptOutcome::GivenUp,
        };
        let key = (
            done.webhook,
            hour_of(done.started_at),
            outcome,
            up_to(done.duration_ms),
        );
        *counts.entry(key).or_default() += 1;
    }
    let rows = counts
        .into_iter()
        .map(|((webhook, hour, outcome, up_to), attempts)| {
            vec![
                webhook.into(),
                hour.into(),
                outcome.into(),
                up_to.into(),
                attempts.into(),
            ]
        });
    let columns = [
        ("webhook_id", ColumnType::Text),
        ("hour", ColumnType::BigInt),
        ("outcome", ColumnType::Text),
        ("up_to_ms", ColumnType::BigInt),
        ("attempts", ColumnType::BigInt),
    ];
    let sql = "INSERT INTO webhook_stats (webhook_id, hour, outcome, up_to_ms, attempts) \
               SELECT webhook_id, hour, outcome, up_to_ms, attempts FROM {rows} WHERE true \
               ON CONFLICT (webhook_id, hour, outcome, up_to_ms) \
               DO UPDATE SET attempts = webhook_stats.attempts + excluded.attempts";
    let write = BatchWrite::new(sql, &columns, rows.collect());
    txn.write_all(&[write]).await.map(drop)
}
