//! `webhooks`: a receiver of a tenant's events.

use sea_orm::entity::prelude::*;

use crate::values::{EventKind, Millis, OutboundUrl, TenantId, WebhookId};

/// A receiver of a tenant's events.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "webhooks")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: WebhookId,
    pub tenant_id: TenantId,
    pub url: OutboundUrl,
    /// A JSON array of event kinds.
    pub events: String,
    /// Sealed with the webhook's id.
    pub secret: String,
    pub secret_hint: String,
    /// Sealed; after a rotation.
    pub previous_secret: Option<String>,
    pub previous_secret_until: Option<Millis>,
    pub is_active: bool,
    pub disabled_reason: Option<String>,
    /// Deliveries that failed for good since the last success.
    pub failed_in_row: i64,
    /// The first failed attempt since the last success.
    pub failing_since: Option<Millis>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// The kinds of event that this webhook subscribed to.
    pub fn event_kinds(&self) -> Vec<EventKind> {
        serde_json::from_str(&self.events).unwrap_or_default()
    }
}
