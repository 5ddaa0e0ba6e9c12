//! Attempts of a batch that cannot be recorded now: an earlier try may have written them, and other sessions may have
//! locked their rows.

use std::collections::BTreeSet;

use dikala_entities::{
    DeliveryId, Store, WebhookId,
    rows::{ColumnType, json_rows, json_statement},
    store::{SharedRows, Transaction},
};
use sea_orm::{ConnectionTrait, DbErr};
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
