//! Events that other nodes commit: wakes the followers at this node for them.

use std::{collections::HashMap, time::Duration};

use dikala_entities::{Store, TenantId, rows::is_one_of};
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::followers::Followers;
use crate::nodes::{Membership, notices::Topic};

/// Poll interval for other nodes' events while notices arrive.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Poll interval while no notices can be received.
const LOOK_UNHEARD_EVERY: Duration = Duration::from_millis(100);
/// Minimum pause between two polls, however many notices arrive.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// Polls until the future is dropped.
pub async fn watch(followers: Followers, store: Store, member: Membership) {
    let notices = member.notices();
    let mut known = HashMap::new();
    loop {
        let looked_at = Instant::now();
        let followed = followers.followed();
        if !member.has_others() || followed.is_empty() {
            known.clear();
        } else {
            match positions(&store, &followed).await {
                Ok(now) => {
                    let news = now
                        .iter()
                        // A tenant that was not followed at the last poll may have missed an event.
                        .filter(|(tenant, last)| known.get(*tenant) != Some(*last));
                    followers.wake(news.map(|(tenant, _)| *tenant));
                    known = now;
                }
                // Other tasks already warn that the database is unavailable.
                Err(error) => {
                    tracing::debug!(%error, "could not read other nodes' events");
                }
            }
        }
        let every = match notices.listens() || !member.has_others() {
            true => LOOK_EVERY,
            false => LOOK_UNHEARD_EVERY,
        };
        sleep_until(looked_at + LOOKS_APART).await;
        tokio::select! {
            () = sleep_until(looked_at + every) => {}
            () = notices.told(Topic::Events) => {}
        }
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

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;
    use dikala_testkit::eventually;

    use super::*;
    use crate::nodes;

    /// The number of polls of the table so far, as PostgreSQL counts them; it is up to a second late.
    async fn looks(store: &Store) -> i64 {
        let sql = "SELECT seq_scan + idx_scan AS looks FROM pg_stat_user_tables WHERE relname = 'event_positions'";
        let query = Statement::from_string(store.backend(), sql);
        let row = store.reader().query_one_raw(query).await;
        let row = row.expect("is read").expect("the table");
        row.try_get("", "looks").expect("a number")
    }

    /// A node that receives notices polls rarely and is woken anyway; a node that receives none polls often.
    #[actix::test]
    async fn who_hears_others_need_not_look_all_the_time() {
        let Some((_keep, heard)) = dikala_testkit::postgres().await else {
            return;
        };
        let Some((_keep, unheard)) = dikala_testkit::postgres().await else {
            return;
        };
        let tenant = TenantId::new(Millis::from_i64(1));
        let mut tasks = Vec::new();
        let mut followers = Vec::new();
        for store in [&heard, &unheard] {
            let member = Membership::outside("one");
            member.found(2);
            let there = Followers::among(member.notices().clone());
            followers.push(there.follow(tenant).expect("a seat"));
            tasks.push(actix_rt::spawn(watch(there, store.clone(), member.clone())));
            if std::ptr::eq(store, &heard) {
                let listening = nodes::exchange(member.clone(), store.clone());
                tasks.push(actix_rt::spawn(listening));
                eventually("to listen", async || {
                    member.notices().listens().then_some(())
                })
                .await;
            }
        }
        let before = looks(&heard).await;
        eventually("many looks", async || {
            (looks(&unheard).await >= 40).then_some(())
        })
        .await;
        let meanwhile = looks(&heard).await - before;
        assert!(meanwhile <= 30, "{meanwhile} looks beside 40");

        let other = Membership::outside("other");
        other.found(2);
        let announcing = nodes::exchange(other.clone(), heard.clone());
        tasks.push(actix_rt::spawn(announcing));
        let written =
            format!("INSERT INTO event_positions (tenant_id, last) VALUES ('{tenant}', 1)");
        heard
            .writer()
            .execute_unprepared(&written)
            .await
            .expect("is written");
        Followers::among(other.notices().clone()).announce([tenant]);
        assert!(followers[0].woken().await);
        tasks.iter().for_each(|task| task.abort());
    }
}
