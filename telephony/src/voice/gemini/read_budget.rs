//! Limits what is read from a model, so that a model that floods its call costs the others nothing.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes in a second. A second of the agent's audio has 64 KB as text, so this is sixteen times real time.
const BYTES_PER_SECOND: u64 = 1024 * 1024;
/// The time whose bytes may come at once: a little over two minutes of speech.
const BURST: Duration = Duration::from_secs(8);
/// The cost of a message beside its own bytes.
const MESSAGE_BYTES: u64 = 1024;

/// The budget of one connection.
#[derive(Debug)]
pub(super) struct ReadBudget {
    /// When what was read is paid for.
    paid: Instant,
}

impl ReadBudget {
    pub(super) fn new(now: Instant) -> Self {
        Self { paid: now }
    }

    /// Pays for a message. Returns the time from which it may be handled, and the next one read.
    pub(super) fn spend(&mut self, bytes: usize, now: Instant) -> Instant {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let cost = bytes
            .saturating_add(MESSAGE_BYTES)
            .saturating_mul(1_000_000);
        self.paid = self.paid.max(now) + Duration::from_micros(cost / BYTES_PER_SECOND);
        self.paid.checked_sub(BURST).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speech_in_bursts_is_never_delayed() {
        let mut now = Instant::now() + Duration::from_secs(60);
        let mut budget = ReadBudget::new(now);
        // Sentences of 20 s, sent within 2 s in pieces of 40 ms, each interrupted after 3 s.
        for _ in 0..100 {
            for _ in 0..500 {
                assert_eq!(budget.spend(2_600, now), now);
                now += Duration::from_millis(4);
            }
            now += Duration::from_secs(1);
        }
    }

    #[test]
    fn a_flood_is_slowed_down() {
        let start = Instant::now() + Duration::from_secs(60);
        for (bytes, seconds) in [(0, 89..=90), (64 * 1024, 6_339..=6_340)] {
            let mut budget = ReadBudget::new(start);
            let mut now = start;
            for _ in 0..100_000 {
                now = budget.spend(bytes, now);
            }
            let took = (now - start).as_secs();
            assert!(seconds.contains(&took), "{bytes} bytes: {took} s");
        }
    }
}
