//! Counts of an edge since its start: what it counts, and what others read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::quality::{QualityHistograms, QualityStatistics};

pub use crate::histogram::{ValueCounts, ValueHistogram};

/// Upper bounds of durations in microseconds. They include the promised limits: silence within 100 ms of the caller's voice, an
/// answer in 150 ms.
const DURATIONS: &[u64] = &[
    10_000, 20_000, 40_000, 60_000, 80_000, 100_000, 150_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// Outcomes of calls since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOutcomes {
    pub answered: u64,
    pub refused: u64,
    pub cancelled: u64,
    pub failed: u64,
}

/// Counts since the start, and gauges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeStatistics {
    pub calls: usize,
    /// Calls whose caller is joined to a person.
    pub joined: usize,
    pub invites: u64,
    pub callers: CallOutcomes,
    /// Calls to persons, for transfers.
    pub persons: CallOutcomes,
    /// From INVITE to 200, in microseconds.
    pub answer: ValueCounts,
    /// From the caller's voice to the silence of our side, in microseconds.
    pub barge_in: ValueCounts,
    pub registered_trunks: usize,
    /// Over calls that have ended.
    pub packets: u64,
    pub packets_lost: u64,
    pub packets_late: u64,
    /// Ticks of 20 ms, and those that came more than 20 ms late.
    pub ticks: u64,
    pub ticks_late: u64,
    /// Strangers' messages dropped by the rate limit.
    pub strangers_dropped: u64,
    pub refused: Vec<RefusalCount>,
    pub quality: QualityStatistics,
}

/// Refused calls of one trunk for one reason; no trunk if none admitted the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalCount {
    pub trunk: String,
    pub reason: &'static str,
    pub count: u64,
}

#[derive(Debug, Default)]
pub(crate) struct OutcomeCounters {
    pub answered: AtomicU64,
    pub refused: AtomicU64,
    pub cancelled: AtomicU64,
    pub failed: AtomicU64,
}

/// Counters since the start.
#[derive(Debug)]
pub(crate) struct EdgeCounters {
    pub invites: AtomicU64,
    pub callers: OutcomeCounters,
    /// Calls to persons, for transfers.
    pub persons: OutcomeCounters,
    pub packets: AtomicU64,
    pub packets_lost: AtomicU64,
    pub packets_late: AtomicU64,
    pub ticks: AtomicU64,
    pub ticks_late: AtomicU64,
    /// From INVITE to 200.
    pub answer: ValueHistogram,
    /// From the caller's voice to the silence of our side.
    pub barge_in: ValueHistogram,
    pub quality: QualityHistograms,
}

impl Default for EdgeCounters {
    fn default() -> Self {
        Self {
            invites: AtomicU64::default(),
            callers: OutcomeCounters::default(),
            persons: OutcomeCounters::default(),
            packets: AtomicU64::default(),
            packets_lost: AtomicU64::default(),
            packets_late: AtomicU64::default(),
            ticks: AtomicU64::default(),
            ticks_late: AtomicU64::default(),
            answer: ValueHistogram::new(DURATIONS),
            barge_in: ValueHistogram::new(DURATIONS),
            quality: QualityHistograms::default(),
        }
    }
}

impl OutcomeCounters {
    fn read(&self) -> CallOutcomes {
        CallOutcomes {
            answered: self.answered.load(Relaxed),
            refused: self.refused.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

impl EdgeCounters {
    /// The counters; all other fields are zero.
    pub fn read(&self) -> EdgeStatistics {
        EdgeStatistics {
            invites: self.invites.load(Relaxed),
            callers: self.callers.read(),
            persons: self.persons.read(),
            answer: self.answer.read(),
            barge_in: self.barge_in.read(),
            packets: self.packets.load(Relaxed),
            packets_lost: self.packets_lost.load(Relaxed),
            packets_late: self.packets_late.load(Relaxed),
            ticks: self.ticks.load(Relaxed),
            ticks_late: self.ticks_late.load(Relaxed),
            quality: self.quality.read(),
            ..EdgeStatistics::default()
        }
    }
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}
