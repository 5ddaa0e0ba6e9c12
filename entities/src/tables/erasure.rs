//! `erasures`: the record that a call was erased, by whose key and when.

use sea_orm::entity::prelude::*;

use crate::values::{ApiKeyId, CallId, Millis, TenantId};

/// The record that a call was erased. It stays when the call's own row goes.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "erasures")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    pub tenant_id: TenantId,
    /// The API key that asked for it.
    pub key_id: ApiKeyId,
    pub erased_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
