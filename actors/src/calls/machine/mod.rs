//! The call machine: what a call's state, a message and the time decide. Pure: no clock, no database, no actor.
//!
//! ```text
//!             answer                      hang-up · max duration · credits exhausted
//!  ringing ───────────▶ answered ───────────────────────────────────────────────────▶ ended
//!     │                    │
//!     │ caller gave up     │ bridge or media lost, AI broke
//!     ├─────▶ dropped ◀────┘
//!     │ could not be served
//!     └─────▶ failed
//! ```
//!
//! A message is applied to a copy; the copy becomes the state after the commit. What the ledger said is in [`credit`]. Deadlines are never remembered by a timer:
//! [`CallState::due`] derives from `now` what has to be done, and [`CallState::next_deadline`] when to look again.

mod credit;
mod deadlines;

use dikala_entities::{CallStatus, CommandId, HangupInitiator, HangupReason, Millis, PhoneNumber};
use serde::{Deserialize, Serialize};

pub(crate) use self::{credit::Credit, deadlines::Due};
use super::ending::{Ending, bridge_failure, bridge_hangup};
use crate::bridges::LastSeen;

const MINUTE_MS: i64 = 60_000;

/// What the operator configures, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a call may ring.
    pub ring_timeout_ms: i64,
    /// How long before a cut the bridge is warned; also how far ahead minutes are granted.
    pub warn_before_ms: i64,
    /// How long a `hangup` command waits for the bridge.
    pub hangup_grace_ms: i64,
    /// How long a bridge may give no sign of life. A little more is allowed for the way.
    pub lost_after_ms: i64,
}

/// A hang-up that the bridge was, or is to be, commanded to carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingHangup {
    pub id: CommandId,
    pub reason: HangupReason,
    pub initiator: HangupInitiator,
    /// When the call is over in the books if the bridge does not answer.
    pub due_at: Millis,
    /// When the command was issued.
    pub issued_at: Millis,
}

impl PendingHangup {
    /// Whether the engine itself cuts the call, for its length or for want of credit. Nobody else's wish has a moment that was
    /// fixed before: those calls end when the bridge ends them.
    fn is_cut(&self) -> bool {
        matches!(
            self.reason,
            HangupReason::MaxDuration | HangupReason::CreditsExhausted
        )
    }
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Ringing,
    Answered { at: Millis },
    Over { status: CallStatus },
}

/// Everything the machine knows of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallState {
    pub started_at: Millis,
    pub phase: Phase,
    pub last_change_at: Millis,
    /// The call's own last sign of life.
    pub seen_at: Millis,
    /// From when on silence counts: the moment this process took the call up.
    pub resumed_at: Millis,
    pub ring_until: Millis,
    pub max_minutes: i64,
    pub credit: Credit,
    pub hangup: Option<PendingHangup>,
    pub transfer: Option<PhoneNumber>,
    /// The command that says so: who repeats it says the same.
    pub transfer_id: Option<CommandId>,
    /// How often a transfer was asked for.
    pub transfers: u32,
    /// The bridge was warned of this cut.
    pub warned: Option<HangupReason>,
    pub answer_message: Option<String>,
}

/// What a message does to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It holds already: acknowledged, nothing to write.
    Repeat,
    /// The call is answered now.
    Answered(Box<CallState>),
    /// The call is over now.
    End(Ending),
}

/// The call's state does not allow the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidTransition {
    pub status: CallStatus,
}

impl CallState {
    /// A call that just came in, with the minute that it holds.
    pub(crate) fn ringing(
        started_at: Millis,
        now: Millis,
        max_minutes: i64,
        rules: &Rules,
    ) -> Self {
        Self {
            started_at,
            phase: Phase::Ringing,
            last_change_at: started_at,
            seen_at: now,
            resumed_at: now,
            ring_until: now.plus_ms(rules.ring_timeout_ms),
            max_minutes,
            credit: Credit {
                granted: 1,
                ..Credit::default()
            },
            hangup: None,
            transfer: None,
            transfer_id: None,
            transfers: 0,
            warned: None,
            answer_message: None,
        }
    }

    /// The status as the API names it.
    pub(crate) fn status(&self) -> CallStatus {
        match self.phase {
            Phase::Ringing => CallStatus::Ringing,
            Phase::Answered { .. } => CallStatus::Answered,
            Phase::Over { status } => status,
        }
    }

    /// Whether the call is over.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over { .. })
    }

    /// The bridge says that the agent answered. `message` is the message's id: its own repeat is fine even after the end.
    pub(crate) fn answer(
        &self,
        at: Millis,
        now: Millis,
        message: &str,
    ) -> Result<Step, InvalidTransition> {
        match self.phase {
            Phase::Ringing => {
                let at = self.bounded(at, now);
                Ok(Step::Answered(Box::new(Self {
                    phase: Phase::Answered { at },
                    last_change_at: at,
                    seen_at: now,
                    answer_message: Some(message.to_owned()),
                    ..self.clone()
                })))
            }
            Phase::Answered { .. } => Ok(Step::Repeat),
            Phase::Over { status } if self.answer_message.as_deref() != Some(message) => {
                Err(InvalidTransition { status })
            }
            Phase::Over { .. } => Ok(Step::Repeat),
        }
    }

    /// The bridge says that the call was hung up.
    pub(crate) fn hang_up(
        &self,
        at: Millis,
        now: Millis,
        reason: HangupReason,
        initiator: HangupInitiator,
    ) -> Step {
        if self.is_over() {
            return Step::Repeat;
        }
        // A bridge that carries out a command names the command's reason; whose wish it was is known here.
        let initiator = match &self.hangup {
            Some(pending) if pending.reason == reason => pending.initiator,
            _ => initiator,
        };
        let (status, reason) = bridge_hangup(self.answered_at().is_some(), reason, initiator);
        Step::End(self.ending(status, reason, initiator, self.bounded(at, now)))
    }

    /// The bridge says that the call broke.
    pub(crate) fn fail(&self, at: Millis, now: Millis, reason: HangupReason) -> Step {
        if self.is_over() {
            return Step::Repeat;
        }
        let (status, reason) = bridge_failure(self.answered_at().is_some(), reason);
        Step::End(self.ending(
            status,
            reason,
            HangupInitiator::Bridge,
            self.bounded(at, now),
        ))
    }

    /// The bridge does not hold this call any more and never said so: it is billed to the last sign of life.
    pub(crate) fn lost(&self, last_seen: LastSeen, now: Millis) -> Step {
        if self.is_over() {
            return Step::Repeat;
        }
        Step::End(self.ending_lost(last_seen, now))
    }

    /// The tenant or an operator wants the call to end. `None` where that is so already.
    pub(crate) fn request_hangup(&self, pending: PendingHangup) -> Option<Self> {
        match &self.hangup {
            Some(_) => None,
            None => Some(Self {
                hangup: Some(pending),
                ..self.clone()
            }),
        }
    }

    /// The state after the end.
    pub(crate) fn over(&self, ending: &Ending) -> Self {
        Self {
            phase: Phase::Over {
                status: ending.status,
            },
            last_change_at: ending.at,
            hangup: None,
            transfer: None,
            transfer_id: None,
            ..self.clone()
        }
    }

    /// When the call was answered, if it was and is not over.
    pub(crate) fn answered_at(&self) -> Option<Millis> {
        match self.phase {
            Phase::Answered { at } => Some(at),
            _ => None,
        }
    }

    /// Not in the future, not after the engine's own cut, however late that is obeyed, and not before the last change of state.
    fn bounded(&self, at: Millis, now: Millis) -> Millis {
        let at = self.cut_at().map_or(at, |cut_at| at.min(cut_at));
        at.min(now).max(self.last_change_at)
    }

    /// When the engine's own cut was due, told to the bridge or not yet.
    fn cut_at(&self) -> Option<Millis> {
        match (&self.hangup, self.answered_at()) {
            (Some(pending), _) => pending.is_cut().then_some(pending.due_at),
            (None, answered_at) => answered_at.map(|at| self.longest_until(at)),
        }
    }

    fn longest_until(&self, answered_at: Millis) -> Millis {
        answered_at.plus_ms(self.max_minutes.saturating_mul(MINUTE_MS))
    }

    fn ending_lost(&self, last_seen: LastSeen, now: Millis) -> Ending {
        let at = self.bounded(last_seen.at.max(self.seen_at), now);
        let (status, reason) = (CallStatus::Dropped, HangupReason::BridgeLost);
        self.ending(status, reason, HangupInitiator::System, at)
    }

    /// An ending at `at`, which must not lie before the last change.
    pub(crate) fn ending(
        &self,
        status: CallStatus,
        reason: HangupReason,
        initiator: HangupInitiator,
        at: Millis,
    ) -> Ending {
        let talked = |answered_at| at.whole_seconds_since(answered_at);
        Ending {
            status,
            reason,
            initiator,
            at,
            duration_seconds: at.whole_seconds_since(self.started_at),
            talk_seconds: self.answered_at().map_or(0, talked),
        }
    }
}

#[cfg(test)]
mod tests;
