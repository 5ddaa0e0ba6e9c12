//! Rows locked by other sessions, such as an operator's open transaction or a hanging command. They delay only their own
//! tenant, not the other tenants in the batch.

use std::{collections::BTreeSet, sync::Mutex};

use dikala_entities::{
    CallId, Store, TenantId,
    store::{Durability, SharedRows, is_locked_out},
};
use sea_orm::DbErr;

use super::{
    CommitDeps, PostingOutcome,
    batch::{CommittedBatch, Posting, WriteMode, write},
    remembered::RememberedRows,
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
    deps: &CommitDeps,
    remembered: &Mutex<RememberedRows>,
    batch: &[&Posting],
    durable: Durability,
) -> Result<UnlockedBatch, DbErr> {
    let whole = |written: CommittedBatch| UnlockedBatch {
        outcomes: written.outcomes.into_iter().map(Some).collect(),
        announced: written.announced,
    };
    let error = match write(deps, remembered, batch, WriteMode::Brief(durable)).await {
        Err(error) if is_locked_out(&error) => error,
        written => return written.map(whole),
    };
    let tenants = batch.iter().map(|posting| posting.tenant()).collect();
    let calls: Vec<CallId> = batch.iter().filter_map(|posting| posting.call()).collect();
    let locked = locked(&deps.store, &tenants, &calls).await?;
    if locked.is_empty() {
        // A locked table, or a row that is not asked about. Halving the batch finds it.
        return match batch {
            [_] => write(deps, remembered, batch, WriteMode::Patient)
                .await
                .map(whole),
            _ => Err(error),
        };
    }
    tracing::warn!(tenants = ?locked, "another session locks rows of these tenants; their writes wait");
    let is_free = |posting: &&&Posting| !locked.contains(&posting.tenant());
    let free: Vec<&Posting> = batch.iter().filter(is_free).copied().collect();
    let written = write(deps, remembered, &free, WriteMode::Patient).await?;
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

/// The rows that batches of these tenants and calls share with other sessions, in the order of their locks.
fn shared_rows(tenants: &BTreeSet<TenantId>, calls: &[CallId]) -> Result<[SharedRows; 4], DbErr> {
    let of_tenants = |table| SharedRows::new(table, "tenant_id", "tenant_id", tenants);
    let of_calls = |table, key| SharedRows::new(table, key, "tenant_id", &calls);
    Ok([
        of_tenants("credit_accounts")?,
        of_tenants("event_positions")?,
        of_calls("credit_holds", "call_id")?,
        of_calls("calls", "id")?,
    ])
}

/// The tenants whose account or event position, or the hold or row of one of these calls, is locked now. Does not wait.
pub(super) async fn locked(
    store: &Store,
    tenants: &BTreeSet<TenantId>,
    calls: &[CallId],
) -> Result<BTreeSet<TenantId>, DbErr> {
    store.owners_of_locked(&shared_rows(tenants, calls)?).await
}

/// The tenants of those calls whose hold or row is locked now. Does not wait.
pub async fn locked_calls(store: &Store, calls: &[CallId]) -> Result<BTreeSet<TenantId>, DbErr> {
    let [_, _, holds, calls] = shared_rows(&BTreeSet::new(), calls)?;
    store.owners_of_locked(&[holds, calls]).await
}

/// Queues for a tenant's rows and returns whether it got them.
pub(super) async fn queue_for_rows(
    store: &Store,
    tenant: TenantId,
    calls: &[CallId],
) -> Result<bool, DbErr> {
    store
        .queue_for(&shared_rows(&BTreeSet::from([tenant]), calls)?)
        .await
}
