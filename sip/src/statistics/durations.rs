//! A histogram of durations.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Upper bounds in microseconds. They include the promised limits: silence within 100 ms of the caller's voice, an answer in 150
/// ms.
pub const BOUNDS_US: &[u64; 13] = &[
    10_000, 20_000, 40_000, 60_000, 80_000, 100_000, 150_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];
const CLASSES: usize = BOUNDS_US.len() + 1;

#[derive(Debug, Default)]
pub(crate) struct DurationHistogram {
    counts: [AtomicU64; CLASSES],
    sum_us: AtomicU64,
}

/// The values of [`DurationHistogram`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DurationCounts {
    /// One count per bound in [`BOUNDS_US`] (inclusive), then one for everything above; not cumulative.
    pub counts: [u64; CLASSES],
    pub sum_us: u64,
}

impl DurationHistogram {
    pub(crate) fn took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let class = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[class].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn reading(&self) -> DurationCounts {
        DurationCounts {
            counts: std::array::from_fn(|class| self.counts[class].load(Relaxed)),
            sum_us: self.sum_us.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_the_class_of_its_bound() {
        let times = DurationHistogram::default();
        for ms in [0, 10, 11, 100, 11_000] {
            times.took(Duration::from_millis(ms));
        }
        let reading = times.reading();
        let classes = [0, 1, 5, CLASSES - 1].map(|class| reading.counts[class]);
        assert_eq!((classes, reading.sum_us), ([2, 1, 1, 1], 11_121_000));
    }
}
