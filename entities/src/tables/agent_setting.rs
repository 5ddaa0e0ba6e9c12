//! `agent_settings`: an agent with its functions as it was in one version or more. A row never changes, but for `used_at`.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Millis, TenantId};

/// An agent with its functions as it was in one version or more.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agent_settings")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub agent_id: AgentId,
    /// SHA-256 over the settings, in hexadecimal digits.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub tenant_id: TenantId,
    /// Of the settings, in bytes.
    pub size: i64,
    /// When the latest version was made that names them.
    pub used_at: Millis,
    /// The settings as JSON, without secrets.
    pub settings: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
