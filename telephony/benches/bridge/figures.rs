//! Measured times, and the table.

use std::time::Duration;

/// Microseconds.
#[derive(Debug, Clone, Default)]
pub struct MeasuredTimes(Vec<u64>);

impl MeasuredTimes {
    pub fn add(&mut self, time: Duration) {
        self.add_us(u64::try_from(time.as_micros()).unwrap());
    }

    pub fn add_us(&mut self, time: u64) {
        self.0.push(time);
    }

    /// A percentile.
    pub fn at(&self, percent: usize) -> u64 {
        let mut all = self.0.clone();
        all.sort_unstable();
        let rank = (all.len() * percent).div_ceil(100).max(1);
        *all.get(rank - 1).expect("something was measured")
    }

    pub fn words(&self) -> String {
        let ms = |percent| {
            let tenths = self.at(percent).div_ceil(100);
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        format!("{} / {} / {}", ms(50), ms(99), ms(100))
    }
}

/// A figure with its goal, if it has one, and whether it is reached.
#[derive(Debug, Clone)]
pub struct FigureRow {
    pub what: String,
    pub measured: String,
    pub unit: &'static str,
    pub goal: Option<(&'static str, bool)>,
}

pub fn hundredths(value: u64) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

pub fn print(rows: &[FigureRow]) {
    for row in rows {
        let (goal, reached) = match row.goal {
            Some((goal, true)) => (goal, "✓"),
            Some((goal, false)) => (goal, "✗"),
            None => ("–", "–"),
        };
        let FigureRow {
            what,
            measured,
            unit,
            ..
        } = row;
        println!("{what:<70} {measured:>22} {unit:<15} {goal:>8} {reached}");
    }
}
