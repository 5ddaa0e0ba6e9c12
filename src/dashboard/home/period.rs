//! The calls of today or of the last days: figures beside those of the time before, a chart, and the busiest hours.

use dikala_entities::Millis;
use maud::{Markup, html};

use super::{
    super::{
        charts::{Bar, Chart, ChartSeries, Ink},
        format::{self, share},
        view::SignedIn,
    },
    counted::figures,
    credit::CreditSummary,
    missed::MissedCalls,
};
use crate::{
    api::call_stats::{CallFigures, CallInterval, CallStats},
    http::error::ApiError,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Colours of the busiest hours.
const SHADES: i128 = 4;

/// The days that the page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    #[default]
    Today,
    Week,
    Month,
}

impl Period {
    const ALL: [Self; 3] = [Self::Today, Self::Week, Self::Month];

    /// The period of the parameter `days`; today if it is none.
    pub fn read(days: Option<&str>) -> Self {
        let is_it = |period: &Self| days == Some(period.days().to_string().as_str());
        Self::ALL.into_iter().find(is_it).unwrap_or_default()
    }

    pub const fn days(self) -> i64 {
        match self {
            Self::Today => 1,
            Self::Week => 7,
            Self::Month => 30,
        }
    }

    const fn name_id(self) -> &'static str {
        match self {
            Self::Today => "calls-period-today",
            Self::Week => "calls-period-7",
            Self::Month => "calls-period-30",
        }
    }

    /// Links to the periods.
    pub fn links(self, visit: &SignedIn) -> Markup {
        html! {
            nav.tabs aria-label=(visit.t("calls-period")) {
                @for period in Self::ALL {
                    @let is_it = period == self;
                    a href={ "/dashboard?days=" (period.days()) } aria-current=[is_it.then_some("true")] {
                        (visit.t(period.name_id()))
                    }
                }
            }
        }
    }
}

/// The figures of a period.
pub struct PeriodFigures {
    period: Period,
    from: Millis,
    stats: CallStats,
    /// The same weekday last week, or as many days before.
    before: CallFigures,
    missed: MissedCalls,
    /// The hours of four weeks; empty for today.
    hours: Vec<CallInterval>,
}

impl PeriodFigures {
    pub async fn read(visit: &SignedIn, period: Period) -> Result<Self, ApiError> {
        let now = visit.services().clock.now();
        let (today, end) = visit.zone().day_around(now);
        // Noon is on the same day in every zone that changes its clocks.
        let noon = today.plus_ms(DAY_MS / 2);
        let (from, _) = visit
            .zone()
            .day_around(noon.plus_ms(-(period.days() - 1) * DAY_MS));
        let (back, interval) = match period {
            Period::Today => (7, "hour"),
            Period::Week | Period::Month => (period.days(), "day"),
        };
        let stats = figures(visit, interval, from, end).await?;
        // Whole days: the same day last week, or as many days before.
        let noon_before = from.plus_ms(DAY_MS / 2 - back * DAY_MS);
        let (begun, ended) = visit.zone().day_around(noon_before);
        let ended = match period {
            Period::Today => ended,
            Period::Week | Period::Month => from,
        };
        let before = figures(visit, interval, begun, ended).await?;
        let hours = match period {
            Period::Today => Vec::new(),
            Period::Week | Period::Month => {
                let (four_weeks, _) = visit.zone().day_around(noon.plus_ms(-27 * DAY_MS));
                figures(visit, "hour", four_weeks, end).await?.intervals
            }
        };
        Ok(Self {
            period,
            from,
            before: before.total,
            missed: MissedCalls::read(visit, from, end).await?,
            hours,
            stats,
        })
    }

    pub fn show(&self, visit: &SignedIn, credit: &CreditSummary) -> Markup {
        let total = &self.stats.total;
        let answered = share(total.answered, total.calls);
        let answered_before = share(self.before.answered, self.before.calls);
        let percent =
            |share: Option<i64>| share.map_or("–".to_owned(), |share| format!("{share}%"));
        let minutes = |count: i64| visit.tn("home-minutes", &[("minutes", count.into())]);
        let calls_before = self.compared(visit, &visit.number(self.before.calls));
        html! {
            dl.figures {
                (figure(&visit.t("home-calls"), &visit.number(total.calls), &[credit.running(visit), calls_before]))
                (figure(&visit.t("home-answered"), &percent(answered), &[self.compared(visit, &percent(answered_before))]))
                (figure(&visit.t("home-used"), &minutes(total.minutes), &[self.compared(visit, &minutes(self.before.minutes))]))
                (figure(&visit.t("home-balance"), &minutes(credit.balance), &[credit.lasts(visit)]))
            }
            (self.chart(visit).show(visit.lang()))
            (self.missed.show(visit, total.calls - total.answered, self.from))
            (self.busiest(visit))
        }
    }

    /// A figure of the time before; empty if there were no calls.
    fn compared(&self, visit: &SignedIn, value: &str) -> String {
        if self.before.calls == 0 {
            return String::new();
        }
        let value = ("value", value.into());
        match self.period {
            Period::Today => visit.tn("home-before-today", &[value]),
            Period::Week | Period::Month => visit.tn(
                "home-before-days",
                &[value, ("days", self.period.days().into())],
            ),
        }
    }

    fn chart(&self, visit: &SignedIn) -> Chart<'static> {
        let is_today = self.period == Period::Today;
        let (zone, lang) = (visit.zone(), visit.lang());
        let bar = |part: &CallInterval| {
            let (label, name) = match is_today {
                true => (zone.hour(part.start), zone.clock(lang, part.start)),
                false => (
                    zone.day_of_month(part.start),
                    zone.weekday(lang, part.start, visit.now()),
                ),
            };
            let missed = part.figures.calls - part.figures.answered;
            Bar {
                label,
                name,
                values: vec![part.figures.answered, missed],
            }
        };
        let (title, slot) = match is_today {
            true => ("home-per-hour", "home-hour"),
            false => ("home-per-day", "home-day"),
        };
        Chart {
            id: "calls",
            title: visit.t(title),
            slot: visit.t(slot),
            series: vec![
                ChartSeries::new(visit.t("home-series-answered"), Ink::Good),
                ChartSeries::new(visit.t("home-series-missed"), Ink::Bad),
            ],
            bars: self.stats.intervals.iter().map(bar).collect(),
        }
    }

    /// The calls of the last four weeks by weekday and hour.
    fn busiest(&self, visit: &SignedIn) -> Markup {
        let zone = visit.zone();
        let mut counts = [[0_i64; 24]; 7];
        for hour in &self.hours {
            let (day, hour_of_day) = zone.weekday_and_hour(hour.start);
            counts[day][hour_of_day] += hour.figures.calls;
        }
        let highest = counts.iter().flatten().copied().max().unwrap_or_default();
        html! {
            @if highest > 0 {
                h3 { (visit.t("home-busiest")) }
                div.scroll role="region" tabindex="0" aria-label=(visit.t("home-busiest")) {
                    div.hours role="table" aria-label=(visit.t("home-busiest")) {
                        div role="row" {
                            span role="cell" {}
                            @for hour in 0..24 { span role="columnheader" { (hour) } }
                        }
                        @for (day, hours) in counts.iter().enumerate() {
                            div role="row" {
                                span role="rowheader" { (format::weekdays(visit.lang())[day]) }
                                @for count in hours {
                                    span.count role="cell" class=[shade(*count, highest)] { @if *count > 0 { (count) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The class of a cell by its share of the highest one; `None` without calls.
fn shade(count: i64, highest: i64) -> Option<String> {
    let (count, highest) = (i128::from(count), i128::from(highest));
    let shade = (count * SHADES + highest - 1) / highest.max(1);
    (count > 0).then(|| format!("h{}", shade.clamp(1, SHADES)))
}

fn figure(name: &str, value: &str, more: &[String]) -> Markup {
    html! {
        div {
            dt { (name) }
            dd {
                (value)
                @for more in more.iter().filter(|more| !more.is_empty()) { span.more { (more) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 8, None)]
    #[case(1, 8, Some("h1"))]
    #[case(2, 8, Some("h1"))]
    #[case(3, 8, Some("h2"))]
    #[case(8, 8, Some("h4"))]
    #[case(1, 1, Some("h4"))]
    #[case(i64::MAX, i64::MAX, Some("h4"))]
    fn shades(#[case] count: i64, #[case] highest: i64, #[case] expected: Option<&str>) {
        assert_eq!(shade(count, highest).as_deref(), expected);
    }

    #[rstest]
    #[case(None, Period::Today)]
    #[case(Some("7"), Period::Week)]
    #[case(Some("30"), Period::Month)]
    #[case(Some("8"), Period::Today)]
    #[case(Some("x"), Period::Today)]
    fn periods_are_read(#[case] days: Option<&str>, #[case] expected: Period) {
        assert_eq!(Period::read(days), expected);
    }
}
