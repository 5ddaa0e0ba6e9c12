//! What people leave behind who use the dashboard: links, sessions, failures and mails whose time is over.

use dikala_entities::{Millis, Store};
use sea_orm::{ConnectionTrait, DbErr};

use super::{PAUSE, ids, statement};

/// Table, the column of its key, and the column that says when a row's time is over.
const TABLES: [(&str, &str, &str); 4] = [
    ("login_links", "hash", "expires_at"),
    ("sessions", "hash", "ends_at"),
    ("sign_in_failures", "subject", "ends_at"),
    ("mails", "id", "ends_at"),
];

/// Removes what is over, in small batches. Returns how many rows went.
pub async fn sweep(store: &Store, now: Millis) -> Result<u64, DbErr> {
    let mut removed = 0;
    for (table, key, end) in TABLES {
        let find = format!("SELECT {key} FROM {table} WHERE {end} <= $1 ORDER BY {end} LIMIT 500");
        // It may have been used since it was found.
        let remove = format!(
            "DELETE FROM {table} WHERE {} AND {end} <= $2",
            dikala_entities::rows::is_one_of(store.backend(), key, 1)
        );
        loop {
            let over = statement(store, &find, [now.into()]);
            let found: Vec<String> = ids(store.reader(), over).await?;
            if found.is_empty() {
                break;
            }
            let keys = serde_json::to_string(&found).map_err(|e| DbErr::Json(e.to_string()))?;
            let remove = statement(store, &remove, [keys.into(), now.into()]);
            removed += store.writer().execute_raw(remove).await?.rows_affected();
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(removed)
}
