//! When a connection is tried again, and when a voice is given up.

use std::time::Duration;

/// The longest time of a call without a model.
pub(in crate::voice) const AWAY: Duration = Duration::from_secs(8);
/// A shorter time without a model is not reported.
pub(in crate::voice) const UNNOTICED: Duration = Duration::from_millis(300);
/// Time limit for opening a socket, once the call has had a connection.
pub(in crate::voice) const ATTEMPT: Duration = Duration::from_secs(4);
/// Backoff between failed attempts, in ms; the last value repeats.
const PAUSES: [u64; 4] = [100, 300, 600, 1_000];
/// A connection that lasted this long is no failure when it ends (Pipecat, October 2025); nor is one that brought anything.
pub(in crate::voice) const STABLE: Duration = Duration::from_secs(10);
/// If two connections in a row ended this soon, or got `goAway`, the next is opened after a delay.
const BRIEF: Duration = Duration::from_secs(1);
/// This many useless connections in a row, or refused setups, end the session.
pub(in crate::voice) const FAILURES: u32 = 3;

/// Consecutive failures.
#[derive(Debug, Default)]
pub(in crate::voice) struct Failures {
    /// Since when there is no model; `None` counts from the beginning of the session.
    pub away: Option<Duration>,
    /// The call knows that there is no model.
    pub told: bool,
    pub attempts: usize,
    brief: usize,
    pub useless: u32,
    pub refusals: u32,
    pub resumptions: u32,
    /// The reason of the last failure.
    pub words: String,
}

impl Failures {
    /// Records how long a connection lasted until it ended or got `goAway`.
    pub(in crate::voice) fn lasted(&mut self, lasted: Duration) {
        self.brief = if lasted < BRIEF { self.brief + 1 } else { 0 };
    }

    /// The delay before the next connection after one that ended.
    pub(in crate::voice) fn pause(&self) -> Duration {
        Duration::from_millis(match self.brief {
            0 | 1 => 0,
            brief => PAUSES[(brief - 2).min(PAUSES.len() - 1)],
        })
    }

    /// Counts a failed attempt, and returns the delay before the next.
    pub(in crate::voice) fn attempt_failed(&mut self, words: &str) -> Duration {
        let pause = PAUSES[self.attempts.min(PAUSES.len() - 1)];
        self.attempts += 1;
        words.clone_into(&mut self.words);
        Duration::from_millis(pause)
    }

    /// There is a model again. Whether it is of use shows later.
    pub(in crate::voice) fn succeeded(&mut self) {
        *self = Self {
            brief: self.brief,
            useless: self.useless,
            resumptions: self.resumptions,
            ..Self::default()
        };
    }
}
