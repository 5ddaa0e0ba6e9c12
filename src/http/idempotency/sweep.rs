//! Removes expired stored answers.

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

async fn remove(store: &Store, which: &str, until: Millis) -> Result<u64, DbErr> {
    #[derive(FromQueryResult, Serialize)]
    struct Row {
        scope: IdempotencyScope,
        key: String,
        created_at: i64,
    }
    let columns = [
        ("scope", ColumnType::Text),
        ("key", ColumnType::Text),
        ("created_at", ColumnType::BigInt),
    ];
    // The time excludes a key that was claimed again meanwhile.
    let remove = format!(
        "DELETE FROM idempotency_keys WHERE (scope, key, created_at) IN (SELECT scope, key, created_at FROM {})",
        json_rows(store.backend(), &columns)
    );
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
        let old = Row::find_by_statement(find).all(store.reader()).await?;
        if old.is_empty() {
            break;
        }
        let remove = json_statement(store.backend(), remove.clone(), &old)?;
        gone += store.writer().execute_raw(remove).await?.rows_affected();
    }
    Ok(gone)
}
