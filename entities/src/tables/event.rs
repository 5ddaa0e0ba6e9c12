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
    /// The time of its commit, by the announcing node. It never decreases within a tenant. None if it has no subscribers.
    pub announced_at: Option<Millis>,
    /// The webhooks that subscribed to it, each with its sequence number: `wh_…:17 wh_…:4`. None without subscribers.
    pub subscribers: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
