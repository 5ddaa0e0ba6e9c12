//! Versions of agents: what a call begins with is stored once per version, and a call names the version.
//!
//! A version is written in the transaction of the change that makes it, under the lock of the agent's row; the first of an
//! agent that was made before there were versions, when it is needed.
//!
//! Those that no call names go, all but the newest [`KEPT_MAX`] of an agent: some with the agent's next change, the rest by
//! [`sweep`], which removes those of deleted agents too. A call that is just being opened has read its version and is not
//! written yet, so none goes before what followed it is [`OPENING_MS`] old.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use dikala_entities::{
    AgentId, CallId, Millis, Store, TenantId, TransferPrefixes, agent, agent_version, call,
    function,
    store::{Kind, json_rows, json_statement},
};
use moka::sync::Cache;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult,
    IntoActiveModel, QueryFilter, QueryOrder, QuerySelect, Statement, sea_query::Expr,
};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::settings::CallSettings;

/// The newest versions of an agent that are kept though no call names them.
pub const KEPT_MAX: i64 = 10;
/// How long after the next version, or the deletion of its agent, a version may still be taken by a call that is being opened.
const OPENING_MS: i64 = 5 * 60 * 1_000;
/// The longest talk of a call whose version is lost, and its agent with it: the longest that an agent can have, in minutes.
pub(super) const LONGEST_MINUTES: i64 = 240;
/// Versions that a change of an agent looks at, to remove those that are not needed.
const LOOKED_AT_MAX: i64 = 100;
/// Versions that one statement of the sweep looks at.
const BATCH: usize = 500;
/// What versions in memory may weigh in all.
const CACHED_BYTES: u64 = 32 * 1024 * 1024;
/// How much heavier a version is in memory than its JSON: its values, and what bridges are told of it.
const HEAVIER: usize = 6;
/// Between two batches of the sweep: others write in the meantime.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks at the versions after one, in the order of their keys, and says which of them nobody needs.
const LOOK: &str = "SELECT v.agent_id, v.version, NOT EXISTS \
    (SELECT 1 FROM calls c WHERE c.agent_id = v.agent_id AND c.agent_version = v.version) AND \
    (COALESCE(v.orphaned_at < $3, FALSE) OR \
     (v.version <= COALESCE((SELECT a.version FROM agents a WHERE a.id = v.agent_id), 0) - $4 AND \
      COALESCE((SELECT s.created_at FROM agent_versions s WHERE s.agent_id = v.agent_id AND s.version > v.version \
       ORDER BY s.version LIMIT 1), $3) < $3)) AS unneeded \
    FROM agent_versions v WHERE (v.agent_id, v.version) > ($1, $2) ORDER BY v.agent_id, v.version LIMIT $5";

/// What an agent is at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The number of the version.
    pub version: i64,
    /// How heavy the agent is with its functions, in bytes of JSON.
    pub weight: i64,
}

/// Stores what the agent is now as its next version, unless that is what the present one says. The agent's row is locked.
pub async fn record(
    db: &impl ConnectionTrait,
    agent: &agent::Model,
    now: Millis,
) -> Result<Recorded, DbErr> {
    let settings = present(db, agent).await?;
    let json = to_json(&settings)?;
    let weight = i64::try_from(json.len()).unwrap_or(i64::MAX);
    let hash = hex::encode(Sha256::digest(&json));
    let known: Option<String> = agent_version::Entity::find_by_id((agent.id, agent.version))
        .select_only()
        .column(agent_version::Column::Hash)
        .into_tuple()
        .one(db)
        .await?;
    if known.as_ref() == Some(&hash) {
        let version = agent.version;
        return Ok(Recorded { version, weight });
    }
    let version = agent.version + 1;
    let row = agent_version::Model {
        agent_id: agent.id,
        version,
        tenant_id: agent.tenant_id,
        hash,
        settings: json,
        max_call_duration_minutes: agent.max_call_duration_minutes,
        created_at: now,
        orphaned_at: None,
    };
    agent_version::Entity::insert(row.into_active_model())
        .exec_without_returning(db)
        .await?;
    agent::Entity::update_many()
        .set(agent::ActiveModel {
            version: Set(version),
            weight: Set(weight),
            ..Default::default()
        })
        .filter(agent::Column::Id.eq(agent.id))
        .exec(db)
        .await?;
    remove_unneeded(db, agent.id, version - KEPT_MAX, now).await?;
    Ok(Recorded { version, weight })
}

/// A version of an agent, as calls begin with it.
#[derive(Debug)]
pub struct Version {
    /// 1, 2, …
    pub number: i64,
    /// What it says.
    pub settings: CallSettings,
    for_bridge: OnceLock<Arc<Value>>,
    /// About how many bytes it takes in memory.
    weight: u32,
}

impl Version {
    fn new(number: i64, settings: CallSettings) -> Result<Arc<Self>, DbErr> {
        let bytes = HEAVIER * to_json(&settings)?.len();
        Ok(Arc::new(Self {
            number,
            settings,
            for_bridge: OnceLock::new(),
            weight: u32::try_from(bytes).unwrap_or(u32::MAX),
        }))
    }

    /// What a bridge is told of it.
    pub fn for_bridge(&self, transfers: &TransferPrefixes) -> Arc<Value> {
        let made = || Arc::new(self.settings.for_bridge(transfers));
        Arc::clone(self.for_bridge.get_or_init(made))
    }
}

/// Versions that calls began with lately. A version never changes, so nothing in here is ever wrong; which one is an agent's
/// present one is read for every call.
#[derive(Clone, Debug)]
pub struct Versions(Cache<(AgentId, i64), Arc<Version>>);

impl Default for Versions {
    fn default() -> Self {
        let cache = Cache::builder().max_capacity(CACHED_BYTES);
        Self(
            cache
                .weigher(|_, version: &Arc<Version>| version.weight)
                .build(),
        )
    }
}

impl Versions {
    /// A version of an agent, or the present one where that is not written yet; none where the agent is gone.
    pub async fn current(
        &self,
        store: &Store,
        agent: AgentId,
        version: i64,
        now: Millis,
    ) -> Result<Option<Arc<Version>>, DbErr> {
        if let Some(known) = self.0.get(&(agent, version)) {
            return Ok(Some(known));
        }
        let read = match settings_of(store.core_reader(), agent, version).await? {
            Some(settings) => Some(Version::new(version, settings)?),
            None => first(store, agent, now).await?,
        };
        if let Some(version) = &read {
            self.0.insert((agent, version.number), Arc::clone(version));
        }
        Ok(read)
    }
}

/// The present version of an agent, written now if it is not there yet; none where the agent is gone.
pub async fn first(
    store: &Store,
    agent: AgentId,
    now: Millis,
) -> Result<Option<Arc<Version>>, DbErr> {
    let txn = store.begin_core().await?;
    let locked = agent::Entity::find_by_id(agent)
        .lock_exclusive()
        .one(&txn)
        .await?;
    let Some(agent) = locked else {
        return Ok(None);
    };
    let recorded = record(&txn, &agent, now).await?;
    let settings = present(&txn, &agent).await?;
    txn.commit().await?;
    Version::new(recorded.version, settings).map(Some)
}

/// The settings that a call began with; none for a call that was refused.
pub async fn of_call(
    db: &impl ConnectionTrait,
    row: &call::Model,
) -> Result<Option<CallSettings>, DbErr> {
    // Calls from before there were versions carry their settings themselves.
    if let Some(json) = &row.settings {
        return from_json(json).map(Some);
    }
    match (row.agent_id, row.agent_version) {
        (Some(agent), Some(version)) => settings_of(db, agent, version).await,
        _ => Ok(None),
    }
}

/// The longest talk that each of these calls began with, in minutes.
pub async fn durations(
    db: &impl ConnectionTrait,
    rows: &[call::Model],
) -> Result<HashMap<CallId, i64>, DbErr> {
    let agents = rows.iter().filter(|row| row.agent_version.is_some());
    let by_version: Vec<(AgentId, i64, i64)> = agent_version::Entity::find()
        .select_only()
        .column(agent_version::Column::AgentId)
        .column(agent_version::Column::Version)
        .column(agent_version::Column::MaxCallDurationMinutes)
        .filter(agent_version::Column::AgentId.is_in(agents.filter_map(|row| row.agent_id)))
        .into_tuple()
        .all(db)
        .await?;
    let by_version: HashMap<(AgentId, i64), i64> = by_version
        .into_iter()
        .map(|(agent, version, minutes)| ((agent, version), minutes))
        .collect();
    let of = |row: &call::Model| match (&row.settings, row.agent_id, row.agent_version) {
        (Some(json), ..) => Some(from_json(json).ok()?.max_call_duration_minutes),
        (None, Some(agent), Some(version)) => by_version.get(&(agent, version)).copied(),
        _ => None,
    };
    let mut found = HashMap::new();
    for row in rows {
        let minutes = match of(row) {
            Some(minutes) => minutes,
            None if row.settings.is_none() && row.agent_version.is_none() => continue,
            None => of_lost(db, row).await?,
        };
        found.insert(row.id, minutes);
    }
    Ok(found)
}

/// A call whose version is not there is not cut short for that: it may talk for as long as its agent lets calls talk now.
async fn of_lost(db: &impl ConnectionTrait, row: &call::Model) -> Result<i64, DbErr> {
    tracing::error!(
        call = %row.id, tenant = %row.tenant_id, version = row.agent_version,
        "what a call began with is lost; its longest talk is that of its agent now"
    );
    let Some(agent) = row.agent_id else {
        return Ok(LONGEST_MINUTES);
    };
    let present: Option<i64> = agent::Entity::find_by_id(agent)
        .select_only()
        .column(agent::Column::MaxCallDurationMinutes)
        .into_tuple()
        .one(db)
        .await?;
    Ok(present.unwrap_or(LONGEST_MINUTES))
}

/// What a tenant's agents weigh in all, in bytes of JSON.
pub async fn weight_of_all(db: &impl ConnectionTrait, tenant: TenantId) -> Result<i64, DbErr> {
    let weights: Vec<i64> = agent::Entity::find()
        .select_only()
        .column(agent::Column::Weight)
        .filter(agent::Column::TenantId.eq(tenant))
        .into_tuple()
        .all(db)
        .await?;
    Ok(weights.into_iter().fold(0, i64::saturating_add))
}

/// The agent is being deleted: what no call needs goes a little later, with [`sweep`].
pub async fn orphan(db: &impl ConnectionTrait, agent: AgentId, now: Millis) -> Result<(), DbErr> {
    agent_version::Entity::update_many()
        .col_expr(agent_version::Column::OrphanedAt, Expr::value(now))
        .filter(agent_version::Column::AgentId.eq(agent))
        .exec(db)
        .await
        .map(drop)
}

/// Removes versions that no call names (any more), of deleted agents all, of the others those beyond [`KEPT_MAX`]. What it reads
/// it reads on a reader, a few at a time. Returns how many rows went.
pub async fn sweep(store: &Store, now: Millis) -> Result<u64, DbErr> {
    #[derive(FromQueryResult, Serialize)]
    struct Looked {
        agent_id: AgentId,
        version: i64,
        unneeded: bool,
    }
    let columns = [("agent_id", Kind::Text), ("version", Kind::BigInt)];
    // A call may have been written since: the write looks again, at these rows only.
    let remove = format!(
        "DELETE FROM agent_versions WHERE (agent_id, version) IN (SELECT agent_id, version FROM {}) AND NOT EXISTS \
         (SELECT 1 FROM calls c WHERE c.agent_id = agent_versions.agent_id AND c.agent_version = agent_versions.version)",
        json_rows(store.backend(), &columns)
    );
    let (mut agent, mut version, mut gone) = (String::new(), 0, 0);
    loop {
        let values = [
            agent.clone().into(),
            version.into(),
            now.plus_ms(-OPENING_MS).as_i64().into(),
            KEPT_MAX.into(),
            i64::try_from(BATCH).unwrap_or(i64::MAX).into(),
        ];
        let look = Statement::from_sql_and_values(store.backend(), LOOK, values);
        let mut looked = Looked::find_by_statement(look).all(store.reader()).await?;
        let Some(last) = looked.last() else {
            return Ok(gone);
        };
        (agent, version) = (last.agent_id.to_string(), last.version);
        looked.retain(|looked| looked.unneeded);
        if !looked.is_empty() {
            let statement = json_statement(store.backend(), remove.clone(), &looked)?;
            gone += store.writer().execute_raw(statement).await?.rows_affected();
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Among the newest of those up to a version that have had a successor for long enough.
async fn remove_unneeded(
    db: &impl ConnectionTrait,
    agent: AgentId,
    up_to: i64,
    now: Millis,
) -> Result<(), DbErr> {
    let followed: Option<i64> = agent_version::Entity::find()
        .select_only()
        .column(agent_version::Column::Version)
        .filter(agent_version::Column::AgentId.eq(agent))
        .filter(agent_version::Column::CreatedAt.lt(now.plus_ms(-OPENING_MS)))
        .order_by_desc(agent_version::Column::Version)
        .into_tuple()
        .one(db)
        .await?;
    let Some(followed) = followed else {
        return Ok(());
    };
    let statement = Statement::from_sql_and_values(
        db.get_database_backend(),
        "DELETE FROM agent_versions WHERE agent_id = $1 AND version IN \
         (SELECT v.version FROM agent_versions v WHERE v.agent_id = $1 AND v.version <= $2 ORDER BY v.version DESC LIMIT $3) \
         AND NOT EXISTS \
         (SELECT 1 FROM calls c WHERE c.agent_id = agent_versions.agent_id AND c.agent_version = agent_versions.version)",
        [
            agent.into(),
            up_to.min(followed - 1).into(),
            LOOKED_AT_MAX.into(),
        ],
    );
    db.execute_raw(statement).await.map(drop)
}

async fn present(db: &impl ConnectionTrait, agent: &agent::Model) -> Result<CallSettings, DbErr> {
    let functions = function::Entity::find()
        .filter(function::Column::AgentId.eq(agent.id))
        .order_by_asc(function::Column::Id)
        .all(db)
        .await?;
    Ok(CallSettings::new(agent.clone(), functions))
}

async fn settings_of(
    db: &impl ConnectionTrait,
    agent: AgentId,
    version: i64,
) -> Result<Option<CallSettings>, DbErr> {
    let json: Option<String> = agent_version::Entity::find_by_id((agent, version))
        .select_only()
        .column(agent_version::Column::Settings)
        .into_tuple()
        .one(db)
        .await?;
    json.map(|json| from_json(&json)).transpose()
}

fn to_json(settings: &CallSettings) -> Result<String, DbErr> {
    serde_json::to_string(settings).map_err(|error| DbErr::Json(error.to_string()))
}

fn from_json(json: &str) -> Result<CallSettings, DbErr> {
    serde_json::from_str(json).map_err(|error| DbErr::Json(error.to_string()))
}

#[cfg(test)]
mod tests {
    use dikala_entities::{BridgeId, PhoneNumberId, idempotency};
    use dikala_migration::{Migrator, MigratorTrait};

    use super::*;
    use crate::testing::postgres_store;

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);

    /// Stores with the schema of before there were versions.
    async fn old_stores() -> Vec<(Option<tempfile::TempDir>, Store)> {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}/old.db", folder.path().display());
        let mut stores = vec![(Some(folder), Store::connect(&url).await.expect("a store"))];
        if let Some(postgres) = postgres_store().await {
            let empty = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
            postgres
                .writer()
                .execute_unprepared(empty)
                .await
                .expect("empties");
            stores.push((None, postgres));
        }
        for (_, store) in &stores {
            let schema = store.for_schema().await.expect("a connection");
            Migrator::up(&schema, Some(4))
                .await
                .expect("the old schema");
        }
        stores
    }

    #[actix::test]
    async fn calls_and_agents_of_before_go_on() {
        for (_folder, store) in old_stores().await {
            let (tenant, agent, call) = (TenantId::new(NOW), AgentId::new(NOW), CallId::new(NOW));
            let (bridge, number) = (BridgeId::new(NOW), PhoneNumberId::new(NOW));
            let settings = serde_json::json!({
                "id": agent, "name": "A", "systemPrompt": "old", "voiceId": null, "greetingText": null, "language": "id",
                "maxCallDurationMinutes": 7, "escalationNumber": "+0812345678", "tools": [], "functions": []
            });
            let large = "x".repeat(5_000);
            for sql in [
                format!(
                    "INSERT INTO agents (id, tenant_id, name, system_prompt, language, max_call_duration_minutes, tools_enabled, \
                     is_active, created_at, updated_at) VALUES ('{agent}', '{tenant}', 'A', 'new', 'id', 10, '[]', TRUE, 1, 1)"
                ),
                format!(
                    "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, agent_id, caller_number, \
                     callee_number, status, started_at, metadata, settings, last_sign_at, owner, epoch) VALUES ('{call}', \
                     '{tenant}', '{bridge}', 'b', '{number}', '{agent}', 'x', '+622150001000', 'ringing', 1, '{{}}', \
                     '{settings}', 1, 'n', 1)"
                ),
                format!(
                    "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, status, body, created_at) \
                     VALUES ('{tenant}', 'k', 'f', 200, '{large}', 1)"
                ),
            ] {
                store
                    .writer()
                    .execute_unprepared(&sql)
                    .await
                    .expect("inserts");
            }
            let schema = store.for_schema().await.expect("a connection");
            dikala_migration::migrate(&schema).await.expect("migrates");
            let db = store.reader();
            let row = call::Entity::find_by_id(call)
                .one(db)
                .await
                .expect("reads")
                .expect("is there");
            let old = of_call(db, &row).await.expect("reads").expect("is there");
            assert_eq!(
                (old.system_prompt.as_str(), old.max_call_duration_minutes),
                ("old", 7)
            );
            // No number any more, and no reason to lose the call.
            assert_eq!(old.escalation_number, None);
            let minutes = durations(db, std::slice::from_ref(&row))
                .await
                .expect("reads");
            assert_eq!(minutes.get(&call), Some(&7));
            let row = agent::Entity::find_by_id(agent)
                .one(db)
                .await
                .expect("reads")
                .expect("is there");
            let cache = Versions::default();
            let version = cache
                .current(&store, row.id, row.version, NOW)
                .await
                .expect("writes")
                .expect("is there");
            assert_eq!(
                (version.number, version.settings.system_prompt.as_str()),
                (1, "new")
            );
            let again = cache
                .current(&store, row.id, row.version, NOW)
                .await
                .expect("reads")
                .expect("is there");
            assert_eq!(again.number, 1);
            assert!(weight_of_all(db, tenant).await.expect("reads") > 100);
            let key = idempotency::Entity::find()
                .one(db)
                .await
                .expect("reads")
                .expect("is there");
            assert_eq!((key.size, key.is_brief), (5_000, false));
        }
    }
}
