//! `erasures`: the record that a call was erased, with actor and time.

use sea_orm::entity::prelude::*;

use crate::values::{Actor, CallId, Millis, TenantId};

/// The record that a call was erased. It remains when the call's own row is removed.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "erasures")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    pub tenant_id: TenantId,
    /// The actor that requested it.
    pub actor: Actor,
    pub erased_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
