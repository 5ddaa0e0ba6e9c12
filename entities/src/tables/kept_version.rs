//! `kept_versions`: versions of agents with their settings, to be read. A view.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Millis, TenantId};

/// An agent with its functions as it once was.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "kept_versions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub agent_id: AgentId,
    /// 1, 2, …
    #[sea_orm(primary_key, auto_increment = false)]
    pub version: i64,
    pub tenant_id: TenantId,
    pub created_at: Millis,
    /// When the agent was deleted.
    pub orphaned_at: Option<Millis>,
    /// The settings as JSON, without secrets.
    pub settings: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
