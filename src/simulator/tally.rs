//! Counters and latencies of a simulated bridge.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::figures::DecimalArgument;

/// Maximum number of distinct reasons and codes; further ones are counted as `other`.
const REASONS_MAX: usize = 64;
/// The largest recorded latency, about 19 hours; larger ones count as this.
const LATENCY_US_MAX: u64 = (1 << 36) - 1;
/// Significant digits.
const DIGITS: u8 = 3;

/// A histogram of latencies in microseconds, in bounded memory.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_max(LATENCY_US_MAX, DIGITS).expect("the bounds are constants"))
    }
}

impl Latencies {
    pub fn record(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us.min(LATENCY_US_MAX));
    }

    /// A percentile in microseconds; 0 if nothing was recorded.
    pub fn percentile_us(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The shown percentiles.
    pub fn percentiles(&self) -> Percentiles {
        Percentiles {
            p50: DecimalArgument(self.percentile_us(50.0)),
            p95: DecimalArgument(self.percentile_us(95.0)),
            p99: DecimalArgument(self.percentile_us(99.0)),
            max: DecimalArgument(self.0.max()),
        }
    }
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub p50: DecimalArgument,
    pub p95: DecimalArgument,
    pub p99: DecimalArgument,
    pub max: DecimalArgument,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Placed calls.
    pub calls: u64,
    /// Calls that reached their end, answered or not.
    pub ended: u64,
    pub answered: u64,
    /// Calls whose caller hung up while it rang.
    pub abandoned: u64,
    /// Calls that the service rejected.
    pub refused: u64,
    /// Calls that the service ended before the bridge did.
    pub ended_by_engine: u64,
    /// Calls that ended because a message was answered with an error.
    pub failed: u64,
    /// Calls that had not ended when the simulation did.
    pub unfinished: u64,
    pub functions_called: u64,
    /// Invocations whose outcome was an error.
    pub functions_failed: u64,
    pub commands: u64,
    pub messages: u64,
    pub acknowledgements: u64,
    /// Number of retransmissions.
    pub resent: u64,
    /// Number of replies that were errors.
    pub errors: u64,
    pub reconnects: u64,
    /// Counts by reason of rejection or error code.
    pub reasons: BTreeMap<String, u64>,
}

impl Totals {
    /// Counts a reason or a code.
    pub fn count_reasons(&mut self, reason: &str, count: u64) {
        if count == 0 {
            return;
        }
        let known = self.reasons.contains_key(reason) || self.reasons.len() < REASONS_MAX;
        let name = if known { reason } else { "other" };
        *self.reasons.entry(name.to_owned()).or_default() += count;
    }
}

/// Result of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    #[serde(flatten)]
    pub totals: Totals,
    pub seconds: DecimalArgument,
    pub calls_per_second: DecimalArgument,
    pub acknowledgements_per_second: DecimalArgument,
    /// From the creation of a message to its reply, outages included; without functions.
    pub latency_ms: Percentiles,
    /// The service's part of it: from the last transmission to the reply. The rest is queueing
    /// and retries in this bridge.
    pub service_latency_ms: Percentiles,
    /// The same for `call.function`, which waits for the tenant's endpoint.
    pub function_latency_ms: Percentiles,
    /// The reason for an early end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Summary {
    /// True if all placed calls reached their end and none failed.
    pub fn is_clean(&self) -> bool {
        self.fault.is_none() && self.totals.unfinished == 0 && self.totals.failed == 0
    }
}

/// Latencies of acknowledgements.
#[derive(Debug)]
pub struct MeasuredLatencies {
    /// From a message's creation.
    pub all: Latencies,
    /// From a message's last transmission: the service's part.
    pub service: Latencies,
    /// Functions only; the other two exclude them.
    pub functions: Latencies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_hundred() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentiles(), Percentiles::default());
        (1..=100).for_each(|us| latencies.record(Duration::from_micros(us)));
        assert_eq!(
            [50.0, 95.0, 99.0, 100.0].map(|p| latencies.percentile_us(p)),
            [50, 95, 99, 100]
        );
        latencies.record(Duration::MAX);
        assert_eq!(latencies.percentile_us(100.0), LATENCY_US_MAX);
    }

    #[test]
    fn reasons_are_bounded() {
        let mut totals = Totals::default();
        (0..1_000).for_each(|i| totals.count_reasons(&format!("reason {i}"), 1));
        assert_eq!(totals.reasons.len(), REASONS_MAX + 1);
        assert_eq!(totals.reasons.values().sum::<u64>(), 1_000);
    }
}
