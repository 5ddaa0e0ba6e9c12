//! Versions of agents: a call names the version that it began with, and a version names its settings by their content, so that
//! what an agent was before and is again is stored once.
//!
//! A version is written in the transaction of the change that makes it, under the lock of the agent's row; the first of an
//! agent that was made before there were versions, when it is needed. [`removal`] is about what nobody needs any more.

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

/// The newest versions of an agent that are kept though no call names them.
pub const KEPT_MAX: i64 = 10;
/// How long after the next version, or the deletion of its agent, a version may still be taken by a call that is being opened.
pub const OPENING_MS: i64 = 5 * 60 * 1_000;
/// The longest talk of a call whose version is lost, and its agent with it: the longest that an agent can have, in minutes.
pub(super) const LONGEST_MINUTES: i64 = 240;
/// Of settings with which no call began.
const AND_NO_CALL: &str = " AND NOT EXISTS (SELECT 1 FROM agent_versions v JOIN calls c \
    ON c.agent_id = v.agent_id AND c.agent_version = v.version WHERE v.agent_id = s.agent_id AND v.hash = s.hash)";

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
    // First: from here on nobody takes them for what no version names.
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
    Ok(Recorded { version, weight })
}

/// Stores settings, or notes that those which are there are used again.
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

/// The present version of an agent, written now if it is not there yet; none where the agent is gone.
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

/// Whether the settings of a tenant's agents that are kept, but for those that calls began with, have at most so many bytes.
pub async fn are_within(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    most: i64,
) -> Result<bool, DbErr> {
    // The sum over all is read off an index; what calls began with is looked up only where that is too much.
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

/// The agent is being deleted: what no call needs goes a little later, with [`sweep`].
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

/// The settings of an agent that have this hash.
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
