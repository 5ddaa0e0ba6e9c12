//! Rows that somebody outside of the ledger keeps locked: an operator's open transaction, a command that hangs. They hold up the
//! tenant whose rows they are, and not those whose minutes are booked in the same batch.

use std::collections::BTreeSet;

use dikala_entities::{Store, TenantId, rows::is_one_of, store::is_locked_out};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use serde_json::json;

use super::{
    Booking, LedgerParts,
    batch::{Posting, write},
};
use crate::events::outbox::Announced;

/// A batch of which all is on disk that could be locked.
pub(super) struct WrittenUnlocked {
    /// None: not written, because somebody else has locked the tenant's rows.
    pub outcomes: Vec<Option<Booking>>,
    pub announced: Announced,
}

/// Writes a batch, and where rows are locked the part of it whose tenants' rows are free.
pub(super) async fn write_unlocked(
    parts: &LedgerParts,
    batch: &[&Posting],
) -> Result<WrittenUnlocked, DbErr> {
    let error = match write(parts, batch).await {
        Err(error) if is_locked_out(&error) => error,
        written => {
            return written.map(|written| WrittenUnlocked {
                outcomes: written.outcomes.into_iter().map(Some).collect(),
                announced: written.announced,
            });
        }
    };
    let tenants = batch.iter().map(|posting| posting.tenant()).collect();
    let locked = locked(&parts.store, &tenants).await?;
    if locked.is_empty() {
        return Err(error);
    }
    tracing::warn!(tenants = ?locked, "rows of tenants are locked by somebody else; what they write waits");
    let is_free = |posting: &&&Posting| !locked.contains(&posting.tenant());
    let free: Vec<&Posting> = batch.iter().filter(is_free).copied().collect();
    let written = write(parts, &free).await?;
    let mut outcomes = written.outcomes.into_iter();
    let outcomes = batch.iter().map(|posting| {
        let is_written = is_free(&posting);
        is_written.then(|| outcomes.next()).flatten()
    });
    Ok(WrittenUnlocked {
        outcomes: outcomes.collect(),
        announced: written.announced,
    })
}

/// Those of the tenants whose account or whose position of events somebody has locked now. Waits for nobody.
pub(super) async fn locked(
    store: &Store,
    tenants: &BTreeSet<TenantId>,
) -> Result<BTreeSet<TenantId>, DbErr> {
    let backend = store.backend();
    if backend != DbBackend::Postgres {
        return Ok(BTreeSet::new());
    }
    let theirs = is_one_of(backend, "tenant_id", 1);
    let got = |table: &str| {
        format!("SELECT tenant_id FROM {table} WHERE {theirs} FOR UPDATE SKIP LOCKED")
    };
    let left = |table: &str, got: &str| {
        format!(
            "SELECT tenant_id FROM {table} WHERE {theirs} AND tenant_id NOT IN (SELECT tenant_id FROM {got})"
        )
    };
    let sql = format!(
        "WITH accounts AS ({}), positions AS ({}) {} UNION {}",
        got("credit_accounts"),
        got("event_positions"),
        left("credit_accounts", "accounts"),
        left("event_positions", "positions"),
    );
    let ask = Statement::from_sql_and_values(backend, sql, [json!(tenants).to_string().into()]);
    let txn = store.begin_shared().await?;
    let rows = txn.query_all_raw(ask).await?;
    txn.rollback().await?;
    rows.iter()
        .map(|row| row.try_get("", "tenant_id"))
        .collect()
}
