//! `kept_versions`: a view of agents' versions with their settings.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Millis, TenantId};

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
    /// The time at which the agent was deleted.
    pub orphaned_at: Option<Millis>,
    /// The settings as JSON, without secrets.
    pub settings: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
