//! Tenants that lose calls for lack of minutes, or will soon.
//!
//! Refused calls are read from an index of their own, at most the newest 10,000 of the last hour. How long minutes last is
//! computed for 200 tenants at a time, in the order of their ids, from the counts of the last week.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use dikala_entities::{Millis, TenantId};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};

use super::NAMED_MAX;
use crate::overview::OverviewSources;

const HOUR_MS: i64 = 60 * 60 * 1_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// The period that shows the pace, and its shortest known part, from which on a pace is believed.
const PACE_MS: i64 = 7 * DAY_MS;
const PACE_MS_MIN: i64 = 3 * DAY_MS;
/// A tenant whose minutes last for less is shown.
const SHORT_HOURS: i64 = 48;
/// Maximum number of refused calls that are counted.
const REFUSED_MAX: i64 = 10_000;
/// Tenants whose pace is computed at once, unless that took too long.
const PAGE: usize = 200;
/// Maximum number of remembered tenants.
const SHORT_MAX: usize = 1_000;

/// A tenant without minutes whose calls were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTenant {
    pub tenant: TenantId,
    /// Calls of the last hour.
    pub refused: i64,
    pub last: Millis,
}

/// A tenant whose minutes are over soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortTenant {
    pub tenant: TenantId,
    pub minutes: i64,
    /// Hours that the minutes last at the pace of the last week.
    pub hours: i64,
}

/// Tenants without minutes whose calls were refused in the last hour, most calls first.
pub(super) async fn refused(
    parts: &OverviewSources,
    now: Millis,
) -> Result<Vec<RefusedTenant>, DbErr> {
    // The condition of the index is in the text, so that both databases use it.
    let sql = format!(
        "SELECT r.tenant_id AS tenant_id, r.refused AS refused, r.last_at AS last_at FROM \
         (SELECT tenant_id, COUNT(*) AS refused, MAX(started_at) AS last_at FROM \
         (SELECT tenant_id, started_at FROM calls WHERE outcome = 'failed' AND hangup_reason = 'insufficient_credits' \
         AND started_at > $1 ORDER BY started_at DESC LIMIT {REFUSED_MAX}) AS newest GROUP BY tenant_id) AS r \
         JOIN credit_accounts a ON a.tenant_id = r.tenant_id WHERE a.available = 0 \
         ORDER BY r.refused DESC, r.tenant_id LIMIT {NAMED_MAX}"
    );
    let since = now.plus_ms(-HOUR_MS);
    let rows = read(parts, sql, [since.as_i64().into()]).await?;
    let of_row = |row: QueryResult| {
        Ok(RefusedTenant {
            tenant: row.try_get("", "tenant_id")?,
            refused: row.try_get("", "refused")?,
            last: Millis::from_i64(row.try_get("", "last_at")?),
        })
    };
    rows.into_iter().map(of_row).collect()
}

async fn read<const N: usize>(
    parts: &OverviewSources,
    sql: String,
    values: [Value; N],
) -> Result<Vec<QueryResult>, DbErr> {
    let db = parts.node.store.api_reader();
    let backend = db.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => sql,
        _ => sql.replace('$', "?"),
    };
    db.query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await
}

/// The tenants whose minutes are over soon, as far as they were looked at.
#[derive(Debug, Default)]
pub(super) struct ShortTenants(Mutex<ShortState>);

#[derive(Debug)]
struct ShortState {
    found: BTreeMap<String, ShortTenant>,
    /// The last tenant that was looked at.
    after: String,
    /// Tenants that are looked at next.
    page: usize,
}

impl Default for ShortState {
    fn default() -> Self {
        Self {
            found: BTreeMap::new(),
            after: String::new(),
            page: PAGE,
        }
    }
}

impl ShortTenants {
    /// Looks at the next tenants, and returns those whose minutes are over first.
    pub(super) async fn next(
        &self,
        parts: &OverviewSources,
        now: Millis,
    ) -> Result<Vec<ShortTenant>, DbErr> {
        let (after, page) = {
            let state = self.lock();
            (state.after.clone(), state.page)
        };
        let stats =
            "FROM call_stats s WHERE s.tenant_id = a.tenant_id AND s.subject = '' AND s.slot >= $2";
        // Minutes that last for two days at the fastest believed pace are two thirds of all that were ever used.
        let sql = format!(
            "SELECT a.tenant_id AS tenant_id, a.available + a.held AS minutes, \
             (SELECT CAST(COALESCE(SUM(s.minutes), 0) AS BIGINT) {stats}) AS used, (SELECT MIN(s.slot) {stats}) AS first_at \
             FROM credit_accounts a JOIN tenants t ON t.id = a.tenant_id WHERE a.tenant_id > $1 AND a.available > 0 \
             AND a.available <= a.used * 2 / 3 AND t.suspended_at IS NULL ORDER BY a.tenant_id LIMIT {page}"
        );
        let begin = now.plus_ms(-PACE_MS);
        let values = [after.clone().into(), begin.as_i64().into()];
        let rows = read(parts, sql, values).await?;
        let mut found = BTreeMap::new();
        let mut last = None;
        let is_end = rows.len() < page;
        for row in rows {
            let tenant: TenantId = row.try_get("", "tenant_id")?;
            let (minutes, used): (i64, i64) =
                (row.try_get("", "minutes")?, row.try_get("", "used")?);
            let first: Option<i64> = row.try_get("", "first_at")?;
            last = Some(tenant.to_string());
            let known = first.map_or(0, |first| now.since(Millis::from_i64(first)));
            if let Some(hours) = hours_left(minutes, used, known).filter(|it| *it < SHORT_HOURS) {
                let short = ShortTenant {
                    tenant,
                    minutes,
                    hours,
                };
                found.insert(tenant.to_string(), short);
            }
        }
        let mut state = self.lock();
        let end = last.filter(|_| !is_end);
        state.take_over(&after, end, found);
        Ok(state.shortest())
    }

    /// The last look took too long: the next one is at half as many.
    pub(super) fn ask_fewer(&self) {
        let mut state = self.lock();
        state.page = (state.page / 2).max(1);
    }

    pub(super) fn forget(&self) {
        *self.lock() = ShortState::default();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ShortState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShortState {
    /// Replaces what is known of the tenants after `after` and up to `end`, or up to the last one.
    fn take_over(
        &mut self,
        after: &str,
        end: Option<String>,
        found: BTreeMap<String, ShortTenant>,
    ) {
        let is_new = |id: &String| id.as_str() > after && end.as_ref().is_none_or(|end| id <= end);
        self.found.retain(|id, _| !is_new(id));
        self.found.extend(found);
        while self.found.len() > SHORT_MAX {
            self.found.pop_last();
        }
        self.after = end.unwrap_or_default();
    }

    fn shortest(&self) -> Vec<ShortTenant> {
        let mut all: Vec<ShortTenant> = self.found.values().copied().collect();
        all.sort_by_key(|short| (short.hours, short.minutes));
        all.truncate(NAMED_MAX);
        all
    }
}

/// Whole hours that minutes last if `used` were used in the last week, of which `known_ms` have passed since the first use.
fn hours_left(minutes: i64, used: i64, known_ms: i64) -> Option<i64> {
    let known_ms = known_ms.clamp(PACE_MS_MIN, PACE_MS);
    let lasts_ms = i128::from(minutes.max(0)) * i128::from(known_ms) / i128::from(used.max(1));
    (used > 0).then(|| i64::try_from(lasts_ms / i128::from(HOUR_MS)).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_minutes_last() {
        for (minutes, used, known_ms, hours) in [
            (100, 0, PACE_MS, None),
            (100, 700, PACE_MS, Some(24)),
            (99, 700, PACE_MS, Some(23)),
            (100, 700, 30 * DAY_MS, Some(24)),
            // A pace of less than three days is not believed.
            (100, 300, DAY_MS, Some(24)),
            (100, 300, 3 * DAY_MS, Some(24)),
            (0, 1, PACE_MS, Some(0)),
            (i64::MAX, 1, PACE_MS, Some(i64::MAX)),
        ] {
            assert_eq!(
                hours_left(minutes, used, known_ms),
                hours,
                "{minutes} {used} {known_ms}"
            );
        }
    }

    #[test]
    fn each_look_replaces_its_own_tenants() {
        let short = |hours| ShortTenant {
            tenant: "ten_01k9zv3m8rj2q4w6y8a0c2e4g6".parse().expect("an id"),
            minutes: 1,
            hours,
        };
        let found = |ids: &[(&str, i64)]| {
            let each = ids
                .iter()
                .map(|(id, hours)| ((*id).to_owned(), short(*hours)));
            each.collect::<BTreeMap<_, _>>()
        };
        let mut state = ShortState::default();
        state.take_over("", Some("c".to_owned()), found(&[("a", 9), ("c", 2)]));
        assert_eq!(state.after, "c");
        state.take_over("c", None, found(&[("e", 5)]));
        assert_eq!(state.after, "");
        let hours = |state: &ShortState| -> Vec<i64> {
            state.shortest().iter().map(|short| short.hours).collect()
        };
        assert_eq!(hours(&state), [2, 5, 9]);
        // One got minutes, and is found no more.
        state.take_over("", Some("c".to_owned()), found(&[("a", 8)]));
        assert_eq!(hours(&state), [5, 8]);
        state.take_over("c", None, found(&[]));
        assert_eq!(hours(&state), [8]);
    }
}
