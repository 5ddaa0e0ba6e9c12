//! `phone_numbers`: a number that customers call. A `did` belongs to one tenant.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Millis, PhoneNumber, PhoneNumberId, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "phone_numbers")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: PhoneNumberId,
    pub tenant_id: TenantId,
    /// Unique over all tenants.
    pub did: PhoneNumber,
    pub label: String,
    pub is_active: bool,
    pub agent_id: Option<AgentId>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
