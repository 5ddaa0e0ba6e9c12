//! Events that other nodes commit: who follows here is woken as if they were this node's.

use std::{collections::HashMap, time::Duration};

use dikala_entities::{Store, TenantId, rows::is_one_of};
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};
use serde_json::json;

use super::followers::Followers;
use crate::nodes::Membership;

/// How often it is looked whether other nodes announced something to those who follow here.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it is looked whether there are other nodes.
const ALONE_FOR: Duration = Duration::from_secs(1);

/// Looks for as long as it is polled.
pub async fn watch(followers: Followers, store: Store, member: Membership) {
    let mut known = HashMap::new();
    loop {
        let followed = followers.followed();
        if !member.has_others() || followed.is_empty() {
            known.clear();
            tokio::time::sleep(if member.has_others() {
                LOOK_EVERY
            } else {
                ALONE_FOR
            })
            .await;
            continue;
        }
        match positions(&store, &followed).await {
            Ok(now) => {
                let news = now
                    .iter()
                    // One that was not followed a moment ago may have missed something.
                    .filter(|(tenant, last)| known.get(*tenant) != Some(*last));
                followers.wake(news.map(|(tenant, _)| *tenant));
                known = now;
            }
            // That the database is away is said by others.
            Err(error) => tracing::debug!(%error, "events of other nodes were not looked for"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The position of each tenant's newest event.
async fn positions(store: &Store, tenants: &[TenantId]) -> Result<HashMap<TenantId, i64>, DbErr> {
    let backend = store.backend();
    let sql = format!(
        "SELECT tenant_id, last FROM event_positions WHERE {}",
        is_one_of(backend, "tenant_id", 1)
    );
    let values = [Value::from(json!(tenants).to_string())];
    let rows = store
        .reader()
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    let read =
        |row: &sea_orm::QueryResult| Ok((row.try_get("", "tenant_id")?, row.try_get("", "last")?));
    rows.iter().map(read).collect()
}
