//! The call machine: what a message or the time does to a call's state. Pure: no clock, no database, no actor.
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
//! A message is applied to a copy, which becomes the state after the commit. [`credit`] keeps the ledger's answers. No timer
//! remembers a deadline: [`MachineState::due`] derives from `now` what is due, [`MachineState::next_deadline`] when to ask again.

mod credit;
mod deadlines;

use dikala_entities::{CallStatus, CommandId, HangupInitiator, HangupReason, Millis, PhoneNumber};
use serde::{Deserialize, Serialize};

pub(crate) use self::{credit::CallCredit, deadlines::DueAction};
use super::ending::{CallEnding, bridge_failure, bridge_hangup};

const MINUTE_MS: i64 = 60_000;

/// The configured limits, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    pub ring_timeout_ms: i64,
    /// Time between the warning and a cut; also how far ahead minutes are granted.
    pub warn_before_ms: i64,
    /// Time that a `hangup` command waits for the bridge.
    pub hangup_grace_ms: i64,
    /// Time without a sign of life after which a bridge is lost, but for a tolerance.
    pub lost_after_ms: i64,
}

/// A hang-up that the bridge was or will be told to carry out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingHangup {
    pub id: CommandId,
    pub reason: HangupReason,
    pub initiator: HangupInitiator,
    /// The end of the call in the records, if the bridge does not answer.
    pub due_at: Millis,
    pub issued_at: Millis,
}

impl PendingHangup {
    /// True if the service itself cuts the call, for its length or for lack of credit. Only such a cut has a predetermined
    /// time; other calls end when the bridge ends them.
    fn is_cut(&self) -> bool {
        matches!(
            self.reason,
            HangupReason::MaxDuration | HangupReason::CreditsExhausted
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Ringing,
    Answered { at: Millis },
    Over { status: CallStatus },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineState {
    pub started_at: Millis,
    pub phase: Phase,
    pub last_change_at: Millis,
    /// The last message about the call itself.
    pub seen_at: Millis,
    /// Silence counts from here: when this process took the call up, or could act again.
    pub resumed_at: Millis,
    pub ring_until: Millis,
    pub max_minutes: i64,
    /// When a person was joined. The longest duration is the agent's, so it no longer counts.
    pub joined_at: Option<Millis>,
    pub credit: CallCredit,
    pub hangup: Option<PendingHangup>,
    pub transfer: Option<PhoneNumber>,
    /// Kept, so that repeats of the command have the same id.
    pub transfer_id: Option<CommandId>,
    /// Number of transfers requested so far.
    pub transfers: u32,
    /// The reason for which the bridge was warned of a cut.
    pub warned: Option<HangupReason>,
    pub answer_message: Option<String>,
}

/// The effect of a message on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Already the case: acknowledged, nothing to write.
    Repeat,
    Answered(Box<MachineState>),
    Joined(Box<MachineState>),
    End(CallEnding),
}

/// The message is not allowed in the call's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidTransition {
    pub status: CallStatus,
}

impl MachineState {
    /// A new call, with its first minute granted.
    pub(crate) fn ringing(
        started_at: Millis,
        now: Millis,
        max_minutes: i64,
        rules: &CallLimits,
    ) -> Self {
        Self {
            started_at,
            phase: Phase::Ringing,
            last_change_at: started_at,
            seen_at: now,
            resumed_at: now,
            ring_until: now.plus_ms(rules.ring_timeout_ms),
            max_minutes,
            joined_at: None,
            credit: CallCredit {
                granted: 1,
                ..CallCredit::default()
            },
            hangup: None,
            transfer: None,
            transfer_id: None,
            transfers: 0,
            warned: None,
            answer_message: None,
        }
    }

    pub(crate) fn status(&self) -> CallStatus {
        match self.phase {
            Phase::Ringing => CallStatus::Ringing,
            Phase::Answered { .. } => CallStatus::Answered,
            Phase::Over { status } => status,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over { .. })
    }

    /// The bridge reports the answer. `message` is the message's id: its own repeat is acknowledged even after the end.
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

    /// The bridge reports that a person has answered and is joined to the caller. That fulfils the request for it.
    pub(crate) fn join(&self, at: Millis, now: Millis) -> Result<Step, InvalidTransition> {
        match self.phase {
            _ if self.joined_at.is_some() => Ok(Step::Repeat),
            Phase::Answered { .. } => {
                // The agent had left before it was cut off, and the report comes late.
                let is_moot = |cut: &PendingHangup| {
                    cut.reason == HangupReason::MaxDuration && at < cut.due_at
                };
                let at = self.bounded(at, now);
                Ok(Step::Joined(Box::new(Self {
                    joined_at: Some(at),
                    last_change_at: at,
                    seen_at: now,
                    hangup: self.hangup.clone().filter(|hangup| !is_moot(hangup)),
                    // Nobody but the agent has heard a warning.
                    warned: None,
                    transfer: None,
                    transfer_id: None,
                    ..self.clone()
                })))
            }
            Phase::Ringing | Phase::Over { .. } => Err(InvalidTransition {
                status: self.status(),
            }),
        }
    }

    /// The bridge reports a hang-up.
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
        // A bridge that carries out a command reports the command's reason. Its initiator is known here.
        let initiator = match &self.hangup {
            Some(pending) if pending.reason == reason => pending.initiator,
            _ => initiator,
        };
        // The normal end of a caller who was joined to a person.
        let reason = match (reason, self.joined_at) {
            (HangupReason::Normal, Some(_)) => HangupReason::Transferred,
            _ => reason,
        };
        let (status, reason) = bridge_hangup(self.answered_at().is_some(), reason, initiator);
        Step::End(self.ending(status, reason, initiator, self.bounded(at, now)))
    }

    /// The bridge reports a failure.
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

    /// The bridge lost this call without reporting it: the call is billed to the last sign of life.
    pub(crate) fn lost(&self, last_seen: Millis, now: Millis) -> Step {
        if self.is_over() {
            return Step::Repeat;
        }
        Step::End(self.ending_lost(last_seen, now))
    }

    /// The tenant or an operator ends the call. `None` if a hang-up is pending already.
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
    pub(crate) fn over(&self, ending: &CallEnding) -> Self {
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

    /// When the call was answered; `None` unless it is running.
    pub(crate) fn answered_at(&self) -> Option<Millis> {
        match self.phase {
            Phase::Answered { at } => Some(at),
            _ => None,
        }
    }

    /// Limits a reported time: not in the future, not after the service's own cut, however late, and not before the last
    /// change.
    fn bounded(&self, at: Millis, now: Millis) -> Millis {
        let at = self.cut_at().map_or(at, |cut_at| at.min(cut_at));
        at.min(now).max(self.last_change_at)
    }

    /// When the service's own cut was due, whether or not the bridge was told.
    fn cut_at(&self) -> Option<Millis> {
        match (&self.hangup, self.answered_at()) {
            (Some(pending), _) => pending.is_cut().then_some(pending.due_at),
            (None, answered_at) => answered_at.and_then(|at| self.longest_until(at)),
        }
    }

    /// The end of the longest duration; none for a joined call.
    fn longest_until(&self, answered_at: Millis) -> Option<Millis> {
        let is_the_agents = self.joined_at.is_none();
        is_the_agents.then(|| answered_at.plus_ms(self.max_minutes.saturating_mul(MINUTE_MS)))
    }

    /// The most minutes that the call can need.
    fn minutes_max(&self) -> i64 {
        match self.joined_at {
            None => self.max_minutes,
            Some(_) => i64::MAX,
        }
    }

    fn ending_lost(&self, last_seen: Millis, now: Millis) -> CallEnding {
        let at = self.bounded(last_seen.max(self.seen_at), now);
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
    ) -> CallEnding {
        let talked = |answered_at| at.whole_seconds_since(answered_at);
        CallEnding {
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
