//! `agent_versions`: versions of agents with their functions. Only `orphaned_at` of a row ever changes.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Millis, TenantId};

/// A version of an agent; its settings are in [`agent_setting`](super::agent_setting).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agent_versions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub agent_id: AgentId,
    /// 1, 2, …
    #[sea_orm(primary_key, auto_increment = false)]
    pub version: i64,
    pub tenant_id: TenantId,
    /// The hash of its settings. A change to equal settings makes no new version.
    pub hash: String,
    pub max_call_duration_minutes: i64,
    pub created_at: Millis,
    /// The time at which the agent was deleted.
    pub orphaned_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
