//! Histograms of the quality of legs that have ended.

use super::{DirectionQuality, LegQuality};
use crate::histogram::{ValueCounts, ValueHistogram};

/// Upper bounds of mean opinion scores, in millionths. They separate the categories of ITU-T G.107, table B.1.
const MOS: &[u64] = &[
    2_000_000, 2_580_000, 3_100_000, 3_600_000, 4_030_000, 4_340_000,
];
/// Of times, in microseconds.
const JITTER: &[u64] = &[2_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000];
const ROUND_TRIP: &[u64] = &[
    20_000, 50_000, 100_000, 150_000, 200_000, 300_000, 500_000, 1_000_000,
];
const CONCEALED: &[u64] = &[
    0, 20_000, 100_000, 500_000, 1_000_000, 5_000_000, 20_000_000,
];
/// Of lost packets among all, in millionths.
const LOSS: &[u64] = &[0, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000];

/// One direction of all legs that have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectionStatistics {
    /// In millionths.
    pub mos: ValueCounts,
    /// The 95th percentiles, in microseconds.
    pub jitter: ValueCounts,
    /// Lost packets among all, in millionths.
    pub loss: ValueCounts,
}

/// The quality of all legs that have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QualityStatistics {
    pub received: DirectionStatistics,
    pub sent: DirectionStatistics,
    /// In microseconds.
    pub round_trip: ValueCounts,
    /// In microseconds.
    pub concealed: ValueCounts,
}

#[derive(Debug)]
struct DirectionHistograms {
    mos: ValueHistogram,
    jitter: ValueHistogram,
    loss: ValueHistogram,
}

impl Default for DirectionHistograms {
    fn default() -> Self {
        Self {
            mos: ValueHistogram::new(MOS),
            jitter: ValueHistogram::new(JITTER),
            loss: ValueHistogram::new(LOSS),
        }
    }
}

impl DirectionHistograms {
    fn count(&self, of: &DirectionQuality, due: u64) {
        let mos = of.mos.map(|mos| u64::from(mos) * 10_000);
        let jitter = of.jitter_p95_ms.map(|ms| u64::from(ms) * 1_000);
        let loss = |lost: u64| lost.saturating_mul(1_000_000).checked_div(due);
        for (histogram, value) in [
            (&self.mos, mos),
            (&self.jitter, jitter),
            (&self.loss, of.lost.and_then(loss)),
        ] {
            count_known(histogram, value);
        }
    }

    fn read(&self) -> DirectionStatistics {
        DirectionStatistics {
            mos: self.mos.read(),
            jitter: self.jitter.read(),
            loss: self.loss.read(),
        }
    }
}

fn count_known(histogram: &ValueHistogram, value: Option<u64>) {
    if let Some(value) = value {
        histogram.count(value);
    }
}

/// Counts legs at their end.
#[derive(Debug)]
pub struct QualityHistograms {
    received: DirectionHistograms,
    sent: DirectionHistograms,
    round_trip: ValueHistogram,
    concealed: ValueHistogram,
}

impl Default for QualityHistograms {
    fn default() -> Self {
        Self {
            received: DirectionHistograms::default(),
            sent: DirectionHistograms::default(),
            round_trip: ValueHistogram::new(ROUND_TRIP),
            concealed: ValueHistogram::new(CONCEALED),
        }
    }
}

impl QualityHistograms {
    /// Counts a leg that has ended.
    pub fn count(&self, leg: &LegQuality) {
        self.received.count(&leg.received, leg.received.due());
        self.sent.count(&leg.sent, leg.sent.packets);
        let round_trip = leg.round_trip_ms.map(|ms| u64::from(ms) * 1_000);
        count_known(&self.round_trip, round_trip);
        let heard = leg
            .received
            .concealed_ms
            .filter(|_| leg.received.packets > 0);
        count_known(&self.concealed, heard.map(|ms| ms.saturating_mul(1_000)));
    }

    pub fn read(&self) -> QualityStatistics {
        QualityStatistics {
            received: self.received.read(),
            sent: self.sent.read(),
            round_trip: self.round_trip.read(),
            concealed: self.concealed.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_is_counted_once_in_each_histogram_of_what_is_known() {
        let histograms = QualityHistograms::default();
        histograms.count(&LegQuality {
            codec: "opus",
            round_trip_ms: Some(90),
            received: DirectionQuality {
                packets: 99,
                lost: Some(1),
                late: Some(0),
                jitter_p95_ms: Some(4),
                concealed_ms: Some(20),
                mos: Some(431),
            },
            sent: DirectionQuality {
                packets: 100,
                ..DirectionQuality::default()
            },
        });
        let QualityStatistics {
            received,
            sent,
            round_trip,
            concealed,
        } = histograms.read();
        let class = |of: &ValueCounts| of.counts.iter().position(|count| *count == 1);
        assert_eq!(
            (class(&received.mos), received.mos.sum),
            (Some(5), 4_310_000)
        );
        assert_eq!(
            (class(&received.jitter), received.jitter.sum),
            (Some(1), 4_000)
        );
        assert_eq!(
            (class(&received.loss), received.loss.sum),
            (Some(3), 10_000)
        );
        assert_eq!((class(&round_trip), round_trip.sum), (Some(2), 90_000));
        assert_eq!((class(&concealed), concealed.sum), (Some(1), 20_000));
        assert_eq!([&sent.mos, &sent.jitter, &sent.loss].map(class), [None; 3]);
    }
}
