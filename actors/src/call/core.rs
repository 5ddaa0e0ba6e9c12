//! Carries out what the machine decides: has it written by the ledger, commands the bridge. The state changes only
//! after the commit; what fails leaves it as it was, and can be asked for again.

use std::sync::Arc;

use dikala_entities::{
    BridgeId, CallId, CallStatus, CommandId, HangupInitiator, HangupReason, Millis, PhoneNumber,
    Plan, Store, TransferPrefixes, Vault, call, credit_hold, transcript,
};
use sea_orm::{DbErr, EntityTrait};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    Call, Rules, Sign,
    ending::Ending,
    events,
    machine::{Credit, Due, PendingHangup, Phase, Step},
    messages::{CallError, Input, Reply},
    versions::{self, Versions},
};
use crate::{
    bridges::{Bridges, Command, CommandKind},
    clock::SharedClock,
    functions::FunctionsHandle,
    journal::{CallUpdate, CallWrite, Entry, Fence},
    ledger::{Extend, LedgerError, LedgerHandle, Settle, Settlement},
};

/// How long after its end a call still takes a transcript.
const TRANSCRIPT_OPEN_MS: i64 = 24 * 60 * 60 * 1_000;
/// How long a call that the bridge does not list, and may not know of yet, waits for a message about it.
const MISSING_GRACE_MS: i64 = 5_000;
/// The pause before a step that failed is tried again.
const RETRY_MS: i64 = 1_000;
/// Steps that one look at the clock can bring about; more would be a bug in the machine.
const STEPS_MAX: usize = 16;
/// Transfers that a call takes in all.
const TRANSFERS_MAX: u32 = 5;
/// Questions to the ledger before a settlement: one for a lost answer, one for the rest, and room for a hold that moved on.
const QUESTIONS_MAX: usize = 8;

/// Calls at the same time that a plan allows; none: any number.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanConcurrency {
    pub starter: Option<i64>,
    pub business: Option<i64>,
    pub enterprise: Option<i64>,
}

impl PlanConcurrency {
    /// The limit of a plan.
    pub fn of(&self, plan: Plan) -> Option<i64> {
        match plan {
            Plan::Starter => self.starter,
            Plan::Business => self.business,
            Plan::Enterprise => self.enterprise,
        }
    }
}

/// What every call works with.
#[derive(Clone, Debug)]
pub struct CallParts {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub node: Arc<str>,
    pub rules: Rules,
    pub ai_cost_idr_per_minute: i64,
    pub concurrency: PlanConcurrency,
    /// Where calls may be transferred to.
    pub transfers: TransferPrefixes,
    pub versions: Versions,
    pub ledger: LedgerHandle,
    pub functions: FunctionsHandle,
    pub bridges: Arc<Bridges>,
}

/// The commands that were acknowledged to a tenant and outlive a restart.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Pending {
    hangup: Option<PendingHangup>,
    transfer: Option<PhoneNumber>,
    /// How often that was asked for.
    #[serde(default)]
    transfers: u32,
}

/// A call: its row, without the large columns, and its state.
#[derive(Debug)]
pub struct CallCore {
    parts: Arc<CallParts>,
    row: call::Model,
    state: Call,
    /// After a step that failed: when to look at the deadlines again.
    retry_at: Millis,
    /// Another owner has the call.
    ours: bool,
    /// When the bridge could know of the call at the earliest.
    opened_at: Millis,
    /// The bridge knows the call's id: it has used it.
    known: bool,
    /// Not among the calls that the bridge holds, unless it says otherwise until then; with the sign to bill to.
    missing: Option<(Millis, Sign)>,
}

impl CallCore {
    /// A call that was just written for the first time.
    pub fn fresh(parts: Arc<CallParts>, row: call::Model, state: Call) -> Self {
        let row = call::Model {
            settings: None,
            metadata: String::new(),
            ..row
        };
        let opened_at = parts.clock.now();
        Self {
            parts,
            row,
            state,
            retry_at: Millis::MIN,
            ours: true,
            opened_at,
            known: false,
            missing: None,
        }
    }

    /// A call read back from the store, running or over, with the longest talk that it began with. Stored instants count, but nothing has happened in the future: the wall
    /// clock was set back while the service was away, and the call would outlive its deadlines by as much.
    pub fn load(
        parts: Arc<CallParts>,
        mut row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) -> Self {
        let now = parts.clock.now();
        let max_minutes = max_minutes.unwrap_or(versions::LONGEST_MINUTES);
        let pending: Pending = row
            .pending
            .as_deref()
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        row.answered_at = row.answered_at.map(|at| at.min(now));
        let started_at = row.started_at.min(now);
        let mut state = Call::ringing(started_at, now, max_minutes, &parts.rules);
        state.phase = match (row.status, row.answered_at) {
            (CallStatus::Ringing, _) => Phase::Ringing,
            (CallStatus::Answered, Some(at)) => Phase::Answered { at },
            (status, _) => Phase::Over { status },
        };
        state.last_change_at = row.ended_at.or(row.answered_at).unwrap_or(started_at);
        state.seen_at = row.last_sign_at.min(now);
        // A call that rang through a restart still gets a moment in which its bridge can report.
        let rang_out = started_at.plus_ms(parts.rules.ring_timeout_ms);
        state.ring_until = rang_out.max(now.plus_ms(parts.rules.hangup_grace_ms));
        state.credit = hold.map_or_else(Credit::default, |hold| Credit {
            granted: hold.held + hold.used,
            request: hold.request,
            last: hold.last || hold.settled_at.is_some(),
            ask_at: now,
        });
        state.hangup = pending.hangup.map(|hangup| PendingHangup {
            due_at: hangup.due_at.min(now),
            issued_at: hangup.issued_at.min(now),
            ..hangup
        });
        state.transfer = pending.transfer;
        state.transfers = pending.transfers;
        state.answer_message = row.answer_message_id.clone();
        let mut core = Self::fresh(parts, row, state);
        core.opened_at = Millis::MIN;
        core.known = core.state.answered_at().is_some();
        core.repeat_commands();
        core
    }

    /// The call's id.
    pub fn id(&self) -> CallId {
        self.row.id
    }

    /// The row as far as it is kept.
    pub fn row(&self) -> &call::Model {
        &self.row
    }

    /// The status as the API names it.
    pub fn status(&self) -> CallStatus {
        self.state.status()
    }

    /// Whether there is nothing left to do: the call is over, or another's.
    pub fn is_done(&self) -> bool {
        self.state.is_over() || !self.ours
    }

    /// A message about a call is a sign of life for that call.
    pub fn seen(&mut self) {
        self.state.seen_at = self.parts.clock.now();
    }

    /// When to look at the clock again.
    pub fn next_deadline(&self) -> Option<Millis> {
        if !self.ours {
            return None;
        }
        let next = self.state.next_deadline(self.sign(), &self.parts.rules)?;
        let next = self.missing.map_or(next, |(until, _)| next.min(until));
        Some(next.max(self.retry_at))
    }

    /// Takes a message. What is due is done first, so that a timer that came late changes nothing.
    pub async fn handle(
        &mut self,
        bridge: Option<BridgeId>,
        input: Input,
    ) -> Result<Reply, CallError> {
        if bridge.is_some_and(|bridge| bridge != self.row.bridge_id) {
            return Err(CallError::UnknownCall);
        }
        let now = self.parts.clock.now();
        if bridge.is_some() && !matches!(input, Input::Missing { .. }) {
            self.seen();
            self.missing = None;
            self.known |= !matches!(input, Input::Reopen);
        }
        let ends = matches!(input, Input::HangUp { .. } | Input::Failed { .. });
        if !ends {
            self.run_due().await;
        }
        self.apply(input, now).await
    }

    async fn apply(&mut self, input: Input, now: Millis) -> Result<Reply, CallError> {
        match input {
            Input::Reopen => self.reopen().await,
            Input::Answered { at, message_id } => {
                self.answered(self.parts.clock.dated(at), now, message_id)
                    .await
            }
            Input::Transcript { at, summary, turns } => {
                self.transcript(self.parts.clock.dated(at), now, summary, turns)
                    .await
            }
            Input::HangUp {
                at,
                reason,
                initiator,
                ai_cost_idr,
            } => {
                let at = self.parts.clock.dated(at);
                let step = self.state.hang_up(at, now, reason, initiator);
                self.take(step, ai_cost_idr, None).await
            }
            Input::Failed { at, reason, detail } => {
                let step = self.state.fail(self.parts.clock.dated(at), now, reason);
                self.take(step, None, detail).await
            }
            Input::Missing { listed_at } => self.missing(listed_at, now).await,
            Input::RequestHangUp { by } => self.request_hangup(by, now).await,
            Input::RequestTransfer { to } => self.request_transfer(to, now).await,
            Input::Credited => {
                self.state = self.state.credited(now);
                self.run_due().await;
                Ok(Reply::Done)
            }
            Input::Abort => self.abort(now).await,
        }
    }

    async fn reopen(&self) -> Result<Reply, CallError> {
        let row = call::Entity::find_by_id(self.row.id)
            .one(self.parts.store.core_reader())
            .await
            .map_err(unavailable)?
            .ok_or(CallError::UnknownCall)?;
        let settings = versions::of_call(self.parts.store.core_reader(), &row);
        match (settings.await.map_err(unavailable)?, row.hangup_reason) {
            (Some(settings), _) => Ok(Reply::Taken {
                call: row.id,
                agent: Arc::new(settings.for_bridge(&self.parts.transfers)),
            }),
            (None, Some(reason)) => Ok(Reply::Refused {
                call: row.id,
                reason,
            }),
            (None, None) => Err(CallError::Unavailable),
        }
    }

    async fn answered(
        &mut self,
        at: Millis,
        now: Millis,
        message: String,
    ) -> Result<Reply, CallError> {
        let step = self.state.answer(at, now, &message).map_err(|refused| {
            CallError::InvalidTransition {
                status: refused.status,
            }
        })?;
        self.take(step, None, None).await
    }

    /// Carries a step out.
    async fn take(
        &mut self,
        step: Step,
        ai_cost_idr: Option<i64>,
        detail: Option<String>,
    ) -> Result<Reply, CallError> {
        match step {
            Step::Repeat => {}
            Step::Answered(next) => {
                let now = self.parts.clock.now();
                let at = next.last_change_at;
                let mut row = self.row.clone();
                row.status = CallStatus::Answered;
                row.answered_at = Some(at);
                row.answer_message_id = next.answer_message.clone();
                let events = vec![events::answered(&row, at, now)];
                self.write_row(row, events, None).await?;
                self.state = *next;
                tracing::info!(call = %self.row.id, tenant = %self.row.tenant_id, "call answered");
                self.run_due().await;
            }
            Step::End(ending) => self.end(ending, ai_cost_idr, detail).await?,
        }
        Ok(Reply::Done)
    }

    /// Settles the credit and writes the end, in one commit. Minutes of talk that are not granted yet are asked for before.
    async fn end(
        &mut self,
        ending: Ending,
        ai_cost_idr: Option<i64>,
        detail: Option<String>,
    ) -> Result<(), CallError> {
        self.cover(&ending).await?;
        let ending = self.state.covered(ending);
        let settle = Settle {
            call: self.row.id,
            tenant: self.row.tenant_id,
            owner: Arc::clone(&self.parts.node),
            epoch: self.row.epoch,
            minutes: self.state.minutes(&ending),
        };
        let rate = self.parts.ai_cost_idr_per_minute;
        let over = Over {
            row: call::Model {
                failure_detail: detail,
                last_sign_at: self.state.seen_at,
                ..self.row.clone()
            },
            ending: ending.clone(),
            ai_cost: move |settled: Settlement| {
                ai_cost_idr.unwrap_or_else(|| settled.minutes.saturating_mul(rate))
            },
        };
        let over = Arc::new(over);
        let (then, node, was) = (
            Arc::clone(&over),
            Arc::clone(&self.parts.node),
            self.row.status,
        );
        let clock = Arc::clone(&self.parts.clock);
        let settled = self
            .parts
            .ledger
            .settle(settle, move |settled| {
                then.entry(settled, was, &node, clock.now())
            })
            .await;
        let settled = match settled {
            Ok(settled) => settled,
            Err(error) => return self.refused(error).await,
        };
        self.row = over.row(settled);
        self.state = self.state.over(&ending);
        tracing::info!(
            call = %self.row.id, tenant = %self.row.tenant_id, status = %ending.status, reason = %ending.reason,
            talk_seconds = ending.talk_seconds, minutes = settled.minutes, "call over"
        );
        Ok(())
    }

    /// Asks for the minutes of talk that are not granted yet: those that were reported late, or whose grant got lost on its way
    /// here. Done when they are granted, or when the ledger has no more.
    async fn cover(&mut self, ending: &Ending) -> Result<(), CallError> {
        let mut refusals = 0;
        for _ in 0..QUESTIONS_MAX {
            let Some(Due::Extend { started, want, .. }) = self.state.uncovered(ending, refusals)
            else {
                return Ok(());
            };
            let refused = self.extend(started, want).await?;
            refusals = if refused { refusals + 1 } else { 0 };
        }
        Err(CallError::Unavailable)
    }

    async fn transcript(
        &mut self,
        at: Millis,
        now: Millis,
        summary: String,
        turns: Vec<Value>,
    ) -> Result<Reply, CallError> {
        // The tenant wants none of it kept, and the bridge need not try again.
        if self.row.is_erased() {
            return Ok(Reply::Done);
        }
        if self
            .row
            .ended_at
            .is_some_and(|ended| now.since(ended) > TRANSCRIPT_OPEN_MS)
        {
            return Err(CallError::InvalidTransition {
                status: self.status(),
            });
        }
        let turns = serde_json::to_string(&turns).map_err(|_| CallError::Unavailable)?;
        if self.row.transcript_summary.as_ref() == Some(&summary) {
            let known = transcript::Entity::find_by_id(self.row.id)
                .one(self.parts.store.core_reader())
                .await
                .map_err(unavailable)?;
            if known.is_some_and(|known| known.turns == turns) {
                return Ok(Reply::Done);
            }
        }
        let at = at.min(now).max(self.row.started_at);
        let events = vec![events::transcript(&self.row, &summary, at, now)];
        let transcript = transcript::Model {
            call_id: self.row.id,
            tenant_id: self.row.tenant_id,
            summary: summary.clone(),
            turns,
            created_at: now,
        };
        let row = call::Model {
            transcript_summary: Some(summary),
            ..self.row.clone()
        };
        self.write_row(row, events, Some(transcript)).await?;
        Ok(Reply::Done)
    }

    /// The bridge does not list this call. One that was opened after the list was made is left alone.
    async fn missing(&mut self, listed_at: Millis, now: Millis) -> Result<Reply, CallError> {
        if listed_at < self.opened_at {
            return Ok(Reply::Done);
        }
        let sign = self
            .parts
            .bridges
            .sign_of_lost(self.row.bridge_id, self.state.seen_at);
        if !self.known {
            // The reply with the call's id may have crossed the list on its way, or have been lost.
            self.missing = Some((now.plus_ms(MISSING_GRACE_MS), sign));
            return Ok(Reply::Done);
        }
        let step = self.state.lost(sign, now);
        self.take(step, None, None).await
    }

    async fn request_hangup(
        &mut self,
        by: HangupInitiator,
        now: Millis,
    ) -> Result<Reply, CallError> {
        if self.state.is_over() {
            return Err(CallError::NotActive);
        }
        let reason = match by {
            HangupInitiator::Operator => HangupReason::Operator,
            _ => HangupReason::Requested,
        };
        let id = CommandId::new(now);
        let pending = PendingHangup {
            id,
            reason,
            initiator: by,
            due_at: now,
            issued_at: now,
        };
        match self.state.request_hangup(pending) {
            Some(next) => {
                self.write_pending(&next).await?;
                self.state = next;
                self.repeat_hangup();
            }
            // A hang-up that is under way already is what was asked for. The engine's own is not stored until somebody counts
            // on it: after a crash a top-up would take it back.
            None => self.write_pending(&self.state.clone()).await?,
        }
        Ok(Reply::Done)
    }

    async fn request_transfer(
        &mut self,
        to: Option<PhoneNumber>,
        now: Millis,
    ) -> Result<Reply, CallError> {
        if self.state.is_over() {
            return Err(CallError::NotActive);
        }
        let to = match to {
            Some(to) => to,
            None => self
                .escalation_number()
                .await?
                .ok_or(CallError::NoTransferTarget)?,
        };
        if !self.parts.transfers.allow(&to) {
            return Err(CallError::TransferNotAllowed);
        }
        if self.state.transfers >= TRANSFERS_MAX {
            return Err(CallError::TooManyTransfers);
        }
        let next = Call {
            transfer: Some(to.clone()),
            transfers: self.state.transfers + 1,
            ..self.state.clone()
        };
        self.write_pending(&next).await?;
        self.state = next;
        let command = Command {
            id: CommandId::new(now),
            call: self.row.id,
            kind: CommandKind::Transfer { to },
        };
        self.parts.bridges.send(self.row.bridge_id, command);
        Ok(Reply::Done)
    }

    async fn escalation_number(&self) -> Result<Option<PhoneNumber>, CallError> {
        let db = self.parts.store.core_reader();
        let row = call::Entity::find_by_id(self.row.id)
            .one(db)
            .await
            .map_err(unavailable)?
            .ok_or(CallError::UnknownCall)?;
        let settings = versions::of_call(db, &row).await.map_err(unavailable)?;
        Ok(settings.and_then(|settings| settings.escalation_number))
    }

    async fn write_pending(&mut self, next: &Call) -> Result<(), CallError> {
        let pending = Pending {
            hangup: next.hangup.clone(),
            transfer: next.transfer.clone(),
            transfers: next.transfers,
        };
        let json = serde_json::to_string(&pending).map_err(|_| CallError::Unavailable)?;
        if self.row.pending.as_ref() == Some(&json) {
            return Ok(());
        }
        let row = call::Model {
            pending: Some(json),
            ..self.row.clone()
        };
        self.write_row(row, Vec::new(), None).await
    }

    /// The last resort for a call whose actor keeps failing: it ends here and now.
    async fn abort(&mut self, now: Millis) -> Result<Reply, CallError> {
        if !self.state.is_over() {
            let reason = HangupReason::BridgeError;
            let step = match self.state.fail(now, now, reason) {
                Step::End(ending) => Step::End(Ending {
                    initiator: HangupInitiator::System,
                    ..ending
                }),
                other => other,
            };
            self.command(CommandKind::Hangup { reason });
            self.take(step, None, Some("the engine gave the call up".to_owned()))
                .await?;
        }
        Ok(Reply::Done)
    }

    /// Does what the clock asks for. Faults are kept for a second try.
    pub async fn run_due(&mut self) {
        for _ in 0..STEPS_MAX {
            let now = self.parts.clock.now();
            if !self.ours || now < self.retry_at {
                return;
            }
            let missing = self.missing.filter(|(until, _)| now >= *until);
            let lost = missing.and_then(|(_, sign)| match self.state.lost(sign, now) {
                Step::End(ending) => Some(Due::End(ending)),
                _ => None,
            });
            let due = || self.state.due(now, self.sign(), &self.parts.rules);
            let Some(due) = lost.or_else(due) else {
                return;
            };
            if let Err(error) = self.carry_out(due, now).await {
                tracing::warn!(call = %self.row.id, %error, "a deadline could not be carried out; trying again");
                self.retry_at = now.plus_ms(RETRY_MS);
            }
        }
    }

    async fn carry_out(&mut self, due: Due, now: Millis) -> Result<(), CallError> {
        match due {
            Due::End(ending) => {
                let reason = ending.reason;
                self.end(ending, None, None).await?;
                if matches!(
                    reason,
                    HangupReason::AnswerTimeout | HangupReason::BridgeLost
                ) {
                    self.command(CommandKind::Hangup { reason });
                }
            }
            // An outage is asked about again a second later; the call goes on meanwhile.
            Due::Extend { started, want, .. } => drop(self.extend(started, want).await),
            Due::Warn {
                reason,
                seconds_left,
            } => {
                self.command(CommandKind::Warn {
                    reason,
                    seconds_left,
                });
                self.state.warned = Some(reason);
            }
            Due::HangUp { reason, due_at } => {
                self.state.hangup = Some(PendingHangup {
                    id: CommandId::new(now),
                    reason,
                    initiator: HangupInitiator::System,
                    due_at,
                    issued_at: now,
                });
                self.repeat_hangup();
            }
        }
        Ok(())
    }

    /// Whether the ledger says that it has no more. Fails where it could not be asked; a refusal is an answer.
    async fn extend(&mut self, started: i64, want: i64) -> Result<bool, CallError> {
        let request = self.state.credit.request + 1;
        let extend = Extend {
            call: self.row.id,
            tenant: self.row.tenant_id,
            owner: Arc::clone(&self.parts.node),
            epoch: self.row.epoch,
            request,
            started,
            want,
        };
        let answer = self.parts.ledger.extend(extend).await;
        let now = self.parts.clock.now();
        match answer {
            Ok(grant) => {
                self.state = self.state.granted(request, grant.total, grant.last, now);
                Ok(grant.last)
            }
            // The ledger and this actor disagree on what was asked: the ledger's book counts.
            Err(LedgerError::Stale | LedgerError::OutOfOrder | LedgerError::Settled) => {
                self.reread_hold(now).await
            }
            Err(LedgerError::NotOwner) => {
                self.ours = false;
                Err(CallError::Busy)
            }
            Err(_) => {
                self.state = self.state.ledger_away(now);
                Err(CallError::Unavailable)
            }
        }
    }

    /// Takes the ledger's book for true. Whether that says that there is no more.
    async fn reread_hold(&mut self, now: Millis) -> Result<bool, CallError> {
        let hold = credit_hold::Entity::find_by_id(self.row.id)
            .one(self.parts.store.core_reader())
            .await;
        let Ok(Some(hold)) = hold else {
            self.state = self.state.ledger_away(now);
            return Err(CallError::Unavailable);
        };
        let last = hold.last || hold.settled_at.is_some();
        let granted = hold.held + hold.used;
        self.state = self.state.granted(hold.request, granted, last, now);
        Ok(last)
    }

    async fn write_row(
        &mut self,
        mut row: call::Model,
        events: Vec<crate::outbox::NewEvent>,
        transcript: Option<transcript::Model>,
    ) -> Result<(), CallError> {
        row.last_sign_at = self.state.seen_at;
        let update = update(&row, self.row.status, &self.parts.node);
        let entry = Entry {
            call: Some(CallWrite::Update(Box::new(update))),
            transcript,
            events,
            ..Entry::of(row.tenant_id)
        };
        match self.parts.ledger.write(entry).await {
            Ok(()) => {
                self.row = row;
                Ok(())
            }
            Err(error) => self.refused(error).await,
        }
    }

    /// What was to be written is not. Where the call is not ours any more, this actor has to go.
    async fn refused(&mut self, error: LedgerError) -> Result<(), CallError> {
        match error {
            LedgerError::Conflict | LedgerError::NotOwner => {
                self.ours = false;
                // Of an erased call nothing is kept any more, and the bridge need not try again.
                if self.was_erased().await? {
                    return Ok(());
                }
                Err(CallError::Busy)
            }
            error => Err(not_written(error)),
        }
    }

    /// Whether the tenant has erased the call meanwhile, which can only be once it is over.
    async fn was_erased(&self) -> Result<bool, CallError> {
        if !self.state.is_over() {
            return Ok(false);
        }
        let row = call::Entity::find_by_id(self.row.id)
            .one(self.parts.store.core_reader())
            .await
            .map_err(unavailable)?;
        Ok(row.is_some_and(|row| row.is_erased()))
    }

    fn sign(&self) -> Sign {
        self.parts.bridges.sign(self.row.bridge_id)
    }

    fn command(&self, kind: CommandKind) {
        self.parts
            .bridges
            .command(self.row.bridge_id, self.row.id, kind);
    }

    fn repeat_hangup(&self) {
        if let Some(pending) = &self.state.hangup {
            let kind = CommandKind::Hangup {
                reason: pending.reason,
            };
            let command = Command {
                id: pending.id,
                call: self.row.id,
                kind,
            };
            self.parts.bridges.send(self.row.bridge_id, command);
        }
    }

    /// After a restart the bridge is told again what was acknowledged to the tenant.
    fn repeat_commands(&self) {
        if self.state.is_over() {
            return;
        }
        self.repeat_hangup();
        if let Some(to) = self.state.transfer.clone() {
            self.command(CommandKind::Transfer { to });
        }
    }
}

/// How a call ends, but for what its minutes come to.
struct Over<C> {
    row: call::Model,
    ending: Ending,
    ai_cost: C,
}

impl<C: Fn(Settlement) -> i64> Over<C> {
    fn row(&self, settled: Settlement) -> call::Model {
        call::Model {
            status: self.ending.status,
            ended_at: Some(self.ending.at),
            duration_seconds: Some(self.ending.duration_seconds),
            talk_time_seconds: Some(self.ending.talk_seconds),
            hangup_reason: Some(self.ending.reason),
            hangup_initiator: Some(self.ending.initiator),
            ai_cost_idr: Some((self.ai_cost)(settled)),
            pending: None,
            ..self.row.clone()
        }
    }

    fn entry(&self, settled: Settlement, was: CallStatus, node: &Arc<str>, now: Millis) -> Entry {
        let row = self.row(settled);
        Entry {
            call: Some(CallWrite::Update(Box::new(update(&row, was, node)))),
            events: vec![events::ended(
                &row,
                &self.ending,
                (self.ai_cost)(settled),
                now,
            )],
            ..Entry::of(row.tenant_id)
        }
    }
}

/// Who writes about a call. One that is over keeps its last owner; only a running one is owned by this node.
pub(super) fn fence(row: &call::Model, node: &Arc<str>) -> Fence {
    let owner = if row.owner == **node {
        Arc::clone(node)
    } else {
        Arc::from(row.owner.as_str())
    };
    Fence {
        owner,
        epoch: row.epoch,
    }
}

fn update(row: &call::Model, was: CallStatus, node: &Arc<str>) -> CallUpdate {
    CallUpdate {
        id: row.id,
        fence: fence(row, node),
        was,
        status: row.status,
        answered_at: row.answered_at.map(Millis::as_i64),
        ended_at: row.ended_at.map(Millis::as_i64),
        duration_seconds: row.duration_seconds,
        talk_time_seconds: row.talk_time_seconds,
        hangup_reason: row.hangup_reason,
        hangup_initiator: row.hangup_initiator,
        transcript_summary: row.transcript_summary.clone(),
        ai_cost_idr: row.ai_cost_idr,
        pending: row.pending.clone(),
        answer_message_id: row.answer_message_id.clone(),
        failure_detail: row.failure_detail.clone(),
        last_sign_at: row.last_sign_at.as_i64(),
    }
}

/// What a bridge is told where nothing was written: it asks again.
pub(super) fn not_written(error: LedgerError) -> CallError {
    match error {
        // Opened elsewhere at this moment: asking again finds it.
        LedgerError::Busy | LedgerError::Conflict => CallError::Busy,
        _ => CallError::Unavailable,
    }
}

/// The database did not answer a question.
pub fn unavailable(error: DbErr) -> CallError {
    tracing::warn!(%error, "the database did not answer");
    CallError::Unavailable
}
