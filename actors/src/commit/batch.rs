//! Writes one batch in one transaction: minutes, the calls' writes, and the events that announce both.
//!
//! Shared rows are locked in the same order everywhere: accounts by id, then event positions by tenant, then everything else in
//! one statement. Each of these writes knows how many rows it must change. If one changes fewer, another writer was faster or
//! an earlier try was committed. Then nothing of the batch is committed, the postings concerned are answered, and the rest is
//! tried again.

use std::sync::{Arc, Mutex, PoisonError};

use dikala_entities::{CallId, MailKind, Millis, TenantId, mail, store::Transaction};
use sea_orm::DbErr;

use super::{
    CommitDeps,
    call_writes::{self, CallWrite, CommitEntry, Obstacle},
};
use crate::{
    events::outbox::{self, AnnouncedEvents, NewEvent},
    ledger::{
        Item, ItemOutcome, LedgerError, PostingOutcome,
        plan::{LedgerRows, plan},
        statements::{self, announce},
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

/// One try to write the rest of a batch.
struct Round {
    outcomes: Vec<PostingOutcome>,
    entries: Vec<Option<Arc<CommitEntry>>>,
    /// `None`: a row changed since it was read, so nothing may be committed.
    announced: Option<AnnouncedEvents>,
    /// Nothing to write: an earlier try was committed.
    is_empty: bool,
}

/// Time that a batch waits for a locked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockWait {
    /// Short enough to find the tenant that holds up the others.
    Short,
    /// The same time as any other write.
    Usual,
}

/// Writes a batch. Everything that it returns is committed.
pub(super) async fn write(
    deps: &CommitDeps,
    batch: &[&Posting],
    lock_wait: LockWait,
) -> Result<CommittedBatch, DbErr> {
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
        let txn = match lock_wait {
            LockWait::Short => deps.store.begin_critical_shared().await?,
            LockWait::Usual => deps.store.begin_critical().await?,
        };
        let round = attempt(&txn, deps, &postings).await?;
        if let Some(low_balances) = round.announced {
            if round.is_empty {
                txn.confirm().await?;
            } else {
                txn.commit().await?;
            }
            announced = low_balances;
            for (index, outcome) in open.into_iter().zip(round.outcomes) {
                answers[index] = Some(outcome);
            }
            break;
        }
        txn.rollback().await?;
        let entries: Vec<Option<&CommitEntry>> =
            round.entries.iter().map(Option::as_deref).collect();
        let looking = deps.store.begin_critical().await?;
        let obstacles = call_writes::obstacles(&looking, &entries).await?;
        if obstacles.contains(&Some(Obstacle::Done)) {
            looking.confirm().await?;
        } else {
            looking.rollback().await?;
        }
        for ((index, outcome), obstacle) in open.into_iter().zip(round.outcomes).zip(obstacles) {
            answers[index] = match obstacle {
                Some(Obstacle::Done) => Some(outcome),
                Some(Obstacle::Conflict) => Some(Err(LedgerError::Conflict)),
                None => None,
            };
        }
    }
    let outcomes: Option<Vec<PostingOutcome>> = answers.into_iter().collect();
    outcomes
        .map(|outcomes| CommittedBatch {
            outcomes,
            announced,
        })
        .ok_or_else(|| DbErr::Custom("others keep changing what this batch writes".to_owned()))
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

async fn attempt(
    txn: &Transaction,
    deps: &CommitDeps,
    postings: &[&Posting],
) -> Result<Round, DbErr> {
    let now = deps.clock.now();
    let items = items(postings);
    let mut book = LedgerRows::default();
    if !items.is_empty() {
        book = statements::read(txn, &items).await?;
    }
    let before = book.holds.clone();
    let BatchDecision { outcomes, entries } = decide(&mut book, postings, now);
    let mut writes = statements::writes(&book, &before)?;
    let mut lows: Vec<NewEvent> = book.lows.iter().map(|low| announce(low, now)).collect();
    let mail_rows = lows.iter().map(|low| low_balance_mail(low, now)).collect();
    let written: Vec<&CommitEntry> = entries.iter().flatten().map(|entry| &**entry).collect();
    writes.extend(call_writes::writes(&written)?);
    let mut events: Vec<NewEvent> = written
        .iter()
        .flat_map(|entry| entry.events.iter().cloned())
        .collect();
    events.append(&mut lows);
    let announcement = outbox::announce(txn, &events, &deps.node.id(), now).await?;
    writes.extend(announcement.writes);
    writes.push(mails::batch(mail_rows)?);
    let all = txn.write_all(&writes).await?;
    let is_empty = writes.iter().all(|write| write.count() == 0);
    Ok(Round {
        outcomes,
        entries,
        announced: all.then_some(announcement.announced),
        is_empty,
    })
}
