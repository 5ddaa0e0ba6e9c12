//! Removes expired stored answers, and the bodies of those that take too much room.

use dikala_entities::{
    IdempotencyScope, Millis, Store,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, FromQueryResult, Statement};
use serde::Serialize;

use super::{KEPT_MS, TEST_KEPT_MS};

const SWEEP_BATCH: i64 = 500;
const SWEEP_BATCHES_MAX: usize = 200;

/// Deletes expired rows in small batches, found on a reader. Returns their number.
pub async fn sweep(store: &Store, now: Millis) -> Result<u64, DbErr> {
    let old = remove(store, "created_at <= $1", now.plus_ms(-KEPT_MS)).await?;
    let brief = "is_brief AND created_at <= $1";
    Ok(old + remove(store, brief, now.plus_ms(-TEST_KEPT_MS)).await?)
}

#[derive(FromQueryResult, Serialize)]
struct KeyRow {
    scope: IdempotencyScope,
    key: String,
    created_at: i64,
}

/// A changing statement, of which `{rows}` stands for [`KeyRow`]s. The time in them excludes a key that was claimed again
/// meanwhile.
async fn change(store: &Store, sql: &str, rows: &[KeyRow]) -> Result<u64, DbErr> {
    let columns = [
        ("scope", ColumnType::Text),
        ("key", ColumnType::Text),
        ("created_at", ColumnType::BigInt),
    ];
    let sql = sql.replace("{rows}", &json_rows(store.backend(), &columns));
    let change = json_statement(store.backend(), sql, rows)?;
    Ok(store.writer().execute_raw(change).await?.rows_affected())
}

/// Removes the bodies of the scope's oldest large answers above this size in all. The keys stay, so that nothing is
/// carried out again. At most [`SWEEP_BATCH`] at a time: the next large answer goes on.
pub(super) async fn cut(
    store: &Store,
    scope: IdempotencyScope,
    most_bytes: i64,
) -> Result<(), DbErr> {
    // One statement for both would be quadratic: PostgreSQL may sum again for each key.
    let beyond = Statement::from_sql_and_values(
        store.backend(),
        "SELECT scope, key, created_at FROM (SELECT scope, key, created_at, \
            SUM(size) OVER (ORDER BY created_at DESC, key DESC) AS total \
         FROM idempotency_keys WHERE scope = $1 AND size > 0) AS large \
         WHERE total > CAST($2 AS BIGINT) ORDER BY created_at, key LIMIT $3",
        [scope.into(), most_bytes.into(), SWEEP_BATCH.into()],
    );
    let rows = KeyRow::find_by_statement(beyond)
        .all(store.writer())
        .await?;
    if rows.is_empty() {
        return Ok(());
    }
    let blank = "UPDATE idempotency_keys SET body = NULL, size = 0 \
                 WHERE (scope, key, created_at) IN (SELECT scope, key, created_at FROM {rows})";
    change(store, blank, &rows).await.map(drop)
}

async fn remove(store: &Store, which: &str, until: Millis) -> Result<u64, DbErr> {
    let remove = "DELETE FROM idempotency_keys \
                  WHERE (scope, key, created_at) IN (SELECT scope, key, created_at FROM {rows})";
    let mut gone = 0;
    for _ in 0..SWEEP_BATCHES_MAX {
        let find = Statement::from_sql_and_values(
            store.backend(),
            format!(
                "SELECT scope, key, created_at FROM idempotency_keys WHERE {which} \
                 ORDER BY created_at LIMIT $2"
            ),
            [until.into(), SWEEP_BATCH.into()],
        );
        let old = KeyRow::find_by_statement(find).all(store.reader()).await?;
        if old.is_empty() {
            break;
        }
        gone += change(store, remove, &old).await?;
    }
    Ok(gone)
}
