//! A tenant's minutes, and how long they last.

use dikala_entities::Millis;
use sea_orm::DbErr;

use super::{super::view::SignedIn, counted::figures};
use crate::{
    api::call_stats::CallInterval,
    http::error::ApiError,
    operations::{credits, tenants::activity::days_left},
};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Days over which the pace of use is measured.
const PACE_DAYS: i64 = 7;
/// Days in which the first use is looked for, and days since then before anything is predicted.
const KNOWN_DAYS: i64 = 30;
const USED_DAYS_MIN: i64 = 3;
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
    pub lasts: Forecast,
}

/// How long the balance lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forecast {
    /// Nothing was used lately.
    #[default]
    Unused,
    /// Minutes are used for less than three days.
    TooEarly,
    /// At the pace of the last week.
    Days(i64),
}

impl CreditSummary {
    pub async fn read(visit: &SignedIn) -> Result<Self, ApiError> {
        let account = Self::of_account(visit).await?;
        let now = visit.services().clock.now();
        let from = now.plus_ms(-KNOWN_DAYS * DAY_MS);
        let used = figures(visit, "day", from, now.plus_ms(1)).await?;
        Ok(Self {
            lasts: forecast(account.balance, &used.intervals, now),
            ..account
        })
    }

    async fn of_account(visit: &SignedIn) -> Result<Self, DbErr> {
        let now = visit.services().clock.now();
        let account = credits::account(visit.store().api_reader(), visit.tenant(), now).await?;
        Ok(Self {
            balance: account.available + account.held,
            threshold: account.low_threshold,
            calls: account.open_holds,
            lasts: Forecast::default(),
        })
    }

    /// How long the balance lasts, in words.
    pub fn lasts(&self, visit: &SignedIn) -> String {
        match self.lasts {
            _ if self.balance <= 0 => String::new(),
            Forecast::Unused => visit.t("home-lasts-unknown"),
            Forecast::TooEarly => visit.t("home-lasts-early"),
            Forecast::Days(0) => visit.t("home-lasts-hours"),
            Forecast::Days(days) if days > DAYS_MAX => visit.t("home-lasts-year"),
            Forecast::Days(days) => visit.tn("home-lasts", &[("days", days.into())]),
        }
    }

    /// Running calls in words; empty if there are none.
    pub fn running(&self, visit: &SignedIn) -> String {
        match self.calls {
            0 => String::new(),
            calls => visit.tn("home-running", &[("calls", calls.into())]),
        }
    }
}

fn forecast(balance: i64, used: &[CallInterval], now: Millis) -> Forecast {
    let days = used.iter();
    let with_use = |day: &&CallInterval| day.figures.minutes > 0;
    let Some(first) = days.clone().find(with_use) else {
        return Forecast::Unused;
    };
    if now.since(first.start) < USED_DAYS_MIN * DAY_MS {
        return Forecast::TooEarly;
    }
    let week = now.plus_ms(-PACE_DAYS * DAY_MS);
    let lately = days.filter(|day| day.start >= week.max(first.start));
    let since = lately.clone().map(|day| day.start).min().unwrap_or(now);
    let minutes: i64 = lately.map(|day| day.figures.minutes).sum();
    days_left(balance, minutes, now.since(since)).map_or(Forecast::Unused, Forecast::Days)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::call_stats::CallFigures;

    /// Days on which minutes were used, counted back from now, with the minutes.
    #[rstest]
    #[case::never(&[], Forecast::Unused)]
    #[case::two_days(&[(2, 10), (1, 10)], Forecast::TooEarly)]
    #[case::three_days(&[(3, 10), (2, 10), (1, 10)], Forecast::Days(10))]
    #[case::the_last_week_counts(&[(20, 900), (6, 60)], Forecast::Days(10))]
    #[case::whole_days_count(&[(7, 99), (6, 10), (5, 10), (4, 10), (3, 10), (2, 10), (1, 10)], Forecast::Days(10))]
    #[case::long_ago(&[(20, 900)], Forecast::Unused)]
    fn nothing_is_predicted_before_three_days(
        #[case] used: &[(i64, i64)],
        #[case] expected: Forecast,
    ) {
        // Days begin at midnight.
        let midnight = Millis::from_i64(1_000 * DAY_MS);
        let now = midnight.plus_ms(5 * 60 * 1_000);
        let day = |(ago, minutes): &(i64, i64)| {
            let mut figures = CallFigures::default();
            figures.minutes = *minutes;
            CallInterval {
                start: midnight.plus_ms(-ago * DAY_MS),
                figures,
            }
        };
        let days: Vec<CallInterval> = used.iter().map(day).collect();
        assert_eq!(forecast(100, &days, now), expected);
    }
}
