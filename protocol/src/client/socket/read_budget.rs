//! Limits what is read from a server that is not trusted, so that one that floods its call costs the others nothing.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Bytes in a second. A second of a model's speech has 64 KB as text, so this is sixteen times real time.
const BYTES_PER_SECOND: u64 = 1024 * 1024;
/// The time whose bytes may come at once: a little over two minutes of speech.
const BURST: Duration = Duration::from_secs(8);
/// The cost of a message beside its bytes on the wire.
const MESSAGE_BYTES: usize = 1024;

/// The budget of one call, for all its sockets.
#[derive(Debug)]
pub struct ReadBudget {
    /// When what was read is paid for.
    paid: Mutex<Instant>,
}

impl ReadBudget {
    pub fn new(now: Instant) -> Self {
        Self {
            paid: Mutex::new(now),
        }
    }

    /// Pays for a message that was read.
    pub fn spend_message(&self, now: Instant) {
        self.spend(MESSAGE_BYTES, now);
    }

    /// Pays for bytes that were read. Returns the time from which more may be read.
    pub(super) fn spend(&self, bytes: usize, now: Instant) -> Instant {
        let micros = u64::try_from(bytes)
            .unwrap_or(u64::MAX)
            .saturating_mul(1_000_000);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        *paid = (*paid).max(now) + Duration::from_micros(micros / BYTES_PER_SECOND);
        paid.checked_sub(BURST).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speech_in_bursts_is_never_delayed() {
        let mut now = Instant::now() + Duration::from_secs(60);
        let budget = ReadBudget::new(now);
        // Sentences of 20 s, sent within 2 s in pieces of 40 ms, each interrupted after 3 s.
        for _ in 0..100 {
            for _ in 0..500 {
                budget.spend_message(now);
                assert_eq!(budget.spend(2_600, now), now);
                now += Duration::from_millis(4);
            }
            now += Duration::from_secs(1);
        }
    }

    #[test]
    fn a_flood_is_slowed_down() {
        let start = Instant::now() + Duration::from_secs(60);
        for (bytes, seconds) in [(0, 89..=90), (64 * 1024, 6_339..=6_341)] {
            let budget = ReadBudget::new(start);
            let mut now = start;
            for _ in 0..100_000 {
                budget.spend_message(now);
                now = budget.spend(bytes, now);
            }
            let took = (now - start).as_secs();
            assert!(seconds.contains(&took), "{bytes} bytes: {took} s");
        }
    }
}
