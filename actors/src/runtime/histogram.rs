//! Histograms with a few fixed buckets, counted where things happen and without locks.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Buckets for actors' messages, in microseconds: from a trivial handler to a stuck mailbox.
pub const MESSAGE_US: &[u64] = &[
    10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];
/// Buckets for requests, acknowledgements, commits and exchanges with other servers, in microseconds.
pub const ANSWER_US: &[u64] = &[
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 15_000_000, 30_000_000,
];
/// Buckets for deliveries, which may be retried for days, in microseconds.
pub const DELIVERY_US: &[u64] = &[
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    7_200_000_000,
    43_200_000_000,
    172_800_000_000,
];
/// Buckets for numbers of items.
pub const ITEMS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// A histogram. A value equal to a bound counts in that bound's bucket; one more bucket has everything above.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// A reading of a [`Histogram`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    pub bounds: &'static [u64],
    /// Not cumulative: one count for each bound, then the count above all of them.
    pub counts: Vec<u64>,
    pub sum: u64,
}

impl Histogram {
    pub fn new(bounds: &'static [u64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub fn observe(&self, value: u64) {
        let class = self.bounds.partition_point(|bound| *bound < value);
        self.counts[class].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    pub fn observe_time(&self, time: Duration) {
        self.observe(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts the time since `then`, in microseconds.
    pub fn observe_since(&self, then: Instant) {
        self.observe_time(then.elapsed());
    }

    pub fn reading(&self) -> Distribution {
        Distribution {
            bounds: self.bounds,
            counts: self
                .counts
                .iter()
                .map(|count| count.load(Relaxed))
                .collect(),
            sum: self.sum.load(Relaxed),
        }
    }
}

impl Distribution {
    /// An empty distribution of response times.
    pub fn of_answers() -> Self {
        Histogram::new(ANSWER_US).reading()
    }

    /// The sum of two distributions with the same bounds.
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// The counts since an earlier reading with the same bounds.
    pub fn minus(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(&self, other: &Self, both: fn(u64, u64) -> u64) -> Self {
        debug_assert_eq!(self.bounds, other.bounds, "of one kind");
        let counts = self.counts.iter().zip(&other.counts);
        Self {
            bounds: self.bounds,
            counts: counts.map(|(one, two)| both(*one, *two)).collect(),
            sum: both(self.sum, other.sum),
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The lowest bound that this percentage of values is within. The highest bound for values above all of them;
    /// none without values.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let count = self.count();
        let rank = count.saturating_mul(percent).div_ceil(100).max(1);
        let mut within = 0;
        let class = self.counts.iter().position(|counted| {
            within += counted;
            within >= rank
        })?;
        self.bounds.get(class).or(self.bounds.last()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_bounds() {
        let histogram = Histogram::new(&[10, 100]);
        assert_eq!(histogram.reading().percentile(50), None);
        for value in [1, 2, 3, 50] {
            histogram.observe(value);
        }
        let percentiles = |percents: [u64; 4]| {
            let reading = histogram.reading();
            percents.map(|percent| reading.percentile(percent))
        };
        let [low, high] = [Some(10), Some(100)];
        assert_eq!(percentiles([0, 75, 76, 100]), [low, low, high, high]);
        histogram.observe(101);
        assert_eq!(histogram.reading().percentile(100), high);
    }

    #[test]
    fn what_happened_in_between_is_what_was_counted_since() {
        let histogram = Histogram::new(&[10, 100]);
        histogram.observe(1);
        let before = histogram.reading();
        histogram.observe(50);
        let between = histogram.reading().minus(&before);
        assert_eq!((between.count(), between.percentile(50)), (1, Some(100)));
        assert_eq!(before.plus(&between), histogram.reading());
    }

    #[test]
    fn a_bound_belongs_to_its_own_class() {
        let histogram = Histogram::new(&[5, 10]);
        for value in [0, 5, 6, 10, 11] {
            histogram.observe(value);
        }
        histogram.observe_time(Duration::from_micros(7));
        let reading = histogram.reading();
        assert_eq!(reading.counts, [2, 3, 1]);
        assert_eq!((reading.count(), reading.sum), (6, 39));
    }
}
