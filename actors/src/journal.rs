//! The `CallJournal` writes what happens to calls: rows, transcripts, invocations, and the events that announce them, many
//! calls in one transaction. What it acknowledged is on disk.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Handler, Message, ResponseFuture, Supervised,
    WrapFuture,
};
use actix_rt::ArbiterHandle;
use dikala_entities::{
    CallId, CallStatus, HangupInitiator, HangupReason, Millis, Store,
    batch::insert_rows,
    call, invocation,
    store::{Kind, Transaction, json_rows, json_statement},
    transcript,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{
    batches::{self, BatchStats},
    clock::SharedClock,
    gather::Gather,
    meter::{MeteredContext, OnPanic},
    metered,
    outbox::{self, Announced, Audience, NewEvent},
};

/// Entries in one transaction.
const BATCH_MAX: usize = 256;
/// Entries that wait; past that callers are told to try again.
const QUEUE_MAX: usize = 16_384;
const MAILBOX: usize = 4_096;

/// Everything that one step of one call writes; all of it or nothing.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub call: Option<CallWrite>,
    pub transcript: Option<transcript::Model>,
    pub invocation: Option<invocation::Model>,
    pub events: Vec<NewEvent>,
}

/// A write to a call's row.
#[derive(Clone, Debug)]
pub enum CallWrite {
    /// A new call.
    Insert(Box<call::Model>),
    /// The columns that change while a call runs.
    Update(Box<CallUpdate>),
}

/// The columns that change while a call runs. Written only where owner and epoch still stand.
#[derive(Clone, Debug, Serialize)]
pub struct CallUpdate {
    pub id: CallId,
    pub owner: Arc<str>,
    pub epoch: i64,
    pub status: CallStatus,
    pub answered_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub duration_seconds: Option<i64>,
    pub talk_time_seconds: Option<i64>,
    pub hangup_reason: Option<HangupReason>,
    pub hangup_initiator: Option<HangupInitiator>,
    pub transcript_summary: Option<String>,
    pub ai_cost_idr: Option<i64>,
    pub pending: Option<String>,
    pub answer_message_id: Option<String>,
    pub failure_detail: Option<String>,
    pub last_sign_at: i64,
}

/// Why an entry was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    #[error("another node owns the call now, or it exists already")]
    Conflict,
    #[error("too much waits to be written; try again")]
    Busy,
    #[error("the database does not take it; try again")]
    Unavailable,
}

/// Write this and answer when it is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), JournalError>")]
pub struct Write(pub Entry);

#[derive(Debug)]
struct Waiting {
    entry: Entry,
    reply: oneshot::Sender<Result<(), JournalError>>,
}

/// What a batch needs.
#[derive(Clone, Debug)]
pub struct JournalParts {
    pub store: Store,
    pub clock: SharedClock,
    pub node: Arc<str>,
    /// Who hears of what was announced.
    pub audience: Audience,
    pub stats: Arc<BatchStats>,
}

/// The actor.
#[derive(Debug)]
pub struct CallJournal {
    parts: JournalParts,
    gather: Gather<Waiting>,
}

metered!(CallJournal, "call_journal");

impl CallJournal {
    /// Starts it.
    pub fn start(arbiter: &ArbiterHandle, parts: JournalParts) -> Addr<Self> {
        MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| Self {
            parts,
            gather: Gather::new(BATCH_MAX, QUEUE_MAX),
        })
    }

    /// The batch runs as a task of its own: if this actor panics, who waits for a reply still gets it.
    fn pump(&mut self, ctx: &mut MeteredContext<Self>) {
        if let Some(batch) = self.gather.take() {
            let task = actix_rt::spawn(write_batch(self.parts.clone(), batch));
            ctx.spawn(task.into_actor(self).map(|_, this, ctx| {
                this.gather.finished();
                this.pump(ctx);
            }));
        }
    }
}

impl Actor for CallJournal {
    type Context = MeteredContext<Self>;
}

impl Supervised for CallJournal {
    fn restarting(&mut self, _: &mut MeteredContext<Self>) {
        self.gather = Gather::new(BATCH_MAX, QUEUE_MAX);
    }
}

impl Handler<Write> for CallJournal {
    type Result = ResponseFuture<Result<(), JournalError>>;

    fn handle(&mut self, Write(entry): Write, ctx: &mut MeteredContext<Self>) -> Self::Result {
        let (reply, answer) = oneshot::channel();
        if self.gather.push(Waiting { entry, reply }).is_err() {
            return Box::pin(async { Err(JournalError::Busy) });
        }
        self.pump(ctx);
        Box::pin(async move { answer.await.unwrap_or(Err(JournalError::Unavailable)) })
    }
}

/// Readiness asks whether the actor still takes messages.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Ping;

impl Handler<Ping> for CallJournal {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut MeteredContext<Self>) {}
}

async fn write_batch(parts: JournalParts, batch: Vec<Waiting>) {
    let write = async |batch: &[Waiting]| write_once(&parts, batch).await;
    batches::commit(batch, &parts.stats, write, |batch, outcome| match outcome {
        Ok(written) => acknowledge(&parts, batch, written),
        Err(error) => {
            tracing::error!(%error, entries = batch.len(), "the journal could not write");
            for waiting in batch {
                let _ = waiting.reply.send(Err(JournalError::Unavailable));
            }
        }
    })
    .await;
}

fn acknowledge(parts: &JournalParts, batch: Vec<Waiting>, written: Written) {
    parts.audience.tell(written.announced);
    for (index, waiting) in batch.into_iter().enumerate() {
        let conflict = written.conflicts.contains(&index);
        let _ = waiting.reply.send(if conflict {
            Err(JournalError::Conflict)
        } else {
            Ok(())
        });
    }
}

#[derive(Default)]
struct Written {
    announced: Announced,
    /// Entries of the batch whose call was not theirs to write.
    conflicts: HashSet<usize>,
}

async fn write_once(parts: &JournalParts, batch: &[Waiting]) -> Result<Written, DbErr> {
    let now = parts.clock.now();
    let txn = parts.store.begin_core().await?;
    let written_calls = write_calls(&txn, batch).await?;
    let erased = erased(&txn, batch).await?;
    let conflicts: HashSet<usize> = batch
        .iter()
        .enumerate()
        .filter(|(_, waiting)| match &waiting.entry.call {
            Some(CallWrite::Insert(call)) => !written_calls.contains(&call.id),
            Some(CallWrite::Update(update)) => !written_calls.contains(&update.id),
            None => {
                let invocation = waiting.entry.invocation.as_ref();
                invocation.is_some_and(|invocation| erased.contains(&invocation.call_id))
            }
        })
        .map(|(index, _)| index)
        .collect();
    let good = || {
        let numbered = batch.iter().enumerate();
        numbered
            .filter(|(index, _)| !conflicts.contains(index))
            .map(|(_, waiting)| &waiting.entry)
    };
    write_transcripts(
        &txn,
        good()
            .filter_map(|entry| entry.transcript.clone())
            .collect(),
    )
    .await?;
    write_invocations(
        &txn,
        good()
            .filter_map(|entry| entry.invocation.clone())
            .collect(),
    )
    .await?;
    let events: Vec<NewEvent> = good()
        .flat_map(|entry| entry.events.iter().cloned())
        .collect();
    let announced = outbox::write(&txn, &events, &parts.node, now).await?;
    txn.commit().await?;
    Ok(Written {
        announced,
        conflicts,
    })
}

async fn write_calls(txn: &Transaction, batch: &[Waiting]) -> Result<HashSet<CallId>, DbErr> {
    let mut inserts = Vec::new();
    let mut updates = Vec::new();
    for waiting in batch {
        match &waiting.entry.call {
            Some(CallWrite::Insert(call)) => inserts.push((**call).clone().into_active_model()),
            Some(CallWrite::Update(update)) => updates.push(&**update),
            None => {}
        }
    }
    let mut written = HashSet::new();
    if !inserts.is_empty() {
        written.extend(insert_calls(txn, inserts).await?);
    }
    if !updates.is_empty() {
        written.extend(update_calls(txn, &updates).await?);
    }
    Ok(written)
}

/// A call that is there already with the same owner and epoch was written by this very entry: the commit went through and its
/// answer was lost.
async fn insert_calls(
    txn: &Transaction,
    inserts: Vec<call::ActiveModel>,
) -> Result<HashSet<CallId>, DbErr> {
    let wanted: Vec<(CallId, String, i64)> = inserts
        .iter()
        .map(|row| {
            let row = row.clone();
            (row.id.unwrap(), row.owner.unwrap(), row.epoch.unwrap())
        })
        .collect();
    let ending = "ON CONFLICT DO NOTHING RETURNING id";
    let insert = insert_rows(txn.get_database_backend(), &inserts, ending)?;
    let inserted = txn.query_all_raw(insert).await?;
    let mut written: HashSet<CallId> = inserted
        .iter()
        .map(|row| row.try_get("", "id"))
        .collect::<Result<_, _>>()?;
    let missing: Vec<CallId> = wanted
        .iter()
        .map(|(id, ..)| *id)
        .filter(|id| !written.contains(id))
        .collect();
    if !missing.is_empty() {
        let there = call::Entity::find()
            .filter(call::Column::Id.is_in(missing))
            .all(txn)
            .await?;
        let same = |row: &call::Model| {
            wanted.iter().any(|(id, owner, epoch)| {
                *id == row.id && *owner == row.owner && *epoch == row.epoch
            })
        };
        written.extend(there.iter().filter(|row| same(row)).map(|row| row.id));
    }
    Ok(written)
}

async fn update_calls(txn: &Transaction, updates: &[&CallUpdate]) -> Result<Vec<CallId>, DbErr> {
    const COLUMNS: &[(&str, Kind)] = &[
        ("status", Kind::Text),
        ("answered_at", Kind::BigInt),
        ("ended_at", Kind::BigInt),
        ("duration_seconds", Kind::BigInt),
        ("talk_time_seconds", Kind::BigInt),
        ("hangup_reason", Kind::Text),
        ("hangup_initiator", Kind::Text),
        ("transcript_summary", Kind::Text),
        ("ai_cost_idr", Kind::BigInt),
        ("pending", Kind::Text),
        ("answer_message_id", Kind::Text),
        ("failure_detail", Kind::Text),
        ("last_sign_at", Kind::BigInt),
    ];
    let backend = txn.get_database_backend();
    let mut columns = vec![
        ("id", Kind::Text),
        ("owner", Kind::Text),
        ("epoch", Kind::BigInt),
    ];
    columns.extend_from_slice(COLUMNS);
    let source = json_rows(backend, &columns);
    let assignments: Vec<String> = COLUMNS
        .iter()
        .map(|(name, _)| format!("{name} = rows.{name}"))
        .collect();
    let sql = format!(
        "UPDATE calls SET {} FROM {source} WHERE calls.id = rows.id AND calls.owner = rows.owner \
         AND calls.epoch = rows.epoch \
         AND (calls.ended_at IS NULL OR rows.ended_at IS NOT NULL) RETURNING calls.id AS id",
        assignments.join(", ")
    );
    let rows = txn
        .query_all_raw(json_statement(backend, sql, updates)?)
        .await?;
    rows.iter().map(|row| row.try_get("", "id")).collect()
}

/// One statement for all of a batch: each is replaced by a later one of its call, of which the batch may hold several.
async fn write_transcripts(
    txn: &Transaction,
    transcripts: Vec<transcript::Model>,
) -> Result<(), DbErr> {
    if transcripts.is_empty() {
        return Ok(());
    }
    let latest: HashMap<CallId, transcript::ActiveModel> = transcripts
        .into_iter()
        .map(|transcript| (transcript.call_id, transcript.into_active_model()))
        .collect();
    let rows: Vec<transcript::ActiveModel> = latest.into_values().collect();
    let ending =
        "ON CONFLICT (call_id) DO UPDATE SET summary = excluded.summary, turns = excluded.turns";
    txn.execute_raw(insert_rows(txn.get_database_backend(), &rows, ending)?)
        .await
        .map(drop)
}

/// Of the calls whose functions came back only now: those that were erased meanwhile, which keep nothing more. A call's own
/// row is guarded by its owner.
async fn erased(txn: &Transaction, batch: &[Waiting]) -> Result<HashSet<CallId>, DbErr> {
    let invoked: Vec<CallId> = batch
        .iter()
        .filter_map(|waiting| waiting.entry.invocation.as_ref())
        .map(|invocation| invocation.call_id)
        .collect();
    if invoked.is_empty() {
        return Ok(HashSet::new());
    }
    // All are locked, whoever owns them: an erasure that is under way has not changed the owner for anybody else yet.
    let owners: Vec<(CallId, String)> = call::Entity::find()
        .select_only()
        .columns([call::Column::Id, call::Column::Owner])
        .filter(call::Column::Id.is_in(invoked))
        .order_by_asc(call::Column::Id)
        .lock_shared()
        .into_tuple()
        .all(txn)
        .await?;
    let erased = owners
        .into_iter()
        .filter(|(_, owner)| owner == call::NOBODY);
    Ok(erased.map(|(id, _)| id).collect())
}

async fn write_invocations(
    txn: &Transaction,
    invocations: Vec<invocation::Model>,
) -> Result<(), DbErr> {
    if invocations.is_empty() {
        return Ok(());
    }
    let rows: Vec<invocation::ActiveModel> = invocations
        .into_iter()
        .map(IntoActiveModel::into_active_model)
        .collect();
    let backend = txn.get_database_backend();
    txn.execute_raw(insert_rows(backend, &rows, "ON CONFLICT DO NOTHING")?)
        .await
        .map(drop)
}

/// The call's moment as the journal stores it.
pub fn stored(at: Option<Millis>) -> Option<i64> {
    at.map(Millis::as_i64)
}
