//! Counts of the last minute, kept without a periodic task.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// A minute has this many slots. The last is partial, so a reading covers up to one slot less than a minute.
const SLOTS: usize = 12;
const SLOT: Duration = Duration::from_secs(5);

/// Counts of all events and of the failed ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinuteCounts {
    pub all: u64,
    pub failed: u64,
}

/// A sliding count over the last minute.
#[derive(Debug)]
pub struct LastMinute {
    began: Instant,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// The number of the current slot since the start.
    last: u64,
    counts: [MinuteCounts; SLOTS],
}

impl LastMinute {
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            slots: Mutex::default(),
        }
    }

    /// Counts one event.
    pub fn count(&self, failed: bool, now: Instant) {
        self.with(now, |slots| {
            let counted = &mut slots.counts[slot_in(slots.last)];
            counted.all += 1;
            counted.failed += u64::from(failed);
        });
    }

    /// The counts of the minute before `now`.
    pub fn reading(&self, now: Instant) -> MinuteCounts {
        self.with(now, |slots| MinuteCounts {
            all: slots.counts.iter().map(|slot| slot.all).sum(),
            failed: slots.counts.iter().map(|slot| slot.failed).sum(),
        })
    }

    fn with<T>(&self, now: Instant, look: impl FnOnce(&mut Slots) -> T) -> T {
        let number = now.saturating_duration_since(self.began).as_secs() / SLOT.as_secs();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Slots older than a minute are cleared; another thread may be one slot ahead.
        let passed = number.saturating_sub(slots.last).min(SLOTS as u64);
        for ahead in 1..=passed {
            let slot = slot_in(slots.last + ahead);
            slots.counts[slot] = MinuteCounts::default();
        }
        slots.last = slots.last.max(number);
        look(&mut slots)
    }
}

fn slot_in(number: u64) -> usize {
    usize::try_from(number % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_a_minute_ago_is_forgotten() {
        let began = Instant::now();
        let minute = LastMinute::new(began);
        let at = |seconds| began + Duration::from_secs(seconds);
        let shown = |seconds| {
            let MinuteCounts { all, failed } = minute.reading(at(seconds));
            (all, failed)
        };
        assert_eq!(shown(0), (0, 0));
        for (second, failed) in [(0, false), (4, true), (30, false), (61, true)] {
            minute.count(failed, at(second));
        }
        assert_eq!(shown(61), (2, 1), "of 30 and 61");
        assert_eq!(shown(89), (2, 1));
        assert_eq!(shown(90), (1, 1));
        assert_eq!(shown(3_000), (0, 0));
        minute.count(false, at(3_600));
        // A thread with an older time still has its event counted.
        minute.count(false, at(3_000));
        assert_eq!(shown(3_600), (2, 0));
        assert_eq!(shown(3_659), (2, 0));
        assert_eq!(shown(3_660), (0, 0));
    }
}
