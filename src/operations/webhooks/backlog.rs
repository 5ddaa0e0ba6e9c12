//! The deliveries of webhooks that are due.

use std::collections::HashMap;

use dikala_entities::{Millis, WebhookId};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};

/// Maximum number of due deliveries that are counted per webhook.
pub const DUE_MAX: i64 = 1_000;

/// The number of due deliveries per webhook, and the time of the first.
pub async fn due(
    db: &impl ConnectionTrait,
    ids: &[WebhookId],
    now: Millis,
) -> Result<HashMap<WebhookId, (i64, Option<Millis>)>, DbErr> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let backend = db.get_database_backend();
    let mark = match backend {
        DbBackend::Postgres => '$',
        _ => '?',
    };
    let places: Vec<String> = (2..).zip(ids).map(|(n, _)| format!("{mark}{n}")).collect();
    // The order is that of a partial index on pending deliveries, so that both databases use it.
    let waits = format!(
        "FROM deliveries d WHERE d.status = 'pending' AND d.webhook_id = w.id AND d.next_attempt_at <= {mark}1 \
         ORDER BY d.webhook_id, d.next_attempt_at, d.id"
    );
    let sql = format!(
        "SELECT w.id AS id, (SELECT COUNT(*) FROM (SELECT 1 {waits} LIMIT {DUE_MAX}) AS waiting) AS due, \
         (SELECT d.next_attempt_at {waits} LIMIT 1) AS oldest FROM webhooks w WHERE w.id IN ({})",
        places.join(", ")
    );
    let ids = ids.iter().map(|id| id.to_string().into());
    let values: Vec<Value> = std::iter::once(now.as_i64().into()).chain(ids).collect();
    let rows = db
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    let of_row = |row: QueryResult| -> Result<(WebhookId, (i64, Option<Millis>)), DbErr> {
        let oldest: Option<i64> = row.try_get("", "oldest")?;
        let due = (row.try_get("", "due")?, oldest.map(Millis::from_i64));
        Ok((row.try_get("", "id")?, due))
    };
    rows.into_iter().map(of_row).collect()
}
