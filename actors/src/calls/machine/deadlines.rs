//! What the clock asks for: what is due now, and when to look again.

use dikala_entities::{CallStatus, HangupInitiator, HangupReason, Millis};

use super::{CallState, MINUTE_MS, PendingHangup, Phase, Rules};
use crate::{
    bridges::LastSeen,
    calls::ending::{Ending, bridge_hangup},
};

/// A beat that is due at the very moment of the loss may be this late on its way, at most.
const BEAT_LATE_MS_MAX: i64 = 2_000;

/// What has to be done now, without any message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
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

impl CallState {
    /// What the engine itself has to do at `now`. To be asked again after it is done, until there is nothing.
    pub(crate) fn due(&self, now: Millis, last_seen: LastSeen, rules: &Rules) -> Option<Due> {
        if self.is_over() {
            return None;
        }
        if let Some(pending) = &self.hangup
            && now >= self.carry_out_at(pending, rules)
        {
            return Some(Due::End(self.carried_out(pending)));
        }
        if now >= self.lost_at(last_seen, rules) {
            return Some(Due::End(self.ending_lost(last_seen, now)));
        }
        match self.phase {
            Phase::Ringing if now >= self.ring_until => {
                let rang_out = self.started_at.plus_ms(rules.ring_timeout_ms);
                let at = self.bounded(rang_out, now);
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

    /// When the engine cuts the call for this reason, as things stand.
    pub(crate) fn to_be_cut_at(&self, reason: HangupReason) -> Option<Millis> {
        let Phase::Answered { at } = self.phase else {
            return None;
        };
        Some(match reason {
            HangupReason::CreditsExhausted => self.granted_until(at),
            _ => self.longest_until(at),
        })
    }

    /// When [`due`](Self::due) has to be asked next, if no message comes first. Later than `now` once `due` has said `None`.
    pub(crate) fn next_deadline(&self, last_seen: LastSeen, rules: &Rules) -> Option<Millis> {
        if self.is_over() {
            return None;
        }
        let mut next = self.lost_at(last_seen, rules);
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

    /// When the loss is noticed. A bridge that beats exactly as often as it has to is late by its jitter now and then; a
    /// fifteenth more is 2 s of the default 30. The bill is not touched by it: that ends with the last sign.
    fn lost_at(&self, last_seen: LastSeen, rules: &Rules) -> Millis {
        let last = last_seen.at.max(self.seen_at).max(self.resumed_at);
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
}
