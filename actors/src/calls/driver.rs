//! Drives one call: passes messages and deadlines to the machine, and has its decisions carried out step by step.

use std::sync::Arc;

use dikala_entities::{BridgeId, Millis, call, credit_hold};
use dikala_protocol::NumberedTurn;

use super::{
    deps::CallDeps,
    error::CallError,
    machine::{DueAction, MachineState, Step},
    messages::{CallInput, CallReply, CallSnapshot},
    owned::OwnedCall,
    steps::{
        answer::answer,
        commands,
        deadlines::carry_out,
        end::{self, EndReport},
        join::join,
        reopen::reopen,
        transcript, turns,
    },
};

/// Interval at which a call looks whether its bridge came back after an outage, in milliseconds.
const LOOK_FOR_BRIDGE_MS: i64 = 5_000;

/// Time for a message about a call that the bridge does not list and may not know of yet.
const MISSING_GRACE_MS: i64 = 5_000;
/// The pause before a failed step is tried again.
const RETRY_MS: i64 = 1_000;
/// Steps that one check of the deadlines can cause; more would be a bug in the machine.
const STEPS_MAX: usize = 16;

/// A call, and what its bridge knows about it.
#[derive(Debug)]
pub(super) struct CallDriver {
    call: OwnedCall,
    /// Set after a failed step: the next check of the deadlines.
    retry_at: Millis,
    /// The earliest time at which the bridge could know of the call.
    opened_at: Millis,
    /// The bridge has used the call's id, so it knows it.
    known: bool,
    /// Set while the bridge does not list the call.
    unlisted: Option<UnlistedCall>,
}

/// A call that its bridge may not know of.
#[derive(Clone, Copy, Debug)]
struct UnlistedCall {
    /// When the call counts as lost.
    lost_at: Millis,
    /// The sign of life up to which it is billed then.
    last_seen: Millis,
}

impl CallDriver {
    /// A new call, just written.
    pub(super) fn fresh(deps: Arc<CallDeps>, row: call::Model, state: MachineState) -> Self {
        let opened_at = deps.clock.now();
        Self {
            call: OwnedCall::fresh(deps, row, state),
            retry_at: Millis::MIN,
            opened_at,
            known: false,
            unlisted: None,
        }
    }

    /// A call read from the store, running or over. `max_minutes` is the limit that it began with. Queues again the commands
    /// that were acknowledged to the tenant.
    pub(super) fn load(
        deps: Arc<CallDeps>,
        row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) -> Self {
        let call = OwnedCall::load(deps, row, hold, max_minutes);
        commands::repeat(&call);
        Self {
            retry_at: Millis::MIN,
            opened_at: Millis::MIN,
            known: call.state.answered_at().is_some(),
            unlisted: None,
            call,
        }
    }

    /// The row without its large columns.
    pub(super) fn row(&self) -> &call::Model {
        &self.call.row
    }

    /// For operators.
    pub(super) fn describe(&self) -> CallSnapshot {
        CallSnapshot {
            status: self.call.row.status,
            granted_minutes: self.call.state.credit.granted,
            next_deadline: self.next_deadline(),
        }
    }

    /// True if the call is over or owned by another node.
    pub(super) fn is_done(&self) -> bool {
        self.call.state.is_over() || !self.call.ours
    }

    /// Records a message about the call as its sign of life.
    pub(super) fn seen(&mut self) {
        let seen_at = self.call.deps.bridges.sign_at();
        let state = &mut self.call.state;
        state.seen_at = state.seen_at.max(seen_at);
    }

    /// The time of the next check of the deadlines.
    pub(super) fn next_deadline(&self) -> Option<Millis> {
        let Self { call, .. } = self;
        if !call.ours {
            return None;
        }
        let (now, seen, rules) = (call.deps.clock.now(), call.last_seen(), call.rules());
        // After a restart or a take-over no message tells the call that its bridge was heard. So the call looks when something
        // would be due if it was, and again while it is not.
        let if_heard = seen.max(call.state.resumed_at);
        let next = call.state.next_deadline(if_heard, &rules)?;
        let next = match next <= now && call.state.waits_for_bridge(seen) {
            true => call
                .state
                .next_deadline(seen, &rules)?
                .min(now.plus_ms(LOOK_FOR_BRIDGE_MS)),
            false => next,
        };
        let next = self
            .unlisted
            .map_or(next, |unlisted| next.min(unlisted.lost_at));
        Some(next.max(self.retry_at))
    }

    /// Handles a message. Due deadlines are carried out first, so a late timer makes no difference.
    pub(super) async fn handle(
        &mut self,
        bridge: Option<BridgeId>,
        input: CallInput,
    ) -> Result<CallReply, CallError> {
        if bridge.is_some_and(|bridge| bridge != self.call.row.bridge_id) {
            return Err(CallError::UnknownCall);
        }
        self.call.may_act()?;
        let now = self.now();
        if bridge.is_some() && !matches!(input, CallInput::Missing { .. }) {
            self.seen();
            self.unlisted = None;
            self.known |= !matches!(input, CallInput::Reopen);
        }
        let ends = matches!(input, CallInput::HangUp { .. } | CallInput::Failed { .. });
        if !ends {
            self.run_due().await;
        }
        match self.apply(input, now).await {
            Err(CallError::InvalidTransition { status }) => {
                Err(self.call.contradicted(status).await)
            }
            applied => applied,
        }
    }

    /// Commits turns.
    pub(super) async fn announce(
        &mut self,
        announced: Vec<NumberedTurn>,
    ) -> Result<CallReply, CallError> {
        self.call.may_act()?;
        self.run_due().await;
        let now = self.now();
        turns::announce(&mut self.call, announced, now).await?;
        Ok(CallReply::Done)
    }

    async fn apply(&mut self, input: CallInput, now: Millis) -> Result<CallReply, CallError> {
        let Self { call, .. } = self;
        let dated = |at| call.deps.clock.dated(at);
        match input {
            CallInput::Reopen => return reopen(call).await,
            CallInput::Answered { at, message_id } => {
                let step = call.state.answer(dated(at), now, &message_id);
                self.take(step?, EndReport::default()).await?;
            }
            CallInput::Joined { at, ai_cost_idr } => {
                let step = call.state.join(dated(at), now)?;
                let report = EndReport {
                    ai_cost_idr,
                    ..EndReport::default()
                };
                self.take(step, report).await?;
            }
            CallInput::Transcript { at, summary, turns } => {
                let at = dated(at);
                transcript::store(call, at, now, summary, turns).await?;
            }
            CallInput::HangUp {
                at,
                reason,
                initiator,
                ai_cost_idr,
                voice,
            } => {
                let step = call.state.hang_up(dated(at), now, reason, initiator);
                let report = EndReport {
                    ai_cost_idr,
                    voice,
                    detail: None,
                };
                self.take(step, report).await?;
            }
            CallInput::Failed {
                at,
                reason,
                detail,
                ai_cost_idr,
                voice,
            } => {
                let step = call.state.fail(dated(at), now, reason);
                let report = EndReport {
                    ai_cost_idr,
                    voice,
                    detail,
                };
                self.take(step, report).await?;
            }
            CallInput::Missing { listed_at } => self.not_listed(listed_at, now).await?,
            CallInput::RequestHangUp { by, audit } => {
                commands::request_hangup(call, by, audit, now).await?;
            }
            CallInput::RequestTransfer { to, audit } => {
                commands::request_transfer(call, to, audit, now).await?;
            }
            CallInput::Credited => {
                call.state = call.state.credited(now);
                self.run_due().await;
            }
            CallInput::Abort => end::give_up(call, now).await?,
        }
        Ok(CallReply::Done)
    }

    /// Carries out a step.
    async fn take(&mut self, step: Step, report: EndReport) -> Result<(), CallError> {
        match step {
            Step::Repeat if self.call.state.is_over() => Ok(()),
            // Nothing is written, so another owner would not be noticed.
            Step::Repeat => self.call.may_answer().await,
            Step::Answered(next) => {
                answer(&mut self.call, *next).await?;
                self.run_due().await;
                Ok(())
            }
            Step::Joined(next) => {
                join(&mut self.call, *next, report.ai_cost_idr).await?;
                self.run_due().await;
                Ok(())
            }
            Step::End(ending) => end::end(&mut self.call, ending, report).await,
        }
    }

    /// The bridge does not list this call. Ignored if the call was opened after the list was made.
    async fn not_listed(&mut self, listed_at: Millis, now: Millis) -> Result<(), CallError> {
        if listed_at < self.opened_at {
            return Ok(());
        }
        let OwnedCall {
            deps, row, state, ..
        } = &self.call;
        let last_seen = deps.bridges.last_seen_of_lost(row.bridge_id, state.seen_at);
        if !self.known {
            // The reply with the call's id may still be on its way, or lost. The time counts from the first such list; later
            // ones do not extend it.
            let lost_at = now.plus_ms(MISSING_GRACE_MS);
            self.unlisted
                .get_or_insert(UnlistedCall { lost_at, last_seen });
            return Ok(());
        }
        let step = state.lost(last_seen, now);
        self.take(step, EndReport::default()).await
    }

    /// Carries out due deadlines. Failed ones are tried again later.
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
                tracing::warn!(call = %self.call.row.id, %error, "could not carry out a deadline of a call; trying again");
                self.retry_at = now.plus_ms(RETRY_MS);
            }
        }
    }

    fn due(&self, now: Millis) -> Option<DueAction> {
        let Self { call, unlisted, .. } = self;
        let lost = unlisted.filter(|unlisted| now >= unlisted.lost_at);
        let lost = lost.and_then(|lost| match call.state.lost(lost.last_seen, now) {
            Step::End(ending) => Some(DueAction::End(ending)),
            _ => None,
        });
        lost.or_else(|| call.state.due(now, call.last_seen(), &call.rules()))
    }

    /// True if another node is known to own the call.
    pub(super) fn has_moved(&mut self) -> bool {
        matches!(self.call.may_act(), Err(CallError::Moved))
    }

    /// Another node owns the call.
    pub(super) fn disown(&mut self) {
        self.call.disown();
    }

    fn now(&self) -> Millis {
        self.call.deps.clock.now()
    }
}
