//! Ownership of endpoint queues in SQL: which node delivers to which webhook. A node has a queue until it is ended or gives it up.
//! So only one node delivers to an endpoint, and its concurrency, its circuit and the order of a call's events are in
//! one place.

use std::collections::HashSet;

use dikala_entities::{
    Store, WebhookId,
    rows::{ColumnType, is_one_of, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement, Value};
use serde::Serialize;
use serde_json::json;

/// A queue as it was read.
struct QueueOwner {
    webhook: WebhookId,
    node: String,
    /// The node has not been ended.
    is_alive: bool,
}

/// A queue that a node wants, and its previous owner.
#[derive(Serialize)]
struct WantedQueue<'a> {
    webhook_id: WebhookId,
    node: &'a str,
    before: &'a str,
}

/// Takes those queues that have no living owner. Returns the queues that this node has now.
pub(in crate::webhooks) async fn take(
    store: &Store,
    node: &str,
    ids: &[WebhookId],
) -> Result<HashSet<WebhookId>, DbErr> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let held = held(store, ids).await?;
    let known: HashSet<WebhookId> = held.iter().map(|queue| queue.webhook).collect();
    let mine = held.iter().filter(|queue| queue.node == node);
    let mut mine: HashSet<WebhookId> = mine.map(|queue| queue.webhook).collect();
    let wanted = |webhook_id, before| WantedQueue {
        webhook_id,
        node,
        before,
    };
    let new: Vec<WantedQueue<'_>> = ids
        .iter()
        .filter(|id| !known.contains(id))
        .map(|id| wanted(*id, ""))
        .collect();
    let left: Vec<WantedQueue<'_>> = held
        .iter()
        .filter(|queue| !queue.is_alive && queue.node != node)
        .map(|queue| wanted(queue.webhook, &queue.node))
        .collect();
    // A process that is not in the table of nodes takes nothing.
    let new_sql = "INSERT INTO webhook_lanes (webhook_id, node) SELECT rows.webhook_id, rows.node FROM {rows} \
                   JOIN nodes ON nodes.id = rows.node WHERE true ORDER BY rows.webhook_id ON CONFLICT (webhook_id) DO NOTHING \
                   RETURNING webhook_id";
    let left_sql = "UPDATE webhook_lanes SET node = rows.node FROM {rows} WHERE webhook_lanes.webhook_id = rows.webhook_id \
                    AND webhook_lanes.node = rows.before AND rows.node IN (SELECT id FROM nodes) \
                    RETURNING webhook_lanes.webhook_id AS webhook_id";
    for (sql, queues) in [(new_sql, new), (left_sql, left)] {
        mine.extend(written(store, sql, &queues).await?);
    }
    Ok(mine)
}

async fn held(store: &Store, ids: &[WebhookId]) -> Result<Vec<QueueOwner>, DbErr> {
    let backend = store.backend();
    let sql = format!(
        "SELECT l.webhook_id, l.node, (n.id IS NOT NULL) AS is_alive FROM webhook_lanes l LEFT JOIN nodes n ON n.id = l.node \
         WHERE {}",
        is_one_of(backend, "l.webhook_id", 1)
    );
    let values = [Value::from(json!(ids).to_string())];
    let rows = store
        .reader()
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    let read = |row: &QueryResult| {
        Ok(QueueOwner {
            webhook: row.try_get("", "webhook_id")?,
            node: row.try_get("", "node")?,
            is_alive: row.try_get("", "is_alive")?,
        })
    };
    rows.iter().map(read).collect()
}

async fn written(
    store: &Store,
    sql: &str,
    queues: &[WantedQueue<'_>],
) -> Result<Vec<WebhookId>, DbErr> {
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let columns = ["webhook_id", "node", "before"].map(|name| (name, ColumnType::Text));
    let sql = sql.replace("{rows}", &json_rows(store.backend(), &columns));
    let rows = store
        .writer()
        .query_all_raw(json_statement(store.backend(), sql, queues)?)
        .await?;
    rows.iter()
        .map(|row| row.try_get("", "webhook_id"))
        .collect()
}

/// Lets other nodes have these queues.
pub(in crate::webhooks) async fn give_up(
    store: &Store,
    node: &str,
    ids: &[WebhookId],
) -> Result<(), DbErr> {
    let backend = store.backend();
    let sql = format!(
        "DELETE FROM webhook_lanes WHERE {} AND node = $2",
        is_one_of(backend, "webhook_id", 1)
    );
    let values = [Value::from(json!(ids).to_string()), Value::from(node)];
    store
        .writer()
        .execute_raw(Statement::from_sql_and_values(backend, sql, values))
        .await
        .map(drop)
}

/// Frees the queues of a node that leaves, and those of dead nodes. Its deliveries need no write: `claim` takes them
/// for the queue's new owner.
pub async fn give_back(db: &impl ConnectionTrait, node: &str) -> Result<(), DbErr> {
    let sql = "DELETE FROM webhook_lanes WHERE node = $1 OR node NOT IN (SELECT id FROM nodes)";
    let values = [Value::from(node)];
    db.execute_raw(Statement::from_sql_and_values(
        db.get_database_backend(),
        sql,
        values,
    ))
    .await
    .map(drop)
}
