//! `deliveries`: one event on its way to one webhook. The row is written after the first attempt, or once the attempt has to
//! wait.

use sea_orm::entity::prelude::*;

use crate::values::{
    CallId, DeliveryId, DeliveryStatus, EventId, EventKind, Millis, TenantId, WebhookId,
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deliveries")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: DeliveryId,
    pub tenant_id: TenantId,
    pub webhook_id: WebhookId,
    pub event_id: EventId,
    pub call_id: Option<CallId>,
    pub kind: EventKind,
    pub status: DeliveryStatus,
    pub attempts: i64,
    /// None once it is over.
    pub next_attempt_at: Option<Millis>,
    pub is_test: bool,
    pub created_at: Millis,
    pub completed_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
