//! What runs here: `/nodes`, `/ledger`, `/database` and `/config`.

use std::sync::Arc;

use actix_web::web::Data;
use dikala_actors::ledger::{self, Report};
use dikala_entities::{Millis, TenantId};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use utoipa::ToSchema;

use super::{
    actors::Times,
    desk::{Desk, Verified},
    refused::no_such_tenant,
};
use crate::{
    admin::find_tenant,
    config::Shown,
    http::{
        answer::Answer,
        error::ApiError,
        extract::{Body, id},
    },
};

/// A process of the service.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    name: String,
    version: &'static str,
    started_at: Millis,
    /// Calls with an actor now.
    calls: usize,
    /// Bridges with an open socket now.
    bridges: usize,
}

/// All nodes: this one.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"nodes": [{
    "name": "main", "version": "0.1.0", "startedAt": "2026-01-15T03:30:00.000Z", "calls": 12, "bridges": 2
}]}))]
pub struct NodeList {
    nodes: Vec<Node>,
}

/// `GET /nodes`
pub async fn nodes(desk: Data<Desk>) -> Answer {
    Answer::ok(&NodeList {
        nodes: vec![Node {
            name: desk.node.calls.node().to_string(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: desk.started_at,
            calls: desk.node.calls.in_memory(),
            bridges: desk.node.bridges.connected_count(),
        }],
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
