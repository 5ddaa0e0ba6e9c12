//! Call statistics, written in the commit that ends the call, and in that of its first transcript. A call counts in the quarter of
//! an hour in which it began: for its tenant, its agent and its number. The rows belong to one tenant. Their writer already locks
//! the tenant's event position, so they cause no further waiting.

use std::collections::BTreeMap;

use dikala_entities::{
    AgentId, CallStatus, Millis, PhoneNumberId, TenantId,
    batch::BatchWrite,
    call,
    call_stat::{ALL, TURN_CLASSES, slot_of},
    rows::ColumnType,
};

/// Figures of a call: those of its end, or its agent's turns.
#[derive(Clone, Debug)]
pub struct CallCounts {
    tenant: TenantId,
    agent: Option<AgentId>,
    number: Option<PhoneNumberId>,
    slot: Millis,
    figures: [i64; FIGURES],
}

/// The columns of a call's end. Those of [`TURN_CLASSES`] follow.
const OF_END: [&str; 10] = [
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
const FIGURES: usize = OF_END.len() + TURN_CLASSES.len();

impl CallCounts {
    /// `row` is the call at its end, `minutes` is what the call used.
    pub fn of_end(row: &call::Model, minutes: i64) -> Self {
        let with = |status| i64::from(row.status == status);
        let of_end: [i64; OF_END.len()] = [
            1,
            i64::from(row.answered_at.is_some()),
            with(CallStatus::Ended),
            with(CallStatus::Dropped),
            with(CallStatus::Failed),
            minutes,
            row.talk_time_seconds.unwrap_or_default(),
            row.duration_seconds.unwrap_or_default(),
            row.stalls.unwrap_or_default(),
            row.interruptions.unwrap_or_default(),
        ];
        let mut counts = Self::none(row);
        counts.figures[..OF_END.len()].copy_from_slice(&of_end);
        counts
    }

    /// Turns of the call's agent, by their latency in milliseconds.
    pub fn of_turns(row: &call::Model, latencies: &[i64]) -> Self {
        let mut counts = Self::none(row);
        for ms in latencies {
            let class = TURN_CLASSES.partition_point(|(longest, _)| longest < ms);
            counts.figures[OF_END.len() + class.min(TURN_CLASSES.len() - 1)] += 1;
        }
        counts
    }

    fn none(row: &call::Model) -> Self {
        Self {
            tenant: row.tenant_id,
            agent: row.agent_id,
            number: row.phone_number_id,
            slot: slot_of(row.started_at),
            figures: [0; FIGURES],
        }
    }
}

/// One row per subject and slot, however many calls of the batch count in it.
pub(super) fn write<'a>(calls: impl Iterator<Item = &'a CallCounts>) -> BatchWrite {
    let mut rows: BTreeMap<(TenantId, String, Millis), [i64; FIGURES]> = BTreeMap::new();
    for call in calls {
        let agent = call.agent.map(|agent| agent.to_string());
        let subjects = [
            Some(ALL.to_owned()),
            agent,
            call.number.map(|number| number.to_string()),
        ];
        for subject in subjects.into_iter().flatten() {
            let sums = rows.entry((call.tenant, subject, call.slot)).or_default();
            for (sum, figure) in sums.iter_mut().zip(call.figures) {
                *sum += figure;
            }
        }
    }
    let row = |((tenant, subject, slot), figures): ((TenantId, String, Millis), [i64; _])| {
        let key = [tenant.into(), subject.into(), slot.into()];
        key.into_iter()
            .chain(figures.map(sea_orm::Value::from))
            .collect()
    };
    let mut columns = vec![
        ("tenant_id", ColumnType::Text),
        ("subject", ColumnType::Text),
        ("slot", ColumnType::BigInt),
    ];
    let figures = OF_END.into_iter().chain(TURN_CLASSES.map(|(_, name)| name));
    columns.extend(figures.clone().map(|name| (name, ColumnType::BigInt)));
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let sums: Vec<String> = figures
        .map(|name| format!("{name} = call_stats.{name} + excluded.{name}"))
        .collect();
    let sql = format!(
        "INSERT INTO call_stats ({names}) SELECT {names} FROM {{rows}} WHERE true \
         ON CONFLICT (tenant_id, subject, slot) DO UPDATE SET {}",
        sums.join(", ")
    );
    BatchWrite::new(sql, &columns, rows.into_iter().map(row).collect())
}
