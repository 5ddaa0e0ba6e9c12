//! A call that this process owns: its row, its state, and how both change together. The state changes only after the commit. A
//! failed write leaves it unchanged and can be repeated.

use std::sync::Arc;

use dikala_entities::{CallStatus, EventId, Millis, call, credit_hold};
use dikala_protocol::CommandKind;
use sea_orm::EntityTrait;

use super::{
    deps::CallDeps,
    error::{CallError, not_written, unavailable},
    machine::{CallCredit, CallLimits, MachineState, Phase},
    meter::ActiveCallGuard,
    pending::PendingCommands,
    versions,
};
use crate::{
    commit::{CallUpdate, CallWrite, CommitEntry, Fence},
    events::outbox::NewEvent,
    ledger::LedgerError,
};

/// A call in memory: its row, without the large columns, and its state.
#[derive(Debug)]
pub(super) struct OwnedCall {
    pub(super) deps: Arc<CallDeps>,
    pub(super) row: call::Model,
    pub(super) state: MachineState,
    /// False once the call has another owner.
    pub(super) ours: bool,
    /// The transcript whose commit was not answered, until one is.
    pub(super) open_transcript: Option<OpenTranscript>,
    /// A transcript with turns is stored, which replaces those that are told later. `None`: not read yet.
    pub(super) has_turns: Option<bool>,
    /// Its share in the count of active calls.
    pub(super) active: ActiveCallGuard,
}

/// A transcript that may have been stored and announced. Its summary is in the row.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenTranscript {
    /// SHA-256 of its turns: an outage leaves many, and each can be large.
    pub(super) turns: [u8; 32],
    pub(super) event: EventId,
    /// Its turns count in the statistics.
    pub(super) is_first: bool,
}

impl OwnedCall {
    /// A new call, just written.
    pub(super) fn fresh(deps: Arc<CallDeps>, row: call::Model, state: MachineState) -> Self {
        let row = call::Model {
            settings: None,
            metadata: String::new(),
            ..row
        };
        Self {
            active: ActiveCallGuard::new(deps.meter.clone(), row.status),
            deps,
            row,
            state,
            ours: true,
            open_transcript: None,
            has_turns: None,
        }
    }

    /// A call read from the store, running or over. `max_minutes` is the limit that it began with.
    pub(super) fn load(
        deps: Arc<CallDeps>,
        mut row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) -> Self {
        let now = deps.clock.now();
        let max_minutes = max_minutes.unwrap_or(versions::LONGEST_MINUTES);
        let back_ms = set_back_ms(&row, now);
        let earlier = |at: Millis| at.plus_ms(-back_ms).min(now);
        let (answered_at, joined_at) = (row.answered_at.map(earlier), row.joined_at.map(earlier));
        row.answered_at = row.answered_at.map(|at| at.min(now));
        row.joined_at = row.joined_at.map(|at| at.min(now));
        let started_at = earlier(row.started_at);
        let mut state = MachineState::ringing(started_at, now, max_minutes, &deps.rules);
        state.phase = match (row.status, answered_at) {
            (CallStatus::Ringing, _) => Phase::Ringing,
            (CallStatus::Answered, Some(at)) => Phase::Answered { at },
            (status, _) => Phase::Over { status },
        };
        let last_change_at = row.ended_at.or(joined_at).or(answered_at);
        state.last_change_at = last_change_at.unwrap_or(started_at);
        state.joined_at = joined_at;
        state.seen_at = earlier(row.last_sign_at);
        // A call that rang during a restart still gets time for its bridge to report.
        let rang_out = started_at.plus_ms(deps.rules.ring_timeout_ms);
        state.ring_until = rang_out.max(now.plus_ms(deps.rules.hangup_grace_ms));
        state.credit = hold.map_or_else(CallCredit::default, |hold| CallCredit {
            granted: hold.held + hold.used,
            request: hold.request,
            last: hold.last || hold.settled_at.is_some(),
            ask_at: now,
        });
        PendingCommands::read(&row).restore(&mut state, now);
        state.answer_message = row.answer_message_id.clone();
        Self::fresh(deps, row, state)
    }

    /// The last sign of life of the call's bridge.
    pub(super) fn last_seen(&self) -> Millis {
        self.deps.bridges.last_seen(self.row.bridge_id)
    }

    /// The limits of this call. Time in which this process could not hear the bridge is not silence.
    pub(super) fn rules(&self) -> CallLimits {
        let rules = self.deps.rules;
        let seen_at = self.last_seen().max(self.state.seen_at);
        // Silence counts from then on, so what came before is not excused once more.
        let since = seen_at.max(self.state.resumed_at);
        let bridges = &self.deps.bridges;
        let unheard_ms =
            bridges.unheard_ms_since(since) + bridges.unread_ms_since(self.row.bridge_id, since);
        CallLimits {
            lost_after_ms: rules.lost_after_ms + unheard_ms,
            ..rules
        }
    }

    /// Queues a command for the call's bridge.
    pub(super) fn command(&self, kind: CommandKind) {
        let (bridge, call) = (self.row.bridge_id, self.row.id);
        self.deps.bridges.command(bridge, call, kind);
    }

    /// Writes the changed row with its events.
    pub(super) async fn write(
        &mut self,
        row: call::Model,
        events: Vec<NewEvent>,
    ) -> Result<(), CallError> {
        let entry = CommitEntry {
            events,
            ..CommitEntry::of(row.tenant_id)
        };
        self.write_with(row, entry).await
    }

    /// Writes the changed row with the rest of the entry.
    pub(super) async fn write_with(
        &mut self,
        mut row: call::Model,
        entry: CommitEntry,
    ) -> Result<(), CallError> {
        let last_sign_was = self.row.last_sign_at;
        row.last_sign_at = match row.status.is_final() {
            // Advances, so that concurrent writers of what they read before it conflict.
            true => self.state.seen_at.max(last_sign_was.plus_ms(1)),
            false => self.state.seen_at,
        };
        let update = update(&row, self.row.status, last_sign_was);
        let entry = CommitEntry {
            call: Some(CallWrite::Update(Box::new(update))),
            ..entry
        };
        match self.deps.ledger.write(entry).await {
            Ok(()) => {
                self.row = row;
                Ok(())
            }
            Err(error) => self.refused(error).await,
        }
    }

    /// Handles a refused write. If the call has another owner, its actor must stop.
    pub(super) async fn refused(&mut self, error: LedgerError) -> Result<(), CallError> {
        match error {
            LedgerError::Conflict | LedgerError::NotOwner => {
                let moved = self.disown();
                // Nothing is kept of an erased call, and the bridge need not try again.
                if self.was_erased().await? {
                    return Ok(());
                }
                Err(moved)
            }
            error => Err(not_written(error)),
        }
    }

    /// Records that the call has another owner. Callers must find the call again.
    pub(super) fn disown(&mut self) -> CallError {
        self.ours = false;
        self.active.set_status(None);
        CallError::Moved
    }

    /// Checks in memory that this node may act for the call: it owns the call, and its lease is valid. A call that is over
    /// needs no owner.
    pub(super) fn may_act(&mut self) -> Result<(), CallError> {
        if self.state.is_over() {
            return Ok(());
        }
        if !self.ours || !self.deps.node.is(&self.row.owner) {
            return Err(self.disown());
        }
        if !self.deps.node.acts() {
            return Err(CallError::Unavailable);
        }
        // Without a lease this node heard no bridge, and the bridge may still be reconnecting.
        let resumed_at = self.deps.node.resumed_at().unwrap_or(Millis::MIN);
        self.state.resumed_at = self.state.resumed_at.max(resumed_at);
        Ok(())
    }

    /// Like [`Self::may_act`], checked in the store. For actions without a write that would fail.
    pub(super) async fn may_answer(&mut self) -> Result<(), CallError> {
        self.may_act()?;
        match runs_here(&self.deps, &self.row).await? {
            true => Ok(()),
            false => Err(self.disown()),
        }
    }

    /// An input contradicts what is known here. If the call has another owner, that knows better.
    pub(super) async fn contradicted(&mut self, status: CallStatus) -> CallError {
        if !self.state.is_over()
            && let Err(error) = self.may_answer().await
        {
            return error;
        }
        CallError::InvalidTransition { status }
    }

    /// True if the tenant erased the call, which is possible only after its end.
    async fn was_erased(&self) -> Result<bool, CallError> {
        if !self.state.is_over() {
            return Ok(false);
        }
        let row = call::Entity::find_by_id(self.row.id)
            .one(self.deps.store.critical_reader())
            .await
            .map_err(unavailable)?;
        Ok(row.is_some_and(|row| row.is_erased()))
    }
}

/// True if the running call is owned as in `row`, in the store.
pub(super) async fn runs_here(deps: &CallDeps, row: &call::Model) -> Result<bool, CallError> {
    if !deps.node.has_others() {
        return Ok(true);
    }
    // The hold changes its owner with the row, and is open as long as the call runs.
    let hold = deps.ledger.hold(row.id).await.map_err(not_written)?;
    Ok(hold.is_some_and(|hold| {
        hold.owner == row.owner && hold.epoch == row.epoch && hold.settled_at.is_none()
    }))
}

/// Clocks of nodes differ by less than this, in milliseconds.
const CLOCKS_APART_MS: i64 = 1_000;

/// Milliseconds by which the wall clock was set back since the row of a running call was written, at least. The times that count
/// move with the clock: the call keeps the talk that it had, and no deadline lies an hour away.
fn set_back_ms(row: &call::Model, now: Millis) -> i64 {
    if row.status.is_final() {
        return 0;
    }
    let times = [
        Some(row.started_at),
        row.answered_at,
        row.joined_at,
        Some(row.last_sign_at),
    ];
    let latest = times.into_iter().flatten().max();
    let back_ms = latest.map_or(0, |latest| latest.since(now));
    if back_ms > CLOCKS_APART_MS {
        back_ms
    } else {
        0
    }
}

/// The owner and epoch as the row was read. A call that is over keeps its last owner.
pub(super) fn fence(row: &call::Model) -> Fence {
    Fence {
        owner: Arc::from(row.owner.as_str()),
        epoch: row.epoch,
    }
}

/// The update from the given status and last sign to the row's values.
pub(super) fn update(row: &call::Model, was: CallStatus, last_sign_was: Millis) -> CallUpdate {
    CallUpdate {
        id: row.id,
        fence: fence(row),
        was,
        last_sign_was: last_sign_was.as_i64(),
        status: row.status,
        answered_at: row.answered_at.map(Millis::as_i64),
        joined_at: row.joined_at.map(Millis::as_i64),
        ended_at: row.ended_at.map(Millis::as_i64),
        duration_seconds: row.duration_seconds,
        talk_time_seconds: row.talk_time_seconds,
        hangup_reason: row.hangup_reason,
        hangup_initiator: row.hangup_initiator,
        transcript_summary: row.transcript_summary.clone(),
        ai_cost_idr: row.ai_cost_idr,
        voice_provider: row.voice_provider,
        turn_latency_ms: row.turn_latency_ms,
        stalls: row.stalls,
        interruptions: row.interruptions,
        pending: row.pending.clone(),
        answer_message_id: row.answer_message_id.clone(),
        failure_detail: row.failure_detail.clone(),
        last_sign_at: row.last_sign_at.as_i64(),
    }
}
