//! `functions`: an agent's function: an endpoint of the tenant that the AI may call.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, FunctionId, FunctionMethod, Millis, OutboundUrl, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "functions")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: FunctionId,
    pub tenant_id: TenantId,
    pub agent_id: AgentId,
    /// Unique per agent.
    pub name: String,
    pub description: String,
    pub endpoint: OutboundUrl,
    pub method: FunctionMethod,
    /// A JSON Schema of type object, as JSON.
    pub parameters: String,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
