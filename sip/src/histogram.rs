//! A histogram of whole numbers.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

#[derive(Debug)]
pub struct ValueHistogram {
    bounds: &'static [u64],
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
}

/// The values of a histogram at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCounts {
    pub bounds: &'static [u64],
    /// One count for each bound (inclusive), then one for everything above; not cumulative.
    pub counts: Vec<u64>,
    pub sum: u64,
}

impl Default for ValueCounts {
    /// Nothing was counted, and no bounds are known.
    fn default() -> Self {
        Self {
            bounds: &[],
            counts: vec![0],
            sum: 0,
        }
    }
}

impl ValueHistogram {
    pub fn new(bounds: &'static [u64]) -> Self {
        Self {
            bounds,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub fn count(&self, value: u64) {
        let class = self.bounds.partition_point(|bound| *bound < value);
        self.counts[class].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Counts a duration in microseconds.
    pub fn took(&self, time: Duration) {
        self.count(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub fn read(&self) -> ValueCounts {
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        ValueCounts {
            bounds: self.bounds,
            counts: counts.collect(),
            sum: self.sum.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_in_the_class_of_its_bound() {
        let times = ValueHistogram::new(&[10_000, 100_000]);
        for ms in [0, 10, 11, 100, 11_000] {
            times.took(Duration::from_millis(ms));
        }
        let counts = vec![2, 2, 1];
        let expected = ValueCounts {
            bounds: &[10_000, 100_000],
            counts,
            sum: 11_121_000,
        };
        assert_eq!(times.read(), expected);
    }
}
