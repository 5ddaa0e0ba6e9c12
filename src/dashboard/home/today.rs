//! Today's calls and how long the credit lasts.

use dikala_entities::{Millis, OfTenant, credit_account};
use maud::{Markup, html};
use sea_orm::DbErr;

use super::super::{
    charts::{Bar, Chart, ChartSeries, Ink},
    view::SignedIn,
};
use crate::{
    api::call_stats::{self, CallFigures, CallInterval},
    http::{error::ApiError, extract::Query},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Days before today over which the pace of use is measured.
const PACE_DAYS: i64 = 7;
/// Limit of the prediction, in days.
const DAYS_MAX: i64 = 365;

/// A tenant's minutes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreditSummary {
    pub balance: i64,
    /// The tenant is warned below this.
    pub threshold: i64,
    /// Number of running calls.
    pub calls: i64,
}

#[derive(Clone, Debug)]
pub struct Today {
    pub credit: CreditSummary,
    total: CallFigures,
    hours: Vec<CallInterval>,
    /// Number of days that the credit lasts at the current pace; `None` if nothing is used.
    days: Option<i64>,
}

impl Today {
    /// Reads the figures of the reader's current day.
    pub async fn read(visit: &SignedIn) -> Result<Self, ApiError> {
        let now = visit.services().clock.now();
        let (from, to) = visit.zone().day_around(now);
        let today = figures(visit, "hour", from, to).await?;
        let before = figures(
            visit,
            "day",
            from.plus_ms(-PACE_DAYS * DAY_MS),
            now.plus_ms(1),
        )
        .await?;
        let credit = credit(visit).await?;
        let first = before
            .intervals
            .iter()
            .find(|interval| interval.figures.minutes > 0);
        let pace = first.map(|first| (before.total.minutes, now.since(first.start)));
        Ok(Self {
            credit,
            total: today.total,
            hours: today.intervals,
            days: pace.and_then(|(minutes, ms)| days_left(credit.balance, minutes, ms)),
        })
    }

    /// The figures and the chart.
    pub fn show(&self, visit: &SignedIn) -> Markup {
        let answered = share(self.total.answered, self.total.calls);
        html! {
            dl.figures {
                (figure(&visit.t("home-calls"), &visit.number(self.total.calls), &self.running(visit)))
                (figure(&visit.t("home-answered"), &answered.map_or_else(|| "–".to_owned(), |share| format!("{share}%")), ""))
                (figure(&visit.t("home-used"), &visit.tn("home-minutes", &[("minutes", self.total.minutes.into())]), ""))
                (figure(&visit.t("home-balance"), &visit.tn("home-minutes", &[("minutes", self.credit.balance.into())]), &self.lasts(visit)))
            }
            (self.chart(visit).show(visit.lang()))
        }
    }

    fn running(&self, visit: &SignedIn) -> String {
        match self.credit.calls {
            0 => String::new(),
            calls => visit.tn("home-running", &[("calls", calls.into())]),
        }
    }

    fn lasts(&self, visit: &SignedIn) -> String {
        match self.days {
            _ if self.credit.balance <= 0 => String::new(),
            None => visit.t("home-lasts-unknown"),
            Some(0) => visit.t("home-lasts-hours"),
            Some(days) if days > DAYS_MAX => visit.t("home-lasts-year"),
            Some(days) => visit.tn("home-lasts", &[("days", days.into())]),
        }
    }

    fn chart(&self, visit: &SignedIn) -> Chart<'static> {
        let bar = |hour: &CallInterval| Bar {
            label: visit.zone().hour(hour.start),
            name: visit.zone().clock(visit.lang(), hour.start),
            values: vec![
                hour.figures.answered,
                hour.figures.calls - hour.figures.answered,
            ],
        };
        Chart {
            id: "hours",
            title: visit.t("home-per-hour"),
            slot: visit.t("home-hour"),
            series: vec![
                ChartSeries::new(visit.t("home-series-answered"), Ink::Good),
                ChartSeries::new(visit.t("home-series-missed"), Ink::Bad),
            ],
            bars: self.hours.iter().map(bar).collect(),
        }
    }
}

async fn figures(
    visit: &SignedIn,
    interval: &str,
    from: Millis,
    to: Millis,
) -> Result<call_stats::CallStats, ApiError> {
    let query = format!(
        "interval={interval}&timeZone={}&from={from}&to={to}",
        visit.zone().name()
    );
    call_stats::show(visit.operation(), Query::parse(&query)).await
}

async fn credit(visit: &SignedIn) -> Result<CreditSummary, DbErr> {
    let account = credit_account::Entity::of(visit.tenant())
        .one(visit.store().api_reader())
        .await?;
    Ok(
        account.map_or_else(CreditSummary::default, |account| CreditSummary {
            balance: account.available + account.held,
            threshold: account.low_threshold,
            calls: account.open_holds,
        }),
    )
}

fn figure(name: &str, value: &str, more: &str) -> Markup {
    html! {
        div {
            dt { (name) }
            dd { (value) @if !more.is_empty() { span.more { (more) } } }
        }
    }
}

/// A share in whole percent. It shows 0 or 100 only if that is exact.
fn share(part: i64, all: i64) -> Option<i64> {
    if all <= 0 {
        return None;
    }
    let percent = (part.saturating_mul(100) + all / 2) / all;
    Some(match part {
        0 => 0,
        part if part == all => 100,
        _ => percent.clamp(1, 99),
    })
}

/// Whole days that `balance` lasts if `minutes` are used every `in_ms` milliseconds.
fn days_left(balance: i64, minutes: i64, in_ms: i64) -> Option<i64> {
    if minutes <= 0 || in_ms <= 0 {
        return None;
    }
    let lasts_ms = i128::from(balance.max(0)) * i128::from(in_ms) / i128::from(minutes);
    i64::try_from(lasts_ms / i128::from(DAY_MS)).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0, None)]
    #[case(0, 7, Some(0))]
    #[case(7, 7, Some(100))]
    #[case(1, 1_000, Some(1))]
    #[case(999, 1_000, Some(99))]
    #[case(2, 3, Some(67))]
    fn shares(#[case] part: i64, #[case] all: i64, #[case] expected: Option<i64>) {
        assert_eq!(share(part, all), expected);
    }

    #[rstest]
    #[case(100, 0, DAY_MS, None)]
    #[case(100, 10, 0, None)]
    #[case(100, 10, DAY_MS, Some(10))]
    #[case(100, 70, 7 * DAY_MS, Some(10))]
    #[case(9, 10, DAY_MS, Some(0))]
    #[case(0, 10, DAY_MS, Some(0))]
    #[case(i64::MAX, 1, DAY_MS, Some(i64::MAX))]
    #[case(i64::MAX, 1, 7 * DAY_MS, None)]
    fn how_long_minutes_last(
        #[case] balance: i64,
        #[case] minutes: i64,
        #[case] in_ms: i64,
        #[case] expected: Option<i64>,
    ) {
        assert_eq!(days_left(balance, minutes, in_ms), expected);
    }
}
