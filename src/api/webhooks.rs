//! Webhooks: where a tenant's events go.

use actix_web::{HttpResponse, web::Data};
use dikala_entities::{
    EventKind, Millis, OutboundUrl, Place, Secret, TenantId, WebhookId, tenant, webhook,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QuerySelect, Select,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    Addresses, Answer, READ_ONLY, Unit, deliveries,
    listing::{self, Listing},
};
use crate::{
    error::{ApiError, Missing},
    extract::{BlankRule, Body, Caller, Form, Id, Parsed, Query, boolean, list, text, word},
    openapi::schema,
    services::Services,
};

/// The most webhooks of one tenant.
pub const WEBHOOKS_MAX: usize = 20;
/// How long the secret before the present one still signs as well, in milliseconds.
const PREVIOUS_SECRET_MS: i64 = 24 * 60 * 60 * 1_000;
/// Webhooks that are read at once for a list.
const BATCH: u64 = 20;
const SECRET_CHARS_MIN: usize = 8;
const SECRET_CHARS_MAX: usize = 256;

/// A receiver of events, as it is registered.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({
    "url": "https://example.com/hooks/dikala", "events": ["call.started", "call.ended"],
    "secret": "a-secret-only-we-know"
}))]
pub struct WebhookCreate {
    #[schema(schema_with = schema::outbound_url)]
    url: OutboundUrl,
    #[schema(schema_with = schema::event_kinds)]
    events: Vec<EventKind>,
    /// Signs every delivery; never shown again.
    #[schema(value_type = String, min_length = 8, max_length = 256, pattern = r"^[^\x00]*$")]
    secret: Secret,
}

/// What can be changed of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"isActive": true}))]
pub struct WebhookUpdate {
    #[schema(schema_with = schema::outbound_url)]
    url: OutboundUrl,
    #[schema(schema_with = schema::event_kinds)]
    events: Vec<EventKind>,
    /// `true` also forgets the failures that disabled it.
    #[schema(schema_with = schema::active_input)]
    is_active: bool,
}

/// A new secret. The old one signs as well for 24 hours.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"secret": "the-next-secret-only-we-know"}))]
pub struct SecretRotation {
    #[schema(value_type = String, min_length = 8, max_length = 256, pattern = r"^[^\x00]*$")]
    pub secret: Secret,
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
    #[schema(schema_with = schema::webhook_id)]
    id: WebhookId,
    #[schema(value_type = String)]
    url: OutboundUrl,
    #[schema(schema_with = schema::event_kinds)]
    events: Vec<EventKind>,
    is_active: bool,
    /// The secret's last four characters.
    secret_hint: String,
    /// Why the service stopped to deliver to it.
    disabled_reason: Option<String>,
    #[schema(schema_with = schema::instant)]
    created_at: Millis,
    #[schema(schema_with = schema::instant)]
    updated_at: Millis,
}

/// All webhooks of the tenant; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"webhooks": []}))]
pub struct WebhookList {
    pub webhooks: Vec<Webhook>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

impl From<webhook::Model> for Webhook {
    fn from(webhook: webhook::Model) -> Self {
        Self {
            events: events_of(&webhook),
            id: webhook.id,
            url: webhook.url,
            is_active: webhook.is_active,
            secret_hint: webhook.secret_hint,
            disabled_reason: webhook.disabled_reason,
            created_at: webhook.created_at,
            updated_at: webhook.updated_at,
        }
    }
}

fn events_of(webhook: &webhook::Model) -> Vec<EventKind> {
    serde_json::from_str(&webhook.events).unwrap_or_default()
}

fn events_json(events: &[EventKind]) -> String {
    Value::from_iter(events.iter().map(|kind| kind.as_str())).to_string()
}

fn events(value: &Value) -> Parsed<Vec<EventKind>> {
    list(1, word("an event"), EventKind::eq)(value)
}

fn secret(value: &Value) -> Parsed<Secret> {
    text(SECRET_CHARS_MIN, SECRET_CHARS_MAX, BlankRule::Opaque)(value).map(Secret::new)
}

impl WebhookCreate {
    fn read(form: &Form, addresses: Addresses) -> Result<Self, ApiError> {
        form.read(READ_ONLY, |form| {
            let url = form.required("url", None, |value| addresses.parse(value));
            let events = form.required("events", None, events);
            let secret = form.required("secret", None, secret);
            Some(Self {
                url: url?,
                events: events?,
                secret: secret?,
            })
        })
    }

    fn into_model(self, services: &Services, tenant: TenantId) -> webhook::Model {
        let now = services.clock.now();
        let id = WebhookId::new(now);
        webhook::Model {
            id,
            tenant_id: tenant,
            url: self.url,
            events: events_json(&self.events),
            secret: services.vault.seal(Place::WebhookSecret, id, &self.secret),
            secret_hint: self.secret.hint(),
            previous_secret: None,
            previous_secret_until: None,
            is_active: true,
            disabled_reason: None,
            failed_in_row: 0,
            failing_since: None,
            created_at: now,
            updated_at: now,
        }
    }
}

impl WebhookUpdate {
    fn of(webhook: &webhook::Model) -> Self {
        Self {
            url: webhook.url.clone(),
            events: events_of(webhook),
            is_active: webhook.is_active,
        }
    }

    fn read(form: &Form, now: &Self, addresses: Addresses) -> Result<Self, ApiError> {
        let read_only = [READ_ONLY, &["secretHint", "disabledReason"]].concat();
        form.read(&read_only, |form| {
            let url = form.required("url", Some(now.url.clone()), |value| addresses.parse(value));
            let events = form.required("events", Some(now.events.clone()), events);
            let is_active = form.defaulted("isActive", Some(now.is_active), true, boolean);
            Some(Self {
                url: url?,
                events: events?,
                is_active,
            })
        })
    }

    /// A new address, and switching on again, are a fresh start: what failed before does not count any more.
    fn apply(self, webhook: &mut webhook::Model, now: Millis) {
        let moved = webhook.url != self.url;
        webhook.events = events_json(&self.events);
        webhook.url = self.url;
        if moved || self.is_active != webhook.is_active {
            webhook.failed_in_row = 0;
            webhook.failing_since = None;
        }
        if self.is_active {
            webhook.disabled_reason = None;
        }
        webhook.is_active = self.is_active;
        webhook.updated_at = now;
    }
}

fn by_id(tenant: TenantId, id: WebhookId) -> Select<webhook::Entity> {
    webhook::Entity::find_by_id(id).filter(webhook::Column::TenantId.eq(tenant))
}

/// The tenant's webhook, or 404.
pub async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: WebhookId,
) -> Result<webhook::Model, ApiError> {
    let webhook = by_id(tenant, id).one(db).await?;
    webhook.ok_or(ApiError::NotFound(Missing::Webhook))
}

/// The tenant's webhook, kept as it is until the transaction ends, or 404.
pub async fn lock(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: WebhookId,
) -> Result<webhook::Model, ApiError> {
    let webhook = by_id(tenant, id).lock_exclusive().one(db).await?;
    webhook.ok_or(ApiError::NotFound(Missing::Webhook))
}

/// `GET /webhooks`
pub async fn list_all(
    caller: Caller,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "webhooks",
        rows: webhook::Entity::find().filter(webhook::Column::TenantId.eq(caller.tenant)),
        by: webhook::Column::Id,
        batch: BATCH,
        show: listing::json::<Webhook, _>,
    };
    listing::answer(services, &caller, &query, list).await
}

/// `POST /webhooks`
pub async fn create(
    caller: Caller,
    services: Data<Services>,
    body: Body,
) -> Result<Answer, ApiError> {
    let form = body.form()?;
    let addresses = Addresses::ask(&services, caller.tenant, &form, "url", None).await;
    let new = WebhookCreate::read(&form, addresses)?;
    let unit = Unit::begin(&services, &caller).await?;
    make_room(&unit, caller.tenant).await?;
    let webhook = new.into_model(&services, caller.tenant);
    webhook::Entity::insert(webhook.clone().into_active_model())
        .exec_without_returning(unit.txn())
        .await?;
    let path = format!("/webhooks/{}", webhook.id);
    unit.commit(Answer::created(&path, &Webhook::from(webhook)))
        .await
}

/// Counts under the lock of the tenant's row: two at once cannot both be the last.
async fn make_room(unit: &Unit, tenant: TenantId) -> Result<(), ApiError> {
    tenant::Entity::find_by_id(tenant)
        .lock_exclusive()
        .one(unit.txn())
        .await?;
    let count = webhook::Entity::find()
        .filter(webhook::Column::TenantId.eq(tenant))
        .count(unit.txn())
        .await?;
    if usize::try_from(count).is_ok_and(|count| count < WEBHOOKS_MAX) {
        Ok(())
    } else {
        Err(ApiError::WebhookLimitReached(WEBHOOKS_MAX))
    }
}

/// `GET /webhooks/{id}`
pub async fn show(
    caller: Caller,
    services: Data<Services>,
    id: Id<WebhookId>,
) -> Result<Answer, ApiError> {
    let webhook = find(services.store.api_reader(), caller.tenant, id.0).await?;
    Ok(Answer::ok(&Webhook::from(webhook)))
}

/// `PATCH /webhooks/{id}`
pub async fn update(
    caller: Caller,
    services: Data<Services>,
    id: Id<WebhookId>,
    body: Body,
) -> Result<Answer, ApiError> {
    let seen = WebhookUpdate::of(&find(services.store.api_reader(), caller.tenant, id.0).await?);
    let form = body.patch()?;
    let before = Some(&seen.url);
    let addresses = Addresses::ask(&services, caller.tenant, &form, "url", before).await;
    WebhookUpdate::read(&form, &seen, addresses)?;
    let unit = Unit::begin(&services, &caller).await?;
    let mut webhook = lock(unit.txn(), caller.tenant, id.0).await?;
    // Somebody else may have changed what this request leaves out.
    let before = WebhookUpdate::of(&webhook);
    let wanted = WebhookUpdate::read(&form, &before, addresses)?;
    if wanted != before {
        wanted.apply(&mut webhook, services.clock.now());
        let change = webhook.clone().into_active_model().reset_all();
        change.update(unit.txn()).await?;
    }
    let answer = unit.commit(Answer::ok(&Webhook::from(webhook))).await?;
    services.outbound.refresh(id.0);
    Ok(answer)
}

/// `DELETE /webhooks/{id}`: the dispatcher gives up what was still to be delivered.
pub async fn delete(
    caller: Caller,
    services: Data<Services>,
    id: Id<WebhookId>,
) -> Result<Answer, ApiError> {
    let unit = Unit::begin(&services, &caller).await?;
    let webhook = lock(unit.txn(), caller.tenant, id.0).await?;
    webhook::Entity::delete_by_id(webhook.id)
        .exec(unit.txn())
        .await?;
    let answer = unit.commit(Answer::no_content()).await?;
    services.outbound.refresh(id.0);
    Ok(answer)
}

/// `POST /webhooks/{id}/rotate-secret`
pub async fn rotate_secret(
    caller: Caller,
    services: Data<Services>,
    id: Id<WebhookId>,
    body: Body,
) -> Result<Answer, ApiError> {
    find(services.store.api_reader(), caller.tenant, id.0).await?;
    let secret = body
        .form()?
        .read(&[], |form| form.required("secret", None, secret))?;
    let now = services.clock.now();
    let unit = Unit::begin(&services, &caller).await?;
    let mut webhook = lock(unit.txn(), caller.tenant, id.0).await?;
    let vault = &services.vault;
    // Bound to its column: it is sealed again for the one that it goes to. One that does not open signs nothing anyway.
    let previous = vault.open(Place::WebhookSecret, webhook.id, &webhook.secret);
    let previous =
        previous.map(|secret| vault.seal(Place::PreviousWebhookSecret, webhook.id, &secret));
    webhook.previous_secret = previous.ok();
    webhook.secret = vault.seal(Place::WebhookSecret, webhook.id, &secret);
    webhook.previous_secret_until = Some(now.plus_ms(PREVIOUS_SECRET_MS));
    webhook.secret_hint = secret.hint();
    webhook.updated_at = now;
    let change = webhook.clone().into_active_model().reset_all();
    change.update(unit.txn()).await?;
    let answer = unit.commit(Answer::ok(&Webhook::from(webhook))).await?;
    services.outbound.refresh(id.0);
    Ok(answer)
}

/// `POST /webhooks/{id}/test`
pub async fn test(
    caller: Caller,
    services: Data<Services>,
    id: Id<WebhookId>,
    body: Body,
) -> Result<Answer, ApiError> {
    let webhook = find(services.store.api_reader(), caller.tenant, id.0).await?;
    body.optional_form()?.expect_empty()?;
    let delivery = services
        .outbound
        .test_webhook(webhook)
        .await
        .map_err(|error| super::refused(error, Missing::Webhook))?;
    let shown = deliveries::detail(&services, caller.tenant, delivery).await?;
    Ok(Answer::ok(&shown))
}
