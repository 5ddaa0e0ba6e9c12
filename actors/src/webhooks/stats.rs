//! What the dispatcher shows of itself: plain integers, read without asking it.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Upper bounds of the histograms' buckets, in milliseconds; one more bucket takes the rest.
pub const BUCKETS_MS: [u64; 12] = [
    5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000,
];

/// Counts of times by size.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS_MS.len() + 1],
    sum_ms: AtomicU64,
}

/// What a [`Histogram`] shows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramReading {
    /// Not cumulative: how many fell into each bucket of [`BUCKETS_MS`], and last those above.
    pub counts: [u64; BUCKETS_MS.len() + 1],
    pub sum_ms: u64,
}

impl Histogram {
    pub(crate) fn observe_ms(&self, ms: u64) {
        let bucket = BUCKETS_MS.partition_point(|bound| *bound < ms);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum_ms.fetch_add(ms, Relaxed);
    }

    /// The counts now.
    pub fn reading(&self) -> HistogramReading {
        let mut counts = [0; BUCKETS_MS.len() + 1];
        for (count, counter) in counts.iter_mut().zip(&self.counts) {
            *count = counter.load(Relaxed);
        }
        HistogramReading {
            counts,
            sum_ms: self.sum_ms.load(Relaxed),
        }
    }
}

/// The dispatcher's gauges and counters.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) lanes: AtomicI64,
    pub(crate) open_circuits: AtomicI64,
    pub(crate) waiting: AtomicI64,
    pub(crate) in_flight: AtomicI64,
    pub(crate) unrecorded: AtomicI64,
    pub(crate) left_in_table: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) own_faults: AtomicU64,
    pub(crate) disabled: AtomicU64,
    pub(crate) exchange: Histogram,
    pub(crate) latency: Histogram,
}

/// What the dispatcher shows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsReading {
    /// Endpoints with a queue of their own in memory now.
    pub lanes: i64,
    /// Of these, those that are only probed because they keep failing.
    pub open_circuits: i64,
    /// Deliveries in memory whose attempt has not begun.
    pub waiting: i64,
    /// Attempts under way.
    pub in_flight: i64,
    /// Attempts that ended and are not yet in the table.
    pub unrecorded: i64,
    /// Fresh deliveries that found no room in memory and were left to the table.
    pub left_in_table: u64,
    /// Attempts by what became of the delivery: delivered, to be tried again, given up.
    pub succeeded: u64,
    pub retried: u64,
    pub failed: u64,
    /// Attempts that could not be made through a fault of the service's own; none was used up.
    pub own_faults: u64,
    /// Webhooks disabled for failing.
    pub disabled: u64,
    /// The time of one exchange.
    pub exchange: HistogramReading,
    /// From an event's commit to the end of its successful first attempt.
    pub latency: HistogramReading,
}

impl Stats {
    pub(crate) fn reading(&self) -> StatsReading {
        StatsReading {
            lanes: self.lanes.load(Relaxed),
            open_circuits: self.open_circuits.load(Relaxed),
            waiting: self.waiting.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            unrecorded: self.unrecorded.load(Relaxed),
            left_in_table: self.left_in_table.load(Relaxed),
            succeeded: self.succeeded.load(Relaxed),
            retried: self.retried.load(Relaxed),
            failed: self.failed.load(Relaxed),
            own_faults: self.own_faults.load(Relaxed),
            disabled: self.disabled.load(Relaxed),
            exchange: self.exchange.reading(),
            latency: self.latency.reading(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let histogram = Histogram::default();
        for ms in [0, 5, 6, 15_000, 15_001] {
            histogram.observe_ms(ms);
        }
        let reading = histogram.reading();
        assert_eq!((reading.counts[0], reading.counts[1]), (2, 1));
        assert_eq!((reading.counts[11], reading.counts[12]), (1, 1));
        assert_eq!(reading.sum_ms, 30_012);
    }
}
