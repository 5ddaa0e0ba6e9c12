//! Which call a caller's attempt is, by Call-ID, the caller's tag and CSeq. Pure.
//!
//! While one is open none else begins, and after one was answered each is that one again: to the engine two would be one call, and
//! only one of them would be paid for and could be hung up. Who was refused may ask once more by the same Call-ID and tag, as trunks
//! do after a 503 with `Retry-After`: under the next number that is another call, and under the same one the same.

use std::collections::{HashMap, HashSet, VecDeque};

use sha2::{Digest, Sha256};

/// Callers whose calls are over and who are remembered.
const PAST_MAX: usize = 10_000;

/// Call-IDs and tags may be long.
type Caller = [u8; 32];

#[derive(Debug, Default)]
pub struct Attempts {
    open: HashSet<Caller>,
    past: HashMap<Caller, Past>,
    /// Those of `past`, the oldest first.
    order: VecDeque<Caller>,
}

/// The attempts of a caller that the engine has heard of, by their numbers.
#[derive(Debug, Clone, Copy)]
struct Past {
    first: u32,
    answered: Option<u32>,
}

/// An attempt that is open.
#[derive(Debug)]
pub struct Attempt {
    caller: Caller,
    number: u32,
    /// None where no other came before it.
    again: Option<u32>,
    is_told: bool,
    is_answered: bool,
}

impl Attempt {
    /// The engine is about to hear of it: the number that tells the call from the caller's first, if it is not that.
    pub fn told(&mut self) -> Option<u32> {
        self.is_told = true;
        self.again
    }

    pub fn answered(&mut self) {
        self.is_answered = true;
    }
}

impl Attempts {
    /// Begins one, with the number of its CSeq. None where another is open.
    pub fn begin(&mut self, caller: &str, number: u32) -> Option<Attempt> {
        let caller = Sha256::digest(caller).into();
        let past = self.past.get(&caller);
        let number = past.and_then(|past| past.answered).unwrap_or(number);
        let is_first = past.is_none_or(|past| past.first == number);
        self.open.insert(caller).then_some(Attempt {
            caller,
            number,
            again: (!is_first).then_some(number),
            is_told: false,
            is_answered: false,
        })
    }

    pub fn end(&mut self, attempt: &Attempt) {
        self.open.remove(&attempt.caller);
        if !attempt.is_told {
            return;
        }
        if !self.past.contains_key(&attempt.caller) {
            self.make_room();
            self.order.push_back(attempt.caller);
        }
        let past = self.past.entry(attempt.caller).or_insert(Past {
            first: attempt.number,
            answered: None,
        });
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

    impl Attempts {
        /// A call that the engine hears of, from its beginning to its end.
        fn passes(&mut self, caller: &str, number: u32, is_answered: bool) -> Option<u32> {
            let mut attempt = self.begin(caller, number).expect("none is open");
            let again = attempt.told();
            if is_answered {
                attempt.answered();
            }
            self.end(&attempt);
            again
        }
    }

    #[test]
    fn an_attempt_after_a_refusal_is_another_call_and_one_after_an_answer_is_none() {
        let mut attempts = Attempts::default();
        let first = attempts.begin("a", 1).expect("none is open");
        assert!(attempts.begin("a", 2).is_none(), "one is open");
        attempts.end(&first);
        // What the engine never heard of leaves nothing.
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
    fn the_oldest_are_forgotten() {
        let mut attempts = Attempts::default();
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
