//! Writes one batch in one transaction: minutes, the calls' writes, and the events that announce both.
//!
//! If the rows that it needs are [remembered](RememberedRows), the batch is one statement. Otherwise it reads them first.
//!
//! Shared rows are locked in the same order everywhere: accounts by id, then event positions by tenant, then everything else.
//! Each write knows how many rows it must change. If one changes fewer, another writer was faster or an earlier try was
//! committed. Then nothing of the batch is committed, the postings concerned are answered, and the rest is tried again.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dikala_entities::{
    CallId, MailKind, Millis, TenantId,
    batch::BatchWrite,
    mail,
    store::{Durability, PendingCommit, Transaction},
};
use sea_orm::DbErr;

use super::{
    CommitDeps,
    call_writes::{self, CallWrite, CommitEntry, Obstacle},
    remembered::RememberedRows,
};
use crate::{
    events::outbox::{self, AnnouncedEvents, EventPositions, KnownPositions, NewEvent},
    ledger::{
        Item, ItemOutcome, LedgerError, PostingOutcome,
        plan::{LedgerRows, plan},
        statements::{self, RowsBefore, announce},
    },
    mails,
};

/// Tries per batch while other writers keep changing its rows.
pub(super) const ROUNDS_MAX: usize = 4;

/// Makes the entry that follows from an item's result. It is called again if a later try has another result.
type Consequence = Box<dyn Fn(&ItemOutcome) -> CommitEntry + Send + Sync>;

pub(super) enum Posting {
    Book(Item),
    BookAndWrite(Item, Consequence, LastEntry),
    Write(Arc<CommitEntry>),
}

/// The entry of a posting's last try, with the result it was made from. A repeated try writes the same ids.
#[derive(Default)]
pub(super) struct LastEntry(Mutex<Option<(ItemOutcome, Arc<CommitEntry>)>>);

impl Posting {
    /// The tenant selects the shard.
    pub(super) fn tenant(&self) -> TenantId {
        match self {
            Self::Book(item) | Self::BookAndWrite(item, ..) => item.tenant(),
            Self::Write(entry) => entry.tenant,
        }
    }

    /// For traces.
    pub(super) fn name(&self) -> &'static str {
        self.item().map_or("write", Item::name)
    }

    /// The call whose hold or row may be written.
    pub(super) fn call(&self) -> Option<CallId> {
        match self {
            Self::Book(item) | Self::BookAndWrite(item, ..) => item.call(),
            Self::Write(entry) => match &entry.call {
                Some(CallWrite::Update(update)) => Some(update.id),
                _ => None,
            },
        }
    }

    fn item(&self) -> Option<&Item> {
        match self {
            Self::Book(item) | Self::BookAndWrite(item, ..) => Some(item),
            Self::Write(_) => None,
        }
    }

    /// The entry to write; `None` if the item was refused.
    fn entry(&self, outcome: &PostingOutcome) -> Option<Arc<CommitEntry>> {
        match (self, outcome) {
            (Self::Write(entry), _) => Some(Arc::clone(entry)),
            (Self::BookAndWrite(_, consequence, last_entry), Ok(booked)) => {
                let mut last_entry = last_entry.0.lock().unwrap_or_else(PoisonError::into_inner);
                match last_entry.as_ref() {
                    Some((before, entry)) if before == booked => Some(Arc::clone(entry)),
                    _ => {
                        let entry = Arc::new(consequence(booked));
                        *last_entry = Some((booked.clone(), Arc::clone(&entry)));
                        Some(entry)
                    }
                }
            }
            (Self::Book(_) | Self::BookAndWrite(..), _) => None,
        }
    }
}

/// A committed batch.
pub(super) struct CommittedBatch {
    pub outcomes: Vec<PostingOutcome>,
    pub announced: AnnouncedEvents,
}

/// How a batch waits for locked rows, and for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteMode {
    /// For locked rows only long enough to find the tenant that holds up the others.
    Brief(Durability),
    /// As any other write.
    Patient,
}

impl WriteMode {
    fn durable(self) -> Durability {
        match self {
            Self::Brief(durable) => durable,
            Self::Patient => Durability::OnReturn,
        }
    }
}

/// A batch that is decided: what its postings get, and what is to be written.
struct Prepared {
    outcomes: Vec<PostingOutcome>,
    entries: Vec<Option<Arc<CommitEntry>>>,
    writes: Vec<BatchWrite>,
    announced: AnnouncedEvents,
    book: LedgerRows,
    positions: EventPositions,
    /// Tenants whose events another node announced last.
    of_others: BTreeSet<TenantId>,
}

/// Writes a batch. Everything that it returns is committed and survives a crash of the database.
pub(super) async fn write(
    deps: &CommitDeps,
    remembered: &Mutex<RememberedRows>,
    batch: &[&Posting],
    mode: WriteMode,
) -> Result<CommittedBatch, DbErr> {
    let written = write_pending(deps, remembered, batch, mode).await;
    let confirmed = match written {
        Ok((written, pending)) => pending.confirm().await.map(|()| written),
        Err(error) => Err(error),
    };
    if confirmed.is_err() {
        lock(remembered).forget();
    }
    confirmed
}

async fn write_pending(
    deps: &CommitDeps,
    remembered: &Mutex<RememberedRows>,
    batch: &[&Posting],
    mode: WriteMode,
) -> Result<(CommittedBatch, PendingCommit), DbErr> {
    if let WriteMode::Brief(durable) = mode
        && let Some(written) = write_from_memory(deps, remembered, batch, durable).await?
    {
        return Ok(written);
    }
    write_from_store(deps, remembered, batch, mode).await
}

fn lock(remembered: &Mutex<RememberedRows>) -> MutexGuard<'_, RememberedRows> {
    remembered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a batch as one statement, from the rows that the last batches left. `None`, and nothing is changed, if that is not
/// possible.
async fn write_from_memory(
    deps: &CommitDeps,
    remembered: &Mutex<RememberedRows>,
    batch: &[&Posting],
    durable: Durability,
) -> Result<Option<(CommittedBatch, PendingCommit)>, DbErr> {
    let Some(prepared) = prepare_from_memory(deps, &lock(remembered), batch)? else {
        return Ok(None);
    };
    let written = deps.store.write_at_once(&prepared.writes, durable).await?;
    let Some(pending) = written else {
        let concerned = batch
            .iter()
            .map(|posting| (posting.tenant(), posting.call()));
        lock(remembered).forget_rows_of(concerned);
        return Ok(None);
    };
    lock(remembered).remember(&prepared.book, &prepared.positions, &prepared.of_others);
    let written = CommittedBatch {
        outcomes: prepared.outcomes,
        announced: prepared.announced,
    };
    Ok(Some((written, pending)))
}

fn prepare_from_memory(
    deps: &CommitDeps,
    remembered: &RememberedRows,
    batch: &[&Posting],
) -> Result<Option<Prepared>, DbErr> {
    let Some(book) = remembered.rows_of(&items(batch)) else {
        return Ok(None);
    };
    let now = deps.clock.now();
    let decided = Decided::new(book, batch, now);
    // A remembered row proves nothing unless the statement that relies on it changes it.
    if !decided.changes_all_it_relies_on(batch) {
        return Ok(None);
    }
    let Some(positions) = remembered.positions_of(&outbox::tenants_of(&decided.events)) else {
        return Ok(None);
    };
    let positions = KnownPositions::Remembered(positions);
    decided.prepare(positions, &deps.node.id(), now).map(Some)
}

/// Writes a batch in a transaction that reads and locks its rows.
async fn write_from_store(
    deps: &CommitDeps,
    remembered: &Mutex<RememberedRows>,
    batch: &[&Posting],
    mode: WriteMode,
) -> Result<(CommittedBatch, PendingCommit), DbErr> {
    let mut pending = PendingCommit::durable();
    let mut answers: Vec<Option<PostingOutcome>> = batch.iter().map(|_| None).collect();
    let mut announced = AnnouncedEvents::default();
    for _ in 0..ROUNDS_MAX {
        let open: Vec<usize> = (0..batch.len())
            .filter(|index| answers[*index].is_none())
            .collect();
        if open.is_empty() {
            break;
        }
        let postings: Vec<&Posting> = open.iter().map(|index| batch[*index]).collect();
        let txn = match mode {
            WriteMode::Patient => deps.store.begin_critical().await?,
            WriteMode::Brief(Durability::OnReturn) => deps.store.begin_critical_shared().await?,
            WriteMode::Brief(Durability::AfterConfirm) => {
                deps.store.begin_critical_pending().await?
            }
        };
        let prepared = prepare_from_store(&txn, deps, &postings).await?;
        if txn.write_all(&prepared.writes).await? {
            let is_empty = prepared.writes.iter().all(|write| write.count() == 0);
            if is_empty && mode.durable() == Durability::OnReturn {
                // An earlier try was committed.
                txn.confirm().await?;
            } else {
                pending = txn.commit_pending().await?;
            }
            lock(remembered).remember(&prepared.book, &prepared.positions, &prepared.of_others);
            announced = prepared.announced;
            for (index, outcome) in open.into_iter().zip(prepared.outcomes) {
                answers[index] = Some(outcome);
            }
            break;
        }
        txn.rollback().await?;
        let entries: Vec<Option<&CommitEntry>> =
            prepared.entries.iter().map(Option::as_deref).collect();
        let looking = deps.store.begin_critical().await?;
        let obstacles = call_writes::obstacles(&looking, &entries).await?;
        if obstacles.contains(&Some(Obstacle::Done)) {
            looking.confirm().await?;
        } else {
            looking.rollback().await?;
        }
        for ((index, outcome), obstacle) in open.into_iter().zip(prepared.outcomes).zip(obstacles) {
            answers[index] = match obstacle {
                Some(Obstacle::Done) => Some(outcome),
                Some(Obstacle::Conflict) => Some(Err(LedgerError::Conflict)),
                None => None,
            };
        }
    }
    let outcomes: Option<Vec<PostingOutcome>> = answers.into_iter().collect();
    let Some(outcomes) = outcomes else {
        let reason = "others keep changing what this batch writes";
        return Err(DbErr::Custom(reason.to_owned()));
    };
    let written = CommittedBatch {
        outcomes,
        announced,
    };
    Ok((written, pending))
}

fn low_balance_mail(low: &NewEvent, now: Millis) -> mail::Model {
    mails::to_owners(MailKind::CreditsLow, low.tenant, low.id.to_string(), now)
}

pub(super) fn items(postings: &[&Posting]) -> Vec<Item> {
    let items = postings.iter().filter_map(|posting| posting.item());
    items.cloned().collect()
}

/// The results of postings, and the entries that follow from them.
pub(super) struct BatchDecision {
    pub outcomes: Vec<PostingOutcome>,
    pub entries: Vec<Option<Arc<CommitEntry>>>,
}

/// Books postings into a book that contains the rows they concern.
pub(super) fn decide(book: &mut LedgerRows, postings: &[&Posting], now: Millis) -> BatchDecision {
    let mut booked = plan(book, &items(postings), now).into_iter();
    let outcomes: Vec<PostingOutcome> = postings
        .iter()
        .map(|posting| match posting.item() {
            Some(_) => booked.next().unwrap_or(Err(LedgerError::Unavailable)),
            None => Ok(ItemOutcome::Nothing),
        })
        .collect();
    let entries = postings
        .iter()
        .zip(&outcomes)
        .map(|(posting, outcome)| posting.entry(outcome))
        .collect();
    BatchDecision { outcomes, entries }
}

/// Postings that are booked, before their events have positions.
struct Decided {
    decision: BatchDecision,
    book: LedgerRows,
    before: RowsBefore,
    events: Vec<NewEvent>,
    mails: Vec<mail::Model>,
}

impl Decided {
    fn new(mut book: LedgerRows, postings: &[&Posting], now: Millis) -> Self {
        let before = RowsBefore::of(&book);
        let decision = decide(&mut book, postings, now);
        let lows: Vec<NewEvent> = book.lows.iter().map(|low| announce(low, now)).collect();
        let mails = lows.iter().map(|low| low_balance_mail(low, now)).collect();
        let entries = decision.entries.iter().flatten();
        let mut events: Vec<NewEvent> = entries
            .flat_map(|entry| entry.events.iter().cloned())
            .collect();
        events.extend(lows);
        Self {
            decision,
            book,
            before,
            events,
            mails,
        }
    }

    /// True if the writes change the account, and the hold, of every item.
    fn changes_all_it_relies_on(&self, postings: &[&Posting]) -> bool {
        items(postings).iter().all(|item| {
            let call = item.call();
            self.book.changed_accounts.contains(&item.tenant())
                && call.is_none_or(|call| self.book.changed_holds.contains(&call))
        })
    }

    fn prepare(
        self,
        mut positions: KnownPositions,
        node: &str,
        now: Millis,
    ) -> Result<Prepared, DbErr> {
        let of_others = positions.of_others(node);
        let announcement = outbox::announce(&self.events, &mut positions, node, now)?;
        let entries: Vec<&CommitEntry> = self
            .decision
            .entries
            .iter()
            .flatten()
            .map(|e| &**e)
            .collect();
        let mut writes = vec![statements::update_accounts(&self.book, &self.before)];
        writes.extend(announcement.writes);
        writes.extend(statements::writes(&self.book, &self.before)?);
        writes.extend(call_writes::writes(&entries)?);
        writes.push(mails::batch(self.mails)?);
        Ok(Prepared {
            outcomes: self.decision.outcomes,
            entries: self.decision.entries,
            writes,
            announced: announcement.announced,
            book: self.book,
            positions: positions.into_inner(),
            of_others,
        })
    }
}

async fn prepare_from_store(
    txn: &Transaction,
    deps: &CommitDeps,
    postings: &[&Posting],
) -> Result<Prepared, DbErr> {
    let now = deps.clock.now();
    let items = items(postings);
    let mut book = LedgerRows::default();
    if !items.is_empty() {
        book = statements::read(txn, &items).await?;
    }
    let decided = Decided::new(book, postings, now);
    let positions = outbox::read_positions(txn, &outbox::tenants_of(&decided.events)).await?;
    let positions = KnownPositions::Locked(positions);
    decided.prepare(positions, &deps.node.id(), now)
}
