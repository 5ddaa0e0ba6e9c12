//! The bridges' messages about the last calls of this process, for diagnosis: kind, time and outcome, never their content.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use dikala_entities::{CallId, Millis};
use dikala_protocol::{ErrorCode, MessageType};

/// Calls whose messages are kept.
const CALLS_MAX: usize = 2_000;
/// Messages that are kept of a call, the first ones: a call of an hour has about twenty besides its functions.
const MESSAGES_MAX: usize = 100;

/// A message of a bridge, answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// When it was read.
    pub at: Millis,
    pub kind: MessageType,
    /// Until its reply was ready.
    pub took: Duration,
    /// The code of an error reply.
    pub refusal: Option<ErrorCode>,
}

/// The messages about the last calls.
#[derive(Debug, Default)]
pub(super) struct RecentMessages(Mutex<KeptMessages>);

#[derive(Debug, Default)]
struct KeptMessages {
    calls: HashMap<CallId, Vec<MessageRecord>>,
    /// The calls, in the order of their first messages.
    order: VecDeque<CallId>,
}

impl RecentMessages {
    pub(super) fn add(&self, call: CallId, message: MessageRecord) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.calls.contains_key(&call) {
            if kept.order.len() >= CALLS_MAX
                && let Some(oldest) = kept.order.pop_front()
            {
                kept.calls.remove(&oldest);
            }
            kept.order.push_back(call);
        }
        let messages = kept.calls.entry(call).or_default();
        if messages.len() < MESSAGES_MAX {
            messages.push(message);
        }
    }

    /// The messages about a call, in the order of their replies.
    pub(super) fn of(&self, call: CallId) -> Vec<MessageRecord> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.calls.get(&call).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(at: i64) -> MessageRecord {
        MessageRecord {
            at: Millis::from_i64(at),
            kind: MessageType::Answered,
            took: Duration::from_millis(3),
            refusal: None,
        }
    }

    #[test]
    fn the_first_messages_of_the_last_calls_are_kept() {
        let recent = RecentMessages::default();
        let first = CallId::new(Millis::from_i64(0));
        for at in 0..200 {
            recent.add(first, message(at));
        }
        let kept = recent.of(first);
        assert_eq!(kept.len(), MESSAGES_MAX);
        assert_eq!(kept.last(), Some(&message(99)));
        let later: Vec<CallId> = (1..=2_000)
            .map(|at| CallId::new(Millis::from_i64(at)))
            .collect();
        for call in &later {
            recent.add(*call, message(1));
        }
        assert!(recent.of(first).is_empty());
        assert_eq!(recent.of(later[0]), [message(1)]);
        assert_eq!(recent.of(later[1_999]), [message(1)]);
    }
}
