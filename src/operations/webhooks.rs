//! Webhooks: the endpoints that receive a tenant's events.

pub mod backlog;
pub mod health;

use dikala_actors::webhooks::{delete_free_cursor, new_cursor};
use dikala_entities::{
    AuditAction, EventKind, Millis, OfTenant, OutboundUrl, Secret, SecretPlace, WebhookId,
    described, tenant,
    webhook::{self, NewWebhook, events_json},
};
use sea_orm::{
    ActiveModelTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::{
    ToSchema,
    openapi::{ArrayBuilder, ObjectBuilder},
};

use super::{Addresses, OperationContext, OperationWrite};
use crate::{
    audit::{AuditChange, switched},
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{
            BlankRule, Id, ParseResult, RequestBody, boolean, list, not_allowed, string, text,
        },
        route::BASE,
    },
    openapi::schema,
};

/// Read-only fields: accepted and ignored in requests, so that a client can send back what it read.
pub const READ_ONLY: &[&str] = &["id", "createdAt", "updatedAt"];
/// Read-only fields of an update.
pub const READ_ONLY_OF_UPDATES: &[&str] = &[
    "id",
    "createdAt",
    "updatedAt",
    "secretHint",
    "disabledReason",
];
/// Webhooks per tenant.
pub const WEBHOOKS_MAX: usize = 20;
/// Time for which the previous secret still signs, in milliseconds.
pub const PREVIOUS_SECRET_MS: i64 = 24 * 60 * 60 * 1_000;
/// The reason shown for a webhook that an operator paused.
const PAUSED: &str = "paused by the operator; deliveries wait, and none is lost";
const EVENTS_MIN: usize = 1;
const SECRET_CHARS_MIN: usize = 8;
const SECRET_CHARS_MAX: usize = 256;

/// A receiver of events, as it is registered.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({
    "url": "https://example.com/hooks/dikala", "events": ["call.started", "call.ended"],
    "secret": "a-secret-only-we-know"
}))]
pub struct WebhookCreate {
    url: OutboundUrl,
    events: EventKinds,
    /// Signs every delivery; never shown again.
    secret: WebhookSecret,
}

/// The fields of a webhook that can be changed.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"isActive": true}))]
pub struct WebhookUpdate {
    url: OutboundUrl,
    events: EventKinds,
    /// `true` also forgets the failures that disabled it.
    #[schema(nullable, default = true)]
    is_active: bool,
}

/// A new secret. The old one signs as well for 24 hours.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"secret": "the-next-secret-only-we-know"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct SecretRotation {
    pub secret: WebhookSecret,
}

/// A receiver of events.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6", "url": "https://example.com/hooks/dikala",
    "events": ["call.started", "call.ended"], "isActive": true, "secretHint": "know", "disabledReason": null,
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct Webhook {
    pub id: WebhookId,
    url: OutboundUrl,
    events: EventKinds,
    is_active: bool,
    /// The secret's last four characters.
    secret_hint: String,
    /// The reason why the service stopped delivering to it. If the webhook is active, its deliveries wait until the
    /// operator resumes them.
    disabled_reason: Option<String>,
    created_at: Millis,
    updated_at: Millis,
}

impl From<webhook::Model> for Webhook {
    fn from(webhook: webhook::Model) -> Self {
        Self {
            events: EventKinds::of(&webhook),
            id: webhook.id,
            url: webhook.url,
            is_active: webhook.is_active,
            secret_hint: webhook.secret_hint,
            disabled_reason: webhook
                .disabled_reason
                .or_else(|| webhook.paused_at.map(|_| PAUSED.to_owned())),
            created_at: webhook.created_at,
            updated_at: webhook.updated_at,
        }
    }
}

/// The subscribed kinds of events: at least one, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct EventKinds(Vec<EventKind>);

impl EventKinds {
    fn parse(value: &Value) -> ParseResult<Self> {
        list(EVENTS_MIN, subscribable, EventKind::eq)(value).map(Self)
    }

    fn of(webhook: &webhook::Model) -> Self {
        Self(webhook.event_kinds())
    }
}

/// A kind of event that a webhook can subscribe to.
fn subscribable(value: &Value) -> ParseResult<EventKind> {
    let given = string(value)?;
    let kinds = EventKind::OF_WEBHOOKS.iter();
    let named = kinds.clone().find(|kind| kind.as_str() == given).copied();
    let words = kinds.map(|kind| kind.as_str());
    named.ok_or_else(|| not_allowed(given, "an event", words).into())
}

/// The secret that signs deliveries.
#[derive(Clone, Debug)]
pub struct WebhookSecret(Secret);

impl WebhookSecret {
    fn parse(value: &Value) -> ParseResult<Self> {
        let text = text(SECRET_CHARS_MIN, SECRET_CHARS_MAX, BlankRule::Opaque)(value)?;
        Ok(Self(Secret::new(text)))
    }
}

/// The schema of a kind of event that webhooks get.
pub fn kind_schema() -> ObjectBuilder {
    schema::words(EventKind::OF_WEBHOOKS.iter().map(|kind| kind.as_str()))
}

described! {
    EventKinds: ArrayBuilder::new()
        .items(kind_schema())
        .min_items(Some(EVENTS_MIN))
        .unique_items(true);
    WebhookSecret: schema::text(SECRET_CHARS_MIN, SECRET_CHARS_MAX, false);
}

/// Locks a webhook's row until the transaction ends.
async fn lock(write: &OperationWrite<'_>, id: WebhookId) -> Result<webhook::Model, ApiError> {
    let found = write.context.one_of::<webhook::Entity>(id).lock_exclusive();
    let found = found.one(&**write).await?;
    found.ok_or(ApiError::NotFound(Missing::Webhook))
}

/// Commits a changed row with its audit entry.
async fn save(
    mut write: OperationWrite<'_>,
    row: webhook::Model,
    change: AuditChange,
) -> Result<Webhook, ApiError> {
    let changed = row.clone().into_active_model().reset_all();
    changed.update(&*write).await?;
    write.record(row.tenant_id, change).await?;
    write.commit(row.into()).await
}

/// The principal's webhooks, oldest first.
pub async fn all(context: &OperationContext) -> Result<Vec<webhook::Model>, ApiError> {
    let rows = context.rows::<webhook::Entity>();
    let rows = rows.order_by_asc(webhook::Column::Id);
    Ok(rows.all(context.store().api_reader()).await?)
}

/// Registers a webhook.
pub async fn create(
    context: OperationContext,
    body: RequestBody,
) -> Result<Created<Webhook>, ApiError> {
    let form = body.form()?;
    let addresses = Addresses::check(&context, &form, "url", None).await?;
    let new = form.read(READ_ONLY, |form| {
        let url = form.required("url", None, |value| addresses.parse(value));
        let events = form.required("events", None, EventKinds::parse);
        let secret = form.required("secret", None, WebhookSecret::parse);
        Some(WebhookCreate {
            url: url?,
            events: events?,
            secret: secret?,
        })
    })?;
    let new = NewWebhook {
        id: WebhookId::new(context.now),
        tenant: context.tenant()?,
        url: new.url,
        events: &new.events.0,
        secret: &new.secret.0,
    };
    let row = webhook::Model::new(new, context.vault()?, context.now);
    let mut write = context.begin().await?;
    make_room(&write, &row).await?;
    webhook::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    new_cursor(&*write, row.id, row.tenant_id).await?;
    let change = AuditChange::new(AuditAction::WebhookCreate, row.id);
    write.record(row.tenant_id, change).await?;
    let path = format!("{BASE}/webhooks/{}", row.id);
    write.commit(Created::at(path, row.into())).await
}

/// Counts under the tenant's row lock, so that two concurrent requests cannot both take the last place.
async fn make_room(write: &OperationWrite<'_>, new: &webhook::Model) -> Result<(), ApiError> {
    let tenant = tenant::Entity::find_by_id(new.tenant_id).lock_exclusive();
    tenant.one(&**write).await?;
    let count = webhook::Entity::of(new.tenant_id).count(&**write).await?;
    if usize::try_from(count).is_ok_and(|count| count < WEBHOOKS_MAX) {
        Ok(())
    } else {
        Err(ApiError::WebhookLimitReached(WEBHOOKS_MAX))
    }
}

/// One webhook.
pub async fn show(context: OperationContext, id: Id<WebhookId>) -> Result<Webhook, ApiError> {
    context.find_webhook(id.0).await.map(Webhook::from)
}

/// Changes a webhook. A new URL, and switching on again, reset the count of failures.
pub async fn update(
    context: OperationContext,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<Webhook, ApiError> {
    let seen = context.find_webhook(id.0).await?;
    let form = body.patch()?;
    let addresses = Addresses::check(&context, &form, "url", Some(&seen.url)).await?;
    let write = context.begin().await?;
    let before = lock(&write, id.0).await?;
    let target = before.id.to_string();
    context
        .refuse_if_changed(
            &*write,
            AuditAction::WebhookUpdate,
            target,
            before.updated_at,
        )
        .await?;
    let wanted = form.read(READ_ONLY_OF_UPDATES, |form| {
        let url = form.required("url", Some(before.url.clone()), |value| {
            addresses.parse(value)
        });
        let events = form.required("events", Some(EventKinds::of(&before)), EventKinds::parse);
        let is_active = form.defaulted("isActive", Some(before.is_active), true, boolean);
        Some(WebhookUpdate {
            url: url?,
            events: events?,
            is_active,
        })
    })?;
    let mut row = webhook::Model {
        url: wanted.url,
        // Kept as they are if not changed: a later release may have written a kind that this one does not know.
        events: match wanted.events == EventKinds::of(&before) {
            true => before.events.clone(),
            false => events_json(&wanted.events.0),
        },
        is_active: wanted.is_active,
        ..before.clone()
    };
    if row == before {
        return Ok(row.into());
    }
    let is_moved = row.url != before.url;
    let change = AuditChange::new(AuditAction::WebhookUpdate, row.id).fields(&[
        ("url", is_moved),
        ("events", row.events != before.events),
        switched(row.is_active, before.is_active),
    ]);
    if is_moved || row.is_active != before.is_active {
        (row.failed_in_row, row.failing_since) = (0, None);
    }
    if row.is_active {
        row.disabled_reason = None;
    }
    row.changed(context.now);
    let shown = save(write, row, change).await?;
    context.refresh_webhook(id.0);
    Ok(shown)
}

/// Deletes a webhook: the dispatcher gives up its pending deliveries.
pub async fn delete(
    context: OperationContext,
    id: Id<WebhookId>,
) -> Result<NoContent<WebhookId>, ApiError> {
    let mut write = context.begin().await?;
    let row = lock(&write, id.0).await?;
    webhook::Entity::delete_by_id(row.id).exec(&*write).await?;
    delete_free_cursor(&*write, row.id).await?;
    let change = AuditChange::new(AuditAction::WebhookDelete, row.id);
    write.record(row.tenant_id, change).await?;
    let done = write.commit(NoContent(row.id)).await?;
    context.refresh_webhook(id.0);
    Ok(done)
}

/// Replaces a webhook's secret.
pub async fn rotate_secret(
    context: OperationContext,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<Webhook, ApiError> {
    context.find_webhook(id.0).await?;
    let WebhookSecret(secret) = body.form()?.read(&[], |form| {
        form.required("secret", None, WebhookSecret::parse)
    })?;
    let vault = context.vault()?;
    let write = context.begin().await?;
    let mut row = lock(&write, id.0).await?;
    // A sealed secret is bound to its column, so it is sealed again for the other one. One that cannot be opened is
    // dropped.
    let previous = vault.open(SecretPlace::WebhookSecret, row.id, &row.secret);
    if previous.as_ref().is_ok_and(|previous| *previous == secret) {
        // Repeated: the secret before it stays good for its 24 hours.
        return write.commit(row.into()).await;
    }
    let previous =
        previous.map(|secret| vault.seal(SecretPlace::PreviousWebhookSecret, row.id, &secret));
    row.previous_secret = previous.ok();
    row.secret = vault.seal(SecretPlace::WebhookSecret, row.id, &secret);
    row.previous_secret_until = Some(context.now.plus_ms(PREVIOUS_SECRET_MS));
    row.secret_hint = secret.hint();
    row.changed(context.now);
    let change = AuditChange::new(AuditAction::WebhookRotateSecret, id.0);
    let shown = save(write, row, change).await?;
    context.refresh_webhook(id.0);
    Ok(shown)
}
