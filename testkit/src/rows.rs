//! Rows that more than one crate's tests begin with.

use dikala_entities::{
    EventKind, Millis, OutboundUrl, Secret, TenantId, UrlPolicy, Vault, WebhookId,
    webhook::{self, NewWebhook},
};

/// A webhook that wants these events, at an address where nothing is, with a secret that nobody knows.
pub fn webhook(
    id: WebhookId,
    tenant: TenantId,
    events: &[EventKind],
    now: Millis,
) -> webhook::Model {
    let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
    let new = NewWebhook {
        id,
        tenant,
        url: OutboundUrl::parse("https://example.com/hook", UrlPolicy::default()).expect("a URL"),
        events,
        secret: &Secret::new("secret-of-a-row"),
    };
    webhook::Model::new(new, &vault, now)
}
