//! Agent versions. A call names the version that it began with. A version names its settings by their hash, so settings that
//! return are stored once.
//!
//! A version is written in the transaction of the change that makes it, under the lock of the agent's row. For agents from
//! before there were versions, the first is written when it is needed. [`removal`] removes unneeded ones.

use std::{collections::HashMap, sync::Arc};

use dikala_entities::{
    AgentId, CallId, Millis, Store, TenantId, agent, agent_setting, agent_version, call, function,
    kept_version,
};
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect, Statement,
    sea_query::{Expr, OnConflict},
};
use sha2::{Digest, Sha256};

use super::settings::CallSettings;

mod cache;
mod removal;
#[cfg(test)]
mod tests;

pub use cache::{PresentVersion, Version, Versions};
pub use removal::{make_room, sweep};

/// The newest versions of an agent, kept even if no call names them.
pub const KEPT_MAX: i64 = 10;
/// Time that a version is kept after its successor or its agent's deletion: a call that is being opened may still use it.
pub const OPENING_MS: i64 = 5 * 60 * 1_000;
/// The maximum length of a call whose version and agent are gone: the longest that an agent can have, in minutes.
pub(super) const LONGEST_MINUTES: i64 = 240;
/// Restricts to settings with which no call began. PostgreSQL could read all calls for a join.
const AND_NO_CALL: &str = " AND NOT EXISTS (SELECT 1 FROM agent_versions v WHERE v.agent_id = s.agent_id AND v.hash = s.hash \
    AND (SELECT 1 FROM calls c WHERE c.agent_id = v.agent_id AND c.agent_version = v.version LIMIT 1) IS NOT NULL)";

/// An agent's current version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRecord {
    pub version: i64,
    /// The size of the agent with its functions, in bytes of JSON.
    pub weight: i64,
}

/// Stores the agent's settings as its next version, unless the current one has them. The caller has locked the agent's row.
pub async fn record(
    db: &impl ConnectionTrait,
    agent: &agent::Model,
    now: Millis,
) -> Result<VersionRecord, DbErr> {
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
        return Ok(VersionRecord { version, weight });
    }
    let version = agent.version + 1;
    // Must come first: from here on, a sweep does not remove these settings as unneeded.
    keep_settings(db, agent, hash.clone(), json, now).await?;
    let row = agent_version::Model {
        agent_id: agent.id,
        version,
        tenant_id: agent.tenant_id,
        hash,
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
    removal::of_agent(db, agent.id, version - KEPT_MAX, now).await?;
    Ok(VersionRecord { version, weight })
}

/// Stores settings, or marks stored ones as used again.
async fn keep_settings(
    db: &impl ConnectionTrait,
    agent: &agent::Model,
    hash: String,
    settings: String,
    now: Millis,
) -> Result<(), DbErr> {
    let row = agent_setting::Model {
        agent_id: agent.id,
        hash,
        tenant_id: agent.tenant_id,
        size: i64::try_from(settings.len()).unwrap_or(i64::MAX),
        used_at: now,
        settings,
    };
    let key = [agent_setting::Column::AgentId, agent_setting::Column::Hash];
    let again = OnConflict::columns(key)
        .update_column(agent_setting::Column::UsedAt)
        .to_owned();
    agent_setting::Entity::insert(row.into_active_model())
        .on_conflict(again)
        .exec_without_returning(db)
        .await
        .map(drop)
}

/// The agent's current version, written first if necessary; `None` if the agent is gone.
pub async fn first(
    store: &Store,
    agent: AgentId,
    now: Millis,
) -> Result<Option<Arc<Version>>, DbErr> {
    let txn = store.begin_critical().await?;
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

/// Settings that are tried and not saved, from their JSON.
pub(super) fn of_draft(json: &str) -> Result<Arc<Version>, DbErr> {
    Version::new(0, from_json(json)?)
}

/// The settings that a call began with; `None` for a refused call.
pub async fn of_call(
    db: &impl ConnectionTrait,
    row: &call::Model,
) -> Result<Option<CallSettings>, DbErr> {
    // A call that tries settings has its own.
    if let Some(json) = &row.settings {
        return from_json(json).map(Some);
    }
    match (row.agent_id, row.agent_version) {
        (Some(agent), Some(version)) => settings_of(db, agent, version).await,
        _ => Ok(None),
    }
}

/// The maximum length that each of these calls began with, in minutes.
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
        (Some(json), ..) => Some(from_json(json).ok()?.persona.max_call_duration_minutes),
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

/// A call whose version is missing is not cut short: it may last as long as its agent allows now.
async fn of_lost(db: &impl ConnectionTrait, row: &call::Model) -> Result<i64, DbErr> {
    tracing::error!(
        call = %row.id, tenant = %row.tenant_id, version = row.agent_version,
        "the agent version of a call is missing; the call gets the agent's present maximum length"
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

/// The size of all agents of a tenant, in bytes of JSON.
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

/// True if the stored settings of a tenant's agents, except those that calls began with, have at most `most` bytes.
pub async fn are_within(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    most: i64,
) -> Result<bool, DbErr> {
    // The total comes from an index. The settings of calls are excluded only if it is too large.
    Ok(sum_of_sizes(db, tenant, "").await? <= most
        || sum_of_sizes(db, tenant, AND_NO_CALL).await? <= most)
}

async fn sum_of_sizes(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    and: &str,
) -> Result<i64, DbErr> {
    let sql = format!(
        "SELECT CAST(COALESCE(SUM(s.size), 0) AS BIGINT) AS bytes FROM agent_settings s WHERE s.tenant_id = $1{and}"
    );
    let sum = Statement::from_sql_and_values(db.get_database_backend(), sql, [tenant.into()]);
    let row = db.query_one_raw(sum).await?;
    row.map_or(Ok(0), |row| row.try_get("", "bytes"))
}

/// Marks the versions of a deleted agent. [`sweep`] removes those that no call needs a little later.
pub async fn orphan(db: &impl ConnectionTrait, agent: AgentId, now: Millis) -> Result<(), DbErr> {
    agent_version::Entity::update_many()
        .col_expr(agent_version::Column::OrphanedAt, Expr::value(now))
        .filter(agent_version::Column::AgentId.eq(agent))
        .exec(db)
        .await
        .map(drop)
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
    let json: Option<String> = kept_version::Entity::find_by_id((agent, version))
        .select_only()
        .column(kept_version::Column::Settings)
        .into_tuple()
        .one(db)
        .await?;
    json.map(|json| from_json(&json)).transpose()
}

async fn settings_by_hash(
    db: &impl ConnectionTrait,
    agent: AgentId,
    hash: &str,
) -> Result<Option<CallSettings>, DbErr> {
    let json: Option<String> = agent_setting::Entity::find_by_id((agent, hash.to_owned()))
        .select_only()
        .column(agent_setting::Column::Settings)
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
