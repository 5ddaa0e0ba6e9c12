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
    Booked, Booking, Item, LedgerError, LedgerParts,
    plan::{Book, plan},
    statements::{self, announce},
};
use crate::{
    events::outbox::{self, Announced, NewEvent},
    journal::{self, CallWrite, Entry, Obstacle},
    mails,
};

/// Tries per batch while other writers keep changing its rows.
pub(super) const ROUNDS_MAX: usize = 4;

/// Makes the entry that follows from an item's result. It is called again if a later try has another result.
type Consequence = Box<dyn Fn(&Booked) -> Entry + Send + Sync>;

pub(super) enum Posting {
    Book(Item),
    BookAndWrite(Item, Consequence, Made),
    Write(Arc<Entry>),
}

/// The entry of a posting's last try, with the result it was made from. A repeated try writes the same ids.
#[derive(Default)]
pub(super) struct Made(Mutex<Option<(Booked, Arc<Entry>)>>);

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

    /// The call whose row is updated. For [`Self::BookAndWrite`] it is unknown until a first try made the entry.
    pub(super) fn call(&self) -> Option<CallId> {
        let changed = |entry: &Entry| match &entry.call {
            Some(CallWrite::Update(update)) => Some(update.id),
            _ => None,
        };
        match self {
            Self::Write(entry) => changed(entry),
            Self::BookAndWrite(.., made) => {
                let made = made.0.lock().unwrap_or_else(PoisonError::into_inner);
                made.as_ref().and_then(|(_, entry)| changed(entry))
            }
            Self::Book(_) => None,
        }
    }

    fn item(&self) -> Option<&Item> {
        match self {
            Self::Book(item) | Self::BookAndWrite(item, ..) => Some(item),
            Self::Write(_) => None,
        }
    }

    /// The entry to write; `None` if the item was refused.
    fn entry(&self, outcome: &Booking) -> Option<Arc<Entry>> {
        match (self, outcome) {
            (Self::Write(entry), _) => Some(Arc::clone(entry)),
            (Self::BookAndWrite(_, consequence, made), Ok(booked)) => {
                let mut made = made.0.lock().unwrap_or_else(PoisonError::into_inner);
                match made.as_ref() {
                    Some((before, entry)) if before == booked => Some(Arc::clone(entry)),
                    _ => {
                        let entry = Arc::new(consequence(booked));
                        *made = Some((booked.clone(), Arc::clone(&entry)));
                        Some(entry)
                    }
                }
            }
            (Self::Book(_) | Self::BookAndWrite(..), _) => None,
        }
    }
}

/// A committed batch.
pub(super) struct Written {
    pub outcomes: Vec<Booking>,
    pub announced: Announced,
}

/// One try to write the rest of a batch.
struct Round {
    outcomes: Vec<Booking>,
    entries: Vec<Option<Arc<Entry>>>,
    /// `None`: a row changed since it was read, so nothing may be committed.
    announced: Option<Announced>,
    /// Nothing to write: an earlier try was committed.
    is_empty: bool,
}

/// Time that a batch waits for a locked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Short enough to find the tenant that holds up the others.
    Short,
    /// The same time as any other write.
    Usual,
}

/// Writes a batch. Everything that it returns is committed.
pub(super) async fn write(
    parts: &LedgerParts,
    batch: &[&Posting],
    patience: Patience,
) -> Result<Written, DbErr> {
    let mut answers: Vec<Option<Booking>> = batch.iter().map(|_| None).collect();
    let mut announced = Announced::default();
    for _ in 0..ROUNDS_MAX {
        let open: Vec<usize> = (0..batch.len())
            .filter(|index| answers[*index].is_none())
            .collect();
        if open.is_empty() {
            break;
        }
        let postings: Vec<&Posting> = open.iter().map(|index| batch[*index]).collect();
        let txn = match patience {
            Patience::Short => parts.store.begin_shared().await?,
            Patience::Usual => parts.store.begin_critical().await?,
        };
        let round = attempt(&txn, parts, &postings).await?;
        if let Some(told) = round.announced {
            if round.is_empty {
                txn.confirm().await?;
            } else {
                txn.commit().await?;
            }
            announced = told;
            for (index, outcome) in open.into_iter().zip(round.outcomes) {
                answers[index] = Some(outcome);
            }
            break;
        }
        txn.rollback().await?;
        let entries: Vec<Option<&Entry>> = round.entries.iter().map(Option::as_deref).collect();
        let looking = parts.store.begin_critical().await?;
        let obstacles = journal::obstacles(&looking, &entries).await?;
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
    let outcomes: Option<Vec<Booking>> = answers.into_iter().collect();
    outcomes
        .map(|outcomes| Written {
            outcomes,
            announced,
        })
        .ok_or_else(|| DbErr::Custom("others keep changing what this batch writes".to_owned()))
}

fn told_to_owners(low: &NewEvent, now: Millis) -> mail::Model {
    mails::to_owners(MailKind::CreditsLow, low.tenant, low.id.to_string(), now)
}

pub(super) fn items(postings: &[&Posting]) -> Vec<Item> {
    let items = postings.iter().filter_map(|posting| posting.item());
    items.cloned().collect()
}

/// The results of postings, and the entries that follow from them.
pub(super) struct Decided {
    pub outcomes: Vec<Booking>,
    pub entries: Vec<Option<Arc<Entry>>>,
}

/// Books postings into a book that contains the rows they concern.
pub(super) fn decide(book: &mut Book, postings: &[&Posting], now: Millis) -> Decided {
    let mut booked = plan(book, &items(postings), now).into_iter();
    let outcomes: Vec<Booking> = postings
        .iter()
        .map(|posting| match posting.item() {
            Some(_) => booked.next().unwrap_or(Err(LedgerError::Unavailable)),
            None => Ok(Booked::Nothing),
        })
        .collect();
    let entries = postings
        .iter()
        .zip(&outcomes)
        .map(|(posting, outcome)| posting.entry(outcome))
        .collect();
    Decided { outcomes, entries }
}

async fn attempt(
    txn: &Transaction,
    parts: &LedgerParts,
    postings: &[&Posting],
) -> Result<Round, DbErr> {
    let now = parts.clock.now();
    let items = items(postings);
    let mut book = Book::default();
    if !items.is_empty() {
        book = statements::read(txn, &items).await?;
    }
    let before = book.holds.clone();
    let Decided { outcomes, entries } = decide(&mut book, postings, now);
    let mut writes = statements::writes(&book, &before)?;
    let mut lows: Vec<NewEvent> = book.lows.iter().map(|low| announce(low, now)).collect();
    let told = lows.iter().map(|low| told_to_owners(low, now)).collect();
    let written: Vec<&Entry> = entries.iter().flatten().map(|entry| &**entry).collect();
    writes.extend(journal::writes(&written)?);
    let mut events: Vec<NewEvent> = written
        .iter()
        .flat_map(|entry| entry.events.iter().cloned())
        .collect();
    events.append(&mut lows);
    let announcement = outbox::announce(txn, &events, &parts.node.id(), now).await?;
    writes.extend(announcement.writes);
    writes.push(mails::batch(told)?);
    let all = txn.write_all(&writes).await?;
    let is_empty = writes.iter().all(|write| write.count() == 0);
    Ok(Round {
        outcomes,
        entries,
        announced: all.then_some(announcement.announced),
        is_empty,
    })
}
