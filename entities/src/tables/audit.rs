//! `audit`: the entries of the audit, with actor, change, time and origin.

use sea_orm::entity::prelude::*;

use crate::values::{Actor, AuditAction, AuditId, Millis, TenantId};

/// One change, written in the transaction of the change. Rows are immutable.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "audit")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: AuditId,
    /// The tenant of the target; none if the target belongs to the service, such as a bridge.
    pub tenant_id: Option<TenantId>,
    pub actor: Actor,
    pub action: AuditAction,
    /// The id of the changed object.
    pub target: String,
    /// The changes, as names of fields and harmless values; never a secret, a prompt, a whole number or spoken words.
    pub detail: String,
    pub at: Millis,
    /// The network address of the request, if there is one.
    pub address: Option<String>,
    /// The id of the request, if there is one.
    pub request_id: Option<String>,
    /// The node that handled it.
    pub node: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
