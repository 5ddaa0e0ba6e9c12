//! `recoveries`: failed deliveries of a time that a tenant wants sent again, until the last of them is pending.

use sea_orm::entity::prelude::*;

use crate::values::{DeliveryId, Millis, RecoveryId, TenantId, WebhookId};

/// Failed deliveries of a time that a tenant wants sent again. Goes with its webhook.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "recoveries")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: RecoveryId,
    pub tenant_id: TenantId,
    pub webhook_id: WebhookId,
    /// From when, inclusive.
    pub since: Millis,
    /// To when, exclusive.
    pub until: Millis,
    /// The last delivery that was seen to. Only ever goes forward.
    pub after: DeliveryId,
    /// What failed later than this is not meant.
    pub asked_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
