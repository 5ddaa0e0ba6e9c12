//! Keeps the parts of callers' numbers by which calls are found, see [`parts`]: adds those of new calls, and removes those of callers
//! whose calls are gone or were erased.

use std::time::{Duration, Instant};

use dikala_actors::{nodes::Membership, runtime::clock::SharedClock};
use dikala_entities::{
    CallId, CallerNumber, Millis, Store, TenantId,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Value};
use serde::Serialize;

use super::{ids, is_sweeper, rest, statement};
use crate::operations::calls::callers::{self, parts};

const EVERY: Duration = Duration::from_secs(30);
/// Calls are added this long after their ring, in milliseconds: until then an older one may still be committed, by a node whose
/// clock is behind.
const COMMITTED_AFTER_MS: i64 = 2 * 60 * 1_000;
/// Calls per transaction.
const BATCH: usize = 200;

/// A call.
#[derive(Debug, FromQueryResult)]
struct IndexedCall {
    id: String,
    tenant_id: String,
    caller_number: String,
}

/// A row of `caller_parts`, and the call that it comes from.
#[derive(Debug, Serialize)]
struct CallerPartRow {
    id: String,
    tenant_id: String,
    part: String,
    caller_number: String,
}

const COLUMNS: [(&str, ColumnType); 4] = [
    ("id", ColumnType::Text),
    ("tenant_id", ColumnType::Text),
    ("part", ColumnType::Text),
    ("caller_number", ColumnType::Text),
];

/// Adds new calls for as long as the process runs, on one node.
pub(super) async fn index_regularly(store: &Store, clock: &SharedClock, node: &Membership) {
    loop {
        tokio::time::sleep(EVERY).await;
        let turn = is_sweeper(store, node).await;
        let done = match turn {
            Ok(true) => index(store, clock.now()).await.map(drop),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "could not index callers' numbers; the next try is in half a minute");
        }
    }
}

/// Adds the callers of calls that rang before now. Returns the number of calls.
pub(super) async fn index(store: &Store, now: Millis) -> Result<usize, DbErr> {
    let until = CallId::first_at(now.plus_ms(-COMMITTED_AFTER_MS)).to_string();
    let mut calls = 0;
    loop {
        let began = Instant::now();
        let batch = index_batch(store, &until).await?;
        calls += batch;
        if batch < BATCH {
            return Ok(calls);
        }
        rest(began).await;
    }
}

async fn index_batch(store: &Store, until: &str) -> Result<usize, DbErr> {
    let sql = format!(
        "SELECT c.id, c.tenant_id, c.caller_number FROM calls c WHERE c.id > (SELECT position FROM caller_index) AND c.id < $1 \
         ORDER BY c.id LIMIT {BATCH}"
    );
    let found = IndexedCall::find_by_statement(statement(store, &sql, [until.into()]));
    let found = found.all(store.reader()).await?;
    let count = found.len();
    let Some(last) = found.last() else {
        return Ok(0);
    };
    let moved = "UPDATE caller_index SET position = $1 WHERE position < $1";
    let moved = statement(store, moved, [last.id.as_str().into()]);
    // A call that was erased meanwhile has another number.
    let source = json_rows(store.backend(), &COLUMNS);
    let add = format!(
        "INSERT INTO caller_parts (tenant_id, part, caller_number) SELECT rows.tenant_id, rows.part, rows.caller_number \
         FROM {source} WHERE EXISTS (SELECT 1 FROM calls c WHERE c.id = rows.id AND c.caller_number = rows.caller_number) \
         ON CONFLICT DO NOTHING"
    );
    let txn = store.begin().await?;
    let rows = rows(found);
    if !rows.is_empty() {
        let add = json_statement(store.backend(), add, &rows)?;
        txn.execute_raw(add).await?;
    }
    txn.execute_raw(moved).await?;
    txn.commit().await?;
    Ok(count)
}

/// The rows of these calls, in the order of their key: writers that lock in one order cannot deadlock.
fn rows(calls: Vec<IndexedCall>) -> Vec<CallerPartRow> {
    let of_call = |call: IndexedCall| {
        let number: Option<CallerNumber> = call.caller_number.parse().ok();
        let parts = number.as_ref().map(parts).unwrap_or_default();
        parts.into_iter().map(move |part| CallerPartRow {
            id: call.id.clone(),
            tenant_id: call.tenant_id.clone(),
            part,
            caller_number: call.caller_number.clone(),
        })
    };
    let mut rows: Vec<CallerPartRow> = calls.into_iter().flat_map(of_call).collect();
    rows.sort_by(|one, other| (&one.tenant_id, &one.part).cmp(&(&other.tenant_id, &other.part)));
    rows
}

/// Removes the parts of callers without calls: of those whose calls were erased while they were added. Returns the number of rows.
pub(super) async fn sweep(store: &Store) -> Result<u64, DbErr> {
    let next = "SELECT tenant_id FROM caller_parts WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1";
    let (mut last, mut removed) = (String::new(), 0);
    loop {
        let found: Vec<TenantId> =
            ids(store.reader(), statement(store, next, [last.into()])).await?;
        let Some(tenant) = found.first() else {
            return Ok(removed);
        };
        last = tenant.to_string();
        removed += sweep_tenant(store, *tenant).await?;
    }
}

/// As [`sweep`], if it is this node's turn. Returns whether it was.
pub(super) async fn sweep_in_turn(store: Store, node: Membership) -> Result<bool, DbErr> {
    let is_turn = is_sweeper(&store, &node).await?;
    if is_turn {
        sweep(&store).await?;
    }
    Ok(is_turn)
}

async fn sweep_tenant(store: &Store, tenant: TenantId) -> Result<u64, DbErr> {
    #[derive(FromQueryResult)]
    struct Row {
        caller_number: CallerNumber,
        has_calls: bool,
    }
    let find = format!(
        "SELECT p.caller_number, (SELECT c.id FROM calls c WHERE c.tenant_id = $1 AND c.caller_number = p.caller_number LIMIT 1) \
         IS NOT NULL AS has_calls FROM caller_parts p WHERE p.tenant_id = $1 AND p.part > $2 ORDER BY p.part LIMIT {BATCH}"
    );
    let (mut last, mut removed) = (callers::start_of(""), 0);
    loop {
        let began = Instant::now();
        let values = [tenant.to_string(), last].map(Value::from);
        let found = Row::find_by_statement(statement(store, &find, values));
        let found = found.all(store.reader()).await?;
        let Some(newest) = found.last() else {
            return Ok(removed);
        };
        last = callers::start_of(newest.caller_number.as_str());
        for caller in found.iter().filter(|caller| !caller.has_calls) {
            removed += callers::forget(store.writer(), tenant, &caller.caller_number).await?;
        }
        rest(began).await;
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::call;
    use dikala_testkit::{both, rows};
    use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, sea_query::Expr};

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    async fn numbers(store: &Store) -> Vec<String> {
        let all = "SELECT DISTINCT caller_number FROM caller_parts ORDER BY caller_number";
        let found = store.reader().query_all_raw(statement(store, all, []));
        let found = found.await.expect("reads");
        let number = |row: &sea_orm::QueryResult| row.try_get_by_index(0).expect("text");
        found.iter().map(number).collect()
    }

    /// More callers than a batch, calls that are too young, callers without a number; then callers whose calls are gone.
    #[actix_web::test]
    async fn callers_are_found_while_they_have_calls() {
        for (_keep, store) in both().await {
            let tenant = TenantId::new(NOW);
            let last = i64::try_from(BATCH).expect("a few") + 10;
            for n in 0..=last {
                let mut call = rows::call(tenant, NOW);
                // New ids never go back in time.
                call.id = CallId::derived(NOW.plus_ms(n), 1);
                call.caller_number = match n {
                    0 => "anonymous".to_owned(),
                    1 => format!("+6281200{last:04}"),
                    n => format!("+6281200{n:04}"),
                }
                .parse()
                .expect("a caller");
                rows::insert(store.writer(), call).await;
            }
            assert_eq!(index(&store, NOW).await, Ok(0), "they are too young");
            let later = NOW.plus_ms(COMMITTED_AFTER_MS + last);
            let all = usize::try_from(last).expect("a few");
            assert_eq!(index(&store, later).await, Ok(all), "all but the last");
            assert_eq!(index(&store, later).await, Ok(0));
            assert_eq!(numbers(&store).await.len(), all - 1);
            assert_eq!(sweep(&store).await, Ok(0));

            let erased: CallerNumber = "erased".parse().expect("a caller");
            call::Entity::update_many()
                .col_expr(call::Column::CallerNumber, Expr::value(erased))
                .filter(call::Column::CallerNumber.ne("+62812000007"))
                .exec(store.writer())
                .await
                .expect("writes");
            let parts = parts(&"+62812000007".parse().expect("a caller")).len() as u64;
            assert_eq!(sweep(&store).await, Ok(parts * (all as u64 - 2)));
            assert_eq!(numbers(&store).await, ["+62812000007"]);
        }
    }
}
