//! The calls' writes: rows, transcripts, invocations, and the events that announce them. The ledger commits them with the
//! call's minutes. This module defines the writes and their fences.

mod answers;
mod stats;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use dikala_entities::{
    AuditId, BridgeId, CallId, CallStatus, EventId, HangupInitiator, HangupReason, Millis,
    TenantId, TurnLatencyMs, VoiceProvider, audit, batch::BatchWrite, call, event, invocation,
    rows::ColumnType, transcript,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
    Value,
};

use self::answers::Claims;
pub use self::{answers::StoredResponse, stats::CallCounts};
use crate::events::outbox::NewEvent;

/// Everything that one step of one call writes, all or nothing.
#[derive(Clone, Debug)]
pub struct CommitEntry {
    pub tenant: TenantId,
    pub call: Option<CallWrite>,
    /// Only with a write to its call's row.
    pub transcript: Option<transcript::Model>,
    pub invocation: Option<(invocation::Model, Fence)>,
    /// Set if a user or an operator asked for the change.
    pub audit: Option<audit::Model>,
    /// Stored response, if this is the effect of a request with an `Idempotency-Key`.
    pub answer: Option<StoredResponse>,
    /// Only with the end of a call and its event, or with a transcript and its event.
    pub counted: Option<CallCounts>,
    pub events: Vec<NewEvent>,
}

impl CommitEntry {
    /// An empty entry.
    pub fn of(tenant: TenantId) -> Self {
        Self {
            tenant,
            call: None,
            transcript: None,
            invocation: None,
            audit: None,
            answer: None,
            counted: None,
            events: Vec::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub enum CallWrite {
    Insert(Box<call::Model>),
    Update(Box<CallUpdate>),
}

/// The owner and epoch under which a call may be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub owner: Arc<str>,
    pub epoch: i64,
}

/// The columns that change while a call runs. Written only if owner, epoch and status are unchanged. Several nodes may write
/// about a call that is over, so then the last sign must be unchanged too; every write advances it.
#[derive(Clone, Debug)]
pub struct CallUpdate {
    pub id: CallId,
    pub fence: Fence,
    pub was: CallStatus,
    pub last_sign_was: i64,
    pub status: CallStatus,
    pub answered_at: Option<i64>,
    pub joined_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub duration_seconds: Option<i64>,
    pub talk_time_seconds: Option<i64>,
    pub hangup_reason: Option<HangupReason>,
    pub hangup_initiator: Option<HangupInitiator>,
    pub transcript_summary: Option<String>,
    pub ai_cost_idr: Option<i64>,
    pub voice_provider: Option<VoiceProvider>,
    pub turn_latency_ms: Option<TurnLatencyMs>,
    pub stalls: Option<i64>,
    pub interruptions: Option<i64>,
    pub pending: Option<String>,
    pub answer_message_id: Option<String>,
    pub failure_detail: Option<String>,
    pub last_sign_at: i64,
}

const UPDATED: [(&str, ColumnType); 18] = [
    ("status", ColumnType::Text),
    ("answered_at", ColumnType::BigInt),
    ("joined_at", ColumnType::BigInt),
    ("ended_at", ColumnType::BigInt),
    ("duration_seconds", ColumnType::BigInt),
    ("talk_time_seconds", ColumnType::BigInt),
    ("hangup_reason", ColumnType::Text),
    ("hangup_initiator", ColumnType::Text),
    ("transcript_summary", ColumnType::Text),
    ("ai_cost_idr", ColumnType::BigInt),
    ("voice_provider", ColumnType::Text),
    ("turn_latency_ms", ColumnType::Text),
    ("stalls", ColumnType::BigInt),
    ("interruptions", ColumnType::BigInt),
    ("pending", ColumnType::Text),
    ("answer_message_id", ColumnType::Text),
    ("failure_detail", ColumnType::Text),
    ("last_sign_at", ColumnType::BigInt),
];

impl CallUpdate {
    /// In the order of [`update_calls`]' columns.
    fn values(&self) -> Vec<Value> {
        let it = self.clone();
        vec![
            it.id.into(),
            it.fence.owner.to_string().into(),
            it.fence.epoch.into(),
            it.was.into(),
            it.last_sign_was.into(),
            it.status.into(),
            it.answered_at.into(),
            it.joined_at.into(),
            it.ended_at.into(),
            it.duration_seconds.into(),
            it.talk_time_seconds.into(),
            it.hangup_reason.into(),
            it.hangup_initiator.into(),
            it.transcript_summary.into(),
            it.ai_cost_idr.into(),
            it.voice_provider.into(),
            it.turn_latency_ms.into(),
            it.stalls.into(),
            it.interruptions.into(),
            it.pending.into(),
            it.answer_message_id.into(),
            it.failure_detail.into(),
            it.last_sign_at.into(),
        ]
    }
}

/// On PostgreSQL no unique index spans running and ended calls. The look at both is exact for a tenant: every ring also changes the
/// tenant's row of `event_positions`, so of two at the same time the second one sees the first, or changes nothing.
const IF_NEW: &str = "AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.bridge_id = rows.bridge_id \
                      AND c.bridge_call_id = rows.bridge_call_id) ON CONFLICT DO NOTHING";

/// The writes of a batch's entries, without their events.
pub(crate) fn writes(entries: &[&CommitEntry]) -> Result<Vec<BatchWrite>, DbErr> {
    let (mut inserts, mut updates) = (Vec::new(), Vec::new());
    let (mut transcripts, mut invocations) = (Vec::new(), Vec::new());
    let mut audits = Vec::new();
    for entry in entries {
        match &entry.call {
            Some(CallWrite::Insert(call)) => inserts.push((**call).clone().into_active_model()),
            Some(CallWrite::Update(update)) => updates.push(&**update),
            None => {}
        }
        if let Some(transcript) = &entry.transcript {
            transcripts.push(transcript.clone().into_active_model());
        }
        if let Some((invocation, _)) = &entry.invocation {
            invocations.push(invocation.clone().into_active_model());
        }
        if let Some(audit) = &entry.audit {
            audits.push(audit.clone().into_active_model());
        }
    }
    has_no_twins(entries)?;
    Ok(vec![
        BatchWrite::insert(inserts, IF_NEW)?,
        update_calls(updates),
        lock_calls(entries),
        BatchWrite::insert(
            transcripts,
            "ON CONFLICT (call_id) DO UPDATE SET summary = excluded.summary, turns = excluded.turns",
        )?,
        BatchWrite::insert(invocations, "ON CONFLICT DO NOTHING")?,
        BatchWrite::insert(audits, "ON CONFLICT DO NOTHING")?,
        answers::write(entries.iter().filter_map(|entry| entry.answer.as_ref())),
        stats::write(entries.iter().filter_map(|entry| entry.counted.as_ref())),
    ])
}

/// Fails if two entries of a batch open a call for the same id of a bridge. One statement would not see both; after the failure
/// they are written apart.
fn has_no_twins(entries: &[&CommitEntry]) -> Result<(), DbErr> {
    let mut opened = HashSet::new();
    for entry in entries {
        if let Some(CallWrite::Insert(call)) = &entry.call
            && !opened.insert((call.bridge_id, &call.bridge_call_id))
        {
            let reason = "a batch has two calls with the same id of their bridge";
            return Err(DbErr::Custom(reason.to_owned()));
        }
    }
    Ok(())
}

/// Ordered by call id, the same order as in a take-over at start; another order would deadlock with it.
fn update_calls(mut updates: Vec<&CallUpdate>) -> BatchWrite {
    updates.sort_by_key(|update| update.id);
    let rows = updates.into_iter().map(CallUpdate::values).collect();
    let mut columns = vec![
        ("id", ColumnType::Text),
        ("owner", ColumnType::Text),
        ("epoch", ColumnType::BigInt),
        ("was", ColumnType::Text),
        ("last_sign_was", ColumnType::BigInt),
    ];
    columns.extend(UPDATED);
    let assignments = UPDATED.map(|(name, _)| format!("{name} = rows.{name}"));
    let sql = format!(
        "UPDATE calls SET {} FROM {{rows}} WHERE calls.id = rows.id AND calls.owner = rows.owner \
         AND calls.epoch = rows.epoch AND calls.status = rows.was AND (calls.outcome IS NULL \
         OR calls.last_sign_at = rows.last_sign_was)",
        assignments.join(", ")
    );
    BatchWrite::new(sql, &columns, rows)
}

/// Locks the rows of calls that only get an invocation, until the commit. So nothing is added to a call that was taken over or
/// erased meanwhile.
fn lock_calls(entries: &[&CommitEntry]) -> BatchWrite {
    let updated: HashSet<CallId> = entries.iter().filter_map(|entry| updated(entry)).collect();
    let invoked = entries.iter().filter_map(|entry| entry.invocation.as_ref());
    let kept: BTreeMap<CallId, &Fence> = invoked
        .map(|(invocation, fence)| (invocation.call_id, fence))
        .filter(|(call, _)| !updated.contains(call))
        .collect();
    let rows = kept.into_iter().map(|(call, fence)| {
        vec![
            call.into(),
            fence.owner.to_string().into(),
            fence.epoch.into(),
        ]
    });
    let columns = [
        ("id", ColumnType::Text),
        ("owner", ColumnType::Text),
        ("epoch", ColumnType::BigInt),
    ];
    let sql = "UPDATE calls SET epoch = rows.epoch FROM {rows} WHERE calls.id = rows.id AND calls.owner = rows.owner \
               AND calls.epoch = rows.epoch";
    BatchWrite::new(sql, &columns, rows.collect())
}

fn updated(entry: &CommitEntry) -> Option<CallId> {
    match &entry.call {
        Some(CallWrite::Update(update)) => Some(update.id),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It was written before: the commit succeeded, and its answer was lost.
    Done,
    /// The call has another owner, is erased, or was opened elsewhere; or the idempotency claim is lost.
    Conflict,
}

/// A stored call's owner, epoch, status and last sign.
pub(crate) type StoredCall = (String, i64, CallStatus, Millis);

/// The stored state that some entries concern.
#[derive(Default)]
pub(crate) struct StoredState {
    pub(crate) calls: HashMap<CallId, StoredCall>,
    /// Calls by their bridge's id for them.
    pub(crate) named: HashMap<(BridgeId, String), CallId>,
    pub(crate) events: HashSet<EventId>,
    audits: HashSet<AuditId>,
    claims: Claims,
    invocations: HashSet<(CallId, String)>,
}

/// Finds the entries that cannot be written, after a batch changed too few rows. `None` for entries without an obstacle.
pub(crate) async fn obstacles(
    db: &impl ConnectionTrait,
    entries: &[Option<&CommitEntry>],
) -> Result<Vec<Option<Obstacle>>, DbErr> {
    let known = read(db, entries).await?;
    let obstacle = |entry: &Option<&CommitEntry>| entry.and_then(|entry| known.obstacle(entry));
    Ok(entries.iter().map(obstacle).collect())
}

impl StoredState {
    pub(crate) fn obstacle(&self, entry: &CommitEntry) -> Option<Obstacle> {
        let announced = |event: &NewEvent| self.events.contains(&event.id);
        let audited = |audit: &audit::Model| self.audits.contains(&audit.id);
        if entry.events.iter().any(announced) || entry.audit.as_ref().is_some_and(audited) {
            return Some(Obstacle::Done);
        }
        let answer = entry.answer.as_ref();
        if let Some(obstacle) = answer.and_then(|answer| self.claims.obstacle(answer)) {
            return Some(obstacle);
        }
        if let Some((invocation, fence)) = &entry.invocation {
            let key = (invocation.call_id, invocation.invocation_id.clone());
            if self.invocations.contains(&key) {
                return Some(Obstacle::Done);
            }
            if !self.is_owned(invocation.call_id, fence) {
                return Some(Obstacle::Conflict);
            }
        }
        match entry.call.as_ref()? {
            CallWrite::Insert(call) => {
                let fence = Fence {
                    owner: Arc::from(call.owner.as_str()),
                    epoch: call.epoch,
                };
                if self.is_owned(call.id, &fence) {
                    return Some(Obstacle::Done);
                }
                let name = (call.bridge_id, call.bridge_call_id.clone());
                let taken = self.calls.contains_key(&call.id) || self.named.contains_key(&name);
                taken.then_some(Obstacle::Conflict)
            }
            CallWrite::Update(update) => {
                if !self.is_owned(update.id, &update.fence) {
                    return Some(Obstacle::Conflict);
                }
                let (.., status, last_sign_at) = self.calls.get(&update.id)?;
                if *status == update.was {
                    // Another node wrote about the call since it was read here.
                    let is_other =
                        status.is_final() && last_sign_at.as_i64() != update.last_sign_was;
                    is_other.then_some(Obstacle::Conflict)
                } else if *status == update.status && entry.events.is_empty() {
                    Some(Obstacle::Done)
                } else {
                    // An announced change is identified by its events. Without them, this is another change to the same status.
                    Some(Obstacle::Conflict)
                }
            }
        }
    }

    fn is_owned(&self, call: CallId, fence: &Fence) -> bool {
        self.calls
            .get(&call)
            .is_some_and(|(owner, epoch, ..)| **owner == *fence.owner && *epoch == fence.epoch)
    }
}

/// Skips queries that no entry needs.
async fn read(
    db: &impl ConnectionTrait,
    entries: &[Option<&CommitEntry>],
) -> Result<StoredState, DbErr> {
    let entries = || entries.iter().copied().flatten();
    let inserted = |entry: &CommitEntry| match &entry.call {
        Some(CallWrite::Insert(call)) => Some((**call).clone()),
        _ => None,
    };
    let inserts: Vec<call::Model> = entries().filter_map(inserted).collect();
    let invoked = entries().filter_map(|entry| entry.invocation.as_ref());
    let invoked: Vec<&invocation::Model> = invoked.map(|(invocation, _)| invocation).collect();
    let ids = entries()
        .filter_map(updated)
        .chain(inserts.iter().map(|call| call.id))
        .chain(invoked.iter().map(|invocation| invocation.call_id));
    let announced = entries().flat_map(|entry| &entry.events);
    let audited = entries().filter_map(|entry| entry.audit.as_ref());
    let answered = entries().filter_map(|entry| entry.answer.as_ref());
    Ok(StoredState {
        calls: calls(db, ids.collect()).await?,
        named: named(db, &inserts).await?,
        events: events(db, announced.map(|event| event.id).collect()).await?,
        audits: audits(db, audited.map(|audit| audit.id).collect()).await?,
        claims: Claims::read(db, answered.collect()).await?,
        invocations: invocations(db, &invoked).await?,
    })
}

async fn calls(
    db: &impl ConnectionTrait,
    ids: Vec<CallId>,
) -> Result<HashMap<CallId, StoredCall>, DbErr> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(CallId, String, i64, CallStatus, Millis)> = call::Entity::find()
        .select_only()
        .columns([
            call::Column::Id,
            call::Column::Owner,
            call::Column::Epoch,
            call::Column::Status,
            call::Column::LastSignAt,
        ])
        .filter(call::Column::Id.is_in(ids))
        .into_tuple()
        .all(db)
        .await?;
    let known = rows.into_iter();
    Ok(known
        .map(|(id, owner, epoch, status, last_sign_at)| (id, (owner, epoch, status, last_sign_at)))
        .collect())
}

async fn named(
    db: &impl ConnectionTrait,
    inserts: &[call::Model],
) -> Result<HashMap<(BridgeId, String), CallId>, DbErr> {
    if inserts.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<(CallId, BridgeId, String)> = call::Entity::find()
        .select_only()
        .columns([
            call::Column::Id,
            call::Column::BridgeId,
            call::Column::BridgeCallId,
        ])
        .filter(call::Column::BridgeId.is_in(inserts.iter().map(|call| call.bridge_id)))
        .filter(call::Column::BridgeCallId.is_in(inserts.iter().map(|c| c.bridge_call_id.clone())))
        .into_tuple()
        .all(db)
        .await?;
    let known = rows.into_iter();
    Ok(known
        .map(|(id, bridge, name)| ((bridge, name), id))
        .collect())
}

async fn events(db: &impl ConnectionTrait, ids: Vec<EventId>) -> Result<HashSet<EventId>, DbErr> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let known: Vec<EventId> = event::Entity::find()
        .select_only()
        .column(event::Column::Id)
        .filter(event::Column::Id.is_in(ids))
        .into_tuple()
        .all(db)
        .await?;
    Ok(known.into_iter().collect())
}

async fn audits(db: &impl ConnectionTrait, ids: Vec<AuditId>) -> Result<HashSet<AuditId>, DbErr> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let known: Vec<AuditId> = audit::Entity::find()
        .select_only()
        .column(audit::Column::Id)
        .filter(audit::Column::Id.is_in(ids))
        .into_tuple()
        .all(db)
        .await?;
    Ok(known.into_iter().collect())
}

async fn invocations(
    db: &impl ConnectionTrait,
    invoked: &[&invocation::Model],
) -> Result<HashSet<(CallId, String)>, DbErr> {
    if invoked.is_empty() {
        return Ok(HashSet::new());
    }
    let known: Vec<(CallId, String)> = invocation::Entity::find()
        .select_only()
        .columns([invocation::Column::CallId, invocation::Column::InvocationId])
        .filter(invocation::Column::CallId.is_in(invoked.iter().map(|one| one.call_id)))
        .filter(
            invocation::Column::InvocationId
                .is_in(invoked.iter().map(|one| one.invocation_id.clone())),
        )
        .into_tuple()
        .all(db)
        .await?;
    Ok(known.into_iter().collect())
}
