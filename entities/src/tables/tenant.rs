//! `tenants`: a customer account. Everything else a tenant has is found through its id.

use sea_orm::entity::prelude::*;

use crate::values::{Millis, Plan, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "tenants")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: TenantId,
    pub name: String,
    pub plan: Plan,
    /// Requests per minute, if they differ from the plan's.
    pub rate_limit: Option<i64>,
    /// Limit of concurrent calls; none: the plan's.
    pub max_concurrent_calls: Option<i64>,
    /// The secret that signs function requests, sealed with the tenant's id.
    pub function_secret: String,
    pub suspended_at: Option<Millis>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
