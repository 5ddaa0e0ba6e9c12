//! One batch, one transaction: the minutes that move, what the calls write because of it, and what is announced of both.
//!
//! Who shares rows with others takes them in one order everywhere: accounts by their ids, then the positions of events by
//! tenant, then all the rest in one go: holds, transactions, accounts, calls, events, deliveries. Each of these writes says how
//! many rows it has to change. Where one changes fewer, somebody else was faster or the very same was written before; then
//! nothing of the batch is committed, those whom it concerns are told, and the rest is tried again.

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

/// How often a batch is made again because others were faster.
pub(super) const ROUNDS_MAX: usize = 4;

/// What is written because of what became of an item; made again where that changes.
type Consequence = Box<dyn Fn(&Booked) -> Entry + Send + Sync>;

/// Something to book, something to write, or both.
pub(super) enum Posting {
    Book(Item),
    BookAndWrite(Item, Consequence, Made),
    Write(Arc<Entry>),
}

/// The last entry of a posting, with what it came from: a try whose outcome is unknown is repeated with the same ids.
#[derive(Default)]
pub(super) struct Made(Mutex<Option<(Booked, Arc<Entry>)>>);

impl Posting {
    /// Whose shard writes it.
    pub(super) fn tenant(&self) -> TenantId {
        match self {
            Self::Book(item) | Self::BookAndWrite(item, ..) => item.tenant(),
            Self::Write(entry) => entry.tenant,
        }
    }

    /// What it asks of the books; a thing that moves no minutes is only written.
    pub(super) fn name(&self) -> &'static str {
        self.item().map_or("write", Item::name)
    }

    /// The call whose row it changes. What follows from an item is known once that was booked.
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

    /// What is to be written; nothing where the item was not booked.
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

/// A batch that is on disk.
pub(super) struct Written {
    pub outcomes: Vec<Booking>,
    pub announced: Announced,
}

/// One try to write what is left of a batch.
struct Round {
    outcomes: Vec<Booking>,
    entries: Vec<Option<Arc<Entry>>>,
    /// None: something is not as it was read, and nothing may be committed.
    announced: Option<Announced>,
    /// Nothing to write: an earlier try wrote all of it.
    is_empty: bool,
}

/// How long a batch waits for a locked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Then the tenant whose row it is can be told from the others.
    Short,
    /// As long as any other write.
    Usual,
}

/// Writes a batch. All that it answers with is committed.
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

/// What postings move, in their order.
pub(super) fn items(postings: &[&Posting]) -> Vec<Item> {
    let items = postings.iter().filter_map(|posting| posting.item());
    items.cloned().collect()
}

/// What becomes of postings, and what is to be written because of it.
pub(super) struct Decided {
    pub outcomes: Vec<Booking>,
    pub entries: Vec<Option<Arc<Entry>>>,
}

/// Books postings into a book that has what they are about.
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
