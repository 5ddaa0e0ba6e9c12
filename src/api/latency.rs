//! Percentiles of the durations of requests to tenants' servers.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// Durations of requests to the endpoint, in whole milliseconds. Null without requests; requests that failed before
/// anything was sent do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LatencyMs {
    /// Half of the requests took no longer.
    pub p50: Option<i64>,
    pub p95: Option<i64>,
    pub p99: Option<i64>,
    pub max: Option<i64>,
}

impl LatencyMs {
    /// Percentiles of durations, each given with its count.
    pub fn of(times: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
        for (ms, count) in times {
            *counts.entry(ms).or_default() += count;
        }
        let all: i64 = counts.values().sum();
        // The nearest-rank method: the smallest value that is at least as large as that percentage of all.
        let percentile = |percent: i64| {
            let rank = (all * percent + 99) / 100;
            let mut seen = 0;
            counts.iter().find_map(|(ms, count)| {
                seen += count;
                (seen >= rank).then_some(*ms)
            })
        };
        Self {
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
            max: percentile(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: Vec<(i64, i64)>) -> [Option<i64>; 4] {
        let LatencyMs { p50, p95, p99, max } = LatencyMs::of(times);
        [p50, p95, p99, max]
    }

    #[test]
    fn percentiles_are_times_that_were_taken() {
        assert_eq!(of(vec![]), [None; 4]);
        assert_eq!(of(vec![(7, 1)]), [Some(7); 4]);
        assert_eq!(of(vec![(9, 1), (1, 1)]), [1, 9, 9, 9].map(Some));
        let hundred = (1..=100).rev().map(|ms| (ms, 1)).collect();
        assert_eq!(of(hundred), [50, 95, 99, 100].map(Some));
        assert_eq!(
            of(vec![(5, 98), (80, 1), (900, 1)]),
            [5, 5, 80, 900].map(Some)
        );
    }
}
