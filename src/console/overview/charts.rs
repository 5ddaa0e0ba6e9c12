//! The figures of the overview: four large and six small ones, each with its line over a period.

use dikala_entities::Millis;
use maud::{Markup, html};

use super::super::{figures::time_us, view::ConsoleView};
use crate::{
    overview::{
        ChangeKind, RecentChange,
        figures::{Figure, Thousandths},
        history::OverviewPeriod,
    },
    pages::{components::table, format::utc, lines::line},
};

/// The figures that come first, large.
const LARGE: [&str; 4] = ["calls_now", "answered_share", "ack_p99", "oldest_due"];
/// Listed changes.
const CHANGES_SHOWN: usize = 5;
/// Placeholder for a missing value.
const NONE: &str = "–";

/// How a period is shown.
#[derive(Clone, Copy, Debug)]
pub struct ShownPeriod {
    pub period: OverviewPeriod,
    /// Values of a line.
    pub steps: usize,
    /// Steps per row of the table.
    steps_a_row: usize,
    title: &'static str,
    /// The name of the line's beginning.
    begin: &'static str,
}

impl ShownPeriod {
    pub const fn of(period: OverviewPeriod) -> Self {
        match period {
            OverviewPeriod::TenMinutes => Self {
                period,
                steps: 60,
                steps_a_row: 6,
                title: "console-ten-minutes",
                begin: "console-ten-minutes-ago",
            },
            OverviewPeriod::Day => Self {
                period,
                steps: 144,
                steps_a_row: 12,
                title: "console-day",
                begin: "console-day-ago",
            },
        }
    }

    fn step_ms(self) -> i64 {
        self.period.ms() / i64::try_from(self.steps).unwrap_or(1)
    }

    /// The time between the end of a step and now, in milliseconds.
    fn back_ms(self, step: usize) -> i64 {
        let back = i64::try_from((self.steps - 1).saturating_sub(step)).unwrap_or(0);
        back.saturating_mul(self.step_ms())
    }

    /// The step that contains a time, if it is in the period.
    fn step_of(self, at: Millis, now: Millis) -> Option<usize> {
        let back = usize::try_from(now.since(at) / self.step_ms()).ok()?;
        (now.since(at) >= 0).then(|| self.steps.checked_sub(back + 1))?
    }
}

pub fn charts(
    visit: &ConsoleView,
    shown: ShownPeriod,
    figures: &[Figure],
    changes: &[RecentChange],
    now: Millis,
) -> Markup {
    let marks = changes.iter().filter_map(|it| shown.step_of(it.at, now));
    let marks: Vec<usize> = marks.collect();
    let (large, small): (Vec<&Figure>, Vec<&Figure>) = figures
        .iter()
        .partition(|figure| LARGE.contains(&figure.name));
    html! {
        section aria-labelledby="figures" {
            h2 #figures { (visit.t("console-figures")) }
            p.way.periods {
                (period(visit, shown, OverviewPeriod::TenMinutes, "/"))
                (period(visit, shown, OverviewPeriod::Day, "/?period=24h"))
            }
            div.lines.large { @for figure in large { (chart(visit, shown, figure, &marks)) } }
            div.lines { @for figure in small { (chart(visit, shown, figure, &marks)) } }
            (changed(visit, changes, now))
            details #table {
                summary { (visit.t("console-as-table")) }
                (history(visit, shown, figures, now))
            }
        }
    }
}

fn period(visit: &ConsoleView, shown: ShownPeriod, period: OverviewPeriod, path: &str) -> Markup {
    let name = visit.t(ShownPeriod::of(period).title);
    html! { a href=(path) aria-current=[(period == shown.period).then_some("true")] { (name) } }
}

fn chart(visit: &ConsoleView, shown: ShownPeriod, figure: &Figure, marks: &[usize]) -> Markup {
    let is_over = figure
        .value
        .zip(figure.limit)
        .is_some_and(|(value, limit)| value > limit);
    let history: Vec<Option<i64>> = figure.history.iter().map(|it| it.map(|it| it.0)).collect();
    let limit = figure.limit.map(|limit| limit.0);
    let (value, unit) = words(visit, figure, figure.value);
    let whole = |value| {
        let (value, unit) = words(visit, figure, value);
        format!("{value}{unit}")
    };
    html! {
        div {
            h3 { (visit.t(&format!("console-figure-{}", figure.name))) }
            p.value.bad[is_over] { (value) @if !unit.is_empty() { span.more { (unit) } } }
            p.more {
                @if figure.max.is_some() {
                    (visit.tn("console-min-max", &[("min", whole(figure.min).into()), ("max", whole(figure.max).into())]))
                }
                @if figure.limit.is_some() {
                    @if figure.max.is_some() { " · " }
                    (visit.tn("console-limit", &[("limit", whole(figure.limit).into())]))
                }
            }
            (line(&history, limit, marks))
            p.axis { span { (visit.t(shown.begin)) } span { (visit.t("console-now")) } }
        }
    }
}

/// A value in words: the number and what follows it.
fn words(visit: &ConsoleView, figure: &Figure, value: Option<Thousandths>) -> (String, String) {
    let Some(Thousandths(value)) = value else {
        return (NONE.to_owned(), String::new());
    };
    let rounded = |value: i64| visit.number(value.saturating_add(500) / 1_000);
    match figure.unit {
        "per second" => {
            let a_minute = rounded(value.saturating_mul(60));
            (a_minute, format!(" {}", visit.t("console-a-minute")))
        }
        "percent" => (rounded(value), " %".to_owned()),
        // Thousandths of a millisecond, and of a second.
        "ms" => (time_us(value.unsigned_abs()), String::new()),
        "s" => (visit.lang().duration(value), String::new()),
        "items" => {
            let tenths = value.saturating_add(50) / 100;
            (
                Thousandths(tenths.saturating_mul(100)).to_string(),
                String::new(),
            )
        }
        _ => (rounded(value), String::new()),
    }
}

/// The latest changes, which are marks in the charts.
fn changed(visit: &ConsoleView, changes: &[RecentChange], now: Millis) -> Markup {
    html! {
        @if !changes.is_empty() {
            h3 { (visit.t("console-changes")) }
            ul.changes {
                @for change in changes.iter().take(CHANGES_SHOWN) {
                    li {
                        time.muted datetime=(change.at) title=(utc(change.at)) { (ago(visit, now.since(change.at))) } " "
                        (change_in_words(visit, &change.kind))
                    }
                }
            }
            p.way { a href="/audit" { (visit.t("console-audit")) } }
        }
    }
}

fn ago(visit: &ConsoleView, ms: i64) -> String {
    let time = visit.lang().duration(ms);
    visit.tn("console-ago", &[("time", time.into())])
}

fn change_in_words(visit: &ConsoleView, kind: &ChangeKind) -> Markup {
    match kind {
        ChangeKind::Started { node, version } => {
            let node = ("node", html! { (node) });
            visit.rich(
                "console-change-started",
                &[node, ("version", html! { (version) })],
            )
        }
        ChangeKind::Changed {
            actor,
            action,
            target,
        } => html! { (actor) ": " code.word { (action.as_str()) } " " code.long { (target) } },
    }
}

/// The figures as a table, a row for several steps.
fn history(visit: &ConsoleView, shown: ShownPeriod, figures: &[Figure], now: Millis) -> Markup {
    let label = |figure: &Figure| visit.t(&format!("console-figure-{}", figure.name));
    let columns: Vec<String> = std::iter::once(visit.t("console-until-when"))
        .chain(figures.iter().map(label))
        .collect();
    let ends = (0..shown.steps).skip(shown.steps_a_row - 1);
    let rows = ends.step_by(shown.steps_a_row).map(|step| {
        let cells = figures.iter().map(|figure| {
            let value = figure.history.get(step).copied().flatten();
            let (value, unit) = words(visit, figure, value);
            html! { (value) (unit) }
        });
        let end = clock(visit, now.plus_ms(-shown.back_ms(step)));
        std::iter::once(end).chain(cells).collect()
    });
    table(visit, &visit.t(shown.title), &columns, rows.collect())
}

fn clock(visit: &ConsoleView, at: Millis) -> Markup {
    let text = visit.zone().clock_with_seconds(visit.lang(), at);
    html! { time datetime=(at) title=(utc(at)) { (text) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_their_steps() {
        let shown = ShownPeriod::of(OverviewPeriod::TenMinutes);
        let now = Millis::from_i64(1_800_000_000_000);
        for (ms, step) in [
            (0, Some(59)),
            (9_999, Some(59)),
            (10_000, Some(58)),
            (599_999, Some(0)),
            (600_000, None),
            (-1, None),
        ] {
            assert_eq!(shown.step_of(now.plus_ms(-ms), now), step, "{ms}");
        }
        assert_eq!((shown.back_ms(59), shown.back_ms(0)), (0, 590_000));
    }
}
