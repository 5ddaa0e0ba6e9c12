//! What a simulated bridge counts and measures.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::figures::Thousandths;

/// Different reasons and codes that are told apart; past that they are counted together.
const REASONS_MAX: usize = 64;
/// Anything slower, about 19 hours, counts as this.
const LATENCY_US_MAX: u64 = (1 << 36) - 1;
/// Decimal digits that are exact.
const DIGITS: u8 = 3;

/// Latencies in microseconds: bounded memory however many are recorded.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_max(LATENCY_US_MAX, DIGITS).expect("the bounds are constants"))
    }
}

impl Latencies {
    /// Records one latency, in microseconds.
    pub fn record(&mut self, us: u64) {
        self.0.saturating_record(us.min(LATENCY_US_MAX));
    }

    /// The latency that `percent` of the recorded ones do not exceed, in microseconds; 0 where none was recorded.
    pub fn percentile_us(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// What is shown of them.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: Thousandths(self.percentile_us(50.0)),
            p95: Thousandths(self.percentile_us(95.0)),
            p99: Thousandths(self.percentile_us(99.0)),
            max: Thousandths(self.0.max()),
        }
    }
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub p50: Thousandths,
    pub p95: Thousandths,
    pub p99: Thousandths,
    pub max: Thousandths,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Calls that were placed.
    pub calls: u64,
    /// Of them, those that reached their end: answered or not.
    pub ended: u64,
    pub answered: u64,
    /// Hung up by the caller while they rang.
    pub abandoned: u64,
    /// Turned away by the engine when they came in.
    pub refused: u64,
    /// Ended by the engine before the bridge did.
    pub ended_by_engine: u64,
    /// Ended because a message was answered with an error.
    pub failed: u64,
    /// Not over when the simulation was.
    pub unfinished: u64,
    pub functions_called: u64,
    /// Of them, those whose outcome was an error.
    pub functions_failed: u64,
    pub commands: u64,
    pub messages: u64,
    pub acknowledgements: u64,
    /// Messages that were sent more than once, each time after the first.
    pub resent: u64,
    /// Replies that were errors.
    pub errors: u64,
    pub reconnects: u64,
    /// Why calls were refused, and the codes of errors.
    pub reasons: BTreeMap<String, u64>,
}

impl Totals {
    /// Counts a reason or a code.
    pub fn count_reason(&mut self, reason: &str) {
        let known = self.reasons.contains_key(reason) || self.reasons.len() < REASONS_MAX;
        let name = if known { reason } else { "other" };
        *self.reasons.entry(name.to_owned()).or_default() += 1;
    }
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    #[serde(flatten)]
    pub totals: Totals,
    pub seconds: Thousandths,
    pub calls_per_second: Thousandths,
    pub acknowledgements_per_second: Thousandths,
    /// From the moment the bridge had a message to send until its reply, outages included; functions apart.
    pub latency_ms: Percentiles,
    /// Of that, from the last sending until the reply: what the service took. The rest is this bridge's own: messages that
    /// wait for others to be answered, and those that are sent again.
    pub service_latency_ms: Percentiles,
    /// The same of `call.function`, which waits for the tenant's endpoint.
    pub function_latency_ms: Percentiles,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Summary {
    /// Whether every call that was placed reached its end and none of them failed.
    pub fn is_clean(&self) -> bool {
        self.fault.is_none() && self.totals.unfinished == 0 && self.totals.failed == 0
    }
}

/// The latencies of acknowledgements.
#[derive(Debug)]
pub struct Measured {
    /// From the moment there was a message to send.
    pub all: Latencies,
    /// From the moment it was sent for the last time: the service's part.
    pub service: Latencies,
    /// Of functions, apart from both.
    pub functions: Latencies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentiles(), Percentiles::default());
        (1..=100).for_each(|us| latencies.record(us));
        assert_eq!(
            [50.0, 95.0, 99.0, 100.0].map(|p| latencies.percentile_us(p)),
            [50, 95, 99, 100]
        );
        latencies.record(u64::MAX);
        assert_eq!(latencies.percentile_us(100.0), LATENCY_US_MAX);
    }

    #[test]
    fn reasons_are_bounded() {
        let mut totals = Totals::default();
        (0..1_000).for_each(|i| totals.count_reason(&format!("reason {i}")));
        assert_eq!(totals.reasons.len(), REASONS_MAX + 1);
        assert_eq!(totals.reasons.values().sum::<u64>(), 1_000);
    }
}
