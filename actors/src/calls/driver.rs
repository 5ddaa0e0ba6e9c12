//! Drives one call: takes messages and deadlines to the machine, and has carried out what that decides, step by step.

use std::sync::Arc;

use dikala_entities::{BridgeId, Millis, call, credit_hold};

use super::{
    error::CallError,
    machine::{CallState, Due, Step},
    messages::{CallNow, Input, Reply},
    owned::OwnedCall,
    parts::CallParts,
    steps::{answer::answer, commands, deadlines::carry_out, end, reopen::reopen, transcript},
};
use crate::bridges::LastSeen;

/// How long a call that the bridge does not list, and may not know of yet, waits for a message about it.
const MISSING_GRACE_MS: i64 = 5_000;
/// The pause before a step that failed is tried again.
const RETRY_MS: i64 = 1_000;
/// Steps that one look at the clock can bring about; more would be a bug in the machine.
const STEPS_MAX: usize = 16;

/// A call, and what its bridge may know of it.
#[derive(Debug)]
pub(super) struct CallDriver {
    call: OwnedCall,
    /// After a step that failed: when to look at the deadlines again.
    retry_at: Millis,
    /// When the bridge could know of the call at the earliest.
    opened_at: Millis,
    /// The bridge knows the call's id: it has used it.
    known: bool,
    /// Not among the calls that the bridge holds, unless it says otherwise until then; with the sign of life to bill to.
    missing: Option<(Millis, LastSeen)>,
}

impl CallDriver {
    /// A call that was just written for the first time.
    pub(super) fn fresh(parts: Arc<CallParts>, row: call::Model, state: CallState) -> Self {
        let opened_at = parts.clock.now();
        Self {
            call: OwnedCall::fresh(parts, row, state),
            retry_at: Millis::MIN,
            opened_at,
            known: false,
            missing: None,
        }
    }

    /// A call read back from the store, running or over, with the longest talk that it began with. Its bridge is told again
    /// what was acknowledged to the tenant.
    pub(super) fn load(
        parts: Arc<CallParts>,
        row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) -> Self {
        let call = OwnedCall::load(parts, row, hold, max_minutes);
        commands::repeat(&call);
        Self {
            retry_at: Millis::MIN,
            opened_at: Millis::MIN,
            known: call.state.answered_at().is_some(),
            missing: None,
            call,
        }
    }

    /// The row as far as it is kept.
    pub(super) fn row(&self) -> &call::Model {
        &self.call.row
    }

    /// What an operator sees of it.
    pub(super) fn describe(&self) -> CallNow {
        CallNow {
            status: self.call.row.status,
            granted_minutes: self.call.state.credit.granted,
            next_deadline: self.next_deadline(),
        }
    }

    /// Whether there is nothing left to do: the call is over, or another's.
    pub(super) fn is_done(&self) -> bool {
        self.call.state.is_over() || !self.call.ours
    }

    /// A message about a call is a sign of life for that call.
    pub(super) fn seen(&mut self) {
        let seen_at = self.call.parts.bridges.sign_at();
        let state = &mut self.call.state;
        state.seen_at = state.seen_at.max(seen_at);
    }

    /// When to look at the clock again.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let Self { call, .. } = self;
        if !call.ours {
            return None;
        }
        let next = call.state.next_deadline(call.last_seen(), &call.rules())?;
        let next = self.missing.map_or(next, |(until, _)| next.min(until));
        Some(next.max(self.retry_at))
    }

    /// Takes a message. What is due is done first, so that a timer that came late changes nothing.
    pub(super) async fn handle(
        &mut self,
        bridge: Option<BridgeId>,
        input: Input,
    ) -> Result<Reply, CallError> {
        if bridge.is_some_and(|bridge| bridge != self.call.row.bridge_id) {
            return Err(CallError::UnknownCall);
        }
        self.call.may_act()?;
        let now = self.now();
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
        let Self { call, .. } = self;
        let dated = |at| call.parts.clock.dated(at);
        match input {
            Input::Reopen => return reopen(call).await,
            Input::Answered { at, message_id } => {
                let step = call.state.answer(dated(at), now, &message_id);
                let step = step.map_err(|refused| CallError::InvalidTransition {
                    status: refused.status,
                })?;
                self.take(step, None, None).await?;
            }
            Input::Transcript { at, summary, turns } => {
                let at = dated(at);
                transcript::keep(call, at, now, summary, turns).await?;
            }
            Input::HangUp {
                at,
                reason,
                initiator,
                ai_cost_idr,
            } => {
                let step = call.state.hang_up(dated(at), now, reason, initiator);
                self.take(step, ai_cost_idr, None).await?;
            }
            Input::Failed { at, reason, detail } => {
                let step = call.state.fail(dated(at), now, reason);
                self.take(step, None, detail).await?;
            }
            Input::Missing { listed_at } => self.not_listed(listed_at, now).await?,
            Input::RequestHangUp { by, audit } => {
                commands::request_hangup(call, by, audit, now).await?;
            }
            Input::RequestTransfer { to, audit } => {
                commands::request_transfer(call, to, audit, now).await?;
            }
            Input::Credited => {
                call.state = call.state.credited(now);
                self.run_due().await;
            }
            Input::Abort => end::give_up(call, now).await?,
        }
        Ok(Reply::Done)
    }

    /// Has a step carried out.
    async fn take(
        &mut self,
        step: Step,
        ai_cost_idr: Option<i64>,
        detail: Option<String>,
    ) -> Result<(), CallError> {
        match step {
            Step::Repeat => Ok(()),
            Step::Answered(next) => {
                answer(&mut self.call, *next).await?;
                self.run_due().await;
                Ok(())
            }
            Step::End(ending) => end::end(&mut self.call, ending, ai_cost_idr, detail).await,
        }
    }

    /// The bridge does not list this call. One that was opened after the list was made is left alone.
    async fn not_listed(&mut self, listed_at: Millis, now: Millis) -> Result<(), CallError> {
        if listed_at < self.opened_at {
            return Ok(());
        }
        let OwnedCall {
            parts, row, state, ..
        } = &self.call;
        let last_seen = parts
            .bridges
            .last_seen_of_lost(row.bridge_id, state.seen_at);
        if !self.known {
            // The reply with the call's id may have crossed the list on its way, or have been lost.
            // From the first list on: another one is no reason to wait for longer.
            let until = now.plus_ms(MISSING_GRACE_MS);
            self.missing.get_or_insert((until, last_seen));
            return Ok(());
        }
        let step = state.lost(last_seen, now);
        self.take(step, None, None).await
    }

    /// Does what the clock asks for. Faults are kept for a second try.
    pub(super) async fn run_due(&mut self) {
        for _ in 0..STEPS_MAX {
            let now = self.now();
            if now < self.retry_at {
                return;
            }
            if self.call.may_act().is_err() {
                self.retry_at = now.plus_ms(RETRY_MS);
                return;
            }
            let Some(due) = self.due(now) else {
                return;
            };
            if let Err(error) = carry_out(&mut self.call, due, now).await {
                tracing::warn!(call = %self.call.row.id, %error, "a deadline could not be carried out; trying again");
                self.retry_at = now.plus_ms(RETRY_MS);
            }
        }
    }

    fn due(&self, now: Millis) -> Option<Due> {
        let Self { call, missing, .. } = self;
        let missing = missing.filter(|(until, _)| now >= *until);
        let lost = missing.and_then(|(_, seen)| match call.state.lost(seen, now) {
            Step::End(ending) => Some(Due::End(ending)),
            _ => None,
        });
        lost.or_else(|| call.state.due(now, call.last_seen(), &call.rules()))
    }

    /// Whether the call is another node's, as this one was told or can tell.
    pub(super) fn has_moved(&mut self) -> bool {
        matches!(self.call.may_act(), Err(CallError::Moved))
    }

    /// The call was seen to be another's.
    pub(super) fn disown(&mut self) {
        self.call.disown();
    }

    fn now(&self) -> Millis {
        self.call.parts.clock.now()
    }
}
