//! Call statistics by hour or day: counts, outcomes and talk time. They are read from counters that are written when
//! calls end, so the cost does not grow with the number of calls.

use dikala_entities::{
    AgentId, Interval, Millis, PhoneNumberId, TenantId, TurnLatencyMs,
    call_stat::{ALL, SLOT_MS, TURN_CLASSES},
};
use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, QueryResult, Statement};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::zone::{DayZone, divisor};
use crate::{
    http::{
        error::ApiError,
        extract::{FormReader, Query, id, word},
        field::{FieldCode, ValueFault},
    },
    operations::OperationContext,
};

const HOUR_MS: i64 = 60 * 60 * 1_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The longest time range of a request, in days.
const fn days_max(interval: Interval) -> i64 {
    match interval {
        Interval::Hour => 31,
        Interval::Day => 92,
    }
}

/// The default time range, in milliseconds: 24 hours or 30 days, including the current one.
const fn usual_ms(interval: Interval) -> i64 {
    match interval {
        Interval::Hour => 23 * HOUR_MS,
        Interval::Day => 29 * DAY_MS,
    }
}

/// A parsed request.
struct StatsQuery {
    interval: Interval,
    zone: DayZone,
    agent: Option<AgentId>,
    number: Option<PhoneNumberId>,
    /// The start of each interval, and last the end of the last one.
    begins: Vec<Millis>,
}

impl StatsQuery {
    fn read(form: &mut FormReader<'_>, now: Millis) -> Option<Self> {
        let interval = form.defaulted("interval", None, Interval::Day, word("an interval"));
        let zone = form.defaulted("timeZone", None, DayZone::utc(), DayZone::parse);
        let agent = form.optional("agentId", None, id("an agent"));
        let number = form.optional("phoneNumberId", None, id("a phone number"));
        let to = form.defaulted("to", None, now.plus_ms(1), |value| zone.instant(value));
        let usual = to.plus_ms(-usual_ms(interval));
        let from = form.defaulted("from", None, usual, |value| zone.instant(value));
        if agent.is_some() && number.is_some() {
            let predicate =
                "must be left out where agentId is given: calls are counted by one of the two";
            form.fault(
                "phoneNumberId",
                ValueFault::new(FieldCode::NotAllowed, predicate),
            );
        }
        let days = days_max(interval);
        if to <= from {
            form.fault(
                "to",
                ValueFault::new(FieldCode::TooSmall, "must be after from"),
            );
            return None;
        }
        if to.since(from) > days * DAY_MS {
            let predicate = format!("must be at most {days} days after from, by the {interval}");
            form.fault("to", ValueFault::new(FieldCode::TooLarge, predicate));
            return None;
        }
        Some(Self {
            begins: zone.begins(interval, from, to),
            interval,
            zone,
            agent,
            number,
        })
    }

    fn subject(&self) -> String {
        let agent = self.agent.map(|agent| agent.to_string());
        let number = self.number.map(|number| number.to_string());
        agent.or(number).unwrap_or_else(|| ALL.to_owned())
    }
}

/// Figures of calls that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallFigures {
    /// Calls that are over: the sum of the three outcomes.
    pub calls: i64,
    /// Those that an agent answered.
    pub answered: i64,
    /// Outcomes, as the calls' `status`.
    ended: i64,
    dropped: i64,
    failed: i64,
    /// Minutes that were used of the credit.
    pub minutes: i64,
    talk_time_seconds: i64,
    duration_seconds: i64,
    /// Times from the end of the caller's voice to the agent's first sound, each rounded up to the next of 300, 500, 700, 1000,
    /// 1500, 2000, 3000, 5000, 10000, 20000, 60000 and 600000. Null without turns of known latency.
    #[serde(rename = "turnLatencyMs")]
    #[schema(value_type = Option<TurnLatencyMs>, rename = "turnLatencyMs")]
    turns: TurnCounts,
    /// Pauses in which the caller waited for the agent and something was done about it.
    stalls: i64,
    /// Turns of agents that the caller cut off.
    interruptions: i64,
}

/// Turns of agents by [`TURN_CLASSES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TurnCounts([i64; TURN_CLASSES.len()]);

impl TurnCounts {
    /// Percentiles by nearest rank, of the classes' longest latencies.
    fn latency(&self) -> Option<TurnLatencyMs> {
        let all: i64 = self.0.iter().sum();
        let percentile = |percent: i64| {
            let rank = (all * percent + 99) / 100;
            let mut seen = 0;
            let mut classes = TURN_CLASSES.iter().zip(self.0);
            classes.find_map(|((longest, _), count)| {
                seen += count;
                (seen >= rank).then_some(*longest)
            })
        };
        let latency = TurnLatencyMs {
            p50: percentile(50)?,
            p95: percentile(95)?,
        };
        (all > 0).then_some(latency)
    }
}

impl Serialize for TurnCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.latency().serialize(serializer)
    }
}

impl CallFigures {
    fn add(&mut self, more: Self) {
        self.calls += more.calls;
        self.answered += more.answered;
        self.ended += more.ended;
        self.dropped += more.dropped;
        self.failed += more.failed;
        self.minutes += more.minutes;
        self.talk_time_seconds += more.talk_time_seconds;
        self.duration_seconds += more.duration_seconds;
        self.stalls += more.stalls;
        self.interruptions += more.interruptions;
        for (count, more) in self.turns.0.iter_mut().zip(more.turns.0) {
            *count += more;
        }
    }
}

/// The figures of one hour or day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CallInterval {
    /// When it began; it ends where the next one begins.
    pub start: Millis,
    #[serde(flatten)]
    #[schema(inline)]
    pub figures: CallFigures,
}

/// Calls that are over, by the hour or day in which they began. What is erased or removed later still counts.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "from": "2026-01-13T17:00:00.000Z", "to": "2026-01-15T17:00:00.000Z", "interval": "day", "timeZone": "Asia/Jakarta",
    "agentId": null, "phoneNumberId": null,
    "total": {"calls": 58, "answered": 55, "ended": 52, "dropped": 4, "failed": 2, "minutes": 148,
              "talkTimeSeconds": 7020, "durationSeconds": 7410, "turnLatencyMs": {"p50": 700, "p95": 1500}, "stalls": 3,
              "interruptions": 41},
    "intervals": [
        {"start": "2026-01-13T17:00:00.000Z", "calls": 31, "answered": 30, "ended": 29, "dropped": 1, "failed": 1,
         "minutes": 80, "talkTimeSeconds": 3900, "durationSeconds": 4100, "turnLatencyMs": {"p50": 700, "p95": 1500},
         "stalls": 1, "interruptions": 22},
        {"start": "2026-01-14T17:00:00.000Z", "calls": 27, "answered": 25, "ended": 23, "dropped": 3, "failed": 1,
         "minutes": 68, "talkTimeSeconds": 3120, "durationSeconds": 3310, "turnLatencyMs": {"p50": 700, "p95": 2000},
         "stalls": 2, "interruptions": 19}
    ]
}))]
pub struct CallStats {
    /// When the first interval begins.
    from: Millis,
    /// When the last one ends.
    to: Millis,
    interval: Interval,
    #[schema(value_type = String)]
    time_zone: DayZone,
    agent_id: Option<AgentId>,
    phone_number_id: Option<PhoneNumberId>,
    pub total: CallFigures,
    /// One after the other, also those without a call.
    pub intervals: Vec<CallInterval>,
}

impl CallStats {
    fn new(asked: StatsQuery, pieces: &[(Millis, CallFigures)]) -> Self {
        let mut total = CallFigures::default();
        let ends = asked.begins.last().copied().unwrap_or(Millis::MIN);
        let starts = &asked.begins[..asked.begins.len().saturating_sub(1)];
        let empty = |start: &Millis| CallInterval {
            start: *start,
            figures: CallFigures::default(),
        };
        let mut intervals: Vec<CallInterval> = starts.iter().map(empty).collect();
        for (begun, figures) in pieces {
            let place = starts.partition_point(|start| start <= begun);
            if let Some(interval) = place
                .checked_sub(1)
                .and_then(|place| intervals.get_mut(place))
            {
                interval.figures.add(*figures);
                total.add(*figures);
            }
        }
        Self {
            from: starts.first().copied().unwrap_or(ends),
            to: ends,
            interval: asked.interval,
            time_zone: asked.zone,
            agent_id: asked.agent,
            phone_number_id: asked.number,
            total,
            intervals,
        }
    }
}

/// The statistics of the tenant's calls.
pub async fn show(context: OperationContext, query: Query) -> Result<CallStats, ApiError> {
    let asked = query
        .0
        .read(&[], |form| StatsQuery::read(form, context.now))?;
    let db = context.store().api_reader();
    let pieces = counted(db, context.tenant()?, &asked).await?;
    Ok(CallStats::new(asked, &pieces))
}

/// Counters of one piece of the time range.
struct CounterRow {
    number: i64,
    figures: CallFigures,
}

impl FromQueryResult for CounterRow {
    fn from_query_result(row: &QueryResult, prefix: &str) -> Result<Self, DbErr> {
        let count = |name: &str| row.try_get(prefix, name);
        let mut turns = TurnCounts::default();
        for (turns, (_, name)) in turns.0.iter_mut().zip(TURN_CLASSES) {
            *turns = count(name)?;
        }
        let figures = CallFigures {
            calls: count("calls")?,
            answered: count("answered")?,
            ended: count("ended")?,
            dropped: count("dropped")?,
            failed: count("failed")?,
            minutes: count("minutes")?,
            talk_time_seconds: count("talk_seconds")?,
            duration_seconds: count("duration_seconds")?,
            turns,
            stalls: count("stalls")?,
            interruptions: count("interruptions")?,
        };
        Ok(Self {
            number: count("number")?,
            figures,
        })
    }
}

/// The counters besides [`TURN_CLASSES`].
const COUNTERS: [&str; 10] = [
    "calls",
    "answered",
    "ended",
    "dropped",
    "failed",
    "minutes",
    "talk_seconds",
    "duration_seconds",
    "stalls",
    "interruptions",
];

fn pieces() -> String {
    let counters = COUNTERS
        .into_iter()
        .chain(TURN_CLASSES.map(|(_, name)| name));
    let sum = |name| format!("CAST(SUM({name}) AS BIGINT) AS {name}");
    let sums: Vec<String> = counters.map(sum).collect();
    format!(
        "SELECT (slot - $3) / $5 AS number, {} FROM call_stats \
         WHERE tenant_id = $1 AND subject = $2 AND slot >= $3 AND slot < $4 GROUP BY 1",
        sums.join(", ")
    )
}

/// Counters with the start of each piece. A piece is an interval, or an hour if the intervals differ in length. Reads
/// at most one row for each quarter of an hour.
async fn counted(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    asked: &StatsQuery,
) -> Result<Vec<(Millis, CallFigures)>, DbErr> {
    let (Some(from), Some(to)) = (asked.begins.first(), asked.begins.last()) else {
        return Ok(Vec::new());
    };
    let lengths = asked.begins.windows(2).map(|two| two[1].since(two[0]));
    let length = lengths.fold(0, divisor).max(SLOT_MS);
    let values = [
        tenant.into(),
        asked.subject().into(),
        from.as_i64().into(),
        to.as_i64().into(),
        length.into(),
    ];
    let select = Statement::from_sql_and_values(db.get_database_backend(), pieces(), values);
    let pieces = CounterRow::find_by_statement(select).all(db).await?;
    let begun = |piece: CounterRow| (from.plus_ms(piece.number * length), piece.figures);
    Ok(pieces.into_iter().map(begun).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_turns_are_the_longest_of_their_class() {
        let of = |counts: &[(usize, i64)]| {
            let mut turns = TurnCounts::default();
            for (class, count) in counts {
                turns.0[*class] = *count;
            }
            turns.latency().map(|ms| (ms.p50, ms.p95))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(0, 1)]), Some((300, 300)));
        assert_eq!(of(&[(2, 95), (11, 5)]), Some((700, 700)));
        assert_eq!(of(&[(2, 94), (11, 6)]), Some((700, 600_000)));
    }
}
