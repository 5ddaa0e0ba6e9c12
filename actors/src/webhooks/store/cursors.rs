//! Cursors in SQL: how far a webhook's events have become deliveries, and which node delivers to it. A node has a
//! cursor until it is ended or gives it up. So only one node delivers to an endpoint, and its concurrency, its circuit
//! and the order of a call's events are in one place.

use std::collections::{HashMap, HashSet};

use dikala_entities::{
    Millis, Store, TenantId, WebhookId,
    rows::{ColumnType, is_one_of, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};
use serde::Serialize;
use serde_json::json;

use crate::{
    events::sequences::{LogPlace, Sequences, read_sequences},
    webhooks::scheduler::CursorReading,
};

/// The owner of cursors where there is one node, and of those whose webhooks have nothing left to deliver.
pub(in crate::webhooks) const NO_NODE: &str = "";
/// Cursors of ended nodes that one search finds.
const FREE_MAX: i64 = 1_000;
/// Tenants that one query returns.
pub(in crate::webhooks) const TENANTS_MAX: usize = 2_000;

/// A cursor, and whether this node has it.
struct FoundCursor {
    webhook: WebhookId,
    reading: CursorReading,
    /// None if there is no row.
    node: Option<String>,
    /// That node exists and is not this one.
    is_anothers: bool,
}

/// A cursor that a node wants, and its previous owner.
#[derive(Serialize)]
struct WantedCursor<'a> {
    webhook_id: WebhookId,
    node: &'a str,
    before: &'a str,
}

/// Writes the cursor of a new webhook, at the end of its tenant's log.
pub async fn new_cursor(
    db: &impl ConnectionTrait,
    webhook: WebhookId,
    tenant: TenantId,
) -> Result<(), DbErr> {
    let backend = db.get_database_backend();
    let sql = "INSERT INTO webhook_cursors (webhook_id, node, sequence, position) \
               SELECT $1, '', 0, COALESCE((SELECT last FROM event_positions WHERE tenant_id = $2), 0)";
    let values = [Value::from(webhook.to_string()), tenant.into()];
    db.execute_raw(Statement::from_sql_and_values(backend, sql, values))
        .await
        .map(drop)
}

/// Deletes the cursor of a deleted webhook, unless a node has it: that node deletes it once it has nothing to record.
pub async fn delete_free_cursor(
    db: &impl ConnectionTrait,
    webhook: WebhookId,
) -> Result<(), DbErr> {
    let sql = "DELETE FROM webhook_cursors WHERE webhook_id = $1 AND (node IS NULL OR node = '')";
    let values = [Value::from(webhook.to_string())];
    let delete = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    db.execute_raw(delete).await.map(drop)
}

/// Takes those cursors that have no living owner. Returns the cursors that `node` has now. `announcer` is the node's name in
/// its announcements.
pub(in crate::webhooks) async fn take(
    store: &Store,
    (node, announcer): (&str, &str),
    ids: &[WebhookId],
) -> Result<HashMap<WebhookId, CursorReading>, DbErr> {
    let found = read(store, (node, announcer), ids).await?;
    let mut mine: HashSet<WebhookId> = HashSet::new();
    let (mut new, mut free) = (Vec::new(), Vec::new());
    for cursor in &found {
        let wanted = |before| WantedCursor {
            webhook_id: cursor.webhook,
            node,
            before,
        };
        match &cursor.node {
            None => new.push(wanted("")),
            Some(owner) if owner == node => {
                mine.insert(cursor.webhook);
            }
            Some(owner) if !cursor.is_anothers => free.push(wanted(owner)),
            Some(_) => {}
        }
    }
    // A process that is not in the table of nodes takes nothing.
    let is_node = format!("(rows.node = '{NO_NODE}' OR rows.node IN (SELECT id FROM nodes))");
    let new_sql = format!(
        "INSERT INTO webhook_cursors (webhook_id, node, sequence, position) \
         SELECT rows.webhook_id, rows.node, 0, 0 FROM {{rows}} WHERE {is_node} ORDER BY rows.webhook_id \
         ON CONFLICT (webhook_id) DO NOTHING RETURNING webhook_id"
    );
    let free_sql = format!(
        "WITH locked AS MATERIALIZED (SELECT c.webhook_id, rows.node FROM {{rows}} \
            JOIN webhook_cursors c ON c.webhook_id = rows.webhook_id \
            WHERE COALESCE(c.node, '') = rows.before AND {is_node} {}) \
         UPDATE webhook_cursors SET node = locked.node FROM locked \
         WHERE webhook_cursors.webhook_id = locked.webhook_id \
         RETURNING webhook_cursors.webhook_id AS webhook_id",
        lock(store.backend())
    );
    for (sql, wanted) in [(new_sql, new), (free_sql, free)] {
        mine.extend(taken(store, &sql, &wanted).await?);
    }
    let found = found.into_iter();
    Ok(found
        .filter(|cursor| mine.contains(&cursor.webhook))
        .map(|cursor| (cursor.webhook, cursor.reading))
        .collect())
}

/// The cursors of these webhooks, as far as the webhooks exist.
async fn read(
    store: &Store,
    me: (&str, &str),
    ids: &[WebhookId],
) -> Result<Vec<FoundCursor>, DbErr> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let backend = store.backend();
    let sql = format!(
        "SELECT w.id AS webhook_id, (c.webhook_id IS NOT NULL) AS is_there, COALESCE(c.node, '') AS node, \
            COALESCE(c.sequence, 0) AS sequence, COALESCE(c.position, 0) AS position, \
            (n.id IS NOT NULL) AS is_alive, COALESCE(p.node, '') AS announced_by, \
            COALESCE(p.sequences, '') AS sequences, \
            (SELECT d.id FROM deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending' \
             ORDER BY d.webhook_id, d.next_attempt_at, d.id LIMIT 1) IS NOT NULL AS has_pending \
         FROM webhooks w LEFT JOIN webhook_cursors c ON c.webhook_id = w.id LEFT JOIN nodes n ON n.id = c.node \
            LEFT JOIN event_positions p ON p.tenant_id = w.tenant_id \
         WHERE {}",
        is_one_of(backend, "w.id", 1)
    );
    let values = [Value::from(json!(ids).to_string())];
    let rows = store
        .reader()
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    rows.iter().map(|row| found(row, me)).collect()
}

fn found(row: &QueryResult, (me, announcer): (&str, &str)) -> Result<FoundCursor, DbErr> {
    let webhook: WebhookId = row.try_get("", "webhook_id")?;
    let (node, is_alive): (String, bool) = (row.try_get("", "node")?, row.try_get("", "is_alive")?);
    let (announced_by, sequences): (String, String) = (
        row.try_get("", "announced_by")?,
        row.try_get("", "sequences")?,
    );
    let stored = LogPlace {
        sequence: row.try_get("", "sequence")?,
        position: row.try_get("", "position")?,
    };
    let end = read_sequences(&sequences)?.get(&webhook).copied();
    let end = end.unwrap_or(stored);
    let is_anothers = is_alive && node != me;
    let is_there: bool = row.try_get("", "is_there")?;
    Ok(FoundCursor {
        webhook,
        reading: CursorReading {
            stored,
            end,
            is_announced_elsewhere: announced_by != announcer,
            has_pending: row.try_get("", "has_pending")?,
        },
        node: is_there.then_some(node),
        is_anothers,
    })
}

async fn taken(
    store: &Store,
    sql: &str,
    wanted: &[WantedCursor<'_>],
) -> Result<Vec<WebhookId>, DbErr> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let columns = ["webhook_id", "node", "before"].map(|name| (name, ColumnType::Text));
    let sql = sql.replace("{rows}", &json_rows(store.backend(), &columns));
    let rows = store
        .writer()
        .query_all_raw(json_statement(store.backend(), sql, wanted)?)
        .await?;
    rows.iter()
        .map(|row| row.try_get("", "webhook_id"))
        .collect()
}

/// Moves cursors of `node` forward.
pub(in crate::webhooks) async fn store(
    store: &Store,
    node: &str,
    cursors: &[(WebhookId, LogPlace)],
) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row<'a> {
        webhook_id: WebhookId,
        node: &'a str,
        sequence: i64,
        position: i64,
    }
    let row = |(webhook_id, place): &(WebhookId, LogPlace)| Row {
        webhook_id: *webhook_id,
        node,
        sequence: place.sequence,
        position: place.position,
    };
    let rows: Vec<Row<'_>> = cursors.iter().map(row).collect();
    let source = json_rows(
        store.backend(),
        &[
            ("webhook_id", ColumnType::Text),
            ("node", ColumnType::Text),
            ("sequence", ColumnType::BigInt),
            ("position", ColumnType::BigInt),
        ],
    );
    let sql = format!(
        "WITH locked AS MATERIALIZED (SELECT c.webhook_id, rows.sequence, rows.position FROM {source} \
            JOIN webhook_cursors c ON c.webhook_id = rows.webhook_id \
            WHERE c.node = rows.node AND c.sequence <= rows.sequence {}) \
         UPDATE webhook_cursors SET sequence = locked.sequence, position = locked.position FROM locked \
         WHERE webhook_cursors.webhook_id = locked.webhook_id",
        lock(store.backend())
    );
    store
        .writer()
        .execute_raw(json_statement(store.backend(), sql, &rows)?)
        .await
        .map(drop)
}

/// Lets other nodes have these cursors. `are_done` says that nothing is left to deliver; otherwise other nodes look
/// for it.
pub(in crate::webhooks) async fn give_up(
    store: &Store,
    node: &str,
    ids: &[WebhookId],
    are_done: bool,
) -> Result<(), DbErr> {
    let backend = store.backend();
    let ours = is_one_of(backend, "c.webhook_id", 1);
    let free = if are_done { "''" } else { "NULL" };
    let sql = format!(
        "WITH locked AS MATERIALIZED (SELECT c.webhook_id FROM webhook_cursors c WHERE {ours} AND c.node = $2 {}) \
         UPDATE webhook_cursors SET node = {free} WHERE webhook_id IN (SELECT webhook_id FROM locked)",
        lock(backend)
    );
    let ids = json!(ids).to_string();
    let values = [Value::from(ids.clone()), Value::from(node)];
    let give_up = Statement::from_sql_and_values(backend, sql, values);
    store.writer().execute_raw(give_up).await?;
    let sql = format!(
        "DELETE FROM webhook_cursors AS c WHERE {ours} AND COALESCE(c.node, '') = '' \
         AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = c.webhook_id)"
    );
    let delete = Statement::from_sql_and_values(backend, sql, [Value::from(ids)]);
    store.writer().execute_raw(delete).await.map(drop)
}

/// Frees the cursors of a node that leaves, and those of dead nodes.
pub async fn give_back(db: &impl ConnectionTrait, node: &str) -> Result<(), DbErr> {
    let backend = db.get_database_backend();
    let sql = format!(
        "WITH locked AS MATERIALIZED (SELECT c.webhook_id FROM webhook_cursors c \
            WHERE c.node = $1 OR (c.node <> '' AND c.node NOT IN (SELECT id FROM nodes)) {}) \
         UPDATE webhook_cursors SET node = NULL WHERE webhook_id IN (SELECT webhook_id FROM locked)",
        lock(backend)
    );
    let values = [Value::from(node)];
    db.execute_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    let sql = "DELETE FROM webhook_cursors AS c WHERE c.node IS NULL \
               AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = c.webhook_id)";
    db.execute_raw(Statement::from_string(backend, sql))
        .await
        .map(drop)
}

/// Ends a `SELECT` of cursors `c`. Every change of several cursors locks them in this order first, which prevents
/// deadlocks. SQLite has one writer.
fn lock(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => "ORDER BY c.webhook_id FOR UPDATE OF c",
        _ => "",
    }
}

/// Webhooks whose node ended. They may have something to deliver.
pub(in crate::webhooks) async fn free(store: &Store) -> Result<Vec<(WebhookId, TenantId)>, DbErr> {
    let sql = "SELECT c.webhook_id AS webhook_id, w.tenant_id AS tenant_id FROM webhook_cursors c \
               JOIN webhooks w ON w.id = c.webhook_id WHERE c.node IS NULL LIMIT $1";
    webhooks(store, sql, vec![FREE_MAX.into()]).await
}

/// Webhooks whose cursors this node has.
pub(in crate::webhooks) async fn owned(
    store: &Store,
    node: &str,
) -> Result<Vec<(WebhookId, TenantId)>, DbErr> {
    let sql = "SELECT c.webhook_id AS webhook_id, w.tenant_id AS tenant_id FROM webhook_cursors c \
               JOIN webhooks w ON w.id = c.webhook_id WHERE c.node = $1";
    webhooks(store, sql, vec![node.into()]).await
}

async fn webhooks(
    store: &Store,
    sql: &str,
    values: Vec<Value>,
) -> Result<Vec<(WebhookId, TenantId)>, DbErr> {
    let rows = store
        .reader()
        .query_all_raw(Statement::from_sql_and_values(store.backend(), sql, values))
        .await?;
    let read = |row: &QueryResult| {
        let (webhook, tenant) = (
            row.try_get("", "webhook_id")?,
            row.try_get("", "tenant_id")?,
        );
        Ok((webhook, tenant))
    };
    rows.iter().map(read).collect()
}

/// A tenant, and the place of each of its webhooks' newest event.
pub(in crate::webhooks) type TenantSequences = (TenantId, Sequences);

/// Tenants after `after` that announced an event since that time: here, or by a process that delivers nothing. At most
/// [`TENANTS_MAX`], in the order of their ids.
pub(in crate::webhooks) async fn announced(
    store: &Store,
    node: &str,
    since: Millis,
    after: Option<TenantId>,
) -> Result<Vec<TenantSequences>, DbErr> {
    let sql = "SELECT p.tenant_id AS tenant_id, p.sequences AS sequences FROM event_positions p \
               WHERE p.stamped_at >= $1 AND p.sequences <> '' AND p.tenant_id > $3 \
               AND (p.node = $2 OR p.node NOT IN (SELECT id FROM nodes)) ORDER BY p.tenant_id LIMIT $4";
    let after = after.map(|tenant| tenant.to_string()).unwrap_or_default();
    let values = vec![
        since.as_i64().into(),
        node.into(),
        after.into(),
        i64::try_from(TENANTS_MAX).unwrap_or(i64::MAX).into(),
    ];
    sequences(store, sql, values).await
}

/// Tenants for which another node announced an event since that time.
pub(in crate::webhooks) async fn announced_elsewhere(
    store: &Store,
    node: &str,
    since: Millis,
) -> Result<Vec<TenantSequences>, DbErr> {
    let sql = "SELECT p.tenant_id AS tenant_id, p.sequences AS sequences FROM event_positions p \
               WHERE p.stamped_at >= $1 AND p.sequences <> '' AND p.node <> $2";
    sequences(store, sql, vec![since.as_i64().into(), node.into()]).await
}

async fn sequences(
    store: &Store,
    sql: &str,
    values: Vec<Value>,
) -> Result<Vec<TenantSequences>, DbErr> {
    let rows = store
        .reader()
        .query_all_raw(Statement::from_sql_and_values(store.backend(), sql, values))
        .await?;
    let read = |row: &QueryResult| {
        let sequences: String = row.try_get("", "sequences")?;
        Ok((row.try_get("", "tenant_id")?, read_sequences(&sequences)?))
    };
    rows.iter().map(read).collect()
}

/// Those of these webhooks that have events beyond their cursor and no living owner.
pub(in crate::webhooks) async fn behind(
    store: &Store,
    me: (&str, &str),
    ids: &[WebhookId],
) -> Result<Vec<WebhookId>, DbErr> {
    let found = read(store, me, ids).await?;
    let is_behind = |cursor: &FoundCursor| {
        !cursor.is_anothers && cursor.reading.stored.sequence < cursor.reading.end.sequence
    };
    let behind = found.into_iter().filter(is_behind);
    Ok(behind.map(|cursor| cursor.webhook).collect())
}
