//! `agent_settings`: the settings of an agent and its functions in one or more versions. Only `used_at` of a row ever
//! changes.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Millis, TenantId};

/// The settings of an agent and its functions in one or more versions.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agent_settings")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub agent_id: AgentId,
    /// SHA-256 of the settings, in hexadecimal.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: String,
    pub tenant_id: TenantId,
    /// Size of the settings, in bytes.
    pub size: i64,
    /// The time of the latest version that names them.
    pub used_at: Millis,
    /// The settings as JSON, without secrets.
    pub settings: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
