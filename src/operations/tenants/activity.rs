//! The present state of a tenant's calls, minutes, webhooks and functions, for operators. Every read is bounded, whatever the number of calls.

use dikala_entities::{
    CallStatus, HangupReason, Millis, TenantId, call,
    call_stat::{ALL, slot_of},
    credit_account, webhook,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    Statement,
};

use crate::operations::{
    OperationContext,
    functions::{FailingFunction, failing},
    webhooks::health::{WebhookView, in_trouble},
};

const HOUR_MS: i64 = 60 * 60 * 1_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Days before today with which today is compared, and over which the pace of use is measured.
const PACE_DAYS: i64 = 7;
/// Days of use before anything is predicted.
const USED_DAYS_MIN: i64 = 3;
/// Shown webhooks and functions that fail; the lists show all.
const EACH_MAX: u64 = 5;
/// Latest calls of each outcome whose reasons are read.
const REASONS_MAX: u64 = 300;
/// The statuses of calls that did not go well.
const STATUSES: [CallStatus; 2] = [CallStatus::Failed, CallStatus::Dropped];

/// Calls of some days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DayCounts {
    pub calls: i64,
    pub answered: i64,
    pub minutes: i64,
}

impl DayCounts {
    fn add(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            answered: self.answered + other.answered,
            minutes: self.minutes + other.minutes,
        }
    }
}

/// A reason with its number of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonCount {
    pub reason: HangupReason,
    pub last_hour: i64,
    pub last_day: i64,
}

/// How long the minutes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinutesForecast {
    /// Nothing was used in the last days.
    Unused,
    /// Minutes are used for less than three days.
    TooEarly,
    /// Whole days at the pace of the last week.
    Days(i64),
}

/// The present state of a tenant.
#[derive(Clone, Debug)]
pub struct TenantActivity {
    /// Running calls.
    pub running: i64,
    /// Minutes for new calls: without those that running calls hold.
    pub available: i64,
    /// Of the day in UTC.
    pub today: DayCounts,
    /// The seven days before today together.
    pub week: DayCounts,
    pub lasts: MinutesForecast,
    /// Calls that failed or were dropped in the last 24 hours, most frequent reason first.
    pub reasons: Vec<ReasonCount>,
    /// True if older calls of the day were not read.
    pub has_more_reasons: bool,
    /// Webhooks that fail, wait or are disabled, oldest first.
    pub webhooks: Vec<WebhookView>,
    pub functions: Vec<FailingFunction>,
}

/// Reads what a tenant does now.
pub async fn activity(
    context: &OperationContext,
    tenant: TenantId,
) -> Result<TenantActivity, DbErr> {
    let (db, now) = (context.store().api_reader(), context.now);
    let account = context.one_of::<credit_account::Entity>(tenant);
    let account = account.one(db).await?;
    let days = days(db, tenant, now).await?;
    let (reasons, has_more_reasons) = reasons(context, db, tenant).await?;
    let balance = account
        .as_ref()
        .map_or(0, |account| account.available + account.held);
    Ok(TenantActivity {
        available: account.as_ref().map_or(0, |account| account.available),
        running: account.map_or(0, |account| account.open_holds),
        today: days.last().copied().unwrap_or_default(),
        week: days[..days.len().saturating_sub(1)]
            .iter()
            .fold(DayCounts::default(), |sum, day| sum.add(*day)),
        lasts: forecast(balance, &days, now.since(midnight(now))),
        reasons,
        has_more_reasons,
        webhooks: webhooks(context, db, tenant).await?,
        functions: failing(db, tenant, now, EACH_MAX).await?,
    })
}

/// The beginning of the day in UTC.
const fn midnight(now: Millis) -> Millis {
    now.plus_ms(-now.as_i64().rem_euclid(DAY_MS))
}

#[derive(FromQueryResult)]
struct DayRow {
    day: i64,
    calls: i64,
    answered: i64,
    minutes: i64,
}

/// The counts of the last week's days and of today, oldest first. Reads a row for each quarter of an hour, by key.
async fn days(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    now: Millis,
) -> Result<Vec<DayCounts>, DbErr> {
    let from = midnight(now).plus_ms(-PACE_DAYS * DAY_MS);
    let sql = "SELECT (slot - $3) / $5 AS day, CAST(SUM(calls) AS BIGINT) AS calls, \
               CAST(SUM(answered) AS BIGINT) AS answered, CAST(SUM(minutes) AS BIGINT) AS minutes \
               FROM call_stats WHERE tenant_id = $1 AND subject = $2 AND slot >= $3 AND slot <= $4 GROUP BY 1";
    let values = [
        tenant.into(),
        ALL.into(),
        from.into(),
        slot_of(now).into(),
        DAY_MS.into(),
    ];
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    let rows = DayRow::find_by_statement(statement).all(db).await?;
    let day = |day: i64| {
        let row = rows.iter().find(|row| row.day == day);
        row.map_or_else(DayCounts::default, |row| DayCounts {
            calls: row.calls,
            answered: row.answered,
            minutes: row.minutes,
        })
    };
    Ok((0..=PACE_DAYS).map(day).collect())
}

/// How long a balance lasts, by the use of days, of which the last one is `today_ms` old.
fn forecast(balance: i64, days: &[DayCounts], today_ms: i64) -> MinutesForecast {
    let Some(first) = days.iter().position(|day| day.minutes > 0) else {
        return MinutesForecast::Unused;
    };
    let used = &days[first..];
    let whole = i64::try_from(used.len()).unwrap_or(i64::MAX) - 1;
    let in_ms = whole * DAY_MS + today_ms;
    if in_ms < USED_DAYS_MIN * DAY_MS {
        return MinutesForecast::TooEarly;
    }
    let minutes = used.iter().map(|day| day.minutes).sum();
    days_left(balance, minutes, in_ms).map_or(MinutesForecast::Unused, MinutesForecast::Days)
}

/// Whole days that `balance` lasts if `minutes` are used every `in_ms` milliseconds.
pub fn days_left(balance: i64, minutes: i64, in_ms: i64) -> Option<i64> {
    if minutes <= 0 || in_ms <= 0 {
        return None;
    }
    let lasts_ms = i128::from(balance.max(0)) * i128::from(in_ms) / i128::from(minutes);
    i64::try_from(lasts_ms / i128::from(DAY_MS)).ok()
}

/// Reasons of the latest calls that failed or were dropped within a day.
async fn reasons(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<(Vec<ReasonCount>, bool), DbErr> {
    let (mut found, mut has_more) = (Vec::new(), false);
    for status in STATUSES {
        let latest: Vec<(Millis, Option<HangupReason>)> = context
            .rows::<call::Entity>()
            .select_only()
            .columns([call::Column::StartedAt, call::Column::HangupReason])
            .filter(call::Column::TenantId.eq(tenant))
            .filter(call::ended_as(status))
            .filter(call::Column::StartedAt.gte(context.now.plus_ms(-DAY_MS)))
            .order_by_desc(call::Column::StartedAt)
            .order_by_desc(call::Column::Id)
            .limit(REASONS_MAX)
            .into_tuple()
            .all(db)
            .await?;
        has_more |= latest.len() as u64 == REASONS_MAX;
        found.extend(latest);
    }
    Ok((counted(&found, context.now.plus_ms(-HOUR_MS)), has_more))
}

/// The number of calls of each reason, and of those since `hour`.
fn counted(calls: &[(Millis, Option<HangupReason>)], hour: Millis) -> Vec<ReasonCount> {
    let mut counts: Vec<ReasonCount> = Vec::new();
    for (at, reason) in calls {
        let Some(reason) = *reason else { continue };
        let in_hour = i64::from(*at >= hour);
        match counts.iter_mut().find(|count| count.reason == reason) {
            Some(count) => {
                count.last_hour += in_hour;
                count.last_day += 1;
            }
            None => counts.push(ReasonCount {
                reason,
                last_hour: in_hour,
                last_day: 1,
            }),
        }
    }
    counts.sort_by_key(|count| (-count.last_hour, -count.last_day));
    counts
}

/// Webhooks whose deliveries do not arrive.
async fn webhooks(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<Vec<WebhookView>, DbErr> {
    let troubled = in_trouble().add(webhook::Column::PausedAt.is_not_null());
    let rows = context
        .rows::<webhook::Entity>()
        .filter(webhook::Column::TenantId.eq(tenant))
        .filter(troubled)
        .order_by_asc(webhook::Column::Id)
        .limit(EACH_MAX)
        .all(db)
        .await?;
    Ok(rows.into_iter().map(WebhookView::from).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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

    #[rstest]
    #[case::never([0, 0, 0, 0, 0, 0, 0, 0], MinutesForecast::Unused)]
    #[case::two_days([0, 0, 0, 0, 0, 0, 10, 10], MinutesForecast::TooEarly)]
    #[case::three_days([0, 0, 0, 0, 10, 10, 10, 0], MinutesForecast::Days(10))]
    #[case::whole_week([10, 10, 10, 10, 10, 10, 10, 0], MinutesForecast::Days(10))]
    fn nothing_is_predicted_before_three_days(
        #[case] used: [i64; 8],
        #[case] expected: MinutesForecast,
    ) {
        let day = |minutes| DayCounts {
            minutes,
            ..DayCounts::default()
        };
        assert_eq!(forecast(100, &used.map(day), 0), expected);
    }

    #[test]
    fn reasons_are_counted_by_hour_and_day() {
        use HangupReason::{AiError, InsufficientCredits};
        let at = Millis::from_i64;
        let calls = [
            (at(10), Some(AiError)),
            (at(20), Some(InsufficientCredits)),
            (at(5), Some(AiError)),
            (at(6), None),
        ];
        let counts = counted(&calls, at(20));
        let of = |reason, last_hour, last_day| ReasonCount {
            reason,
            last_hour,
            last_day,
        };
        assert_eq!(counts, [of(InsufficientCredits, 1, 1), of(AiError, 0, 2)]);
    }
}
