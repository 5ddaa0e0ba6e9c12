//! Call statistics, written in the commit that ends the call. A call counts in the quarter of an hour in which it began: for
//! its tenant, its agent and its number. The rows belong to one tenant. Their writer already locks the tenant's event position,
//! so they cause no further waiting.

use std::collections::BTreeMap;

use dikala_entities::{
    AgentId, CallStatus, Millis, PhoneNumberId, TenantId,
    batch::BatchWrite,
    call,
    call_stat::{ALL, slot_of},
    rows::ColumnType,
};

/// The figures of a call that is over.
#[derive(Clone, Debug)]
pub struct EndedCallStats {
    tenant: TenantId,
    agent: Option<AgentId>,
    number: PhoneNumberId,
    slot: Millis,
    figures: [i64; FIGURES.len()],
}

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

impl EndedCallStats {
    /// `row` is the call at its end, `minutes` is what the call used.
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

/// One row per subject and slot, however many calls of the batch count in it.
pub(super) fn write<'a>(calls: impl Iterator<Item = &'a EndedCallStats>) -> BatchWrite {
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
