//! `recoveries`: requests to send the failed deliveries of a period again, until all of them are pending.

use sea_orm::entity::prelude::*;

use crate::values::{DeliveryId, Millis, RecoveryId, TenantId, WebhookId};

/// A request to send the failed deliveries of a period again. It is removed with its webhook.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "recoveries")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: RecoveryId,
    pub tenant_id: TenantId,
    pub webhook_id: WebhookId,
    /// The start of the period, inclusive.
    pub since: Millis,
    /// The end of the period, exclusive.
    pub until: Millis,
    /// The cursor: the last delivery worked off. It only moves forward.
    pub after: DeliveryId,
    /// Deliveries that failed later than this are not included.
    pub asked_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
