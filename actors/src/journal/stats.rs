//! Counting calls as they end, in the commit of the end. A call counts in the quarter of an hour in which it began: once for all
//! calls of its tenant, once for its agent and once for its number. The rows are the tenant's own, and whoever writes them keeps
//! the tenant's position of events already, so nobody waits for them who would not wait anyway.

use std::collections::BTreeMap;

use dikala_entities::{
    AgentId, CallStatus, Millis, PhoneNumberId, TenantId,
    batch::BatchWrite,
    call,
    call_stat::{ALL, slot_of},
    rows::ColumnType,
};

/// A call that is over, as it is counted.
#[derive(Clone, Debug)]
pub struct Counted {
    tenant: TenantId,
    agent: Option<AgentId>,
    number: PhoneNumberId,
    slot: Millis,
    figures: [i64; FIGURES.len()],
}

/// What is counted, by column.
const FIGURES: [&str; 8] = [
    "calls",
    "answered",
    "ended",
    "dropped",
    "failed",
    "minutes",
    "talk_seconds",
    "duration_seconds",
];

impl Counted {
    /// Of the row as it is at the end, and the minutes that the call used.
    pub fn new(row: &call::Model, minutes: i64) -> Self {
        let with = |status| i64::from(row.status == status);
        Self {
            tenant: row.tenant_id,
            agent: row.agent_id,
            number: row.phone_number_id,
            slot: slot_of(row.started_at),
            figures: [
                1,
                i64::from(row.answered_at.is_some()),
                with(CallStatus::Ended),
                with(CallStatus::Dropped),
                with(CallStatus::Failed),
                minutes,
                row.talk_time_seconds.unwrap_or_default(),
                row.duration_seconds.unwrap_or_default(),
            ],
        }
    }
}

/// One row for each subject and quarter of an hour, however many calls of a batch end in it.
pub(super) fn write<'a>(calls: impl Iterator<Item = &'a Counted>) -> BatchWrite {
    let mut rows: BTreeMap<(TenantId, String, Millis), [i64; FIGURES.len()]> = BTreeMap::new();
    for call in calls {
        let agent = call.agent.map(|agent| agent.to_string());
        let subjects = [Some(ALL.to_owned()), agent, Some(call.number.to_string())];
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
    columns.extend(FIGURES.map(|name| (name, ColumnType::BigInt)));
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let sums = FIGURES.map(|name| format!("{name} = call_stats.{name} + excluded.{name}"));
    let sql = format!(
        "INSERT INTO call_stats ({names}) SELECT {names} FROM {{rows}} WHERE true \
         ON CONFLICT (tenant_id, subject, slot) DO UPDATE SET {}",
        sums.join(", ")
    );
    BatchWrite::new(sql, &columns, rows.into_iter().map(row).collect())
}
