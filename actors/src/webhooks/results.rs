//! What came of attempts, written in batches: the webhooks' health, the deliveries, the log.

use std::collections::BTreeMap;

use dikala_entities::{
    DeliveryId, DeliveryStatus, Millis, Store, TenantId, WebhookId,
    store::{Kind, Transaction, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};
use serde::Serialize;

use super::retry::{Health, Verdict};

/// An attempt that is over, as it goes into the table.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) delivery: DeliveryId,
    pub(super) webhook: WebhookId,
    pub(super) tenant: TenantId,
    pub(super) number: i64,
    pub(super) is_test: bool,
    pub(super) started_at: Millis,
    pub(super) ended_at: Millis,
    pub(super) duration_ms: i64,
    pub(super) status_code: Option<u16>,
    pub(super) error_kind: Option<&'static str>,
    pub(super) response: Vec<u8>,
    pub(super) verdict: Verdict,
}

/// A webhook that the attempts of a batch disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DisabledNow {
    pub(super) webhook: WebhookId,
    pub(super) reason: &'static str,
}

/// Records a batch of attempts: the webhooks' health, the deliveries, the log. One transaction.
pub(super) async fn record(store: &Store, batch: &[Done]) -> Result<Vec<DisabledNow>, DbErr> {
    let txn = store.begin().await?;
    let disabled = record_health(&txn, batch).await?;
    record_deliveries(&txn, batch).await?;
    record_attempts(&txn, batch).await?;
    txn.commit().await?;
    Ok(disabled)
}

#[derive(Serialize)]
struct HealthRow {
    id: WebhookId,
    failed_in_row: i64,
    failing_since: Option<i64>,
    reason: Option<&'static str>,
    now: i64,
}

async fn record_health(txn: &Transaction, batch: &[Done]) -> Result<Vec<DisabledNow>, DbErr> {
    let mut changed = Vec::new();
    let mut disabled = Vec::new();
    for (webhook, before, is_active, updated_at) in health_before(txn, batch).await? {
        let (mut health, mut reason, mut last) = (before, None, Millis::MIN);
        // What began before the webhook was changed tells of the address that it had, or of the time before it was enabled.
        let counts = |done: &&Done| {
            done.webhook == webhook && !done.is_test && done.started_at >= updated_at
        };
        for done in batch.iter().filter(counts) {
            health = health.after(done.verdict, done.ended_at);
            reason = reason.or(health.disabled_reason(done.verdict, done.ended_at));
            last = done.ended_at;
        }
        let reason = reason.filter(|_| is_active);
        if health == before && reason.is_none() {
            continue;
        }
        disabled.extend(reason.map(|reason| DisabledNow { webhook, reason }));
        changed.push(HealthRow {
            id: webhook,
            failed_in_row: health.failed_in_row,
            failing_since: health.failing_since.map(Millis::as_i64),
            reason,
            now: last.as_i64(),
        });
    }
    write_health(txn, &changed).await?;
    Ok(disabled)
}

/// The webhooks whose health this batch may change: those with a failure, and those that were failing. Locked in the order
/// of their ids, so that two nodes cannot wait for each other.
async fn health_before(
    txn: &Transaction,
    batch: &[Done],
) -> Result<Vec<(WebhookId, Health, bool, Millis)>, DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: WebhookId,
        failed: i64,
    }
    let mut rows: BTreeMap<WebhookId, i64> = BTreeMap::new();
    for done in batch.iter().filter(|done| !done.is_test) {
        let failed = rows.entry(done.webhook).or_insert(0);
        *failed |= i64::from(done.verdict != Verdict::Delivered);
    }
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|(id, failed)| Row { id, failed })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(backend, &[("id", Kind::Text), ("failed", Kind::BigInt)]);
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
            ("id", Kind::Text),
            ("failed_in_row", Kind::BigInt),
            ("failing_since", Kind::BigInt),
            ("reason", Kind::Text),
            ("now", Kind::BigInt),
        ],
    );
    let sql = format!(
        "UPDATE webhooks SET failed_in_row = rows.failed_in_row, failing_since = rows.failing_since, \
            is_active = CASE WHEN rows.reason IS NULL THEN webhooks.is_active ELSE false END, \
            disabled_reason = COALESCE(rows.reason, webhooks.disabled_reason), \
            updated_at = CASE WHEN rows.reason IS NULL THEN webhooks.updated_at ELSE rows.now END \
        FROM {source} WHERE webhooks.id = rows.id"
    );
    txn.execute_raw(json_statement(backend, sql, rows)?)
        .await
        .map(drop)
}

async fn record_deliveries(txn: &Transaction, batch: &[Done]) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
        number: i64,
        status: DeliveryStatus,
        next_attempt_at: Option<i64>,
        completed_at: Option<i64>,
    }
    let rows: Vec<Row> = batch
        .iter()
        .map(|done| {
            let (status, next) = match done.verdict {
                Verdict::Delivered => (DeliveryStatus::Succeeded, None),
                Verdict::Retry { at } => (DeliveryStatus::Pending, Some(at.as_i64())),
                Verdict::GivenUp | Verdict::Gone => (DeliveryStatus::Failed, None),
            };
            Row {
                id: done.delivery,
                number: done.number,
                status,
                next_attempt_at: next,
                completed_at: next.is_none().then_some(done.ended_at.as_i64()),
            }
        })
        .collect();
    let backend = txn.get_database_backend();
    let ids: Vec<DeliveryId> = batch.iter().map(|done| done.delivery).collect();
    lock_deliveries(txn, &ids).await?;
    let source = json_rows(
        backend,
        &[
            ("id", Kind::Text),
            ("number", Kind::BigInt),
            ("status", Kind::Text),
            ("next_attempt_at", Kind::BigInt),
            ("completed_at", Kind::BigInt),
        ],
    );
    // What another node recorded in between, after a lease ran out, is not overwritten.
    let sql = format!(
        "UPDATE deliveries SET status = rows.status, attempts = rows.number, \
            next_attempt_at = rows.next_attempt_at, completed_at = rows.completed_at, \
            lease_owner = NULL, lease_until = 0 \
        FROM {source} WHERE deliveries.id = rows.id AND deliveries.status = 'pending' \
            AND deliveries.attempts = rows.number - 1"
    );
    txn.execute_raw(json_statement(backend, sql, &rows)?)
        .await
        .map(drop)
}

/// Locks deliveries in the order of their ids, as everybody does who changes more than one of them, so that no two can wait for
/// each other. SQLite has one writer.
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
    let source = json_rows(backend, &[("id", Kind::Text)]);
    let sql = format!(
        "SELECT deliveries.id FROM {source} JOIN deliveries ON deliveries.id = rows.id \
        ORDER BY deliveries.id FOR UPDATE OF deliveries"
    );
    txn.query_all_raw(json_statement(backend, sql, &rows)?)
        .await
        .map(drop)
}

async fn record_attempts(txn: &Transaction, batch: &[Done]) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
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
        .map(|done| Row {
            id: done.delivery,
            number: done.number,
            tenant_id: done.tenant,
            started_at: done.started_at.as_i64(),
            duration_ms: done.duration_ms,
            status_code: done.status_code,
            error_kind: done.error_kind,
            response: hex::encode(&done.response),
        })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", Kind::Text),
            ("number", Kind::BigInt),
            ("tenant_id", Kind::Text),
            ("started_at", Kind::BigInt),
            ("duration_ms", Kind::BigInt),
            ("status_code", Kind::BigInt),
            ("error_kind", Kind::Text),
            ("response", Kind::Text),
        ],
    );
    let (response, nothing) = match backend {
        DbBackend::Postgres => ("decode(response, 'hex')", "''::bytea"),
        _ => ("unhex(response)", "x''"),
    };
    // An answer to an attempt that was under way when its call was erased may repeat what was sent: it is not kept.
    // `WHERE true` because SQLite takes `ON CONFLICT` after a `SELECT` for a join's `ON` without it.
    let sql = format!(
        "INSERT INTO delivery_attempts (delivery_id, number, tenant_id, started_at, duration_ms, \
            status_code, error_kind, response) \
        SELECT id, number, tenant_id, started_at, duration_ms, status_code, error_kind, \
            CASE WHEN EXISTS (SELECT 1 FROM deliveries d JOIN erasures e ON e.call_id = d.call_id WHERE d.id = rows.id) \
            THEN {nothing} ELSE {response} END \
        FROM {source} WHERE true ON CONFLICT DO NOTHING"
    );
    txn.execute_raw(json_statement(backend, sql, &rows)?)
        .await
        .map(drop)
}
