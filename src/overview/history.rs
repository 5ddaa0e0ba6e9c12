//! The figures of the last ten minutes by the second, and of the last 24 hours by the minute. Pure.
//!
//! Each row holds the ten figures as integers of four bytes, so both buffers together take 98 KB at most.

use std::collections::VecDeque;

use dikala_entities::Millis;

use super::{
    counters::{CounterWindow, FigureCounters, WINDOW_MS},
    figures::{COUNT, Figure, KINDS, Kind, Thousandths},
};

/// Maximum number of rows by the second, and by the minute.
const SECONDS: usize = 600;
const MINUTES: usize = 24 * 60;
const MINUTE_MS: i64 = 60_000;
/// Maximum number of counters that are kept for the window.
const RECENT: usize = 16;

/// A period that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverviewPeriod {
    #[default]
    TenMinutes,
    Day,
}

impl OverviewPeriod {
    /// The names of the periods in addresses.
    pub const WORDS: [&'static str; 2] = ["10m", "24h"];

    /// The period with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "10m" => Some(Self::TenMinutes),
            "24h" => Some(Self::Day),
            _ => None,
        }
    }

    pub const fn ms(self) -> i64 {
        match self {
            Self::TenMinutes => 10 * MINUTE_MS,
            Self::Day => 24 * 60 * MINUTE_MS,
        }
    }
}

/// The figures at the end of a second or a minute.
#[derive(Clone, Copy, Debug)]
struct FigureRow {
    at: Millis,
    figures: [FigureCell; COUNT],
}

/// A figure in thousandths, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FigureCell(i32);

impl FigureCell {
    const NONE: Self = Self(i32::MIN);

    fn new(value: Option<i64>) -> Self {
        let clamped = |value: i64| i32::try_from(value.max(0)).unwrap_or(i32::MAX);
        value.map_or(Self::NONE, |value| Self(clamped(value)))
    }

    fn get(self) -> Option<i64> {
        (self != Self::NONE).then_some(i64::from(self.0))
    }
}

/// The history of all figures.
#[derive(Debug, Default)]
pub struct FigureHistory {
    /// The counters of the last seconds.
    recent: VecDeque<FigureCounters>,
    seconds: VecDeque<FigureRow>,
    minutes: VecDeque<FigureRow>,
    /// The counters at the beginning of the present minute.
    minute: Option<FigureCounters>,
}

impl FigureHistory {
    /// Adds the counters of a second, and drops the oldest if necessary.
    pub fn push(&mut self, counters: FigureCounters) {
        self.forget_after(counters.at);
        let window = self.window(&counters);
        let figures = KINDS.map(|kind| FigureCell::new((kind.make)(&counters, window)));
        let row = FigureRow {
            at: counters.at,
            figures,
        };
        kept(&mut self.seconds, row, SECONDS);
        let minute = |at: Millis| at.as_i64().div_euclid(MINUTE_MS);
        match self.minute.take() {
            Some(begin) if minute(begin.at) == minute(counters.at) => self.minute = Some(begin),
            begin => {
                if let Some(begin) = begin {
                    self.end_minute(&begin, &counters);
                }
                self.minute = Some(counters.clone());
            }
        }
        kept(&mut self.recent, counters, RECENT);
    }

    /// The window that ends with these counters.
    fn window<'a>(&'a self, after: &'a FigureCounters) -> Option<CounterWindow<'a>> {
        let begin = after.at.plus_ms(-WINDOW_MS);
        let before = self.recent.iter().find(|recent| recent.at >= begin);
        let before = before.filter(|before| before.at < after.at)?;
        Some(CounterWindow { before, after })
    }

    /// The values of all figures now, in their order.
    pub fn values(&self, now: &FigureCounters) -> [Option<Thousandths>; COUNT] {
        let window = self.window(now);
        KINDS.map(|kind| (kind.make)(now, window).map(Thousandths))
    }

    /// Forgets what lies ahead, if the clock went back.
    fn forget_after(&mut self, now: Millis) {
        self.recent.retain(|recent| recent.at < now);
        for rows in [&mut self.seconds, &mut self.minutes] {
            while rows.back().is_some_and(|row| row.at >= now) {
                rows.pop_back();
            }
        }
        self.minute = self.minute.take().filter(|begin| begin.at < now);
    }

    /// Adds the row of the minute that ends with these counters.
    fn end_minute(&mut self, begin: &FigureCounters, end: &FigureCounters) {
        // The process was paused, or the clock was set: nothing is known of the time between.
        if end.at.since(begin.at) > 2 * MINUTE_MS {
            return;
        }
        let window = CounterWindow {
            before: begin,
            after: end,
        };
        let seconds = self.seconds.iter().rev();
        let seconds: Vec<&FigureRow> = seconds.take_while(|row| row.at > begin.at).collect();
        let figures = std::array::from_fn(|n| match KINDS[n].is_gauge {
            true => worst(&KINDS[n], seconds.iter().map(|row| row.figures[n])),
            false => FigureCell::new((KINDS[n].make)(end, Some(window))),
        });
        let row = FigureRow {
            at: end.at,
            figures,
        };
        kept(&mut self.minutes, row, MINUTES);
    }

    /// All figures, with `steps` values of the period.
    pub fn figures(&self, period: OverviewPeriod, steps: usize) -> Vec<Figure> {
        let (rows, last) = (self.rows(period), self.seconds.back());
        let end = last.map_or(Millis::from_i64(0), |last| last.at);
        let step_ms = period.ms() / i64::try_from(steps.max(1)).unwrap_or(1);
        // The rows of each step, oldest first.
        let mut by_step: Vec<Vec<&FigureRow>> = vec![Vec::new(); steps];
        for row in rows {
            let back = usize::try_from(end.since(row.at) / step_ms.max(1)).unwrap_or(usize::MAX);
            if let Some(step) = steps.checked_sub(back.saturating_add(1)) {
                by_step[step].push(row);
            }
        }
        let each = KINDS.iter().enumerate().map(|(n, kind)| {
            let history = by_step.iter().map(|rows| {
                let cells = rows.iter().map(|row| row.figures[n]);
                worst(kind, cells).get().map(Thousandths)
            });
            let all = || {
                by_step
                    .iter()
                    .flatten()
                    .filter_map(|row| row.figures[n].get())
            };
            Figure {
                name: kind.name,
                label: kind.label,
                unit: kind.unit,
                value: last.and_then(|last| last.figures[n].get()).map(Thousandths),
                limit: kind.limit.map(Thousandths::whole),
                min: all().min().map(Thousandths),
                max: all().max().map(Thousandths),
                history: history.collect(),
            }
        });
        each.collect()
    }

    /// The time since when a figure exceeds its limit without a break; `None` if it does not, or has none.
    pub fn over_limit_since(&self, name: &str) -> Option<Millis> {
        let (n, kind) = KINDS
            .iter()
            .enumerate()
            .find(|(_, kind)| kind.name == name)?;
        let limit = kind.limit?.saturating_mul(1_000);
        let is_over = |row: &&FigureRow| row.figures[n].get().is_some_and(|it| it > limit);
        let seconds = self.seconds.iter().rev().take_while(is_over).last()?;
        let is_older = |row: &&FigureRow| row.at <= seconds.at;
        let minutes = self.minutes.iter().rev().filter(is_older);
        // Only if it was so for as long as there are seconds.
        let goes_on = self
            .seconds
            .front()
            .is_some_and(|first| first.at == seconds.at);
        let minute = minutes.take_while(is_over).last().filter(|_| goes_on);
        Some(minute.map_or(seconds.at, |minute| minute.at.plus_ms(-MINUTE_MS)))
    }

    fn rows(&self, period: OverviewPeriod) -> &VecDeque<FigureRow> {
        match period {
            OverviewPeriod::TenMinutes => &self.seconds,
            OverviewPeriod::Day => &self.minutes,
        }
    }
}

/// The value of several rows: the worst, because it is what operators look for.
fn worst(kind: &Kind, cells: impl Iterator<Item = FigureCell>) -> FigureCell {
    let values = cells.filter_map(FigureCell::get);
    FigureCell::new(match kind.is_better_high {
        true => values.min(),
        false => values.max(),
    })
}

fn kept<T>(rows: &mut VecDeque<T>, row: T, most: usize) {
    if rows.len() >= most {
        rows.pop_front();
    }
    rows.push_back(row);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::counters::tests::counters;

    fn figure(history: &FigureHistory, period: OverviewPeriod, steps: usize, name: &str) -> Figure {
        let mut all = history.figures(period, steps).into_iter();
        all.find(|figure| figure.name == name).expect("there")
    }

    /// A history in which one call ends each second, half of them answered.
    fn of_seconds(seconds: i64, calls: impl Fn(i64) -> i64) -> FigureHistory {
        let mut history = FigureHistory::default();
        for second in 0..seconds {
            history.push(FigureCounters {
                calls: calls(second),
                over: second.unsigned_abs(),
                talked: second.unsigned_abs() / 2,
                ..counters(second * 1_000)
            });
        }
        history
    }

    #[test]
    fn seconds_and_minutes_are_kept_and_no_more() {
        // A peak of one second, two hours and a minute ago.
        let peak = 26 * 3_600 - 7_260;
        let history = of_seconds(26 * 3_600, |second| if second == peak { 40 } else { 3 });
        assert_eq!(
            (history.seconds.len(), history.minutes.len()),
            (SECONDS, MINUTES)
        );
        assert!(history.recent.len() <= RECENT);
        let ten = figure(&history, OverviewPeriod::TenMinutes, 60, "calls_now");
        assert_eq!(ten.history, vec![Some(Thousandths(3_000)); 60]);
        let day = figure(&history, OverviewPeriod::Day, 144, "calls_now");
        assert_eq!(
            (day.min, day.max),
            (Some(Thousandths(3_000)), Some(Thousandths(40_000)))
        );
        let highest = day
            .history
            .iter()
            .position(|it| *it == Some(Thousandths(40_000)));
        assert_eq!((day.history.len(), highest), (144, Some(131)));
        assert!(day.history.iter().all(Option::is_some));
        let share = figure(&history, OverviewPeriod::Day, 144, "answered_share");
        assert_eq!(share.max, Some(Thousandths(50_000)));
        let rate = figure(&history, OverviewPeriod::TenMinutes, 60, "calls_per_second");
        assert_eq!(
            (rate.min, rate.max),
            (Some(Thousandths(1_000)), Some(Thousandths(1_000)))
        );
    }

    #[test]
    fn the_buffers_have_the_stated_size() {
        let row = std::mem::size_of::<FigureRow>();
        assert!(row * (SECONDS + MINUTES) <= 98 * 1_000, "{row}");
    }

    #[test]
    fn nothing_is_invented_for_a_time_without_readings() {
        let mut history = FigureHistory::default();
        assert_eq!(
            figure(&history, OverviewPeriod::Day, 144, "calls_now").value,
            None
        );
        history.push(counters(0));
        history.push(counters(1_000));
        // The process was paused for ten minutes.
        history.push(counters(601_000));
        let calls = figure(&history, OverviewPeriod::TenMinutes, 60, "calls_now").history;
        assert_eq!(calls.iter().flatten().count(), 1);
        assert_eq!(
            figure(&history, OverviewPeriod::TenMinutes, 60, "calls_per_second").value,
            None
        );
        assert!(history.minutes.is_empty());
        // The clock went back.
        history.push(counters(500));
        assert_eq!((history.seconds.len(), history.recent.len()), (2, 2));
    }

    #[test]
    fn a_problem_lasts_since_its_figure_exceeds_the_limit() {
        let late = |from: i64| {
            let mut history = FigureHistory::default();
            for second in 0..1_800 {
                history.push(FigureCounters {
                    due_ms: if second >= from { 500_000 } else { 0 },
                    ..counters(second * 1_000)
                });
            }
            let since = history.over_limit_since("oldest_due");
            since.map(|at| at.since(counters(0).at) / 1_000)
        };
        assert_eq!(late(2_000), None);
        assert_eq!(late(1_795), Some(1_795));
        assert_eq!(late(1_500), Some(1_500));
        // By the minute, if the seconds are not known any more.
        assert_eq!(late(600), Some(540));
    }
}
