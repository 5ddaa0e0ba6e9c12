//! `audit`: who changed what, when and from where.

use sea_orm::entity::prelude::*;

use crate::values::{Actor, AuditAction, AuditId, Millis, TenantId};

/// One change, written in the transaction of the change. Rows are never changed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: AuditId,
    /// Whose the target is; none for what belongs to the service, such as a bridge.
    pub tenant_id: Option<TenantId>,
    pub actor: Actor,
    pub action: AuditAction,
    /// The id of what was changed.
    pub target: String,
    /// What changed of it, in names of fields and harmless values; never a secret, a prompt, a whole number or what was said.
    pub detail: String,
    pub at: Millis,
    /// The network address that it came from, where there is one.
    pub address: Option<String>,
    /// The request that it came with, where there is one.
    pub request_id: Option<String>,
    /// The node that carried it out.
    pub node: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
