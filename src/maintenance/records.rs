//! Removes webhook statistics, which live as long as the attempts that they count, and audit entries, if a time is
//! configured.

use std::time::Instant;

use dikala_entities::{
    AttemptOutcome, AuditId, Millis, Store, WebhookId,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, FromQueryResult};
use serde::Serialize;

use super::{rest, statement};

/// Removes statistics of attempts before `older_than`.
pub(super) async fn sweep_figures(store: &Store, older_than: Millis) -> Result<u64, DbErr> {
    #[derive(FromQueryResult, Serialize)]
    struct Row {
        webhook_id: WebhookId,
        hour: i64,
        outcome: AttemptOutcome,
        up_to_ms: i64,
    }
    let find = "SELECT webhook_id, hour, outcome, up_to_ms FROM webhook_stats WHERE hour < $1 ORDER BY hour LIMIT 500";
    let columns = [
        ("webhook_id", ColumnType::Text),
        ("hour", ColumnType::BigInt),
        ("outcome", ColumnType::Text),
        ("up_to_ms", ColumnType::BigInt),
    ];
    remove::<Row>(store, "webhook_stats", find, &columns, older_than).await
}

/// Removes audit entries from before `older_than`.
pub(super) async fn sweep_audit(store: &Store, older_than: Millis) -> Result<u64, DbErr> {
    #[derive(FromQueryResult, Serialize)]
    struct Row {
        id: AuditId,
    }
    let find = "SELECT id FROM audit WHERE at < $1 ORDER BY at LIMIT 500";
    remove::<Row>(
        store,
        "audit",
        find,
        &[("id", ColumnType::Text)],
        older_than,
    )
    .await
}

/// Finds the keys of a few rows at a time, and removes those rows.
async fn remove<R: FromQueryResult + Serialize>(
    store: &Store,
    table: &str,
    find: &str,
    key: &[(&str, ColumnType)],
    older_than: Millis,
) -> Result<u64, DbErr> {
    let names: Vec<&str> = key.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    let delete = format!(
        "DELETE FROM {table} WHERE ({names}) IN (SELECT {names} FROM {})",
        json_rows(store.backend(), key)
    );
    let mut removed = 0;
    loop {
        let began = Instant::now();
        let old = statement(store, find, [older_than.as_i64().into()]);
        let old = R::find_by_statement(old).all(store.reader()).await?;
        if old.is_empty() {
            return Ok(removed);
        }
        let delete = json_statement(store.backend(), delete.clone(), &old)?;
        removed += store.writer().execute_raw(delete).await?.rows_affected();
        rest(began).await;
    }
}
