//! Which attempts of a batch this node may record now: other nodes may have taken their deliveries, an earlier try may have
//! written them, and other sessions may have locked their rows.

use std::collections::{BTreeSet, HashSet};

use dikala_entities::{
    DeliveryId, Store, WebhookId,
    rows::{ColumnType, json_rows, json_statement},
    store::{SharedRows, Transaction},
};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};
use serde::Serialize;

use crate::webhooks::attempt::AttemptRecord;

/// The webhooks of these attempts whose row, or the row of one of whose deliveries, another session has locked now.
pub(in crate::webhooks) async fn locked<'a>(
    store: &Store,
    batch: impl Iterator<Item = &'a AttemptRecord>,
) -> Result<BTreeSet<WebhookId>, DbErr> {
    let (webhooks, deliveries): (BTreeSet<WebhookId>, BTreeSet<DeliveryId>) = batch
        .map(|record| (record.webhook, record.delivery))
        .unzip();
    let rows = [
        SharedRows::new("webhooks", "id", "id", &webhooks)?,
        SharedRows::new("deliveries", "id", "webhook_id", &deliveries)?,
    ];
    store.owners_of_locked(&rows).await
}

/// Locks the deliveries of a batch in the order of their ids. Returns those that this node may not record: another
/// node has their queue or claimed them, or the attempt is recorded already. SQLite has one node.
pub(super) async fn taken_by_others(
    txn: &Transaction,
    node: &str,
    batch: &[&AttemptRecord],
) -> Result<HashSet<DeliveryId>, DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
        number: i64,
        beside_queue: i64,
    }
    let backend = txn.get_database_backend();
    if backend != DbBackend::Postgres {
        return Ok(HashSet::new());
    }
    let rows: Vec<Row> = batch
        .iter()
        .map(|record| Row {
            id: record.delivery,
            number: record.number,
            beside_queue: i64::from(record.is_beside_queue),
        })
        .collect();
    let source = json_rows(
        backend,
        &[
            ("id", ColumnType::Text),
            ("number", ColumnType::BigInt),
            ("beside_queue", ColumnType::BigInt),
        ],
    );
    // PostgreSQL evaluates the conditions on `d` again if the row changed while it waited for the lock. Tests bypass
    // the queues, and so do attempts by hand.
    let sql = format!(
        "SELECT d.id AS id FROM {source} JOIN deliveries d ON d.id = rows.id \
            LEFT JOIN webhook_lanes l ON l.webhook_id = d.webhook_id \
        WHERE d.attempts = rows.number - 1 AND (d.lease_owner IS NULL OR d.lease_owner = $2) \
            AND (d.is_test OR l.node IS NULL OR l.node = $2 OR rows.beside_queue = 1 AND d.lease_owner = $2) \
        ORDER BY d.id FOR UPDATE OF d"
    );
    let rows = serde_json::to_string(&rows).map_err(|error| DbErr::Json(error.to_string()))?;
    let values = [Value::from(rows), Value::from(node)];
    let locked = txn
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    let mut others: HashSet<DeliveryId> = batch.iter().map(|record| record.delivery).collect();
    for row in locked {
        others.remove(&row.try_get("", "id")?);
    }
    Ok(others)
}

/// Deliveries of a batch whose attempts are in the log already: the answer to the commit was lost, and the batch is
/// written again.
pub(super) async fn written_before(
    txn: &Transaction,
    batch: &[&AttemptRecord],
) -> Result<Vec<DeliveryId>, DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
        number: i64,
        started_at: i64,
        duration_ms: i64,
    }
    let rows: Vec<Row> = batch
        .iter()
        .map(|record| Row {
            id: record.delivery,
            number: record.number,
            started_at: record.started_at.as_i64(),
            duration_ms: record.duration_ms,
        })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", ColumnType::Text),
            ("number", ColumnType::BigInt),
            ("started_at", ColumnType::BigInt),
            ("duration_ms", ColumnType::BigInt),
        ],
    );
    let sql = format!(
        "SELECT a.delivery_id AS id FROM {source} JOIN delivery_attempts a ON a.delivery_id = rows.id AND a.number = rows.number \
        WHERE a.started_at = rows.started_at AND a.duration_ms = rows.duration_ms"
    );
    let found = txn
        .query_all_raw(json_statement(backend, sql, &rows)?)
        .await?;
    found.iter().map(|row| row.try_get("", "id")).collect()
}
