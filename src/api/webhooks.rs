//! Webhooks: the endpoints that receive a tenant's events.

use actix_web::{HttpResponse, web::Data};
use dikala_entities::{
    AuditAction, EventKind, Millis, OfTenant, OutboundUrl, Secret, SecretPlace, TenantId,
    WebhookId, described, tenant,
    webhook::{self, NewWebhook, events_json},
};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::{ToSchema, openapi::ArrayBuilder};

use super::{
    Addresses, TenantWrite,
    listing::{self, Listing},
};
use crate::{
    api::context::Services,
    audit::{AuditChange, switched},
    http::{
        answer::{ApiAnswer, Created},
        error::{ApiError, Missing},
        extract::{
            BlankRule, FormFields, Id, ParseResult, Query, RequestBody, TenantRequest, boolean,
            list, text, word,
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
/// Webhooks per query of a list.
const BATCH: u64 = 20;
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

/// All webhooks of the tenant; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"webhooks": []}))]
#[expect(dead_code, reason = "the description of what is written row by row")]
pub struct WebhookList {
    pub webhooks: Vec<Webhook>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
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
        list(EVENTS_MIN, word("an event"), EventKind::eq)(value).map(Self)
    }

    fn of(webhook: &webhook::Model) -> Self {
        Self(webhook.event_kinds())
    }
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

described! {
    EventKinds: ArrayBuilder::new()
        .items(EventKind::schema())
        .min_items(Some(EVENTS_MIN))
        .unique_items(true);
    WebhookSecret: schema::text(SECRET_CHARS_MIN, SECRET_CHARS_MAX, false);
}

impl WebhookCreate {
    fn read(form: &FormFields, addresses: Addresses) -> Result<Self, ApiError> {
        form.read(READ_ONLY, |form| {
            let url = form.required("url", None, |value| addresses.parse(value));
            let events = form.required("events", None, EventKinds::parse);
            let secret = form.required("secret", None, WebhookSecret::parse);
            Some(Self {
                url: url?,
                events: events?,
                secret: secret?,
            })
        })
    }

    fn into_model(self, services: &Services, tenant: TenantId) -> webhook::Model {
        let now = services.clock.now();
        let new = NewWebhook {
            id: WebhookId::new(now),
            tenant,
            url: self.url,
            events: &self.events.0,
            secret: &self.secret.0,
        };
        webhook::Model::new(new, &services.vault, now)
    }
}

impl WebhookUpdate {
    fn of(webhook: &webhook::Model) -> Self {
        Self {
            url: webhook.url.clone(),
            events: EventKinds::of(webhook),
            is_active: webhook.is_active,
        }
    }

    fn read(form: &FormFields, now: &Self, addresses: Addresses) -> Result<Self, ApiError> {
        form.read(READ_ONLY_OF_UPDATES, |form| {
            let url = form.required("url", Some(now.url.clone()), |value| addresses.parse(value));
            let events = form.required("events", Some(now.events.clone()), EventKinds::parse);
            let is_active = form.defaulted("isActive", Some(now.is_active), true, boolean);
            Some(Self {
                url: url?,
                events: events?,
                is_active,
            })
        })
    }

    fn change_of(&self, id: WebhookId, before: &Self) -> AuditChange {
        AuditChange::new(AuditAction::WebhookUpdate, id).fields(&[
            ("url", self.url != before.url),
            ("events", self.events != before.events),
            switched(self.is_active, before.is_active),
        ])
    }

    /// A new URL, and switching on again, reset the count of failures.
    fn apply(self, webhook: &mut webhook::Model, now: Millis) {
        let moved = webhook.url != self.url;
        webhook.events = events_json(&self.events.0);
        webhook.url = self.url;
        if moved || self.is_active != webhook.is_active {
            webhook.failed_in_row = 0;
            webhook.failing_since = None;
        }
        if self.is_active {
            webhook.disabled_reason = None;
        }
        webhook.is_active = self.is_active;
        webhook.changed(now);
    }
}

pub async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: WebhookId,
) -> Result<webhook::Model, ApiError> {
    let webhook = webhook::Entity::one_of(tenant, id).one(db).await?;
    webhook.ok_or(ApiError::NotFound(Missing::Webhook))
}

/// The tenant's webhook, locked until the transaction ends, or 404.
pub async fn lock(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: WebhookId,
) -> Result<webhook::Model, ApiError> {
    let webhook = webhook::Entity::one_of(tenant, id)
        .lock_exclusive()
        .one(db)
        .await?;
    webhook.ok_or(ApiError::NotFound(Missing::Webhook))
}

/// The tenant's webhooks, oldest first.
pub async fn all(
    db: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<Vec<webhook::Model>, DbErr> {
    webhook::Entity::of(tenant)
        .order_by_asc(webhook::Column::Id)
        .all(db)
        .await
}

/// `GET /webhooks`
pub async fn list_all(
    caller: TenantRequest,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "webhooks",
        rows: webhook::Entity::of(caller.tenant),
        by: webhook::Column::Id,
        batch: BATCH,
        show: listing::json::<Webhook, _>,
    };
    listing::answer(services, &caller, &query, list).await
}

/// `POST /webhooks`
pub async fn create(
    caller: TenantRequest,
    services: Data<Services>,
    body: RequestBody,
) -> Result<Created<Webhook>, ApiError> {
    let form = body.form()?;
    let addresses = Addresses::ask(&services, caller.tenant, &form, "url", None).await;
    let new = WebhookCreate::read(&form, addresses)?;
    let unit = TenantWrite::begin(&services, &caller).await?;
    make_room(&unit, caller.tenant).await?;
    let webhook = new.into_model(&services, caller.tenant);
    webhook::Entity::insert(webhook.clone().into_active_model())
        .exec_without_returning(unit.txn())
        .await?;
    let change = AuditChange::new(AuditAction::WebhookCreate, webhook.id);
    let path = format!("{BASE}/webhooks/{}", webhook.id);
    let created = Created::at(path, Webhook::from(webhook));
    unit.commit(created, Some(change)).await
}

/// Counts under the tenant's row lock, so that two concurrent requests cannot both take the last place.
async fn make_room(unit: &TenantWrite, tenant: TenantId) -> Result<(), ApiError> {
    tenant::Entity::find_by_id(tenant)
        .lock_exclusive()
        .one(unit.txn())
        .await?;
    let count = webhook::Entity::of(tenant).count(unit.txn()).await?;
    if usize::try_from(count).is_ok_and(|count| count < WEBHOOKS_MAX) {
        Ok(())
    } else {
        Err(ApiError::WebhookLimitReached(WEBHOOKS_MAX))
    }
}

/// `GET /webhooks/{id}`
pub async fn show(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<WebhookId>,
) -> Result<ApiAnswer, ApiError> {
    let webhook = find(services.store.api_reader(), caller.tenant, id.0).await?;
    Ok(ApiAnswer::ok(&Webhook::from(webhook)))
}

/// `PATCH /webhooks/{id}`
pub async fn update(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let seen = WebhookUpdate::of(&find(services.store.api_reader(), caller.tenant, id.0).await?);
    let form = body.patch()?;
    let before = Some(&seen.url);
    let addresses = Addresses::ask(&services, caller.tenant, &form, "url", before).await;
    WebhookUpdate::read(&form, &seen, addresses)?;
    let unit = TenantWrite::begin(&services, &caller).await?;
    let mut webhook = lock(unit.txn(), caller.tenant, id.0).await?;
    // The fields that this request leaves out may have changed since.
    let before = WebhookUpdate::of(&webhook);
    let wanted = WebhookUpdate::read(&form, &before, addresses)?;
    let change = (wanted != before).then(|| wanted.change_of(id.0, &before));
    if change.is_some() {
        wanted.apply(&mut webhook, services.clock.now());
        let change = webhook.clone().into_active_model().reset_all();
        change.update(unit.txn()).await?;
    }
    let answer = unit
        .commit(ApiAnswer::ok(&Webhook::from(webhook)), change)
        .await?;
    services.outbound.refresh(id.0);
    Ok(answer)
}

/// `DELETE /webhooks/{id}`: the dispatcher gives up pending deliveries.
pub async fn delete(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<WebhookId>,
) -> Result<ApiAnswer, ApiError> {
    let unit = TenantWrite::begin(&services, &caller).await?;
    let webhook = lock(unit.txn(), caller.tenant, id.0).await?;
    webhook::Entity::delete_by_id(webhook.id)
        .exec(unit.txn())
        .await?;
    let change = AuditChange::new(AuditAction::WebhookDelete, id.0);
    let answer = unit.commit(ApiAnswer::no_content(), Some(change)).await?;
    services.outbound.refresh(id.0);
    Ok(answer)
}

/// `POST /webhooks/{id}/rotate-secret`
pub async fn rotate_secret(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<WebhookId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    find(services.store.api_reader(), caller.tenant, id.0).await?;
    let WebhookSecret(secret) = body.form()?.read(&[], |form| {
        form.required("secret", None, WebhookSecret::parse)
    })?;
    let now = services.clock.now();
    let unit = TenantWrite::begin(&services, &caller).await?;
    let mut webhook = lock(unit.txn(), caller.tenant, id.0).await?;
    let vault = &services.vault;
    // A sealed secret is bound to its column, so it is sealed again for the other one. One that cannot be opened is
    // dropped.
    let previous = vault.open(SecretPlace::WebhookSecret, webhook.id, &webhook.secret);
    let previous =
        previous.map(|secret| vault.seal(SecretPlace::PreviousWebhookSecret, webhook.id, &secret));
    webhook.previous_secret = previous.ok();
    webhook.secret = vault.seal(SecretPlace::WebhookSecret, webhook.id, &secret);
    webhook.previous_secret_until = Some(now.plus_ms(PREVIOUS_SECRET_MS));
    webhook.secret_hint = secret.hint();
    webhook.changed(now);
    let change = webhook.clone().into_active_model().reset_all();
    change.update(unit.txn()).await?;
    let change = AuditChange::new(AuditAction::WebhookRotateSecret, id.0);
    let answer = ApiAnswer::ok(&Webhook::from(webhook));
    let answer = unit.commit(answer, Some(change)).await?;
    services.outbound.refresh(id.0);
    Ok(answer)
}
