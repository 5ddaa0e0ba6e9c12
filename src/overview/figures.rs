//! The figures of the overview: current value, limit, and history. Pure.

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::{
    counters::{CounterWindow, FigureCounters},
    ring::SampleRing,
};

/// Slower acknowledgements are a problem, in milliseconds: callers hear silence.
pub const ACK_MS_MAX: i64 = 1_000;
/// Slower commits are a problem, in milliseconds.
pub const COMMIT_MS_MAX: i64 = 500;
/// Later deliveries are a problem, in milliseconds.
pub const DUE_MS_MAX: i64 = 120_000;

/// A number in thousandths, serialized with decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thousandths(pub i64);

impl Thousandths {
    pub const fn whole(count: i64) -> Self {
        Self(count.saturating_mul(1_000))
    }
}

impl std::fmt::Display for Thousandths {
    /// Writes as few decimals as possible: `3`, `0.25`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, rest) = (self.0.unsigned_abs() / 1_000, self.0.unsigned_abs() % 1_000);
        let decimals = format!("{rest:03}");
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            decimals => write!(f, "{sign}{whole}.{decimals}"),
        }
    }
}

impl Serialize for Thousandths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1_000 == 0 {
            return serializer.serialize_i64(self.0 / 1_000);
        }
        let number: f64 = self
            .to_string()
            .parse()
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(number)
    }
}

/// A figure of the overview.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    pub name: &'static str,
    pub label: &'static str,
    /// The unit: `calls`, `items`, `per second`, `percent`, `ms` or `s`.
    pub unit: &'static str,
    /// Null if there was nothing to measure, or before the first measurement.
    #[schema(value_type = Option<f64>)]
    pub value: Option<Thousandths>,
    /// The value that it should stay below, or cannot exceed.
    #[schema(value_type = Option<f64>)]
    pub limit: Option<Thousandths>,
    /// The lowest and the highest value of the period; null if nothing was measured.
    #[schema(value_type = Option<f64>)]
    pub min: Option<Thousandths>,
    #[schema(value_type = Option<f64>)]
    pub max: Option<Thousandths>,
    /// The worst value of each step, oldest first: the highest, of the answered share the lowest. Null for a step without
    /// a measurement.
    #[schema(value_type = Vec<Option<f64>>)]
    pub history: Vec<Option<Thousandths>>,
}

/// Computes a figure from counters and the window that ends with them, in thousandths.
type Make = fn(&FigureCounters, Option<CounterWindow<'_>>) -> Option<i64>;

/// Definition of a figure.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    pub label: &'static str,
    pub unit: &'static str,
    pub limit: Option<i64>,
    pub make: Make,
    /// True for a value of one moment, false for one over a time.
    pub is_gauge: bool,
    /// True if low values are bad.
    pub is_better_high: bool,
}

/// Number of figures.
pub const COUNT: usize = 10;

#[rustfmt::skip]
pub const KINDS: [Kind; COUNT] = [
    kind("calls_now", "Calls now", "calls", |now, _| Some(thousand(now.calls))).gauge(),
    kind("calls_per_second", "Calls that ended", "per second", |_, window| Some(window?.per_second(|of| of.over))),
    kind("answered_share", "Answered", "percent", |_, window| {
        let window = window?;
        let (over, talked) = (window.grew(|of| of.over), window.grew(|of| of.talked));
        (over > 0).then(|| talked.saturating_mul(100_000) / over.max(1))
    }).better_high(),
    kind("ack_p50", "Acknowledgements, p50", "ms", |_, window| window?.percentile(50, |of| &of.acknowledged)),
    kind("ack_p99", "Acknowledgements, p99", "ms", |_, window| window?.percentile(99, |of| &of.acknowledged)).below(ACK_MS_MAX),
    kind("deliveries_per_second", "Deliveries", "per second", |_, window| Some(window?.per_second(|of| of.delivered))),
    kind("oldest_due", "Oldest delivery due, open circuits left out", "s", |now, _| Some(now.due_ms)).gauge().below(DUE_MS_MAX / 1_000),
    kind("batch_items", "Ledger batch", "items", |_, window| {
        let window = window?;
        let (items, batches) = (window.grew(|of| of.items), window.grew(|of| of.batches));
        (batches > 0).then(|| items.saturating_mul(1_000) / batches.max(1))
    }).below(BATCH_MAX),
    kind("commit_p50", "Ledger commits, p50", "ms", |_, window| window?.percentile(50, |of| &of.committed)),
    kind("commit_p99", "Ledger commits, p99", "ms", |_, window| window?.percentile(99, |of| &of.committed)).below(COMMIT_MS_MAX),
];

/// Maximum number of items in a batch of the ledger.
const BATCH_MAX: i64 = dikala_actors::commit::BATCH_MAX as i64;

const fn kind(name: &'static str, label: &'static str, unit: &'static str, make: Make) -> Kind {
    Kind {
        name,
        label,
        unit,
        limit: None,
        make,
        is_gauge: false,
        is_better_high: false,
    }
}

impl Kind {
    const fn below(mut self, limit: i64) -> Self {
        self.limit = Some(limit);
        self
    }

    const fn gauge(mut self) -> Self {
        self.is_gauge = true;
        self
    }

    const fn better_high(mut self) -> Self {
        self.is_better_high = true;
        self
    }
}

const fn thousand(count: i64) -> i64 {
    count.saturating_mul(1_000)
}

/// Rate of handled messages per actor type, in thousandths per second.
pub fn rates(ring: &SampleRing) -> Vec<(&'static str, Option<i64>)> {
    let Some(last) = ring.last() else {
        return Vec::new();
    };
    let window = ring.window(last);
    let actors = last.actors.iter();
    actors
        .map(|actor| {
            let rate = window.map(|window| window.rate_of_actor(actor.name));
            (actor.name, rate)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::counters::tests::counters;

    #[test]
    fn numbers_have_as_few_decimals_as_say_them() {
        for (thousandths, text) in [
            (0, "0"),
            (3_000, "3"),
            (250, "0.25"),
            (-1_005, "-1.005"),
            (i64::MAX, "9223372036854775.807"),
        ] {
            assert_eq!(Thousandths(thousandths).to_string(), text);
        }
        let json = serde_json::to_string(&[Thousandths(3_000), Thousandths(250)]);
        assert_eq!(json.expect("numbers"), "[3,0.25]");
    }

    #[test]
    fn what_happened_is_measured_and_what_did_not_is_not() {
        let first = FigureCounters {
            calls: 3,
            ..counters(0)
        };
        let made = |name: &str, now: &FigureCounters, window| {
            let kind = KINDS.iter().find(|kind| kind.name == name);
            (kind.expect("there").make)(now, window)
        };
        assert_eq!(made("calls_now", &first, None), Some(3_000));
        assert_eq!(made("calls_per_second", &first, None), None);
        let second = FigureCounters {
            calls: 12,
            over: 8,
            talked: 6,
            delivered: 1,
            due_ms: 1_500,
            batches: 2,
            items: 7,
            ..counters(4_000)
        };
        let window = Some(CounterWindow {
            before: &first,
            after: &second,
        });
        for (name, value) in [
            ("calls_now", Some(12_000)),
            ("calls_per_second", Some(2_000)),
            ("answered_share", Some(75_000)),
            ("ack_p99", None),
            ("deliveries_per_second", Some(250)),
            ("oldest_due", Some(1_500)),
            ("batch_items", Some(3_500)),
        ] {
            assert_eq!(made(name, &second, window), value, "{name}");
        }
        // No call ended.
        let third = FigureCounters {
            at: second.at.plus_ms(1_000),
            ..second.clone()
        };
        let window = Some(CounterWindow {
            before: &second,
            after: &third,
        });
        assert_eq!(made("answered_share", &third, window), None);
    }

    /// The limits here equal those of the Prometheus alerts.
    #[test]
    fn limits_are_those_of_the_alerts() {
        let alerts = include_str!("../../ops/prometheus/alerts.yml");
        for (begin, limit) in [
            (
                "histogram_quantile(0.99, sum by (job, instance, type, le)",
                "> 1\n",
            ),
            (
                "histogram_quantile(0.99, sum by (job, instance, writer, le)",
                "> 0.5\n",
            ),
            ("dikala_webhook_oldest_due_seconds", "> 120\n"),
        ] {
            let mut lines = alerts.split_inclusive('\n');
            let line = lines.find(|line| line.trim_start().starts_with(begin));
            assert!(line.is_some_and(|line| line.ends_with(limit)), "{begin}");
        }
        assert_eq!(
            [ACK_MS_MAX, COMMIT_MS_MAX, DUE_MS_MAX],
            [1_000, 500, 120_000]
        );
    }
}
