//! A measured figure beside its limit, and its presentation.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

/// The longest time that the histogram records, in microseconds: two minutes.
const LONGEST_US: u64 = 120_000_000;
/// Significant digits of recorded times.
const DIGITS: u8 = 3;

/// The bound that a figure has to meet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// At least this fraction of the limit.
    ShareOfLimit(f64),
    /// At most this multiple of the limit.
    TimesLimit(f64),
    /// At most this much above the limit.
    AboveLimit(f64),
    Least(f64),
    Most(f64),
}

impl Goal {
    fn reached(self, value: f64, limit: Option<f64>) -> Option<bool> {
        Some(match self {
            Self::ShareOfLimit(factor) => value >= factor * limit?,
            Self::TimesLimit(factor) => value <= factor * limit?,
            Self::AboveLimit(room) => value - limit? <= room,
            Self::Least(least) => value >= least,
            Self::Most(most) => value <= most,
        })
    }

    fn words(self) -> String {
        match self {
            Self::ShareOfLimit(factor) => format!("≥ {factor} × limit"),
            Self::TimesLimit(factor) => format!("≤ {factor} × limit"),
            Self::AboveLimit(room) => format!("≤ limit + {room}"),
            Self::Least(least) => format!("≥ {least}"),
            Self::Most(most) => format!("≤ {most}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.words())
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BenchFigure {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    pub limit: Option<f64>,
    pub ratio: Option<f64>,
    pub goal: Option<Goal>,
    pub reached: Option<bool>,
    /// Latency percentiles of the acknowledgements or requests behind the figure, in milliseconds.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
}

impl BenchFigure {
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value: rounded(value),
            unit,
            limit: None,
            ratio: None,
            goal: None,
            reached: None,
            p50_ms: None,
            p99_ms: None,
        }
    }

    /// Sets the limit: what the machine reaches without the service.
    pub fn beside(mut self, limit: f64) -> Self {
        self.limit = Some(rounded(limit));
        self.ratio = (limit > 0.0).then(|| rounded(self.value / limit));
        self
    }

    /// Sets the goal; call it after [`Self::beside`].
    pub fn reaching(mut self, goal: Goal) -> Self {
        self.reached = goal.reached(self.value, self.limit);
        self.goal = Some(goal);
        self
    }

    /// Adds percentiles of these times.
    pub fn with(mut self, times: &Durations) -> Self {
        self.p50_ms = Some(times.at_ms(50.0));
        self.p99_ms = Some(times.at_ms(99.0));
        self
    }

    /// The figure as a table row.
    pub fn row(&self) -> [String; 8] {
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), readable);
        [
            self.name.clone(),
            readable(self.value),
            self.unit.to_owned(),
            shown(self.limit),
            shown(self.ratio),
            self.goal.map_or("–".to_owned(), Goal::words),
            match self.reached {
                Some(true) => "✓".to_owned(),
                Some(false) => "✗".to_owned(),
                None => "–".to_owned(),
            },
            match (self.p50_ms, self.p99_ms) {
                (Some(p50), Some(p99)) => format!("{} / {} ms", readable(p50), readable(p99)),
                _ => "–".to_owned(),
            },
        ]
    }
}

/// The table's header.
pub const HEAD: [&str; 8] = [
    "scenario",
    "value",
    "unit",
    "limit",
    "ratio",
    "to reach",
    "",
    "p50 / p99",
];

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct Durations(Histogram<u64>);

impl Default for Durations {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST_US, DIGITS).expect("the bounds are constants"))
    }
}

impl Durations {
    pub fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(us);
    }

    pub fn add(&mut self, others: &Self) {
        self.0.add(&others.0).expect("all have the same bounds");
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The percentile in milliseconds.
    pub fn at_ms(&self, percent: f64) -> f64 {
        rounded(self.0.value_at_percentile(percent) as f64 / 1_000.0)
    }
}

/// The rate per second.
pub fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Rounds to three decimals; further digits are noise.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Formats with about four digits.
fn readable(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_at_its_very_bound() {
        for (goal, value, limit, reached) in [
            (Goal::ShareOfLimit(0.5), 50.0, Some(100.0), Some(true)),
            (Goal::ShareOfLimit(0.5), 49.0, Some(100.0), Some(false)),
            (Goal::ShareOfLimit(0.5), 49.0, None, None),
            (Goal::TimesLimit(2.0), 4.0, Some(2.0), Some(true)),
            (Goal::TimesLimit(2.0), 4.1, Some(2.0), Some(false)),
            (Goal::AboveLimit(1.5), 2.0, Some(0.5), Some(true)),
            (Goal::AboveLimit(1.5), 2.1, Some(0.5), Some(false)),
            (Goal::Least(8_000.0), 8_000.0, None, Some(true)),
            (Goal::Most(8_192.0), 8_193.0, None, Some(false)),
        ] {
            assert_eq!(goal.reached(value, limit), reached, "{goal:?} {value}");
        }
    }

    #[test]
    fn a_figure_says_its_ratio_and_whether_it_is_enough() {
        let figure = BenchFigure::new("calls", 600.0, "calls/s")
            .beside(1_000.0)
            .reaching(Goal::ShareOfLimit(0.5));
        assert_eq!(figure.ratio, Some(0.6));
        assert_eq!(figure.reached, Some(true));
        let document = serde_json::to_value(&figure).expect("JSON");
        assert_eq!(document["goal"], "≥ 0.5 × limit");
        assert_eq!(document["p50Ms"], serde_json::Value::Null);
    }

    #[test]
    fn percentiles_are_those_of_all_that_was_recorded() {
        let (mut some, mut others) = (Durations::default(), Durations::default());
        for ms in 1..=50 {
            some.record(Duration::from_millis(ms));
            others.record(Duration::from_millis(ms + 50));
        }
        some.add(&others);
        assert_eq!(some.count(), 100);
        assert!((49.9..50.1).contains(&some.at_ms(50.0)), "{some:?}");
        assert!((98.9..99.1).contains(&some.at_ms(99.0)), "{some:?}");
        some.record(Duration::from_secs(3_600));
        assert!(
            some.at_ms(100.0) <= 121_000.0,
            "what is longer is the longest"
        );
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < f64::EPSILON);
        assert!(median(Vec::new()).abs() < f64::EPSILON);
    }
}
