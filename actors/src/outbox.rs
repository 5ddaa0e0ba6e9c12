//! Announcing: an event and its delivery rows are written in the transaction of what they announce, so neither can be
//! without the other. Delivering comes after the commit and may be lost without losing an event.
//!
//! Each event gets its place in the order of commits here. The places come from a row that is kept until the transaction
//! ends, so announcing is the last thing that a transaction does: others wait no longer than for its commit.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use actix::{Message, Recipient};
use dikala_entities::{
    CallId, DeliveryId, EventId, EventKind, Millis, TenantId, WebhookId,
    store::{Kind, Transaction, json_rows, json_statement},
    webhook,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter, Statement,
};
use serde::Serialize;

use crate::feed::Feed;

/// How long a delivery belongs to the node that wrote it before another may take it, in milliseconds.
pub const DELIVERY_LEASE_MS: i64 = 60_000;

/// An event that is about to be committed.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub id: EventId,
    pub tenant: TenantId,
    pub call: Option<CallId>,
    pub kind: EventKind,
    pub at: Millis,
    /// The exact bytes that every delivery carries.
    pub body: Arc<str>,
    /// A sample: it tells of nothing that happened.
    pub is_test: bool,
}

impl NewEvent {
    /// An event that happened at `at`, with the payload of its kind. `now` stamps its id.
    pub fn new(
        kind: EventKind,
        tenant: TenantId,
        call: Option<CallId>,
        at: Millis,
        now: Millis,
        data: &impl Serialize,
    ) -> Self {
        #[derive(Serialize)]
        struct Body<'a, D> {
            event: EventKind,
            timestamp: Millis,
            data: &'a D,
        }
        let body = serde_json::to_string(&Body {
            event: kind,
            timestamp: at,
            data,
        })
        .expect("payloads are plain structs and JSON values");
        Self {
            id: EventId::new(now),
            tenant,
            call,
            kind,
            at,
            body: body.into(),
            is_test: false,
        }
    }
}

/// A committed event on its way to one webhook; needs no read to be delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    pub delivery: DeliveryId,
    pub webhook: WebhookId,
    pub tenant: TenantId,
    pub event: EventId,
    pub kind: EventKind,
    pub call: Option<CallId>,
    pub body: Arc<str>,
    /// Attempts already made: 0 for a fresh delivery.
    pub attempts: i64,
    pub is_test: bool,
}

/// Deliveries that were just committed. A fact: who cannot take it finds them in the table later.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Deliver(pub Vec<Dispatch>);

/// What was announced, once it is committed.
#[derive(Debug, Default)]
pub struct Announced {
    pub dispatches: Vec<Dispatch>,
    pub tenants: BTreeSet<TenantId>,
}

/// Who hears of what was committed: the dispatcher, and who follows the feed.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    pub deliver: Option<Recipient<Deliver>>,
    pub feed: Feed,
}

impl Audience {
    /// Tells them. Call it after the commit.
    pub fn tell(&self, announced: Announced) {
        self.feed.wake(announced.tenants);
        if let Some(deliver) = &self.deliver
            && !announced.dispatches.is_empty()
        {
            // A full mailbox costs time only: the dispatcher reads the table too.
            let _ = deliver.try_send(Deliver(announced.dispatches));
        }
    }
}

#[derive(Serialize)]
struct EventRow<'a> {
    id: EventId,
    tenant_id: TenantId,
    call_id: Option<CallId>,
    kind: EventKind,
    occurred_at: i64,
    body: &'a str,
    position: i64,
    is_test: bool,
}

#[derive(Serialize)]
struct DeliveryRow<'a> {
    id: DeliveryId,
    tenant_id: TenantId,
    webhook_id: WebhookId,
    event_id: EventId,
    call_id: Option<CallId>,
    kind: EventKind,
    now: i64,
    lease_owner: &'a str,
    lease_until: i64,
}

/// Writes events and one delivery for each active webhook that subscribed to their kind.
/// The deliveries are leased to `node`, whose dispatcher is told of them after the commit.
pub async fn write(
    txn: &Transaction,
    events: &[NewEvent],
    node: &str,
    now: Millis,
) -> Result<Announced, DbErr> {
    if events.is_empty() {
        return Ok(Announced::default());
    }
    let fresh = write_events(txn, events).await?;
    let subscribers = subscribers(txn, events).await?;
    let dispatches: Vec<Dispatch> = events
        .iter()
        .filter(|event| fresh.contains(&event.id))
        .flat_map(|event| {
            let webhooks = subscribers.get(&(event.tenant, event.kind));
            webhooks
                .into_iter()
                .flatten()
                .map(|webhook| dispatch(event, *webhook, now))
        })
        .collect();
    insert_deliveries(txn, &dispatches, node, now).await?;
    Ok(Announced {
        dispatches,
        tenants: events.iter().map(|event| event.tenant).collect(),
    })
}

fn dispatch(event: &NewEvent, webhook: WebhookId, now: Millis) -> Dispatch {
    Dispatch {
        delivery: DeliveryId::new(now),
        webhook,
        tenant: event.tenant,
        event: event.id,
        kind: event.kind,
        call: event.call,
        body: Arc::clone(&event.body),
        attempts: 0,
        is_test: false,
    }
}

async fn subscribers(
    txn: &Transaction,
    events: &[NewEvent],
) -> Result<HashMap<(TenantId, EventKind), Vec<WebhookId>>, DbErr> {
    let mut tenants: Vec<TenantId> = events.iter().map(|event| event.tenant).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let webhooks = webhook::Entity::find()
        .filter(webhook::Column::TenantId.is_in(tenants))
        .filter(webhook::Column::IsActive.eq(true))
        .all(txn)
        .await?;
    let mut subscribers: HashMap<(TenantId, EventKind), Vec<WebhookId>> = HashMap::new();
    for webhook in webhooks {
        for kind in webhook.event_kinds() {
            subscribers
                .entry((webhook.tenant_id, kind))
                .or_default()
                .push(webhook.id);
        }
    }
    Ok(subscribers)
}

/// The first of `count` places in the order of commits; the row that counts them is kept until the transaction ends.
async fn take_positions(txn: &Transaction, count: usize) -> Result<i64, DbErr> {
    let count = i64::try_from(count).expect("a batch is small");
    let backend = txn.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => "UPDATE event_positions SET last = last + $1 RETURNING last",
        _ => "UPDATE event_positions SET last = last + ?1 RETURNING last",
    };
    let statement = Statement::from_sql_and_values(backend, sql, [count.into()]);
    let row = txn.query_one_raw(statement).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("event_positions is empty".to_owned()))?;
    let last: i64 = row.try_get("", "last")?;
    Ok(last - count + 1)
}

/// Writes events that followers see, without deliveries. Returns those that were not there yet: the others were committed
/// before, with their deliveries, and the answer was lost.
pub async fn write_events(
    txn: &Transaction,
    events: &[NewEvent],
) -> Result<HashSet<EventId>, DbErr> {
    let first = take_positions(txn, events.len()).await?;
    let rows: Vec<EventRow<'_>> = (first..)
        .zip(events)
        .map(|(position, event)| EventRow {
            id: event.id,
            tenant_id: event.tenant,
            call_id: event.call,
            kind: event.kind,
            occurred_at: event.at.as_i64(),
            body: &event.body,
            position,
            is_test: event.is_test,
        })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", Kind::Text),
            ("tenant_id", Kind::Text),
            ("call_id", Kind::Text),
            ("kind", Kind::Text),
            ("occurred_at", Kind::BigInt),
            ("body", Kind::Text),
            ("position", Kind::BigInt),
            ("is_test", Kind::Boolean),
        ],
    );
    let sql = format!(
        "INSERT INTO events (id, tenant_id, call_id, kind, occurred_at, body, position, is_test) \
         SELECT id, tenant_id, call_id, kind, occurred_at, body, position, is_test FROM {source} WHERE true \
         ON CONFLICT (id) DO NOTHING RETURNING id"
    );
    let inserted = txn
        .query_all_raw(json_statement(backend, sql, &rows)?)
        .await?;
    inserted.iter().map(|row| row.try_get("", "id")).collect()
}

async fn insert_deliveries(
    txn: &Transaction,
    dispatches: &[Dispatch],
    node: &str,
    now: Millis,
) -> Result<(), DbErr> {
    if dispatches.is_empty() {
        return Ok(());
    }
    let rows: Vec<DeliveryRow<'_>> = dispatches
        .iter()
        .map(|dispatch| DeliveryRow {
            id: dispatch.delivery,
            tenant_id: dispatch.tenant,
            webhook_id: dispatch.webhook,
            event_id: dispatch.event,
            call_id: dispatch.call,
            kind: dispatch.kind,
            now: now.as_i64(),
            lease_owner: node,
            lease_until: now.plus_ms(DELIVERY_LEASE_MS).as_i64(),
        })
        .collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", Kind::Text),
            ("tenant_id", Kind::Text),
            ("webhook_id", Kind::Text),
            ("event_id", Kind::Text),
            ("call_id", Kind::Text),
            ("kind", Kind::Text),
            ("now", Kind::BigInt),
            ("lease_owner", Kind::Text),
            ("lease_until", Kind::BigInt),
        ],
    );
    let sql = format!(
        "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, \
         next_attempt_at, lease_owner, lease_until, is_test, created_at) \
         SELECT id, tenant_id, webhook_id, event_id, call_id, kind, 'pending', 0, now, lease_owner, \
         lease_until, false, now FROM {source}"
    );
    txn.execute_raw(json_statement(backend, sql, &rows)?)
        .await
        .map(drop)
}
