//! `transcripts`: the words spoken in a call.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, Millis, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "transcripts")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    pub tenant_id: TenantId,
    pub summary: String,
    /// A JSON array of `{role, text, at?, latencyMs?, interrupted?}`.
    pub turns: String,
    pub created_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
