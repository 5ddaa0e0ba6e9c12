//! What runs here: `/actors`, `/nodes`, `/ledger`, `/database` and `/config`.

use std::sync::Arc;

use actix_web::web::Data;
use dikala_actors::{
    ledger::{self, Report},
    nodes::{Entered, all as all_nodes},
    runtime::{
        histogram::Distribution,
        metrics::{ActorMeter, MessageReading, meters},
    },
};
use dikala_entities::{Millis, TenantId};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use utoipa::ToSchema;

use super::{
    desk::{Desk, Verified},
    refused::no_such_tenant,
};
use crate::{
    admin::find_tenant,
    config::Shown,
    http::{
        answer::Answer,
        error::{ApiError, Missing},
        extract::{Body, TypeName, id},
    },
};

/// A type of actor, all of its instances together.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actors {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Running now.
    instances: i64,
    /// Messages in mailboxes now.
    mailbox: i64,
    /// The most of one kind that there ever were.
    mailbox_highest: i64,
    handled: u64,
    /// Messages that nobody handled.
    lost: u64,
    /// How often one was brought back after a panic.
    restarts: u64,
}

/// How late the event loop of a thread is.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lag {
    /// What the thread does, with a number.
    name: String,
    /// The longest of the last seconds, or now; the first answer after a while tells of that moment only.
    lag_us: u64,
}

/// All types of actor that have run in this process, and the threads that they run on.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"actors": [{
    "type": "credit_ledger", "instances": 1, "mailbox": 0, "mailboxHighest": 12, "handled": 8123, "lost": 0, "restarts": 0,
    "messages": [{
        "message": "Post", "mailbox": 0, "mailboxHighest": 12, "handled": 8101, "lost": 0,
        "waitUs": {"p50": 25, "p99": 250}, "handlingUs": {"p50": 10, "p99": 100}
    }]
}], "eventLoops": [{"name": "core-0", "lagUs": 1100}]}))]
pub struct ActorList {
    actors: Vec<ActorDetail>,
    event_loops: Vec<Lag>,
}

/// How long something takes, in microseconds, as exactly as it is counted: half of all, and 99 of 100, take so long at most. Null
/// where there was none.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Times {
    p50: Option<u64>,
    p99: Option<u64>,
}

impl From<&Distribution> for Times {
    fn from(times: &Distribution) -> Self {
        Self {
            p50: times.percentile(50),
            p99: times.percentile(99),
        }
    }
}

/// One kind of message to a type of actor.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    message: &'static str,
    mailbox: i64,
    mailbox_highest: i64,
    handled: u64,
    lost: u64,
    /// From sending one until it leaves the mailbox.
    wait_us: Times,
    /// In the handler, without what that awaits.
    handling_us: Times,
}

/// A type of actor with the kinds of message that it takes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "credit_ledger", "instances": 1, "mailbox": 0, "mailboxHighest": 12, "handled": 8123, "lost": 0, "restarts": 0,
    "messages": [{"message": "Post", "mailbox": 0, "mailboxHighest": 12, "handled": 8101, "lost": 0,
        "waitUs": {"p50": 25, "p99": 250}, "handlingUs": {"p50": 10, "p99": 100}}]
}))]
pub struct ActorDetail {
    #[serde(flatten)]
    #[schema(inline)]
    actors: Actors,
    messages: Vec<Messages>,
}

impl Actors {
    fn of(meter: &ActorMeter, messages: &[MessageReading]) -> Self {
        Self {
            kind: meter.name(),
            instances: meter.running(),
            mailbox: messages.iter().map(|of| of.depth).sum(),
            mailbox_highest: messages.iter().map(|of| of.depth_max).max().unwrap_or(0),
            handled: messages.iter().map(|of| of.handling.count()).sum(),
            lost: messages.iter().map(|of| of.lost).sum(),
            restarts: meter.restarts(),
        }
    }
}

impl From<MessageReading> for Messages {
    fn from(reading: MessageReading) -> Self {
        Self {
            message: reading.message,
            mailbox: reading.depth,
            mailbox_highest: reading.depth_max,
            handled: reading.handling.count(),
            lost: reading.lost,
            wait_us: Times::from(&reading.wait),
            handling_us: Times::from(&reading.handling),
        }
    }
}

impl From<&ActorMeter> for ActorDetail {
    fn from(meter: &ActorMeter) -> Self {
        let messages = meter.readings();
        Self {
            actors: Actors::of(meter, &messages),
            messages: messages.into_iter().map(Messages::from).collect(),
        }
    }
}

/// `GET /actors`
pub async fn actors(desk: Data<Desk>) -> Answer {
    let lags = desk.loops.lags().into_iter();
    Answer::ok(&ActorList {
        actors: meters().into_iter().map(ActorDetail::from).collect(),
        event_loops: lags
            .map(|(name, lag)| Lag {
                name,
                lag_us: u64::try_from(lag.as_micros()).unwrap_or(u64::MAX),
            })
            .collect(),
    })
}

/// `GET /actors/{type}`
pub async fn actor(kind: TypeName) -> Result<Answer, ApiError> {
    let mut meters = meters().into_iter();
    let meter = meters.find(|meter| meter.name() == kind.0);
    let meter = meter.ok_or(ApiError::NotFound(Missing::Actor))?;
    Ok(Answer::ok(&ActorDetail::from(meter)))
}

/// A process of the service, from its start, or from when it came back after it lost its lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub id: String,
    /// `node.name`: a label, which several may have.
    pub name: String,
    /// Where its public listener answers.
    pub address: String,
    pub version: String,
    pub started_at: Millis,
    /// What is left of its lease; 0 where others are about to take what it has.
    pub lease_seconds: i64,
    /// Calls with an actor there; of others a few seconds ago.
    pub calls: i64,
    /// Bridges with an open socket there; of others a few seconds ago.
    pub bridges: i64,
    /// Whether it is the one that answers.
    pub is_this: bool,
}

/// All nodes, the oldest first. Their times are the database's.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"nodes": [{
    "id": "node_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "main", "address": "http://127.0.0.1:8080", "version": "0.1.0",
    "startedAt": "2026-01-15T03:30:00.000Z", "leaseSeconds": 12, "calls": 12, "bridges": 2, "isThis": true
}]}))]
pub struct NodeList {
    pub nodes: Vec<Node>,
}

/// `GET /nodes`
pub async fn nodes(desk: Data<Desk>) -> Result<Answer, ApiError> {
    Ok(Answer::ok(&read_nodes(&desk).await?))
}

/// The processes of the service.
pub async fn read_nodes(desk: &Desk) -> Result<NodeList, ApiError> {
    let here = &desk.node;
    let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let shown = |row: Entered| {
        let is_this = here.member.is(&row.id);
        let (calls, bridges, left_ms) = if is_this {
            (
                whole(here.calls.in_memory()),
                whole(here.bridges.connected_count()),
                here.member.lease_left_ms(),
            )
        } else {
            (row.calls, row.bridges, row.lease_until.since(row.now))
        };
        Node {
            id: row.id,
            name: row.name,
            address: row.address,
            version: row.version,
            started_at: row.started_at,
            lease_seconds: left_ms.max(0) / 1_000,
            calls,
            bridges,
            is_this,
        }
    };
    let rows = all_nodes(here.store.api_reader()).await?;
    Ok(NodeList {
        nodes: rows.into_iter().map(shown).collect(),
    })
}

/// What a verification of the books found.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "verifiedAt": "2026-01-15T03:30:00.000Z", "tenants": 12, "transactions": 8123, "holds": 3, "differences": []
}))]
pub struct Verification {
    verified_at: Millis,
    tenants: i64,
    transactions: i64,
    holds: i64,
    /// One sentence each; none if the books are right.
    differences: Vec<String>,
}

impl From<Verified> for Verification {
    fn from(verified: Verified) -> Self {
        let Report {
            tenants,
            transactions,
            holds,
            differences,
        } = verified.report;
        Self {
            verified_at: verified.at,
            tenants,
            transactions,
            holds,
            differences,
        }
    }
}

/// The ledger now.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "openHolds": 3, "heldMinutes": 3, "batches": 8001, "items": 8123, "lastVerification": null
}))]
pub struct Ledger {
    /// Holds of calls that are not over.
    open_holds: i64,
    /// What those hold.
    held_minutes: i64,
    /// Transactions that this process wrote.
    batches: u64,
    /// What was written in them.
    items: u64,
    /// Null where the books were not verified here since the start, or are being verified.
    last_verification: Option<Verification>,
}

/// Whose books are verified; everybody's if left out.
#[expect(dead_code, reason = "the description of what is read field by field")]
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", as = VerificationInput, example = json!({"tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6"}))]
pub struct WhoseBooks {
    pub tenant_id: Option<TenantId>,
}

/// `GET /ledger`
pub async fn show_ledger(desk: Data<Desk>) -> Result<Answer, ApiError> {
    let db = desk.node.store.api_reader();
    let sql = "SELECT COUNT(*) AS holds, CAST(COALESCE(SUM(held), 0) AS BIGINT) AS minutes FROM credit_holds \
               WHERE settled_at IS NULL";
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await?;
    let (open_holds, held_minutes) = match row {
        Some(row) => (row.try_get("", "holds")?, row.try_get("", "minutes")?),
        None => (0, 0),
    };
    let written = desk.node.ledger.stats();
    let verified = desk.verified.try_lock().ok();
    let verified = verified.and_then(|verified| verified.clone());
    Ok(Answer::ok(&Ledger {
        open_holds,
        held_minutes,
        batches: written.commit.count(),
        items: written.items.sum,
        last_verification: verified.map(Verification::from),
    }))
}

/// `POST /ledger/verify`: computes every balance again. One at a time: each reads all that was ever booked.
pub async fn verify(desk: Data<Desk>, body: Body) -> Result<Answer, ApiError> {
    let tenant: Option<TenantId> = body.optional_form()?.read(&[], |form| {
        Some(form.optional("tenantId", None, id("a tenant")))
    })?;
    let store = &desk.node.store;
    if let Some(tenant) = tenant {
        let there = find_tenant(store.api_reader(), tenant).await;
        there.map_err(|_| no_such_tenant())?;
    }
    let last = Arc::clone(&desk.verified).try_lock_owned();
    let mut last: OwnedMutexGuard<Option<Verified>> =
        last.map_err(|_| ApiError::VerificationRunning)?;
    let verified = Verified {
        at: desk.now(),
        report: ledger::verify(store, tenant).await?,
    };
    if tenant.is_none() {
        *last = Some(verified.clone());
    }
    Ok(Answer::ok(&Verification::from(verified)))
}

/// The connections of a pool.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    name: &'static str,
    in_use: usize,
    idle: usize,
    /// There may be so many more.
    unopened: usize,
}

/// The database.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "kind": "sqlite", "version": "3.53.0", "sizeBytes": 1_048_576, "migrations": 14,
    "pools": [{"name": "writer", "inUse": 0, "idle": 1, "unopened": 0}], "commitUs": {"p50": 1000, "p99": 5000}
}))]
pub struct Database {
    /// `sqlite` or `postgres`.
    kind: &'static str,
    version: String,
    size_bytes: i64,
    /// Steps of the schema that were made.
    migrations: i64,
    pools: Vec<Pool>,
    /// From taking a batch of the ledger's up until it is committed.
    commit_us: Times,
}

/// `GET /database`
pub async fn database(desk: Data<Desk>) -> Result<Answer, ApiError> {
    let db = desk.node.store.api_reader();
    let (kind, sql) = match db.get_database_backend() {
        DbBackend::Postgres => (
            "postgres",
            "SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS size",
        ),
        _ => (
            "sqlite",
            "SELECT sqlite_version() AS version, page_count * page_size AS size FROM pragma_page_count(), pragma_page_size()",
        ),
    };
    let row = one(db, sql).await?;
    let pools = desk.node.store.pools().into_iter();
    let pools = pools.map(|(name, pool)| Pool {
        name,
        in_use: pool.in_use,
        idle: pool.idle,
        unopened: pool.unopened,
    });
    let steps = one(db, "SELECT COUNT(*) AS steps FROM seaql_migrations").await?;
    Ok(Answer::ok(&Database {
        kind,
        version: row.try_get("", "version")?,
        size_bytes: row.try_get("", "size")?,
        migrations: steps.try_get("", "steps")?,
        pools: pools.collect(),
        commit_us: Times::from(&desk.node.ledger.stats().commit),
    }))
}

async fn one(db: &impl ConnectionTrait, sql: &str) -> Result<sea_orm::QueryResult, DbErr> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await?;
    row.ok_or_else(|| DbErr::RecordNotFound(sql.to_owned()))
}

/// The configuration that this process started with.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"keys": [{"key": "http.listen", "value": "127.0.0.1:8080", "origin": "default"}]}))]
pub struct Configuration {
    keys: Vec<Shown>,
}

/// `GET /config`
pub async fn config(desk: Data<Desk>) -> Answer {
    Answer::ok(&Configuration {
        keys: desk.configuration.to_vec(),
    })
}
