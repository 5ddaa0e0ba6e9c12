//! `agent_versions`: an agent with its functions as it once was. A row never changes, but for `orphaned_at`.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Millis, TenantId};

/// An agent with its functions as it once was.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agent_versions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub agent_id: AgentId,
    /// 1, 2, …
    #[sea_orm(primary_key, auto_increment = false)]
    pub version: i64,
    pub tenant_id: TenantId,
    /// SHA-256 over the settings, in hexadecimal digits: the same content makes no new version.
    pub hash: String,
    /// The settings as JSON, without secrets.
    pub settings: String,
    pub max_call_duration_minutes: i64,
    pub created_at: Millis,
    /// When the agent was deleted.
    pub orphaned_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
