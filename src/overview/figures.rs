//! The figures of the overview: current value, limit, and history of the last ten minutes. Pure.

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::{
    ring::{SampleRing, SampleWindow},
    sample::OverviewSample,
};

pub use super::ring::{STEP_MS, STEPS};

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
    /// Its value at the end of each step, oldest first; null for a step without a measurement.
    #[schema(value_type = Vec<Option<f64>>)]
    pub history: Vec<Option<Thousandths>>,
}

/// Computes a figure from a sample and the window before it.
type Make = fn(&OverviewSample, Option<SampleWindow<'_>>) -> Option<i64>;

/// Definition of a figure.
struct Kind {
    name: &'static str,
    label: &'static str,
    unit: &'static str,
    limit: Option<i64>,
    /// Result in thousandths.
    make: Make,
}

#[rustfmt::skip]
const KINDS: &[Kind] = &[
    kind("calls_now", "Calls now", "calls", |sample, _| Some(thousand(sample.calls))),
    kind("calls_per_second", "Calls that ended", "per second", |_, window| Some(window?.per_second(|of| of.over))),
    kind("answered_share", "Answered", "percent", |_, window| {
        let window = window?;
        let (over, talked) = (window.grew(|of| of.over), window.grew(|of| of.talked));
        (over > 0).then(|| talked.saturating_mul(100_000) / over.max(1))
    }),
    kind("ack_p50", "Acknowledgements, p50", "ms", |_, window| percentile(window?, 50, |of| &of.acknowledged)),
    kind("ack_p99", "Acknowledgements, p99", "ms", |_, window| percentile(window?, 99, |of| &of.acknowledged)).below(ACK_MS_MAX),
    kind("deliveries_per_second", "Deliveries", "per second", |_, window| Some(window?.per_second(|of| of.delivered))),
    kind("oldest_due", "Oldest delivery due, open circuits left out", "s", |sample, _| Some(sample.due_ms)).below(DUE_MS_MAX / 1_000),
    kind("batch_items", "Ledger batch", "items", |_, window| {
        let window = window?;
        let (items, batches) = (window.grew(|of| of.items), window.grew(|of| of.batches));
        (batches > 0).then(|| items.saturating_mul(1_000) / batches.max(1))
    }).below(BATCH_MAX),
    kind("commit_p50", "Ledger commits, p50", "ms", |_, window| percentile(window?, 50, |of| &of.committed)),
    kind("commit_p99", "Ledger commits, p99", "ms", |_, window| percentile(window?, 99, |of| &of.committed)).below(COMMIT_MS_MAX),
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
    }
}

impl Kind {
    const fn below(mut self, limit: i64) -> Self {
        self.limit = Some(limit);
        self
    }
}

const fn thousand(count: i64) -> i64 {
    count.saturating_mul(1_000)
}

/// Microseconds, which are thousandths of the shown milliseconds.
fn percentile(
    window: SampleWindow<'_>,
    percent: u64,
    of: fn(&OverviewSample) -> &dikala_actors::runtime::histogram::Distribution,
) -> Option<i64> {
    let us = window.distributed(of).percentile(percent)?;
    i64::try_from(us).ok()
}

/// All figures.
pub fn of(ring: &SampleRing) -> Vec<Figure> {
    let steps = ring.steps();
    let now = ring.last().map(|last| {
        (
            last,
            steps
                .last()
                .and_then(|(_, window)| *window)
                .or_else(|| ring.window(last)),
        )
    });
    let each = KINDS.iter().map(|kind| Figure {
        name: kind.name,
        label: kind.label,
        unit: kind.unit,
        value: now.and_then(|(state, window)| (kind.make)(state, window).map(Thousandths)),
        limit: kind.limit.map(Thousandths::whole),
        history: steps
            .iter()
            .map(|(state, window)| (kind.make)((*state)?, *window).map(Thousandths))
            .collect(),
    });
    each.collect()
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
    use crate::overview::sample::tests::sample;

    fn figure(ring: &SampleRing, name: &str) -> Figure {
        let mut all = of(ring).into_iter();
        all.find(|figure| figure.name == name).expect("there")
    }

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
        let mut ring = SampleRing::default();
        ring.push(sample(0));
        let first = of(&ring);
        assert_eq!(first.len(), KINDS.len());
        assert!(first.iter().all(|figure| figure.history.len() == STEPS));
        assert_eq!(figure(&ring, "calls_now").value, Some(Thousandths(0)));
        assert_eq!(figure(&ring, "calls_per_second").value, None);
        ring.push(OverviewSample {
            calls: 12,
            over: 8,
            talked: 6,
            delivered: 1,
            due_ms: 1_500,
            batches: 2,
            items: 7,
            ..sample(4_000)
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
            assert_eq!(figure(&ring, name).value, value.map(Thousandths), "{name}");
        }
        // No more calls from here on.
        ring.push(OverviewSample {
            over: 8,
            talked: 6,
            ..sample(14_000)
        });
        assert_eq!(figure(&ring, "answered_share").value, None);
        let history = figure(&ring, "calls_now").history;
        assert_eq!(
            history[STEPS - 2..],
            [Some(Thousandths(12_000)), Some(Thousandths(0))]
        );
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
