//! Statistics of a webhook in the last day: attempts by outcome and hour, and latency. They are read from counters
//! that are written with the attempts.

use std::collections::BTreeMap;

use dikala_entities::{
    AttemptOutcome, Millis, WebhookId, webhook,
    webhook_stat::{self, HOUR_MS, hour_of},
};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter};
use serde::Serialize;
use utoipa::ToSchema;

use super::latency::LatencyMs;
use crate::{
    http::{error::ApiError, extract::Id},
    operations::OperationContext,
};

/// Hours shown, including the current one.
const HOURS: i64 = 24;

/// Attempts to deliver; tests do not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptFigures {
    pub attempts: i64,
    /// Those that were answered with a 2xx.
    pub succeeded: i64,
    /// All others.
    pub failed: i64,
    /// Those after which a delivery was given up; they are among `failed`.
    pub given_up: i64,
    /// Rounded up, by an eighth at most.
    pub latency_ms: LatencyMs,
}

/// The attempts of one hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AttemptHour {
    /// When it began.
    pub start: Millis,
    #[serde(flatten)]
    #[schema(inline)]
    pub figures: AttemptFigures,
}

/// Attempts to deliver to a webhook in the last 24 clock hours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(example = json!({
    "from": "2026-01-14T04:00:00.000Z", "to": "2026-01-15T03:30:00.000Z",
    "total": {"attempts": 412, "succeeded": 401, "failed": 11, "givenUp": 1,
              "latencyMs": {"p50": 87, "p95": 319, "p99": 1279, "max": 15359}},
    "hours": [{"start": "2026-01-14T04:00:00.000Z", "attempts": 412, "succeeded": 401, "failed": 11, "givenUp": 1,
               "latencyMs": {"p50": 87, "p95": 319, "p99": 1279, "max": 15359}}]
}))]
pub struct WebhookStats {
    /// When the first hour began.
    from: Millis,
    /// Now.
    to: Millis,
    pub total: AttemptFigures,
    /// The 24 hours one after the other, also those without an attempt.
    pub hours: Vec<AttemptHour>,
}

impl AttemptFigures {
    fn of(rows: &[&webhook_stat::Model]) -> Self {
        let with = |outcome| -> i64 {
            let such = rows.iter().filter(|row| row.outcome == outcome);
            such.map(|row| row.attempts).sum()
        };
        let given_up = with(AttemptOutcome::GivenUp);
        let succeeded = with(AttemptOutcome::Delivered);
        let failed = with(AttemptOutcome::Failed) + given_up;
        let sent = |row: &&&webhook_stat::Model| {
            row.up_to_ms > 0 || row.outcome == AttemptOutcome::Delivered
        };
        let times = rows.iter().filter(sent);
        Self {
            attempts: succeeded + failed,
            succeeded,
            failed,
            given_up,
            latency_ms: LatencyMs::of(times.map(|row| (row.up_to_ms, row.attempts))),
        }
    }
}

impl WebhookStats {
    fn new(from: Millis, to: Millis, rows: &[webhook_stat::Model]) -> Self {
        let mut by_hour: BTreeMap<Millis, Vec<&webhook_stat::Model>> = BTreeMap::new();
        for row in rows {
            by_hour.entry(row.hour).or_default().push(row);
        }
        let hour = |number: i64| {
            let start = from.plus_ms(number * HOUR_MS);
            let rows = by_hour.get(&start).map_or(&[][..], Vec::as_slice);
            AttemptHour {
                start,
                figures: AttemptFigures::of(rows),
            }
        };
        Self {
            from,
            to,
            total: AttemptFigures::of(&rows.iter().collect::<Vec<_>>()),
            hours: (0..HOURS).map(hour).collect(),
        }
    }
}

/// `GET /webhooks/{id}/stats`
pub async fn show(context: OperationContext, id: Id<WebhookId>) -> Result<WebhookStats, ApiError> {
    let webhook = context.find_webhook(id.0).await?;
    Ok(read(context.store().api_reader(), &webhook, context.now).await?)
}

/// Reads the statistics of the 24 clock hours that end now.
pub async fn read(
    db: &impl ConnectionTrait,
    webhook: &webhook::Model,
    now: Millis,
) -> Result<WebhookStats, DbErr> {
    let from = hour_of(now).plus_ms(-(HOURS - 1) * HOUR_MS);
    let rows = webhook_stat::Entity::find()
        .filter(webhook_stat::Column::WebhookId.eq(webhook.id))
        .filter(webhook_stat::Column::Hour.gte(from))
        .filter(webhook_stat::Column::Hour.lte(now))
        .all(db)
        .await?;
    Ok(WebhookStats::new(from, now, &rows))
}
