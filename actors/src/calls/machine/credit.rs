//! The credit of a call: granted minutes, when to ask for more, and the talk that they cover.

use dikala_entities::{HangupReason, Millis, Minutes};

use super::{CallLimits, DueAction, MINUTE_MS, MachineState};
use crate::calls::ending::CallEnding;

/// The pause before the ledger is asked again after a refusal, in case of a top-up.
const ASK_AGAIN_MS: i64 = 5_000;
/// Consecutive refusals after which talk is settled with what was granted.
pub(super) const REFUSALS_MAX: usize = 2;

/// A call's credit, by the ledger's last answer. In minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallCredit {
    pub granted: i64,
    /// The number of the last request.
    pub request: i64,
    /// The last request was not granted in full.
    pub last: bool,
    /// No request before this time.
    pub ask_at: Millis,
}

impl MachineState {
    /// Applies a grant of `total` minutes in all. A full grant withdraws the credit warning.
    pub(crate) fn granted(&self, request: i64, total: i64, last: bool, now: Millis) -> Self {
        let ask_at = match self.answered_at() {
            // Ask once more right at the cut, so that a top-up in the last seconds saves the call.
            Some(at) if last => now
                .plus_ms(ASK_AGAIN_MS)
                .min(self.granted_until(at).max(now.plus_ms(1))),
            _ => now,
        };
        let warned = self
            .warned
            .filter(|w| last || *w != HangupReason::CreditsExhausted);
        Self {
            credit: CallCredit {
                granted: total,
                request,
                last,
                ask_at,
            },
            warned,
            ..self.clone()
        }
    }

    /// After a top-up: the ledger may be asked again at once.
    pub(crate) fn credited(&self, now: Millis) -> Self {
        Self {
            credit: CallCredit {
                ask_at: now,
                ..self.credit
            },
            ..self.clone()
        }
    }

    /// The ledger did not answer: it is asked again a second later.
    pub(crate) fn ledger_away(&self, now: Millis) -> Self {
        Self {
            credit: CallCredit {
                ask_at: now.plus_ms(1_000),
                ..self.credit
            },
            ..self.clone()
        }
    }

    /// The minutes to bill for an ending.
    pub(crate) fn minutes(&self, ending: &CallEnding) -> i64 {
        self.answered_at().map_or(0, |answered_at| {
            Minutes::for_talk(ending.at.whole_seconds_since(answered_at)).get()
        })
    }

    /// The minutes until a person was joined, or to the end.
    pub(crate) fn minutes_with_agent(&self, ending: &CallEnding) -> i64 {
        let until = self.joined_at.unwrap_or(ending.at);
        self.answered_at().map_or(0, |answered_at| {
            Minutes::for_talk(until.whole_seconds_since(answered_at)).get()
        })
    }

    /// The request that must precede the settlement of an ending. `None` if its minutes are granted, or were refused.
    /// `refusals` counts consecutive refusals for this ending. The first may repeat a lost answer to an earlier request; the
    /// second cannot.
    pub(crate) fn uncovered(&self, ending: &CallEnding, refusals: usize) -> Option<DueAction> {
        let want = self.minutes(ending) - self.credit.granted;
        (want > 0 && refusals < REFUSALS_MAX).then_some(DueAction::Extend {
            request: self.credit.request + 1,
            started: self.credit.granted,
            want,
        })
    }

    /// The ending to settle: talk without granted minutes ends where the granted time does.
    pub(crate) fn covered(&self, ending: CallEnding) -> CallEnding {
        match self.answered_at() {
            Some(answered_at) if self.minutes(&ending) > self.credit.granted => {
                let at = self.granted_until(answered_at).max(self.last_change_at);
                self.ending(ending.status, ending.reason, ending.initiator, at)
            }
            _ => ending,
        }
    }

    pub(super) fn granted_until(&self, answered_at: Millis) -> Millis {
        answered_at.plus_ms(self.credit.granted.saturating_mul(MINUTE_MS))
    }

    /// Minutes that should be granted at `now`: those begun, and the next one if it is near.
    pub(super) fn wanted(&self, answered_at: Millis, now: Millis, rules: &CallLimits) -> i64 {
        let ahead = now.since(answered_at).saturating_add(rules.warn_before_ms);
        (ahead / MINUTE_MS + 1).min(self.minutes_max())
    }
}
