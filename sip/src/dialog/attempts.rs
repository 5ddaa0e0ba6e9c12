//! Identifies which call an INVITE belongs to, by Call-ID, the caller's tag and CSeq. Pure.
//!
//! While an attempt is open, no other begins. After one was answered, every further attempt counts as a repeat of it. Two
//! attempts with one id would be one call to the program behind the edge, which could hang up only one of them. A refused
//! caller may try again with the same Call-ID and tag, as trunks do after a 503 with `Retry-After`. A new CSeq number makes it
//! another call, the same number the same call.
//!
//! WhatsApp has an id of its own for each call, which replaces all three. Of one such id there is one attempt, whatever Call-ID
//! and CSeq it comes with. Only after a failure of ours may another follow, which is a new call.

use std::collections::{HashMap, HashSet, VecDeque};

use sha2::{Digest, Sha256};

/// Past callers that are remembered.
const PAST_MAX: usize = 10_000;

/// SHA-256 of Call-ID and tag, because these may be long.
type CallerHash = [u8; 32];

#[derive(Debug, Default)]
pub struct CallAttempts {
    open: HashSet<CallerHash>,
    past: HashMap<CallerHash, PastCaller>,
    /// Keys of `past`, the oldest first.
    order: VecDeque<CallerHash>,
}

/// The attempts of one caller that were offered, by CSeq number.
#[derive(Debug, Clone, Copy)]
struct PastCaller {
    first: u32,
    answered: Option<u32>,
    offered: u32,
    /// False if the last one failed here.
    is_over: bool,
}

/// An open attempt.
#[derive(Debug)]
pub struct CallAttempt {
    caller: CallerHash,
    number: u32,
    /// The number that distinguishes this call from the caller's first; `None` for the first.
    again: Option<u32>,
    is_offered: bool,
    is_answered: bool,
    has_failed: bool,
}

impl CallAttempt {
    /// Marks the attempt as offered. Returns the number that distinguishes it from the caller's first call, if
    /// any.
    pub fn mark_offered(&mut self) -> Option<u32> {
        self.is_offered = true;
        self.again
    }

    pub fn answered(&mut self) {
        self.is_answered = true;
    }

    /// Marks the attempt as failed by our fault: the caller may try again.
    pub fn failed(&mut self) {
        self.has_failed = true;
    }
}

impl CallAttempts {
    /// Begins an attempt with the number of its CSeq, or without a number if the caller's identity is that of a single call.
    /// `None` if another attempt is open, or was this single call.
    pub fn begin(&mut self, caller: &str, number: Option<u32>) -> Option<CallAttempt> {
        let caller = Sha256::digest(caller).into();
        let past = self.past.get(&caller);
        if number.is_none() && past.is_some_and(|past| past.is_over) {
            return None;
        }
        let tries = past.map_or(1, |past| past.offered.saturating_add(1));
        let number = number.unwrap_or(tries);
        let number = past.and_then(|past| past.answered).unwrap_or(number);
        let is_first = past.is_none_or(|past| past.first == number);
        self.open.insert(caller).then_some(CallAttempt {
            caller,
            number,
            again: (!is_first).then_some(number),
            is_offered: false,
            is_answered: false,
            has_failed: false,
        })
    }

    pub fn end(&mut self, attempt: &CallAttempt) {
        self.open.remove(&attempt.caller);
        if !attempt.is_offered {
            return;
        }
        if !self.past.contains_key(&attempt.caller) {
            self.make_room();
            self.order.push_back(attempt.caller);
        }
        let past = self.past.entry(attempt.caller).or_insert(PastCaller {
            first: attempt.number,
            answered: None,
            offered: 0,
            is_over: false,
        });
        past.offered = past.offered.saturating_add(1);
        past.is_over = !attempt.has_failed;
        if attempt.is_answered {
            past.answered = Some(attempt.number);
        }
    }

    fn make_room(&mut self) {
        if self.order.len() >= PAST_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.past.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CallAttempts {
        /// A call that is offered, from beginning to end.
        fn passes(&mut self, caller: &str, number: u32, is_answered: bool) -> Option<u32> {
            let attempt = self.begin(caller, Some(number));
            let mut attempt = attempt.expect("none is open");
            let again = attempt.mark_offered();
            if is_answered {
                attempt.answered();
            }
            self.end(&attempt);
            again
        }
    }

    #[test]
    fn an_attempt_after_a_refusal_is_another_call_and_one_after_an_answer_is_none() {
        let mut attempts = CallAttempts::default();
        let first = attempts.begin("a", Some(1)).expect("none is open");
        assert!(attempts.begin("a", Some(2)).is_none(), "one is open");
        attempts.end(&first);
        // An attempt that was never offered leaves nothing.
        assert_eq!(attempts.passes("a", 2, false), None);
        assert_eq!(attempts.passes("a", 3, false), Some(3));
        assert_eq!(attempts.passes("a", 2, false), None);
        assert_eq!(attempts.passes("b", 3, false), None);
        assert_eq!(attempts.passes("a", 4, true), Some(4));
        for number in [2, 4, 5] {
            assert_eq!(attempts.passes("a", number, false), Some(4));
        }
        assert_eq!(attempts.passes("b", 3, true), None);
        assert_eq!(attempts.passes("b", 4, false), None);
    }

    #[test]
    fn an_id_of_one_call_begins_again_after_a_failure_of_ours_only() {
        let mut attempts = CallAttempts::default();
        let begin = |attempts: &mut CallAttempts| attempts.begin("wacid", None);
        // Never offered, as before a challenge or without a free port.
        let attempt = begin(&mut attempts).expect("it is new");
        attempts.end(&attempt);
        for (is_answered, has_failed, again) in [
            (false, true, None),
            (false, true, Some(2)),
            (true, false, Some(3)),
        ] {
            let mut attempt = begin(&mut attempts).expect("none was it");
            assert!(begin(&mut attempts).is_none(), "one is open");
            assert_eq!(attempt.mark_offered(), again, "it is another call");
            if is_answered {
                attempt.answered();
            }
            if has_failed {
                attempt.failed();
            }
            attempts.end(&attempt);
            assert_eq!(begin(&mut attempts).is_some(), has_failed);
            attempts.open.clear();
        }
        // One that was cancelled or refused for good.
        let mut attempt = attempts.begin("other", None).expect("it is new");
        attempt.mark_offered();
        attempts.end(&attempt);
        assert!(attempts.begin("other", None).is_none());
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut attempts = CallAttempts::default();
        for caller in 0..=PAST_MAX {
            attempts.passes(&caller.to_string(), 1, false);
            attempts.passes(&caller.to_string(), 2, false);
        }
        let held = (attempts.past.len(), attempts.order.len());
        assert_eq!(held, (PAST_MAX, PAST_MAX));
        assert_eq!(attempts.passes("1", 3, false), Some(3));
        assert_eq!(attempts.passes("0", 3, false), None);
        assert!(attempts.open.is_empty());
    }
}
