//! Removal of unneeded versions: those that no call names, except the newest [`KEPT_MAX`] of an agent. Also of settings that no
//! version names.
//!
//! Some are removed with the agent's next change, the rest by [`sweep`], which also removes those of deleted agents. A call
//! that is being opened has read its version but is not written yet. So a version is kept until its successor is [`OPENING_MS`]
//! old.
//!
//! A change may name settings again while they are being removed. It first writes `used_at`, which locks their row. The removal
//! checks `used_at` again after it locks the row. So either it sees the version that names them, or the change comes later and
//! stores them again.

use std::time::Duration;

use dikala_entities::{
    AgentId, Millis, Store, agent_version,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, FromQueryResult, QueryFilter,
    QueryOrder, QuerySelect, Statement,
};
use serde::Serialize;

use super::{KEPT_MAX, OPENING_MS};

/// Versions that an agent's change checks for removal.
const LOOKED_AT_MAX: i64 = 100;
/// Rows per statement of the sweep.
const BATCH: i64 = 500;
/// A pause between batches of the sweep, in which others can write.
const PAUSE: Duration = Duration::from_millis(50);

/// Reads the versions after a given one, in the order of their keys, and whether each is unneeded.
const LOOK: &str = "SELECT v.agent_id, v.version, NOT EXISTS \
    (SELECT 1 FROM calls c WHERE c.agent_id = v.agent_id AND c.agent_version = v.version) AND \
    (COALESCE(v.orphaned_at < $3, FALSE) OR \
     (v.version <= COALESCE((SELECT a.version FROM agents a WHERE a.id = v.agent_id), 0) - $4 AND \
      COALESCE((SELECT s.created_at FROM agent_versions s WHERE s.agent_id = v.agent_id AND s.version > v.version \
       ORDER BY s.version LIMIT 1), $3) < $3)) AS unneeded \
    FROM agent_versions v WHERE (v.agent_id, v.version) > ($1, $2) ORDER BY v.agent_id, v.version LIMIT $5";

/// The same for settings.
const LOOK_AT_SETTINGS: &str = "SELECT s.agent_id, s.hash, $3 AS before, s.used_at < $3 AND NOT EXISTS \
    (SELECT 1 FROM agent_versions v WHERE v.agent_id = s.agent_id AND v.hash = s.hash) AS unneeded \
    FROM agent_settings s WHERE (s.agent_id, s.hash) > ($1, $2) ORDER BY s.agent_id, s.hash LIMIT $4";

/// A version checked by the sweep.
#[derive(FromQueryResult, Serialize)]
struct VersionCheck {
    agent_id: AgentId,
    version: i64,
    unneeded: bool,
}

/// Settings checked by the sweep.
#[derive(FromQueryResult, Serialize)]
pub(super) struct SettingsCheck {
    agent_id: AgentId,
    hash: String,
    /// Those used later are kept.
    before: i64,
    pub unneeded: bool,
}

/// Removes versions that no call names: of deleted agents all, of others those beyond [`KEPT_MAX`]. Then removes settings that
/// no version names. Reads in small batches on a reader. Returns the number of removed rows.
pub async fn sweep(store: &Store, now: Millis) -> Result<u64, DbErr> {
    let before = now.plus_ms(-OPENING_MS);
    Ok(sweep_versions(store, before).await? + sweep_settings(store, before).await?)
}

async fn sweep_versions(store: &Store, before: Millis) -> Result<u64, DbErr> {
    let (mut agent, mut version, mut gone) = (String::new(), 0, 0);
    loop {
        let values = [
            agent.clone().into(),
            version.into(),
            before.as_i64().into(),
            KEPT_MAX.into(),
            BATCH.into(),
        ];
        let look = Statement::from_sql_and_values(store.backend(), LOOK, values);
        let mut looked = VersionCheck::find_by_statement(look)
            .all(store.reader())
            .await?;
        let Some(last) = looked.last() else {
            return Ok(gone);
        };
        (agent, version) = (last.agent_id.to_string(), last.version);
        looked.retain(|looked| looked.unneeded);
        if !looked.is_empty() {
            gone += remove_versions(store, &looked).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn sweep_settings(store: &Store, before: Millis) -> Result<u64, DbErr> {
    let (mut agent, mut hash, mut gone) = (String::new(), String::new(), 0);
    loop {
        let mut looked = look_at_settings(store, agent, hash, before).await?;
        let Some(last) = looked.last() else {
            return Ok(gone);
        };
        (agent, hash) = (last.agent_id.to_string(), last.hash.clone());
        looked.retain(|looked| looked.unneeded);
        if !looked.is_empty() {
            gone += remove_settings(store, &looked).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

pub(super) async fn look_at_settings(
    store: &Store,
    agent: String,
    hash: String,
    before: Millis,
) -> Result<Vec<SettingsCheck>, DbErr> {
    let values = [
        agent.into(),
        hash.into(),
        before.as_i64().into(),
        BATCH.into(),
    ];
    let look = Statement::from_sql_and_values(store.backend(), LOOK_AT_SETTINGS, values);
    SettingsCheck::find_by_statement(look)
        .all(store.reader())
        .await
}

/// Checks these rows again, since a call may have been written meanwhile. With an OFFSET PostgreSQL looks up each version; otherwise
/// it may read the whole index of calls to join them.
async fn remove_versions(store: &Store, looked: &[VersionCheck]) -> Result<u64, DbErr> {
    let source = json_rows(
        store.backend(),
        &[
            ("agent_id", ColumnType::Text),
            ("version", ColumnType::BigInt),
        ],
    );
    let sql = format!(
        "WITH free AS MATERIALIZED (SELECT v.agent_id, v.version FROM {source} JOIN agent_versions v \
            ON v.agent_id = rows.agent_id AND v.version = rows.version WHERE NOT EXISTS \
            (SELECT 1 FROM calls c WHERE c.agent_id = v.agent_id AND c.agent_version = v.version LIMIT 1 OFFSET 0) {}) \
         DELETE FROM agent_versions WHERE (agent_id, version) IN (SELECT agent_id, version FROM free)",
        lock_of(store, "v")
    );
    let remove = json_statement(store.backend(), sql, looked)?;
    Ok(store.writer().execute_raw(remove).await?.rows_affected())
}

/// Checks these rows again, since a change may have named them meanwhile.
pub(super) async fn remove_settings(store: &Store, looked: &[SettingsCheck]) -> Result<u64, DbErr> {
    let source = json_rows(
        store.backend(),
        &[
            ("agent_id", ColumnType::Text),
            ("hash", ColumnType::Text),
            ("before", ColumnType::BigInt),
        ],
    );
    let sql = format!(
        "WITH free AS MATERIALIZED (SELECT s.agent_id, s.hash FROM {source} JOIN agent_settings s \
            ON s.agent_id = rows.agent_id AND s.hash = rows.hash WHERE s.used_at < rows.before AND NOT EXISTS \
            (SELECT 1 FROM agent_versions v WHERE v.agent_id = s.agent_id AND v.hash = s.hash) {}) \
         DELETE FROM agent_settings WHERE (agent_id, hash) IN (SELECT agent_id, hash FROM free)",
        lock_of(store, "s")
    );
    let remove = json_statement(store.backend(), sql, looked)?;
    Ok(store.writer().execute_raw(remove).await?.rows_affected())
}

/// The sweep skips locked rows and leaves them to the next one. SQLite has one writer.
fn lock_of(store: &Store, table: &str) -> String {
    match store.backend() {
        DbBackend::Postgres => format!("FOR UPDATE OF {table} SKIP LOCKED"),
        _ => String::new(),
    }
}

/// Removes an agent's unneeded versions except the current one, to make room. The caller has locked the agent's row.
pub async fn make_room(
    db: &impl ConnectionTrait,
    agent: AgentId,
    version: i64,
    now: Millis,
) -> Result<(), DbErr> {
    of_agent(db, agent, version - 1, now).await
}

/// Checks the newest versions up to `up_to` that had a successor for long enough. Also removes settings that become unneeded.
pub(super) async fn of_agent(
    db: &impl ConnectionTrait,
    agent: AgentId,
    up_to: i64,
    now: Millis,
) -> Result<(), DbErr> {
    let before = now.plus_ms(-OPENING_MS);
    let followed: Option<i64> = agent_version::Entity::find()
        .select_only()
        .column(agent_version::Column::Version)
        .filter(agent_version::Column::AgentId.eq(agent))
        .filter(agent_version::Column::CreatedAt.lt(before))
        .order_by_desc(agent_version::Column::Version)
        .into_tuple()
        .one(db)
        .await?;
    let Some(followed) = followed else {
        return Ok(());
    };
    let backend = db.get_database_backend();
    let remove = Statement::from_sql_and_values(
        backend,
        "DELETE FROM agent_versions WHERE agent_id = $1 AND version IN \
         (SELECT v.version FROM agent_versions v WHERE v.agent_id = $1 AND v.version <= $2 ORDER BY v.version DESC LIMIT $3) \
         AND NOT EXISTS \
         (SELECT 1 FROM calls c WHERE c.agent_id = agent_versions.agent_id AND c.agent_version = agent_versions.version) \
         RETURNING hash",
        [
            agent.into(),
            up_to.min(followed - 1).into(),
            LOOKED_AT_MAX.into(),
        ],
    );
    for row in db.query_all_raw(remove).await? {
        let hash: String = row.try_get("", "hash")?;
        let settings = Statement::from_sql_and_values(
            backend,
            "DELETE FROM agent_settings WHERE agent_id = $1 AND hash = $2 AND used_at < $3 AND NOT EXISTS \
             (SELECT 1 FROM agent_versions v WHERE v.agent_id = $1 AND v.hash = $2)",
            [agent.into(), hash.into(), before.as_i64().into()],
        );
        db.execute_raw(settings).await?;
    }
    Ok(())
}
