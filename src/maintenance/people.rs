//! Removes expired rows of members and operators: links, sessions, failed sign-ins, mails, sign-outs,
//! tokens of calls, chats, and snoozed problems.

use std::time::Instant;

use dikala_entities::{Millis, Store};
use sea_orm::{ConnectionTrait, DbErr};

use super::{ids, rest, statement};

/// A table, its key column, and its column of expiry.
const TABLES: [(&str, &str, &str); 8] = [
    ("login_links", "hash", "expires_at"),
    ("sessions", "hash", "ends_at"),
    ("sign_in_failures", "subject", "ends_at"),
    ("mails", "id", "ends_at"),
    ("operator_sign_outs", "session_hash", "ends_at"),
    ("web_calls", "hash", "expires_at"),
    ("chats", "id", "expires_at"),
    ("snoozed_problems", "problem", "ends_at"),
];

/// Removes expired rows in small batches. Returns their number.
pub async fn sweep(store: &Store, now: Millis) -> Result<u64, DbErr> {
    let mut removed = 0;
    for (table, key, end) in TABLES {
        let find = format!("SELECT {key} FROM {table} WHERE {end} <= $1 ORDER BY {end} LIMIT 500");
        // Checks the expiry again: it may have been extended since.
        let remove = format!(
            "DELETE FROM {table} WHERE {} AND {end} <= $2",
            dikala_entities::rows::is_one_of(store.backend(), key, 1)
        );
        loop {
            let began = Instant::now();
            let over = statement(store, &find, [now.into()]);
            let found: Vec<String> = ids(store.reader(), over).await?;
            if found.is_empty() {
                break;
            }
            let keys = serde_json::to_string(&found).map_err(|e| DbErr::Json(e.to_string()))?;
            let remove = statement(store, &remove, [keys.into(), now.into()]);
            removed += store.writer().execute_raw(remove).await?.rows_affected();
            rest(began).await;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use dikala_testkit::StoreKind::{self, Postgres, Sqlite};
    use rstest::rstest;

    use super::*;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    /// One row of each kind expires now and one a moment later; more links than one batch.
    #[rstest]
    #[actix_web::test]
    async fn what_is_over_goes_and_what_is_not_stays(#[values(Sqlite, Postgres)] kind: StoreKind) {
        let Some((_keep, store)) = kind.open().await else {
            return;
        };
        let (over, soon) = (NOW.as_i64(), NOW.as_i64() + 1);
        let user = "INSERT INTO users (id, tenant_id, email, name, role, mails_low_credit, mails_disabled_webhooks, created_at, \
                    updated_at) VALUES ('user_1', 'ten_1', 'a@b', 'A', 'owner', true, true, 1, 1)";
        store
            .writer()
            .execute_unprepared(user)
            .await
            .expect("a user");
        let links = (0..600).map(|n| format!("('over{n}', 'user_1', 1, {over})"));
        let links: Vec<String> = links.collect();
        for insert in [
            format!(
                "INSERT INTO login_links (hash, user_id, created_at, expires_at) VALUES ('soon', 'user_1', 1, {soon}), {}",
                links.join(", ")
            ),
            format!(
                "INSERT INTO sessions (hash, tenant_id, user_id, by_link, address, agent, created_at, used_at, ends_at) VALUES \
                 ('soon', 'ten_1', 'user_1', false, '', '', 1, 1, {soon}), ('over', 'ten_1', 'user_1', false, '', '', 1, 1, {over})"
            ),
            format!(
                "INSERT INTO sign_in_failures (subject, failed_at, ends_at) VALUES ('soon', '[]', {soon}), ('over', '[]', {over})"
            ),
            format!(
                "INSERT INTO mails (id, tenant_id, kind, subject, attempts, created_at, ends_at) VALUES \
                 ('soon', 'ten_1', 'credits.low', '', 0, 1, {soon}), ('over', 'ten_1', 'credits.low', '', 0, 1, {over})"
            ),
            format!(
                "INSERT INTO operator_sign_outs (session_hash, ends_at) VALUES ('soon', {soon}), ('over', {over})"
            ),
            format!(
                "INSERT INTO web_calls (hash, tenant_id, agent_id, caller_number, is_detailed, expires_at) VALUES \
                 ('soon', 'ten_1', 'agent_1', 'web', false, {soon}), ('over', 'ten_1', 'agent_1', 'web', false, {over})"
            ),
            format!(
                "INSERT INTO chats (id, tenant_id, agent_id, settings, is_draft, turns, messages, cost, created_at, expires_at) VALUES \
                 ('soon', 'ten_1', 'agent_1', '', false, '[]', 0, 0, 1, {soon}), ('over', 'ten_1', 'agent_1', '', false, '[]', 0, 0, 1, {over})"
            ),
            format!(
                "INSERT INTO snoozed_problems (problem, is_critical, ends_at) VALUES ('soon', true, {soon}), ('over', true, {over})"
            ),
        ] {
            store
                .writer()
                .execute_unprepared(&insert)
                .await
                .expect("rows");
        }
        assert_eq!(sweep(&store, NOW).await, Ok(600 + 7));
        for (table, key, _) in TABLES {
            let left = statement(&store, &format!("SELECT {key} FROM {table}"), []);
            let left: Vec<String> = ids(store.reader(), left).await.expect("reads");
            assert_eq!(left, ["soon"], "{table}");
        }
        assert_eq!(sweep(&store, NOW.plus_ms(1)).await, Ok(8));
    }
}
