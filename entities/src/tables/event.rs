//! `events`: events as they were announced.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, EventId, EventKind, Millis, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "events")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: EventId,
    pub tenant_id: TenantId,
    pub call_id: Option<CallId>,
    pub kind: EventKind,
    pub occurred_at: Millis,
    /// The exact body of every delivery.
    pub body: String,
    /// Its position among the tenant's events, in the order of commits. None for a sample to a single webhook, which
    /// no follower sees.
    pub position: Option<i64>,
    /// A sample reports nothing that happened.
    pub is_test: bool,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
