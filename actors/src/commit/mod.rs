//! The one transaction that commits what a step of a call does: its minutes, its state and its events. Nothing of it exists
//! without the rest.
//!
//! The [`CreditLedger`] actor gathers postings while a batch is being written. `batch` plans the minutes of all postings
//! ([`ledger`]), makes their `call_writes`, and writes both in one transaction. `locked` keeps tenants with locked
//! rows from delaying others. `remembered` are the rows that need not be read again. `booking` is an operator's booking.

mod actor;
mod batch;
mod booking;
pub(crate) mod call_writes;
mod locked;
mod remembered;
#[cfg(test)]
pub(crate) mod simulated;

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use actix::{Addr, Message, Recipient, prelude::SendError};
use actix_rt::ArbiterHandle;
use dikala_entities::{CallId, Store, TenantId, TransactionId, audit, credit_hold};
use sea_orm::{DbBackend, EntityTrait};

pub use self::{
    actor::{BATCH_MAX, CreditLedger},
    booking::{CreditError, credit},
    call_writes::{CallCounts, CallUpdate, CallWrite, CommitEntry, Fence, StoredResponse},
    locked::locked_calls,
};
use self::{
    actor::{PostingReply, WritePosting},
    batch::{LastEntry, Posting},
};
use crate::{
    events::outbox::EventRecipients,
    ledger::{
        self, Admission, Admit, Credit, CreditBooking, Extend, Extension, Item, ItemOutcome,
        LedgerError, PostingOutcome, Settle, Settlement,
    },
    nodes::Membership,
    runtime::{
        clock::SharedClock,
        context::Ping,
        group_commit::{BatchReading, BatchStats},
    },
    traces::{self, SpanKind},
};

/// Ledger actors on PostgreSQL, where different tenants lock different rows. SQLite has one writer anyway.
const POSTGRES_SHARDS: usize = 3;

/// A tenant's balance went up: calls that were refused may ask again.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct TenantCredited {
    pub tenant: TenantId,
}

#[derive(Clone, Debug)]
pub struct CommitDeps {
    pub store: Store,
    pub clock: SharedClock,
    pub node: Membership,
    /// Dispatcher and followers, woken after a commit.
    pub recipients: EventRecipients,
}

#[derive(Clone, Debug)]
enum CommitBackend {
    Shards(Arc<[Addr<CreditLedger>]>, Store),
    #[cfg(test)]
    Simulated(simulated::SimulatedCommitHandle),
}

/// The ledger as the rest of the program sees it.
#[derive(Clone, Debug)]
pub struct CommitHandle {
    backend: CommitBackend,
    credited: Arc<OnceLock<Recipient<TenantCredited>>>,
    stats: Arc<BatchStats>,
    differences: Arc<AtomicUsize>,
    clock: SharedClock,
}

pub fn start(arbiter: &ArbiterHandle, deps: &CommitDeps) -> CommitHandle {
    let shards = match deps.store.backend() {
        DbBackend::Postgres => POSTGRES_SHARDS,
        _ => 1,
    };
    let stats = Arc::new(BatchStats::default());
    let shards = (0..shards)
        .map(|_| CreditLedger::start(arbiter, deps.clone(), Arc::clone(&stats)))
        .collect();
    CommitHandle {
        backend: CommitBackend::Shards(shards, deps.store.clone()),
        credited: Arc::default(),
        stats,
        differences: Arc::default(),
        clock: Arc::clone(&deps.clock),
    }
}

impl CommitHandle {
    /// Registers the recipient that is told of added credit. Set once.
    pub fn announce_credits_to(&self, recipient: Recipient<TenantCredited>) {
        let _ = self.credited.set(recipient);
    }

    /// Asks for a call's first minute. Writes the entry that `then` makes of the answer in the same transaction.
    pub async fn admit(
        &self,
        admit: Admit,
        then: impl Fn(Admission) -> CommitEntry + Send + Sync + 'static,
    ) -> Result<Admission, LedgerError> {
        let tenant = admit.tenant;
        let consequence = move |booked: &ItemOutcome| match booked {
            ItemOutcome::Admission(admission) => then(*admission),
            _ => CommitEntry::of(tenant),
        };
        let posting = book_and_write(Item::Admit(admit), consequence);
        match self.post(posting).await? {
            ItemOutcome::Admission(admission) => Ok(admission),
            _ => Err(LedgerError::Unavailable),
        }
    }

    /// Writes an entry that moves no minutes.
    pub async fn write(&self, entry: CommitEntry) -> Result<(), LedgerError> {
        self.post(Posting::Write(Arc::new(entry))).await.map(drop)
    }

    pub async fn extend(&self, extend: Extend) -> Result<Extension, LedgerError> {
        match self.post(Posting::Book(Item::Extend(extend))).await? {
            ItemOutcome::Extension(grant) => Ok(grant),
            _ => Err(LedgerError::Unavailable),
        }
    }

    /// Settles a call. Writes the entry that `then` makes of the settlement in the same transaction.
    pub async fn settle(
        &self,
        settle: Settle,
        then: impl Fn(Settlement) -> CommitEntry + Send + Sync + 'static,
    ) -> Result<Settlement, LedgerError> {
        let tenant = settle.tenant;
        let consequence = move |booked: &ItemOutcome| match booked {
            ItemOutcome::Settlement(settlement) => then(*settlement),
            _ => CommitEntry::of(tenant),
        };
        let posting = book_and_write(Item::Settle(settle), consequence);
        match self.post(posting).await? {
            ItemOutcome::Settlement(settlement) => Ok(settlement),
            _ => Err(LedgerError::Unavailable),
        }
    }

    /// Books a purchase, a bonus, a refund or an adjustment. The same transaction stores its audit entry and the response that
    /// `answer` makes for repeats of the request. [`LedgerError::Conflict`]: the request lost its idempotency claim.
    pub async fn credit(
        &self,
        credit: Credit,
        audit: Option<audit::Model>,
        answer: impl Fn(&CreditBooking) -> Option<StoredResponse> + Send + Sync + 'static,
    ) -> Result<CreditBooking, LedgerError> {
        ledger::check(&credit).map_err(LedgerError::Invalid)?;
        let tenant = credit.tenant;
        let id = TransactionId::new(self.clock.now());
        let posting = booking::posting(credit, id, audit, answer);
        match self.post(posting).await? {
            ItemOutcome::Transaction(transaction) => {
                if let Some(recipient) = self.credited.get() {
                    // Lost if the mailbox is full: the calls ask again by themselves.
                    let _ = recipient.try_send(TenantCredited { tenant });
                }
                Ok(CreditBooking {
                    is_new: transaction.id == id,
                    transaction: *transaction,
                })
            }
            _ => Err(LedgerError::Unavailable),
        }
    }

    pub async fn hold(&self, call: CallId) -> Result<Option<credit_hold::Model>, LedgerError> {
        match &self.backend {
            CommitBackend::Shards(_, store) => credit_hold::Entity::find_by_id(call)
                .one(store.critical_reader())
                .await
                .map_err(|_| LedgerError::Unavailable),
            #[cfg(test)]
            CommitBackend::Simulated(books) => books.hold(call).await,
        }
    }

    /// Sends a ping to every shard.
    pub async fn is_alive(&self, within: Duration) -> bool {
        match &self.backend {
            CommitBackend::Shards(shards, _) => {
                for shard in shards.iter() {
                    if shard.send(Ping).timeout(within).await.is_err() {
                        return false;
                    }
                }
                true
            }
            #[cfg(test)]
            CommitBackend::Simulated(_) => true,
        }
    }

    /// Differences that the last check of the open holds found; 0 before the first check.
    pub fn differences(&self) -> usize {
        self.differences.load(Relaxed)
    }

    /// Records the result of such a check.
    pub fn record_differences(&self, differences: usize) {
        self.differences.store(differences, Relaxed);
    }

    pub fn stats(&self) -> BatchReading {
        self.stats.reading()
    }

    async fn post(&self, posting: Posting) -> PostingOutcome {
        let span = traces::current().map(|of| {
            let span = of.span(SpanKind::Internal, "ledger");
            span.with("dikala.ledger.books", posting.name())
        });
        let shards = match &self.backend {
            CommitBackend::Shards(shards, _) => shards,
            #[cfg(test)]
            CommitBackend::Simulated(books) => return books.post(posting).await,
        };
        let shard = posting.tenant().as_u128() % shards.len().max(1) as u128;
        let shard = shards
            .get(usize::try_from(shard).unwrap_or(0))
            .ok_or(LedgerError::Unavailable)?;
        let (reply, outcome) = PostingReply::new();
        let request = WritePosting {
            posting,
            span,
            reply,
        };
        match shard.try_send(request) {
            Ok(()) => {}
            Err(SendError::Full(request)) => shard
                .send(request)
                .await
                .map_err(|_| LedgerError::Unavailable)?,
            Err(SendError::Closed(_)) => return Err(LedgerError::Unavailable),
        }
        outcome.await.unwrap_or(Err(LedgerError::Unavailable))
    }
}

fn book_and_write(
    item: Item,
    consequence: impl Fn(&ItemOutcome) -> CommitEntry + Send + Sync + 'static,
) -> Posting {
    Posting::BookAndWrite(item, Box::new(consequence), LastEntry::default())
}
