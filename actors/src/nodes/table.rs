//! The table of nodes, in SQL. Times in it are the database's, so that nodes need not agree on one.

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

/// How often the database is asked for its time before the quickest answer is believed.
const ASKED_FOR_TIME: usize = 3;
/// Who entered before and waits for a synchronous standby for longer than this waits for one that is away, in milliseconds.
const STANDBY_AWAY_MS: i64 = 1_000;

/// The database's time in milliseconds, not that of the transaction's beginning.
pub(crate) fn now_sql(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        _ => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    }
}

/// A node that is about to be.
#[derive(Clone, Debug)]
pub(super) struct Entering {
    pub(super) id: NodeId,
    pub(super) name: String,
    pub(super) address: String,
    pub(super) process: String,
    pub(super) version: String,
}

/// What a node has in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Load {
    pub calls: usize,
    pub bridges: usize,
}

/// What a renewal found.
#[derive(Debug, FromQueryResult)]
pub(super) struct Renewed {
    /// The database's time.
    pub(super) now: i64,
    /// How many nodes there are.
    pub(super) nodes: i64,
    #[sea_orm(nested)]
    pub(super) terms: FoundTerms,
}

/// The result of entering a node.
#[derive(Debug)]
pub(super) struct Entry {
    /// The database's time.
    pub(super) now: i64,
    /// How far the node's clock is ahead of that.
    pub(super) ahead_ms: i64,
    pub(super) terms: FoundTerms,
}

/// Enters a node that goes by a clock, with a lease. Nobody may end what waits for a synchronous standby: PostgreSQL would have
/// it alone. So where an entry waits, each further try would leave the server one more connection, and is not made.
pub(super) async fn enter(
    db: &impl ConnectionTrait,
    node: Entering,
    clock: &SharedClock,
) -> Result<Entry, DbErr> {
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
    let entry = Entry {
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

/// Whether somebody who enters, this process or another, waits for a synchronous standby.
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

/// What the clock shows that the nodes of a database go by when this returns, as exactly as the way there lets it be known. Where
/// none lives that is the database's. Those that live are where that was when they began, however it was set since; who comes to
/// them does as the one does that renewed its lease last.
pub async fn time_of(store: &Store) -> Result<Millis, DbErr> {
    let db = store.lease().unwrap_or(store.writer());
    let ahead_ms = ahead_of_the_database(db).await?;
    let mut best: Option<(Duration, Instant, i64)> = None;
    for _ in 0..ASKED_FOR_TIME {
        let asked = Instant::now();
        let theirs = now(db).await?;
        let took = asked.elapsed();
        if best.is_none_or(|(quickest, ..)| took < quickest) {
            best = Some((took, asked + took / 2, theirs));
        }
    }
    let since = best.map_or(0, |(_, at, _)| at.elapsed().as_millis());
    let theirs = best.map_or(0, |(.., theirs)| theirs);
    let since = i64::try_from(since).unwrap_or(0);
    Ok(Millis::from_i64(theirs).plus_ms(since).plus_ms(ahead_ms))
}

async fn ahead_of_the_database(db: &impl ConnectionTrait) -> Result<i64, DbErr> {
    let backend = db.get_database_backend();
    // A lease that lasts for longer is from before the database's clock was set back, and so is what its node said.
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

/// Renews a lease, also one that is over, as long as nobody ended it. None: somebody did. With it goes how far the node's clock was
/// ahead of the database's when that was measured last.
pub(super) async fn renew(
    db: &impl ConnectionTrait,
    id: &str,
    load: Load,
    ahead_ms: i64,
) -> Result<Option<Renewed>, DbErr> {
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
    row.map(|row| Renewed::from_query_result(&row, ""))
        .transpose()
}

/// A node as the table has it, with the database's time.
#[derive(Clone, Debug, PartialEq, FromQueryResult)]
pub struct Entered {
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

/// All nodes that were not ended, the oldest first.
pub async fn all(db: &impl ConnectionTrait) -> Result<Vec<Entered>, DbErr> {
    let backend = db.get_database_backend();
    let sql = format!(
        "SELECT id, name, address, process, version, started_at, lease_until, calls, bridges, {} AS now FROM nodes ORDER BY id",
        now_sql(backend)
    );
    Entered::find_by_statement(Statement::from_string(backend, sql))
        .all(db)
        .await
}

/// Ends a node: from then on what it owned is nobody's. False where it renewed its lease after `lease_until`, or somebody else
/// ended it.
pub async fn end(txn: &Transaction, node: &Entered) -> Result<bool, DbErr> {
    let ended = node::Entity::delete_many()
        .filter(node::Column::Id.eq(node.id.as_str()))
        .filter(node::Column::LeaseUntil.lte(node.lease_until))
        .exec(txn)
        .await?;
    Ok(ended.rows_affected == 1)
}

/// Whether there is no such node any more: it left, or was ended. It does not come back under that id.
pub async fn is_gone(db: &impl ConnectionTrait, id: &str) -> Result<bool, DbErr> {
    let there = node::Entity::find().filter(node::Column::Id.eq(id)).one(db);
    Ok(there.await?.is_none())
}

/// The node leaves by itself.
pub(super) async fn leave(store: &Store, id: &str) -> Result<(), DbErr> {
    node::Entity::delete_many()
        .filter(node::Column::Id.eq(id))
        .exec(store.writer())
        .await
        .map(drop)
}
