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
//! A message is applied to a copy; the copy becomes the state after the commit. Deadlines are never remembered by a timer:
//! [`Call::due`] derives from `now` what has to be done, and [`Call::next_deadline`] when to look again.

use dikala_entities::{
    CallStatus, CommandId, HangupInitiator, HangupReason, Millis, Minutes, PhoneNumber,
};
use serde::{Deserialize, Serialize};

use super::ending::{Ending, bridge_failure, bridge_hangup};

const MINUTE_MS: i64 = 60_000;
/// How long after a refused grant the ledger is asked again, in case of a top-up.
const ASK_AGAIN_MS: i64 = 5_000;
/// Refusals after which talk is settled with what was granted.
const REFUSALS_MAX: usize = 2;
/// A beat that is due at the very moment of the loss may be this late on its way, at most.
const BEAT_LATE_MS_MAX: i64 = 2_000;

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
pub struct PendingHangup {
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
pub enum Phase {
    Ringing,
    Answered { at: Millis },
    Over { status: CallStatus },
}

/// The credit of a call, as the ledger last told it. Minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// Granted in all.
    pub granted: i64,
    /// The number of the last request.
    pub request: i64,
    /// The last request was not granted in full.
    pub last: bool,
    /// Do not ask again before.
    pub ask_at: Millis,
}

/// The last time the bridge is known to have been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sign {
    pub at: Millis,
}

/// Everything the machine knows of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
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
    /// How often a transfer was asked for.
    pub transfers: u32,
    /// The bridge was warned of this cut.
    pub warned: Option<HangupReason>,
    pub answer_message: Option<String>,
}

/// What a message does to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It holds already: acknowledged, nothing to write.
    Repeat,
    /// The call is answered now.
    Answered(Box<Call>),
    /// The call is over now.
    End(Ending),
}

/// The call's state does not allow the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidTransition {
    pub status: CallStatus,
}

/// What has to be done now, without any message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// The call ends.
    End(Ending),
    /// The ledger is to be asked for more minutes.
    Extend {
        request: i64,
        started: i64,
        want: i64,
    },
    /// The bridge is to be warned.
    Warn {
        reason: HangupReason,
        seconds_left: i64,
    },
    /// The bridge is to be told to hang up.
    HangUp {
        reason: HangupReason,
        due_at: Millis,
    },
}

impl Call {
    /// A call that just came in, with the minute that it holds.
    pub fn ringing(started_at: Millis, now: Millis, max_minutes: i64, rules: &Rules) -> Self {
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
            transfers: 0,
            warned: None,
            answer_message: None,
        }
    }

    /// The status as the API names it.
    pub fn status(&self) -> CallStatus {
        match self.phase {
            Phase::Ringing => CallStatus::Ringing,
            Phase::Answered { .. } => CallStatus::Answered,
            Phase::Over { status } => status,
        }
    }

    /// Whether the call is over.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over { .. })
    }

    /// The bridge says that the agent answered. `message` is the message's id: its own repeat is fine even after the end.
    pub fn answer(
        &self,
        at: Millis,
        now: Millis,
        message: &str,
    ) -> Result<Step, InvalidTransition> {
        match self.phase {
            Phase::Ringing => {
                let at = self.place(at, now);
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
    pub fn hang_up(
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
        Step::End(self.ending(status, reason, initiator, self.place(at, now)))
    }

    /// The bridge says that the call broke.
    pub fn fail(&self, at: Millis, now: Millis, reason: HangupReason) -> Step {
        if self.is_over() {
            return Step::Repeat;
        }
        let (status, reason) = bridge_failure(self.answered_at().is_some(), reason);
        Step::End(self.ending(status, reason, HangupInitiator::Bridge, self.place(at, now)))
    }

    /// The bridge does not hold this call any more and never said so: it is billed to the last sign of life.
    pub fn lost(&self, sign: Sign, now: Millis) -> Step {
        if self.is_over() {
            return Step::Repeat;
        }
        Step::End(self.ending_lost(sign, now))
    }

    /// The tenant or an operator wants the call to end. `None` where that is so already.
    pub fn request_hangup(&self, pending: PendingHangup) -> Option<Self> {
        match &self.hangup {
            Some(_) => None,
            None => Some(Self {
                hangup: Some(pending),
                ..self.clone()
            }),
        }
    }

    /// What the engine itself has to do at `now`. To be asked again after it is done, until there is nothing.
    pub fn due(&self, now: Millis, sign: Sign, rules: &Rules) -> Option<Due> {
        if self.is_over() {
            return None;
        }
        if let Some(pending) = &self.hangup
            && now >= self.carry_out_at(pending, rules)
        {
            return Some(Due::End(self.carried_out(pending)));
        }
        if now >= self.lost_at(sign, rules) {
            return Some(Due::End(self.ending_lost(sign, now)));
        }
        match self.phase {
            Phase::Ringing if now >= self.ring_until => {
                let rang_out = self.started_at.plus_ms(rules.ring_timeout_ms);
                let at = self.place(rang_out, now);
                let (status, reason) = (CallStatus::Failed, HangupReason::AnswerTimeout);
                Some(Due::End(self.ending(
                    status,
                    reason,
                    HangupInitiator::System,
                    at,
                )))
            }
            Phase::Answered { at } if self.hangup.is_none() => self.due_talking(at, now, rules),
            _ => None,
        }
    }

    fn due_talking(&self, answered_at: Millis, now: Millis, rules: &Rules) -> Option<Due> {
        let longest_at = self.longest_until(answered_at);
        let granted_until = self.granted_until(answered_at);
        let wanted = self.wanted(answered_at, now, rules);
        if wanted > self.credit.granted && now >= self.credit.ask_at {
            let begun = now.since(answered_at) / MINUTE_MS + 1;
            return Some(Due::Extend {
                request: self.credit.request + 1,
                started: begun.clamp(0, self.credit.granted),
                want: wanted - self.credit.granted,
            });
        }
        // Past the granted time with the ledger away and nothing refused, the call goes on: an outage is not a lack of credit.
        if self.credit.last && now >= granted_until {
            let reason = HangupReason::CreditsExhausted;
            return Some(Due::HangUp {
                reason,
                due_at: granted_until,
            });
        }
        if now >= longest_at {
            return Some(Due::HangUp {
                reason: HangupReason::MaxDuration,
                due_at: longest_at,
            });
        }
        let warn = |reason, cut_at: Millis| {
            let seconds_left = (cut_at.since(now) + 999) / 1_000;
            (self.warned != Some(reason)).then_some(Due::Warn {
                reason,
                seconds_left,
            })
        };
        if self.credit.last {
            return warn(HangupReason::CreditsExhausted, granted_until);
        }
        if now >= longest_at.plus_ms(-rules.warn_before_ms) {
            return warn(HangupReason::MaxDuration, longest_at);
        }
        None
    }

    /// When [`due`](Self::due) has to be asked next, if no message comes first. Later than `now` once `due` has said `None`.
    pub fn next_deadline(&self, sign: Sign, rules: &Rules) -> Option<Millis> {
        if self.is_over() {
            return None;
        }
        let mut next = self.lost_at(sign, rules);
        if let Some(pending) = &self.hangup {
            return Some(next.min(self.carry_out_at(pending, rules)));
        }
        match self.phase {
            Phase::Ringing => next = next.min(self.ring_until),
            Phase::Answered { at } => {
                let longest_at = self.longest_until(at);
                next = next.min(longest_at);
                if !self.credit.last && self.warned != Some(HangupReason::MaxDuration) {
                    next = next.min(longest_at.plus_ms(-rules.warn_before_ms).max(at));
                }
                if self.credit.granted < self.max_minutes {
                    let ask = self.granted_until(at).plus_ms(-rules.warn_before_ms);
                    next = next.min(ask.max(self.credit.ask_at));
                }
                if self.credit.last {
                    next = next.min(self.granted_until(at));
                }
            }
            Phase::Over { .. } => {}
        }
        Some(next)
    }

    /// The ledger answered an `Extend`: `total` minutes are granted in all. What was granted takes a warning back.
    pub fn granted(&self, request: i64, total: i64, last: bool, now: Millis) -> Self {
        let ask_at = match self.answered_at() {
            // One more question right at the cut, so that a top-up in the last seconds saves the call.
            Some(at) if last => now
                .plus_ms(ASK_AGAIN_MS)
                .min(self.granted_until(at).max(now.plus_ms(1))),
            _ => now,
        };
        let warned = self
            .warned
            .filter(|w| last || *w != HangupReason::CreditsExhausted);
        Self {
            credit: Credit {
                granted: total,
                request,
                last,
                ask_at,
            },
            warned,
            ..self.clone()
        }
    }

    /// A top-up arrived: the ledger may be asked again at once.
    pub fn credited(&self, now: Millis) -> Self {
        Self {
            credit: Credit {
                ask_at: now,
                ..self.credit
            },
            ..self.clone()
        }
    }

    /// The ledger did not answer: it is asked again a second later.
    pub fn ledger_away(&self, now: Millis) -> Self {
        Self {
            credit: Credit {
                ask_at: now.plus_ms(1_000),
                ..self.credit
            },
            ..self.clone()
        }
    }

    /// The state after the end.
    pub fn over(&self, ending: &Ending) -> Self {
        Self {
            phase: Phase::Over {
                status: ending.status,
            },
            last_change_at: ending.at,
            hangup: None,
            transfer: None,
            ..self.clone()
        }
    }

    /// When the call was answered, if it was and is not over.
    pub fn answered_at(&self) -> Option<Millis> {
        match self.phase {
            Phase::Answered { at } => Some(at),
            _ => None,
        }
    }

    /// The minutes to bill for an ending.
    pub fn minutes(&self, ending: &Ending) -> i64 {
        self.answered_at().map_or(0, |answered_at| {
            Minutes::for_talk(ending.at.whole_seconds_since(answered_at)).get()
        })
    }

    /// What is to be asked of the ledger before an ending can be settled; none: its minutes are granted, or were
    /// refused. `refusals` counts those for this ending, one after the other: the first may be the repeat of an answer that was
    /// lost and was given for another question, the second is not.
    pub fn uncovered(&self, ending: &Ending, refusals: usize) -> Option<Due> {
        let want = self.minutes(ending) - self.credit.granted;
        (want > 0 && refusals < REFUSALS_MAX).then_some(Due::Extend {
            request: self.credit.request + 1,
            started: self.credit.granted,
            want,
        })
    }

    /// The ending as it is booked: talk that the ledger did not cover was to be cut where the granted time ends.
    pub fn covered(&self, ending: Ending) -> Ending {
        match self.answered_at() {
            Some(answered_at) if self.minutes(&ending) > self.credit.granted => {
                let at = self.granted_until(answered_at).max(self.last_change_at);
                self.ending(ending.status, ending.reason, ending.initiator, at)
            }
            _ => ending,
        }
    }

    /// Not in the future, not after the engine's own cut, however late that is obeyed, and not before the last change of state.
    fn place(&self, at: Millis, now: Millis) -> Millis {
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

    fn granted_until(&self, answered_at: Millis) -> Millis {
        answered_at.plus_ms(self.credit.granted.saturating_mul(MINUTE_MS))
    }

    /// Minutes that should be granted at `now`: those begun, and the next one if it is near.
    fn wanted(&self, answered_at: Millis, now: Millis, rules: &Rules) -> i64 {
        let ahead = now.since(answered_at).saturating_add(rules.warn_before_ms);
        (ahead / MINUTE_MS + 1).min(self.max_minutes)
    }

    /// When the loss is noticed. A bridge that beats exactly as often as it has to is late by its jitter now and then; a
    /// fifteenth more is 2 s of the default 30. The bill is not touched by it: that ends with the last sign.
    fn lost_at(&self, sign: Sign, rules: &Rules) -> Millis {
        let last = sign.at.max(self.seen_at).max(self.resumed_at);
        let late = (rules.lost_after_ms / 15).min(BEAT_LATE_MS_MAX);
        last.plus_ms(rules.lost_after_ms).plus_ms(late)
    }

    fn carry_out_at(&self, pending: &PendingHangup, rules: &Rules) -> Millis {
        let told_at = pending.issued_at.max(pending.due_at).max(self.resumed_at);
        told_at.plus_ms(rules.hangup_grace_ms)
    }

    fn carried_out(&self, pending: &PendingHangup) -> Ending {
        let answered = self.answered_at().is_some();
        let (status, reason) = bridge_hangup(answered, pending.reason, pending.initiator);
        self.ending(
            status,
            reason,
            pending.initiator,
            pending.due_at.max(self.last_change_at),
        )
    }

    fn ending_lost(&self, sign: Sign, now: Millis) -> Ending {
        let at = self.place(sign.at.max(self.seen_at), now);
        let (status, reason) = (CallStatus::Dropped, HangupReason::BridgeLost);
        self.ending(status, reason, HangupInitiator::System, at)
    }

    /// An ending at `at`, which must not lie before the last change.
    pub fn ending(
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
