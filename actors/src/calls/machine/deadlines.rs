//! Deadlines: what is due now, and when to look again.

use dikala_entities::{CallStatus, HangupInitiator, HangupReason, Millis};

use super::{CallLimits, MINUTE_MS, MachineState, PendingHangup, Phase};
use crate::calls::ending::{CallEnding, bridge_hangup};

/// Tolerance before a bridge counts as lost: the service pings every five seconds, and the pong is the sign of life.
const LOST_TOLERANCE_MS: i64 = 5_000;

fn silent_after(sign: Millis, rules: &CallLimits) -> Millis {
    sign.plus_ms(rules.lost_after_ms).plus_ms(LOST_TOLERANCE_MS)
}

/// An action that is due without any message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DueAction {
    End(CallEnding),
    /// Ask the ledger for more minutes.
    Extend {
        request: i64,
        started: i64,
        want: i64,
    },
    Warn {
        reason: HangupReason,
        seconds_left: i64,
    },
    HangUp {
        reason: HangupReason,
        due_at: Millis,
    },
}

impl MachineState {
    /// The next action due at `now`. Ask again after doing it, until `None`.
    pub(crate) fn due(
        &self,
        now: Millis,
        last_seen: Millis,
        rules: &CallLimits,
    ) -> Option<DueAction> {
        if self.is_over() {
            return None;
        }
        if let Some(pending) = &self.hangup
            && now >= self.carry_out_at(pending, rules)
        {
            return Some(DueAction::End(self.carried_out(pending)));
        }
        if now >= self.lost_at(last_seen, rules) {
            return Some(DueAction::End(self.ending_lost(last_seen, now)));
        }
        match self.phase {
            Phase::Ringing if now >= self.ring_until => {
                let rang_out = self.started_at.plus_ms(rules.ring_timeout_ms);
                let at = self.bounded(rang_out, now);
                let (status, reason) = (CallStatus::Failed, HangupReason::AnswerTimeout);
                Some(DueAction::End(self.ending(
                    status,
                    reason,
                    HangupInitiator::System,
                    at,
                )))
            }
            Phase::Answered { at } if self.hangup.is_none() => {
                let quiet_at = self.quiet_at(last_seen, rules);
                self.due_talking(at, now, quiet_at, rules)
            }
            _ => None,
        }
    }

    /// Nothing is due from `quiet_at` on.
    fn due_talking(
        &self,
        answered_at: Millis,
        now: Millis,
        quiet_at: Millis,
        rules: &CallLimits,
    ) -> Option<DueAction> {
        let longest_at = self.longest_until(answered_at);
        let longest_at = longest_at.filter(|at| *at < quiet_at);
        let granted_until = self.granted_until(answered_at);
        let wanted = self.wanted(answered_at, now, rules);
        let ask_at = self.ask_at(answered_at, rules);
        if wanted > self.credit.granted && now >= self.credit.ask_at && ask_at < quiet_at {
            let begun = now.since(answered_at) / MINUTE_MS + 1;
            return Some(DueAction::Extend {
                request: self.credit.request + 1,
                started: begun.clamp(0, self.credit.granted),
                want: wanted - self.credit.granted,
            });
        }
        // If the ledger is unavailable and has refused nothing, the call continues past its granted time: an outage is not a
        // lack of credit.
        let is_last = self.credit.last && granted_until < quiet_at;
        if is_last && now >= granted_until {
            let reason = HangupReason::CreditsExhausted;
            return Some(DueAction::HangUp {
                reason,
                due_at: granted_until,
            });
        }
        if let Some(due_at) = longest_at.filter(|longest_at| now >= *longest_at) {
            let reason = HangupReason::MaxDuration;
            return Some(DueAction::HangUp { reason, due_at });
        }
        let warn = |reason, cut_at: Millis| {
            let seconds_left = (cut_at.since(now) + 999) / 1_000;
            (self.warned != Some(reason)).then_some(DueAction::Warn {
                reason,
                seconds_left,
            })
        };
        if is_last {
            return warn(HangupReason::CreditsExhausted, granted_until);
        }
        let longest_at = longest_at.filter(|at| now >= at.plus_ms(-rules.warn_before_ms))?;
        warn(HangupReason::MaxDuration, longest_at)
    }

    /// The time at which the service will cut the call for this reason.
    pub(crate) fn to_be_cut_at(&self, reason: HangupReason) -> Option<Millis> {
        let Phase::Answered { at } = self.phase else {
            return None;
        };
        match reason {
            HangupReason::CreditsExhausted => Some(self.granted_until(at)),
            _ => self.longest_until(at),
        }
    }

    /// The time to ask [`due`](Self::due) again if no message comes first. Later than `now` once `due` returned `None`.
    pub(crate) fn next_deadline(&self, last_seen: Millis, rules: &CallLimits) -> Option<Millis> {
        if self.is_over() {
            return None;
        }
        let mut next = self.lost_at(last_seen, rules);
        let quiet_at = self.quiet_at(last_seen, rules);
        if let Some(pending) = &self.hangup {
            return Some(next.min(self.carry_out_at(pending, rules)));
        }
        match self.phase {
            Phase::Ringing => next = next.min(self.ring_until),
            Phase::Answered { at } => {
                let longest_at = self.longest_until(at).filter(|at| *at < quiet_at);
                if let Some(longest_at) = longest_at {
                    next = next.min(longest_at);
                    if !self.credit.last && self.warned != Some(HangupReason::MaxDuration) {
                        next = next.min(longest_at.plus_ms(-rules.warn_before_ms).max(at));
                    }
                }
                let ask_at = self.ask_at(at, rules);
                if self.credit.granted < self.minutes_max() && ask_at < quiet_at {
                    next = next.min(ask_at);
                }
                let granted_until = self.granted_until(at);
                if self.credit.last && granted_until < quiet_at {
                    next = next.min(granted_until);
                }
            }
            Phase::Over { .. } => {}
        }
        Some(next)
    }

    /// When to ask the ledger for more minutes.
    fn ask_at(&self, answered_at: Millis, rules: &CallLimits) -> Millis {
        let soon = self
            .granted_until(answered_at)
            .plus_ms(-rules.warn_before_ms);
        soon.max(self.credit.ask_at)
    }

    /// When the loss is noticed. Billing ends with the last sign of life. After a restart the bridge has more time to come back.
    fn lost_at(&self, last_seen: Millis, rules: &CallLimits) -> Millis {
        silent_after(self.last_sign(last_seen).max(self.resumed_at), rules)
    }

    fn last_sign(&self, last_seen: Millis) -> Millis {
        last_seen.max(self.seen_at)
    }

    /// From when on nothing is due until the bridge is heard, after a restart. If it stays away, the call was lost before.
    fn quiet_at(&self, last_seen: Millis, rules: &CallLimits) -> Millis {
        let sign = self.last_sign(last_seen);
        match sign < self.resumed_at {
            true => silent_after(sign, rules),
            false => Millis::MAX,
        }
    }

    /// True if the bridge was not heard since a restart or a take-over. Its next sign may make something due.
    pub(crate) fn waits_for_bridge(&self, last_seen: Millis) -> bool {
        self.answered_at().is_some() && self.last_sign(last_seen) < self.resumed_at
    }

    fn carry_out_at(&self, pending: &PendingHangup, rules: &CallLimits) -> Millis {
        let told_at = pending.issued_at.max(pending.due_at).max(self.resumed_at);
        told_at.plus_ms(rules.hangup_grace_ms)
    }

    fn carried_out(&self, pending: &PendingHangup) -> CallEnding {
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
