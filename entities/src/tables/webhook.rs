//! `webhooks`: a receiver of a tenant's events.

use sea_orm::entity::prelude::*;

use crate::{
    values::{EventKind, Millis, OutboundUrl, Secret, TenantId, WebhookId},
    vault::{SecretPlace, Vault},
};

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
    /// Sealed; set by a rotation.
    pub previous_secret: Option<String>,
    pub previous_secret_until: Option<Millis>,
    pub is_active: bool,
    pub disabled_reason: Option<String>,
    /// The time since when an operator has paused its deliveries.
    pub paused_at: Option<Millis>,
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

/// The fields of a new webhook.
#[derive(Clone, Debug)]
pub struct NewWebhook<'a> {
    pub id: WebhookId,
    pub tenant: TenantId,
    pub url: OutboundUrl,
    pub events: &'a [EventKind],
    pub secret: &'a Secret,
}

impl Model {
    /// An active webhook without failures.
    pub fn new(new: NewWebhook<'_>, vault: &Vault, now: Millis) -> Self {
        Self {
            id: new.id,
            tenant_id: new.tenant,
            url: new.url,
            events: events_json(new.events),
            secret: vault.seal(SecretPlace::WebhookSecret, new.id, new.secret),
            secret_hint: new.secret.hint(),
            previous_secret: None,
            previous_secret_until: None,
            is_active: true,
            disabled_reason: None,
            paused_at: None,
            failed_in_row: 0,
            failing_since: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Marks a change. Every state of a webhook has a different time, even within a millisecond or by two nodes'
    /// clocks, so that an attempt at an earlier state can be recognised.
    pub fn changed(&mut self, now: Millis) {
        self.updated_at = now.max(self.updated_at.plus_ms(1));
    }

    pub fn event_kinds(&self) -> Vec<EventKind> {
        let words: Vec<serde_json::Value> = serde_json::from_str(&self.events).unwrap_or_default();
        let known = words.into_iter().map(serde_json::from_value);
        known.filter_map(Result::ok).collect()
    }
}

/// Event kinds as the row stores them.
pub fn events_json(events: &[EventKind]) -> String {
    serde_json::to_string(events).expect("words are JSON")
}
