//! `events`: something that happened and was announced.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, EventId, EventKind, Millis, TenantId};

/// Something that happened and was announced.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "events")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: EventId,
    pub tenant_id: TenantId,
    pub call_id: Option<CallId>,
    pub kind: EventKind,
    pub occurred_at: Millis,
    /// The exact bytes that every delivery carries.
    pub body: String,
    /// Its place among the tenant's events, in the order of their commits; none for a sample that was made for one webhook, which
    /// nobody else hears of.
    pub position: Option<i64>,
    /// A sample: it tells of nothing that happened.
    pub is_test: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
