//! Rows locked by other sessions, such as an operator's open transaction or a hanging command. They delay only their own
//! tenant, not the other tenants in the batch.

use std::collections::BTreeSet;

use dikala_entities::{CallId, Store, TenantId, rows::is_one_of, store::is_locked_out};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};
use serde_json::json;

use super::{
    LedgerDeps, PostingOutcome,
    batch::{CommittedBatch, LockWait, Posting, write},
};
use crate::events::outbox::AnnouncedEvents;

/// The result after everything that was not locked is committed.
pub(super) struct UnlockedBatch {
    /// `None` for a posting that was not written because its tenant's rows are locked.
    pub outcomes: Vec<Option<PostingOutcome>>,
    pub announced: AnnouncedEvents,
}

/// Writes a batch. If rows are locked, it writes the postings of the tenants whose rows are free.
pub(super) async fn write_unlocked(
    deps: &LedgerDeps,
    batch: &[&Posting],
) -> Result<UnlockedBatch, DbErr> {
    let whole = |written: CommittedBatch| UnlockedBatch {
        outcomes: written.outcomes.into_iter().map(Some).collect(),
        announced: written.announced,
    };
    match write(deps, batch, LockWait::Short).await {
        Err(error) if is_locked_out(&error) => {}
        written => return written.map(whole),
    }
    let tenants = batch.iter().map(|posting| posting.tenant()).collect();
    let calls: Vec<CallId> = batch.iter().filter_map(|posting| posting.call()).collect();
    let locked = locked(&deps.store, &tenants, &calls).await?;
    if locked.is_empty() {
        // A locked table, or a row that belongs to no tenant.
        return write(deps, batch, LockWait::Usual).await.map(whole);
    }
    tracing::warn!(tenants = ?locked, "rows of tenants are locked by another session; their writes wait");
    let is_free = |posting: &&&Posting| !locked.contains(&posting.tenant());
    let free: Vec<&Posting> = batch.iter().filter(is_free).copied().collect();
    let written = write(deps, &free, LockWait::Usual).await?;
    let mut outcomes = written.outcomes.into_iter();
    let outcomes = batch.iter().map(|posting| {
        let is_written = is_free(&posting);
        is_written.then(|| outcomes.next()).flatten()
    });
    Ok(UnlockedBatch {
        outcomes: outcomes.collect(),
        announced: written.announced,
    })
}

/// The tenants whose account, event position or one of these calls is locked now. Does not wait.
pub async fn locked(
    store: &Store,
    tenants: &BTreeSet<TenantId>,
    calls: &[CallId],
) -> Result<BTreeSet<TenantId>, DbErr> {
    let backend = store.backend();
    if backend != DbBackend::Postgres {
        return Ok(BTreeSet::new());
    }
    let tables = [
        ("credit_accounts", "tenant_id", 1),
        ("event_positions", "tenant_id", 1),
        ("calls", "id", 2),
    ];
    let asked = |key, parameter| is_one_of(backend, key, parameter);
    let got = tables.map(|(table, key, parameter)| {
        let asked = asked(key, parameter);
        format!("got_{table} AS (SELECT {key} FROM {table} WHERE {asked} FOR UPDATE SKIP LOCKED)")
    });
    let left = tables.map(|(table, key, parameter)| {
        let asked = asked(key, parameter);
        format!("SELECT tenant_id FROM {table} WHERE {asked} AND {key} NOT IN (SELECT {key} FROM got_{table})")
    });
    let sql = format!("WITH {} {}", got.join(", "), left.join(" UNION "));
    let values = [json!(tenants).to_string(), json!(calls).to_string()];
    let ask = Statement::from_sql_and_values(backend, sql, values.map(Value::from));
    let txn = store.begin_shared().await?;
    let rows = match txn.query_all_raw(ask).await {
        // One of the tables is locked, which is no tenant's row.
        Err(error) if is_locked_out(&error) => return Ok(BTreeSet::new()),
        rows => rows?,
    };
    txn.rollback().await?;
    rows.iter()
        .map(|row| row.try_get("", "tenant_id"))
        .collect()
}

/// Queues for a tenant's rows and returns whether it got them. If other nodes write them all the time, a check that does not
/// queue never finds them free.
pub(super) async fn queue_for_rows(
    store: &Store,
    tenant: TenantId,
    calls: &[CallId],
) -> Result<bool, DbErr> {
    let backend = store.backend();
    let txn = store.begin_shared().await?;
    let values = [json!([tenant]).to_string(), json!(calls).to_string()].map(Value::from);
    for (table, key, value) in [
        ("credit_accounts", "tenant_id", &values[0]),
        ("event_positions", "tenant_id", &values[0]),
        ("calls", "id", &values[1]),
    ] {
        let asked = is_one_of(backend, key, 1);
        let sql = format!("SELECT {key} FROM {table} WHERE {asked} FOR UPDATE");
        let ask = Statement::from_sql_and_values(backend, sql, [value.clone()]);
        match txn.query_all_raw(ask).await {
            Err(error) if is_locked_out(&error) => return Ok(false),
            got => got.map(drop)?,
        }
    }
    txn.rollback().await?;
    Ok(true)
}
