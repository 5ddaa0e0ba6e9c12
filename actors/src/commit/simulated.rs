//! The ledger of a simulation: the work of [`batch`](super::batch) and `ledger::statements` on tables in memory.
//! It uses the real plan and copies the guards of the writes. Nothing is locked between read and write, so the guards alone
//! must suffice.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use dikala_entities::{CallId, DeliveryId, Millis, TenantId, call, credit_hold};
use tokio::sync::{
    mpsc::{self, UnboundedReceiver, UnboundedSender},
    oneshot,
};

use super::{
    CommitBackend, CommitHandle,
    actor::BATCH_MAX,
    batch::{BatchDecision, Posting, ROUNDS_MAX, decide, items},
    call_writes::{CallUpdate, CallWrite, CommitEntry, Obstacle, StoredState},
};
use crate::{
    events::{
        outbox::{AHEAD_MS_MAX, Dispatch, NewEvent},
        sequences::LogPlace,
    },
    ledger::{
        Item, LedgerError, PostingOutcome,
        plan::{LedgerRows, credit_key},
    },
    nodes::Membership,
    runtime::{
        clock::Clock,
        simulated::{
            clock::NodeClock,
            tables::{CallChange, EventRow, Flaw, Tables},
            wire::{NoAnswer, SimulatedNetwork},
        },
    },
};

/// Tries of a batch with an unknown outcome, as many as the real one has.
const TRIES: usize = 8;
const RETRY_PAUSE_MS: i64 = 200;

struct QueuedPosting {
    posting: Posting,
    reply: oneshot::Sender<PostingOutcome>,
}

/// A node's handle of its ledger.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedCommitHandle {
    waiting: UnboundedSender<QueuedPosting>,
    wire: SimulatedNetwork<Tables>,
    flaw: Option<Flaw>,
}

pub(crate) struct SimulatedLedger {
    waiting: UnboundedReceiver<QueuedPosting>,
    pub(crate) wire: SimulatedNetwork<Tables>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) node: Membership,
    flaw: Option<Flaw>,
}

impl SimulatedCommitHandle {
    pub(super) async fn post(&self, mut posting: Posting) -> PostingOutcome {
        if self.flaw == Some(Flaw::RoundedDown)
            && let Posting::BookAndWrite(Item::Settle(settle), ..) = &mut posting
        {
            settle.minutes -= i64::from(settle.minutes > 1);
        }
        let (reply, answer) = oneshot::channel();
        let sent = self.waiting.send(QueuedPosting { posting, reply });
        sent.map_err(|_| LedgerError::Unavailable)?;
        answer.await.unwrap_or(Err(LedgerError::Unavailable))
    }

    pub(super) async fn hold(
        &self,
        call: CallId,
    ) -> Result<Option<credit_hold::Model>, LedgerError> {
        let held = move |tables: &mut Tables, _| tables.holds.get(&call).cloned();
        let held = self.wire.ask("hold", held).await;
        held.map_err(|NoAnswer| LedgerError::Unavailable)
    }
}

impl SimulatedLedger {
    pub(crate) fn new(
        wire: SimulatedNetwork<Tables>,
        clock: Arc<NodeClock>,
        node: Membership,
        flaw: Option<Flaw>,
    ) -> (Self, CommitHandle) {
        let (asks, waiting) = mpsc::unbounded_channel();
        let books = SimulatedCommitHandle {
            waiting: asks,
            wire: wire.clone(),
            flaw,
        };
        let handle = CommitHandle {
            backend: CommitBackend::Simulated(books),
            credited: Arc::default(),
            stats: Arc::default(),
            differences: Arc::default(),
            clock: clock.clone(),
        };
        let ledger = Self {
            waiting,
            wire,
            clock,
            node,
            flaw,
        };
        (ledger, handle)
    }

    /// Writes gathered postings, one batch after the other.
    pub(crate) async fn run(mut self, announced: impl Fn(Vec<Dispatch>)) {
        while let Some(first) = self.waiting.recv().await {
            let mut batch = vec![first];
            while batch.len() < BATCH_MAX
                && let Ok(next) = self.waiting.try_recv()
            {
                batch.push(next);
            }
            let postings: Vec<&Posting> = batch.iter().map(|waiting| &waiting.posting).collect();
            let mut written = Err(NoAnswer);
            for _ in 0..TRIES {
                written = self.write(&postings).await;
                if written.is_ok() {
                    break;
                }
                self.clock.sleep_ms(RETRY_PAUSE_MS).await;
            }
            let outcomes = match written {
                Ok((outcomes, dispatches)) => {
                    announced(dispatches);
                    outcomes
                }
                Err(NoAnswer) => postings
                    .iter()
                    .map(|_| Err(LedgerError::Unavailable))
                    .collect(),
            };
            for (waiting, outcome) in batch.into_iter().zip(outcomes) {
                let _ = waiting.reply.send(outcome);
            }
        }
    }

    /// Writes a batch, retrying what other writers interfered with.
    pub(super) async fn write(
        &self,
        batch: &[&Posting],
    ) -> Result<(Vec<PostingOutcome>, Vec<Dispatch>), NoAnswer> {
        let mut answers: Vec<Option<PostingOutcome>> = batch.iter().map(|_| None).collect();
        let mut announced = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let open: Vec<usize> = (0..batch.len())
                .filter(|index| answers[*index].is_none())
                .collect();
            if open.is_empty() {
                break;
            }
            let postings: Vec<&Posting> = open.iter().map(|index| batch[*index]).collect();
            let (decided, write) = self.decide(&postings).await?;
            let entries = decided.entries;
            let events = write.events();
            let written = self
                .wire
                .ask("write", move |tables, _| write.apply(tables))
                .await?;
            if let Some(dispatches) = written {
                if self.flaw == Some(Flaw::ToldAfterwards) {
                    let node = self.node.id();
                    let now = self.clock.now();
                    let told = move |tables: &mut Tables, _| tell(tables, &events, &node, now);
                    announced = self.wire.ask("tell", told).await?;
                } else {
                    announced = dispatches;
                }
                for (index, outcome) in open.into_iter().zip(decided.outcomes) {
                    answers[index] = Some(outcome);
                }
                break;
            }
            let known = self.wire.ask("known", |tables, _| known(tables)).await?;
            for ((index, outcome), entry) in open.into_iter().zip(decided.outcomes).zip(entries) {
                answers[index] = match entry.and_then(|entry| known.obstacle(&entry)) {
                    Some(Obstacle::Done) => Some(outcome),
                    Some(Obstacle::Conflict) => Some(Err(LedgerError::Conflict)),
                    None => None,
                };
            }
        }
        let outcomes: Option<Vec<PostingOutcome>> = answers.into_iter().collect();
        outcomes
            .map(|outcomes| (outcomes, announced))
            .ok_or(NoAnswer)
    }

    async fn decide(&self, postings: &[&Posting]) -> Result<(BatchDecision, Write), NoAnswer> {
        let items = items(postings);
        let mut book = LedgerRows::default();
        if !items.is_empty() {
            let asked = items.clone();
            let read = move |tables: &mut Tables, _| read(tables, &asked);
            book = self.wire.ask("read", read).await?;
        }
        let before = book.clone();
        let now = self.clock.now();
        let decided = decide(&mut book, postings, now);
        if self.flaw == Some(Flaw::KeptUnused) && items.iter().any(|item| item.name() == "settle") {
            for account in book.accounts.values_mut() {
                account.available -= i64::from(account.available > 0);
            }
        }
        let write = Write {
            book,
            before,
            entries: decided.entries.iter().flatten().cloned().collect(),
            node: self.node.id(),
            now,
        };
        Ok((decided, write))
    }
}

/// The rows that the items concern.
fn read(tables: &Tables, items: &[Item]) -> LedgerRows {
    let mut book = LedgerRows::default();
    for item in items {
        let account = tables.accounts.get(&item.tenant());
        book.accounts
            .extend(account.map(|account| (item.tenant(), account.clone())));
        let hold = item
            .call()
            .and_then(|call| Some((call, tables.holds.get(&call)?)));
        // The real query joins a hold by its account's tenant.
        let hold = hold.filter(|(_, hold)| hold.tenant_id == item.tenant());
        book.holds
            .extend(hold.map(|(call, hold)| (call, hold.clone())));
        if let Item::Credit(credit, id) = item {
            let key = credit_key(credit, *id);
            let known = tables
                .transactions
                .iter()
                .find(|known| known.tenant_id == credit.tenant && known.idempotency_key == key);
            book.booked
                .extend(known.map(|known| ((credit.tenant, key.clone()), known.clone())));
        }
    }
    book
}

fn known(tables: &Tables) -> StoredState {
    let named = |row: &call::Model| ((row.bridge_id, row.bridge_call_id.clone()), row.id);
    let owned = |row: &call::Model| {
        let stored = (row.owner.clone(), row.epoch, row.status, row.last_sign_at);
        (row.id, stored)
    };
    let mut known = StoredState::default();
    known.calls.extend(tables.calls.values().map(owned));
    known.named.extend(tables.calls.values().map(named));
    known
        .events
        .extend(tables.events.iter().map(|event| event.id));
    known
}

/// The writes of one transaction.
struct Write {
    book: LedgerRows,
    before: LedgerRows,
    entries: Vec<Arc<CommitEntry>>,
    node: Arc<str>,
    now: Millis,
}

impl Write {
    fn events(&self) -> Vec<NewEvent> {
        let events = self.entries.iter().flat_map(|entry| &entry.events);
        events.cloned().collect()
    }

    /// Writes all of it, or nothing if a row changed since it was read.
    fn apply(self, tables: &mut Tables) -> Option<Vec<Dispatch>> {
        if !(self.books_are_as_read(tables) && self.entries_fit(tables)) {
            return None;
        }
        let Self { book, entries, .. } = &self;
        for call in &book.changed_holds {
            tables.holds.insert(*call, book.holds[call].clone());
        }
        for tenant in &book.changed_accounts {
            let mut account = book.accounts[tenant].clone();
            account.version += 1;
            tables.accounts.insert(*tenant, account);
        }
        tables
            .transactions
            .extend(book.transactions.iter().cloned());
        for entry in entries {
            match &entry.call {
                Some(CallWrite::Insert(row)) => self.insert(tables, row),
                Some(CallWrite::Update(update)) => self.update(tables, update),
                None => {}
            }
        }
        if tables.has(Flaw::ToldAfterwards) {
            return Some(Vec::new());
        }
        let events = self.events();
        Some(tell(tables, &events, &self.node, self.now))
    }

    fn books_are_as_read(&self, tables: &Tables) -> bool {
        let Self { book, before, .. } = self;
        let holds = book.changed_holds.iter().all(|call| {
            match (before.holds.get(call), tables.holds.get(call)) {
                (None, there) => there.is_none(),
                (Some(_), None) => false,
                (Some(was), Some(is)) => {
                    (&is.owner, is.epoch, is.settled_at) == (&was.owner, was.epoch, None)
                        && (is.request, is.held, is.used) == (was.request, was.held, was.used)
                }
            }
        });
        let accounts = book.changed_accounts.iter().all(|tenant| {
            let version = |account: &dikala_entities::credit_account::Model| account.version;
            tables.has(Flaw::UnversionedAccounts)
                || tables.accounts.get(tenant).map(version)
                    == before.accounts.get(tenant).map(version)
        });
        let transactions = book.transactions.iter().all(|new| {
            let same = |old: &&dikala_entities::credit_transaction::Model| {
                old.tenant_id == new.tenant_id && old.idempotency_key == new.idempotency_key
            };
            !tables.transactions.iter().any(|old| same(&old))
        });
        holds && accounts && transactions
    }

    fn entries_fit(&self, tables: &Tables) -> bool {
        let again = tables.has(Flaw::WrittenAgain);
        let fits = |entry: &CommitEntry| {
            let call = match &entry.call {
                Some(CallWrite::Insert(row)) => {
                    let named = |other: &call::Model| {
                        (other.bridge_id, &other.bridge_call_id)
                            == (row.bridge_id, &row.bridge_call_id)
                    };
                    !tables.calls.contains_key(&row.id)
                        && (tables.has(Flaw::OpenedTwice) || !tables.calls.values().any(named))
                }
                Some(CallWrite::Update(update)) => {
                    tables.calls.get(&update.id).is_some_and(|row| {
                        let owned =
                            *row.owner == *update.fence.owner && row.epoch == update.fence.epoch;
                        (owned || tables.has(Flaw::UnfencedCalls))
                            && (row.status == update.was || again)
                    })
                }
                None => true,
            };
            let is_new = |event: &NewEvent| tables.events.iter().all(|known| known.id != event.id);
            call && (again || entry.events.iter().all(is_new))
        };
        self.entries.iter().all(|entry| fits(entry))
    }

    fn insert(&self, tables: &mut Tables, row: &call::Model) {
        tables.calls.insert(row.id, row.clone());
        self.note(tables, row, None);
    }

    fn update(&self, tables: &mut Tables, update: &CallUpdate) {
        let at = |ms: Option<i64>| ms.map(Millis::from_i64);
        let Some(row) = tables.calls.get_mut(&update.id) else {
            return;
        };
        let was = row.status;
        *row = call::Model {
            status: update.status,
            answered_at: at(update.answered_at),
            joined_at: at(update.joined_at),
            ended_at: at(update.ended_at),
            duration_seconds: update.duration_seconds,
            talk_time_seconds: update.talk_time_seconds,
            hangup_reason: update.hangup_reason,
            hangup_initiator: update.hangup_initiator,
            transcript_summary: update.transcript_summary.clone(),
            ai_cost_idr: update.ai_cost_idr,
            voice_provider: update.voice_provider,
            turn_latency_ms: update.turn_latency_ms,
            stalls: update.stalls,
            interruptions: update.interruptions,
            pending: update.pending.clone(),
            answer_message_id: update.answer_message_id.clone(),
            failure_detail: update.failure_detail.clone(),
            last_sign_at: Millis::from_i64(update.last_sign_at),
            ..row.clone()
        };
        let row = row.clone();
        self.note(tables, &row, Some(was));
        let by = &update.fence;
        if *row.owner != *by.owner || row.epoch != by.epoch {
            let breach = format!("{} is written by {} who does not own it", row.id, by.owner);
            tables.breaches.push(breach);
        }
    }

    fn note(
        &self,
        tables: &mut Tables,
        row: &call::Model,
        from: Option<dikala_entities::CallStatus>,
    ) {
        tables.changes.push(CallChange {
            at: 0,
            call: row.id,
            from,
            to: row.status,
            owner: row.owner.clone(),
            epoch: row.epoch,
        });
    }
}

/// Writes events with their subscribers, as [`outbox`](crate::events::outbox) does.
fn tell(tables: &mut Tables, events: &[NewEvent], node: &str, now: Millis) -> Vec<Dispatch> {
    let tenants: BTreeSet<TenantId> = events.iter().map(|event| event.tenant).collect();
    let announced_at: BTreeMap<TenantId, Millis> = tenants
        .into_iter()
        .map(|tenant| (tenant, stamp(tables, tenant, node, now)))
        .collect();
    let mut dispatches = Vec::new();
    for event in events {
        let announced_at = announced_at[&event.tenant];
        let webhooks = tables.webhooks.get(&event.tenant).cloned();
        let position = tables.positions.entry(event.tenant).or_default();
        position.last += 1;
        let mut subscribers = BTreeMap::new();
        for webhook in webhooks.unwrap_or_default() {
            let place = position.sequences.entry(webhook).or_default();
            *place = LogPlace {
                sequence: place.sequence + 1,
                position: position.last,
            };
            subscribers.insert(webhook, place.sequence);
            dispatches.push(Dispatch {
                delivery: DeliveryId::of(announced_at, place.sequence, event.id, webhook),
                webhook,
                tenant: event.tenant,
                event: event.id,
                kind: event.kind,
                call: event.call,
                body: Arc::clone(&event.body),
                attempts: 0,
                is_test: false,
                trace: None,
                place: Some(*place),
            });
        }
        tables.events.push(EventRow {
            id: event.id,
            call: event.call,
            kind: event.kind,
            position: position.last,
            tenant: event.tenant,
            announced_at,
            subscribers,
        });
    }
    dispatches
}

/// The due time of what a node announces now, never earlier than one committed before.
fn stamp(tables: &mut Tables, tenant: TenantId, node: &str, now: Millis) -> Millis {
    let row = tables.positions.entry(tenant).or_default();
    let next = row.stamped_at.plus_ms(i64::from(row.node != node));
    let goes_on = next >= now && next <= now.plus_ms(AHEAD_MS_MAX);
    row.stamped_at = if goes_on { next } else { now };
    node.clone_into(&mut row.node);
    row.stamped_at
}
