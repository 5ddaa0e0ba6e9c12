//! The credit ledger. Whole minutes are held before they are talked, used when they begin, and released if they never begin.
//!
//! It follows the quota model of RFC 8506 (credit control). A call never talks on credit that was not granted first. Grants are
//! small, the last one is marked as the last, and unused minutes are returned.
//!
//! `plan` decides. `statements` reads and writes. `batch` commits the minutes and the calls' writes in one transaction. `actor`
//! does the group commit, and `verify` checks the balances.

mod actor;
mod batch;
mod credit;
mod locked;
mod plan;
#[cfg(test)]
pub(crate) mod simulated;
mod statements;
mod verify;

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use actix::{Addr, Message, Recipient};
use actix_rt::ArbiterHandle;
use dikala_entities::{
    CallId, HangupReason, Store, TenantId, TransactionId, TransactionType, audit, credit_hold,
    credit_transaction,
};
use sea_orm::{DbBackend, EntityTrait};

use self::{
    actor::WritePosting,
    batch::{LastEntry, Posting},
};
pub use self::{
    actor::{BATCH_MAX, CreditLedger},
    credit::{CreditError, credit},
    locked::locked,
    statements::{lock, take_over},
    verify::{Report, verify, verify_open},
};
use crate::{
    events::outbox::Audience,
    journal::{JournalEntry, StoredResponse},
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

/// Asks for the first minute of a new call.
#[derive(Clone, Debug)]
pub struct Admit {
    pub call: CallId,
    pub tenant: TenantId,
    pub owner: Arc<str>,
    pub epoch: i64,
    /// The tenant's limit of concurrent calls; `None`: unlimited.
    pub max_concurrent: Option<i64>,
}

/// Asks for more minutes for a running call. `request` is the last one plus 1; a repeated request gets the same answer.
#[derive(Clone, Debug)]
pub struct Extend {
    pub call: CallId,
    pub tenant: TenantId,
    pub owner: Arc<str>,
    pub epoch: i64,
    pub request: i64,
    /// Minutes that have begun so far. They count as used.
    pub started: i64,
    /// Minutes wanted in addition to those granted.
    pub want: i64,
}

/// Ends the hold. Exactly `minutes` are used, but never more than were granted; the rest is released.
#[derive(Clone, Debug)]
pub struct Settle {
    pub call: CallId,
    pub tenant: TenantId,
    pub owner: Arc<str>,
    pub epoch: i64,
    pub minutes: i64,
}

/// An operator's booking. Repeating its reference books nothing new.
#[derive(Clone, Debug)]
pub struct Credit {
    pub tenant: TenantId,
    /// Signed; only an adjustment may be negative.
    pub minutes: i64,
    pub kind: TransactionType,
    pub reference: Option<String>,
    pub description: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Granted,
    Refused(HangupReason),
}

/// The answer to [`Extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Fewer minutes were granted than wanted: no more are available.
    pub last: bool,
    /// Minutes granted to the call in total.
    pub total: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub minutes: i64,
}

/// A booking that is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct CreditBooking {
    pub transaction: credit_transaction::Model,
    /// False if its reference was booked before, with the same content.
    pub is_new: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger's queue is full; try again")]
    Busy,
    #[error("the database is unavailable; try again")]
    Unavailable,
    #[error("another node owns the call")]
    NotOwner,
    #[error(
        "another node owns the call, the call exists already, or the claim of the idempotency key is lost"
    )]
    Conflict,
    #[error("a later request was answered already")]
    Stale,
    #[error("a request is missing before this one")]
    OutOfOrder,
    #[error("the call is settled")]
    Settled,
    #[error("there is no such tenant")]
    NoAccount,
    #[error("the tenant has only {available} minutes available")]
    TooFew { available: i64 },
    #[error("the reference was used for another booking")]
    ReferenceReused,
    #[error("a balance cannot hold that many minutes")]
    TooMany,
    #[error("{0}")]
    Invalid(String),
}

/// A tenant's balance went up: calls that were refused may ask again.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct TenantCredited {
    pub tenant: TenantId,
}

#[derive(Clone, Debug)]
enum Item {
    Admit(Admit),
    Extend(Extend),
    Settle(Settle),
    /// The id is chosen before the first try.
    Credit(Credit, TransactionId),
}

/// The result of an [`Item`].
#[derive(Clone, Debug, PartialEq)]
enum ItemOutcome {
    Admission(Admission),
    Extension(Extension),
    Settlement(Settlement),
    Transaction(Box<credit_transaction::Model>),
    /// The posting had no item.
    Nothing,
}

type PostingOutcome = Result<ItemOutcome, LedgerError>;

impl Item {
    fn tenant(&self) -> TenantId {
        match self {
            Self::Admit(item) => item.tenant,
            Self::Extend(item) => item.tenant,
            Self::Settle(item) => item.tenant,
            Self::Credit(item, _) => item.tenant,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Admit(_) => "admit",
            Self::Extend(_) => "extend",
            Self::Settle(_) => "settle",
            Self::Credit(..) => "credit",
        }
    }

    fn call(&self) -> Option<CallId> {
        match self {
            Self::Admit(item) => Some(item.call),
            Self::Extend(item) => Some(item.call),
            Self::Settle(item) => Some(item.call),
            Self::Credit(..) => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct LedgerDeps {
    pub store: Store,
    pub clock: SharedClock,
    pub node: Membership,
    /// Dispatcher and followers, woken after a commit.
    pub audience: Audience,
}

#[derive(Clone, Debug)]
enum LedgerBackend {
    Shards(Arc<[Addr<CreditLedger>]>, Store),
    #[cfg(test)]
    Simulated(simulated::SimulatedLedgerHandle),
}

/// The ledger as the rest of the program sees it.
#[derive(Clone, Debug)]
pub struct LedgerHandle {
    backend: LedgerBackend,
    credited: Arc<OnceLock<Recipient<TenantCredited>>>,
    stats: Arc<BatchStats>,
    differences: Arc<AtomicUsize>,
    clock: SharedClock,
}

pub fn start(arbiter: &ArbiterHandle, deps: &LedgerDeps) -> LedgerHandle {
    let shards = match deps.store.backend() {
        DbBackend::Postgres => POSTGRES_SHARDS,
        _ => 1,
    };
    let stats = Arc::new(BatchStats::default());
    let shards = (0..shards)
        .map(|_| CreditLedger::start(arbiter, deps.clone(), Arc::clone(&stats)))
        .collect();
    LedgerHandle {
        backend: LedgerBackend::Shards(shards, deps.store.clone()),
        credited: Arc::default(),
        stats,
        differences: Arc::default(),
        clock: Arc::clone(&deps.clock),
    }
}

impl LedgerHandle {
    /// Registers the recipient that is told of added credit. Set once.
    pub fn announce_credits_to(&self, recipient: Recipient<TenantCredited>) {
        let _ = self.credited.set(recipient);
    }

    /// Asks for a call's first minute. Writes the entry that `then` makes of the answer in the same transaction.
    pub async fn admit(
        &self,
        admit: Admit,
        then: impl Fn(Admission) -> JournalEntry + Send + Sync + 'static,
    ) -> Result<Admission, LedgerError> {
        let tenant = admit.tenant;
        let consequence = move |booked: &ItemOutcome| match booked {
            ItemOutcome::Admission(admission) => then(*admission),
            _ => JournalEntry::of(tenant),
        };
        let posting = book_and_write(Item::Admit(admit), consequence);
        match self.post(posting).await? {
            ItemOutcome::Admission(admission) => Ok(admission),
            _ => Err(LedgerError::Unavailable),
        }
    }

    /// Writes an entry that moves no minutes.
    pub async fn write(&self, entry: JournalEntry) -> Result<(), LedgerError> {
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
        then: impl Fn(Settlement) -> JournalEntry + Send + Sync + 'static,
    ) -> Result<Settlement, LedgerError> {
        let tenant = settle.tenant;
        let consequence = move |booked: &ItemOutcome| match booked {
            ItemOutcome::Settlement(settlement) => then(*settlement),
            _ => JournalEntry::of(tenant),
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
        credit::check(&credit).map_err(LedgerError::Invalid)?;
        let tenant = credit.tenant;
        let id = TransactionId::new(self.clock.now());
        let posting = credit::posting(credit, id, audit, answer);
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
            LedgerBackend::Shards(_, store) => credit_hold::Entity::find_by_id(call)
                .one(store.critical_reader())
                .await
                .map_err(|_| LedgerError::Unavailable),
            #[cfg(test)]
            LedgerBackend::Simulated(books) => books.hold(call).await,
        }
    }

    /// Sends a ping to every shard.
    pub async fn is_alive(&self, within: Duration) -> bool {
        match &self.backend {
            LedgerBackend::Shards(shards, _) => {
                for shard in shards.iter() {
                    if shard.send(Ping).timeout(within).await.is_err() {
                        return false;
                    }
                }
                true
            }
            #[cfg(test)]
            LedgerBackend::Simulated(_) => true,
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
            LedgerBackend::Shards(shards, _) => shards,
            #[cfg(test)]
            LedgerBackend::Simulated(books) => return books.post(posting).await,
        };
        let shard = posting.tenant().as_u128() % shards.len().max(1) as u128;
        let shard = shards
            .get(usize::try_from(shard).unwrap_or(0))
            .ok_or(LedgerError::Unavailable)?;
        shard
            .send(WritePosting(posting, span))
            .await
            .unwrap_or(Err(LedgerError::Unavailable))
    }
}

fn book_and_write(
    item: Item,
    consequence: impl Fn(&ItemOutcome) -> JournalEntry + Send + Sync + 'static,
) -> Posting {
    Posting::BookAndWrite(item, Box::new(consequence), LastEntry::default())
}
