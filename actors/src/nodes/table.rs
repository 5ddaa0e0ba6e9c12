//! The table of nodes, in SQL. Its times are the database's, so nodes need not agree on one.

use std::time::{Duration, Instant};

use dikala_entities::{Millis, NodeId, Store, node, store::Transaction};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, FromQueryResult,
    IntoActiveModel, QueryFilter, RuntimeErr, Statement, Value,
};

use super::{
    lease::LEASE_MS,
    terms::{FoundTerms, terms_sql},
};
use crate::runtime::clock::SharedClock;

/// The number of readings of the database's time; the quickest is used.
const ASKED_FOR_TIME: usize = 3;
/// An entry that has waited longer than this for a synchronous standby counts as stuck, in milliseconds.
const STANDBY_AWAY_MS: i64 = 1_000;

/// The database's current time in milliseconds, not the start of the transaction.
pub(crate) fn now_sql(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        _ => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    }
}

/// A node before its entry.
#[derive(Clone, Debug)]
pub(super) struct NewNode {
    pub(super) id: NodeId,
    pub(super) name: String,
    pub(super) address: String,
    pub(super) process: String,
    pub(super) version: String,
}

/// The number of calls and bridges that a node has in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeLoad {
    pub calls: usize,
    pub bridges: usize,
}

/// The answer to a renewal.
#[derive(Debug, FromQueryResult)]
pub(super) struct Renewal {
    pub(super) now: i64,
    /// The number of nodes.
    pub(super) nodes: i64,
    #[sea_orm(nested)]
    pub(super) terms: FoundTerms,
}

/// The result of entering a node.
#[derive(Debug)]
pub(super) struct EnteredNode {
    pub(super) now: i64,
    /// The node's clock's lead over the database's.
    pub(super) ahead_ms: i64,
    pub(super) terms: FoundTerms,
}

/// Enters a node with a lease. An entry that waits for a synchronous standby cannot be cancelled, because PostgreSQL
/// would then commit it on the primary only. While an entry waits, no other is tried: each would hold one more
/// connection of the server.
pub(super) async fn enter(
    db: &impl ConnectionTrait,
    node: NewNode,
    clock: &SharedClock,
) -> Result<EnteredNode, DbErr> {
    if an_entry_waits(db).await? {
        let words = "PostgreSQL waits for its synchronous standby, which is away";
        return Err(DbErr::Conn(RuntimeErr::Internal(words.to_owned())));
    }
    let backend = db.get_database_backend();
    let sql = format!("SELECT {} AS now, {}", now_sql(backend), terms_sql(backend));
    let found = db
        .query_one_raw(Statement::from_string(backend, sql))
        .await?;
    let found = found.ok_or_else(|| DbErr::RecordNotFound("the database's time".to_owned()))?;
    let now: i64 = found.try_get("", "now")?;
    let entry = EnteredNode {
        now,
        ahead_ms: clock.now().as_i64() - now,
        terms: FoundTerms::from_query_result(&found, "")?,
    };
    let row = node::Model {
        id: node.id,
        name: node.name,
        address: node.address,
        process: node.process,
        version: node.version,
        started_at: Millis::from_i64(now),
        lease_until: Millis::from_i64(now + LEASE_MS),
        calls: 0,
        bridges: 0,
        ahead_ms: entry.ahead_ms,
    };
    row.into_active_model().insert(db).await?;
    Ok(entry)
}

/// True if an entry, of this process or another, waits for a synchronous standby.
async fn an_entry_waits(db: &impl ConnectionTrait) -> Result<bool, DbErr> {
    let backend = db.get_database_backend();
    if backend != DbBackend::Postgres {
        return Ok(false);
    }
    let sql = format!(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO \"nodes\"%' \
         AND state_change < clock_timestamp() - INTERVAL '{STANDBY_AWAY_MS} milliseconds' LIMIT 1"
    );
    let waits = db.query_one_raw(Statement::from_string(backend, sql));
    Ok(waits.await?.is_some())
}

/// The time of the nodes' clock at the return, as exactly as the round trip allows. Without a living node it is the
/// database's time. Living nodes keep the time with which the first of them began, however the database's clock was
/// set since. A node that joins takes the lead of the node that renewed last.
pub async fn time_of(store: &Store) -> Result<Millis, DbErr> {
    let db = store.writer();
    let ahead_ms = ahead_of_the_database(db).await?;
    let mut best: Option<(Duration, Instant, i64)> = None;
    for _ in 0..ASKED_FOR_TIME {
        let sent_at = Instant::now();
        let database_time = now(db).await?;
        let took = sent_at.elapsed();
        if best.is_none_or(|(quickest, ..)| took < quickest) {
            best = Some((took, sent_at + took / 2, database_time));
        }
    }
    let since = best.map_or(0, |(_, at, _)| at.elapsed().as_millis());
    let database_time = best.map_or(0, |(.., database_time)| database_time);
    let since = i64::try_from(since).unwrap_or(0);
    Ok(Millis::from_i64(database_time)
        .plus_ms(since)
        .plus_ms(ahead_ms))
}

async fn ahead_of_the_database(db: &impl ConnectionTrait) -> Result<i64, DbErr> {
    let backend = db.get_database_backend();
    // A longer lease was made before the database's clock was set back, and its node's lead is just as old.
    let sql = format!(
        "SELECT ahead_ms FROM nodes WHERE lease_until > {now} AND lease_until <= {now} + {LEASE_MS} \
         ORDER BY lease_until DESC, id DESC LIMIT 1",
        now = now_sql(backend)
    );
    let row = db
        .query_one_raw(Statement::from_string(backend, sql))
        .await?;
    row.map_or(Ok(0), |row| row.try_get("", "ahead_ms"))
}

async fn now(db: &impl ConnectionTrait) -> Result<i64, DbErr> {
    let backend = db.get_database_backend();
    let sql = format!("SELECT {} AS now", now_sql(backend));
    let row = db
        .query_one_raw(Statement::from_string(backend, sql))
        .await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the database's time".to_owned()))?;
    row.try_get("", "now")
}

/// Renews a lease, even one that is over. None: the node was ended. `ahead_ms` is the clock's lead over the
/// database's when it was last measured.
pub(super) async fn renew(
    db: &impl ConnectionTrait,
    id: &str,
    load: NodeLoad,
    ahead_ms: i64,
) -> Result<Option<Renewal>, DbErr> {
    let backend = db.get_database_backend();
    let sql = format!(
        "UPDATE nodes SET lease_until = {now} + $2, calls = $3, bridges = $4, ahead_ms = $5 WHERE id = $1 \
         RETURNING lease_until - $2 AS now, (SELECT COUNT(*) FROM nodes) AS nodes, {terms}",
        now = now_sql(backend),
        terms = terms_sql(backend)
    );
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let values: [Value; 5] = [
        id.into(),
        LEASE_MS.into(),
        number(load.calls).into(),
        number(load.bridges).into(),
        ahead_ms.into(),
    ];
    let renewed = Statement::from_sql_and_values(backend, sql, values);
    let row = db.query_one_raw(renewed).await?;
    row.map(|row| Renewal::from_query_result(&row, ""))
        .transpose()
}

/// A row of the table, with the database's time.
#[derive(Clone, Debug, PartialEq, FromQueryResult)]
pub struct NodeRow {
    pub id: String,
    pub name: String,
    pub address: String,
    pub process: String,
    pub version: String,
    pub started_at: Millis,
    pub lease_until: Millis,
    pub calls: i64,
    pub bridges: i64,
    pub now: Millis,
}

/// All nodes that were not ended, oldest first.
pub async fn all(db: &impl ConnectionTrait) -> Result<Vec<NodeRow>, DbErr> {
    let backend = db.get_database_backend();
    let sql = format!(
        "SELECT id, name, address, process, version, started_at, lease_until, calls, bridges, {} AS now FROM nodes ORDER BY id",
        now_sql(backend)
    );
    NodeRow::find_by_statement(Statement::from_string(backend, sql))
        .all(db)
        .await
}

/// Ends a node, so that nothing has it as its owner. False if it renewed its lease after `lease_until` or was ended
/// already.
pub async fn end(txn: &Transaction, node: &NodeRow) -> Result<bool, DbErr> {
    let ended = node::Entity::delete_many()
        .filter(node::Column::Id.eq(node.id.as_str()))
        .filter(node::Column::LeaseUntil.lte(node.lease_until))
        .exec(txn)
        .await?;
    Ok(ended.rows_affected == 1)
}

/// True if the node left or was ended. It does not come back with that id.
pub async fn is_gone(db: &impl ConnectionTrait, id: &str) -> Result<bool, DbErr> {
    let row = node::Entity::find().filter(node::Column::Id.eq(id)).one(db);
    Ok(row.await?.is_none())
}

/// Removes this node's own row.
pub(super) async fn leave(store: &Store, id: &str) -> Result<(), DbErr> {
    node::Entity::delete_many()
        .filter(node::Column::Id.eq(id))
        .exec(store.writer())
        .await
        .map(drop)
}
