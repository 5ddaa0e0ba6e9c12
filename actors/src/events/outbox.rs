//! The outbox: an event and its delivery rows are written in the transaction of their cause, so neither exists
//! without the other. Deliveries start after the commit; losing that wake-up loses no event.
//!
//! Each event gets a position in the order of its tenant's commits. Positions come from a row of the tenant, locked
//! until the transaction ends. So they are taken right before the last write, which keeps the lock short. Rows of
//! several tenants are locked in the order of their ids, which prevents deadlocks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use actix::{Message, Recipient};
use dikala_entities::{
    CallId, DeliveryId, EventId, EventKind, Millis, TenantId, TraceParent, WebhookId,
    batch::BatchWrite,
    rows::{ColumnType, json_rows, json_statement},
    store::Transaction,
};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};
use serde::Serialize;

use super::{
    followers::Followers,
    payload::{Payload, SampleCall},
};

/// Maximum lead of a tenant's last stamp over a node's clock, in milliseconds, with which that node goes on from the
/// stamp. A larger lead is no clock skew between nodes of one database, but a clock that was set wrong.
pub(crate) const AHEAD_MS_MAX: i64 = 10_000;

/// An event before its commit.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub id: EventId,
    pub tenant: TenantId,
    pub call: Option<CallId>,
    pub kind: EventKind,
    pub at: Millis,
    /// The exact body of every delivery.
    pub body: Arc<str>,
    /// A sample reports nothing that happened.
    pub is_test: bool,
    /// The trace of the call, if there is one.
    pub trace: Option<TraceParent>,
    /// The call has been at another node, whose earlier deliveries for it may still be pending.
    pub has_moved: bool,
}

impl NewEvent {
    /// An event that happened at `at`. `now` is the time in its id.
    pub fn new(
        tenant: TenantId,
        call: Option<CallId>,
        at: Millis,
        now: Millis,
        data: &Payload<'_>,
    ) -> Self {
        #[derive(Serialize)]
        struct EventBody<'a> {
            event: EventKind,
            timestamp: Millis,
            data: &'a Payload<'a>,
        }
        let body = serde_json::to_string(&EventBody {
            event: data.kind(),
            timestamp: at,
            data,
        })
        .expect("payloads are plain structs and JSON values");
        Self {
            id: EventId::new(now),
            tenant,
            call,
            kind: data.kind(),
            at,
            body: body.into(),
            is_test: false,
            trace: None,
            has_moved: false,
        }
    }

    /// A sample event of this kind.
    pub fn sample(kind: EventKind, tenant: TenantId, now: Millis) -> Self {
        let data = SampleCall::new(now).payload(kind);
        Self {
            is_test: true,
            ..Self::new(tenant, None, now, now, &data)
        }
    }
}

/// A committed event on its way to one webhook. Delivering it needs no further read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    pub delivery: DeliveryId,
    pub webhook: WebhookId,
    pub tenant: TenantId,
    pub event: EventId,
    pub kind: EventKind,
    pub call: Option<CallId>,
    pub body: Arc<str>,
    /// Attempts made so far: 0 for a new delivery.
    pub attempts: i64,
    pub is_test: bool,
    /// The trace of its attempts.
    pub trace: Option<TraceParent>,
    /// Another node may have announced an event of this call before. The delivery is then read from the table, in the
    /// order of the commits.
    pub has_moved: bool,
}

/// Deliveries that were just committed. A dispatcher without room for them finds them in the table later.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Deliver(pub Vec<Dispatch>);

/// The result of an announcement, for use after the commit.
#[derive(Debug, Default)]
pub struct AnnouncedEvents {
    pub dispatches: Vec<Dispatch>,
    pub tenants: BTreeSet<TenantId>,
}

/// The receivers of committed events: the dispatcher and the tenant's followers.
#[derive(Clone, Debug, Default)]
pub struct EventRecipients {
    pub deliver: Option<Recipient<Deliver>>,
    pub followers: Followers,
}

impl EventRecipients {
    /// Notifies both. Call it after the commit.
    pub fn tell(&self, announced: AnnouncedEvents) {
        if !announced.tenants.is_empty() {
            self.followers.announce(announced.tenants);
        }
        if let Some(deliver) = &self.deliver
            && !announced.dispatches.is_empty()
        {
            // A full mailbox costs time only: the dispatcher also reads the table.
            let _ = deliver.try_send(Deliver(announced.dispatches));
        }
    }
}

/// The writes for events, and the notifications to send after their commit.
#[derive(Debug, Default)]
pub struct Announcement {
    /// The rows of the events, and one delivery for each active webhook that subscribed to their kind. This node owns
    /// the deliveries, and its dispatcher hears of them after the commit. If another node delivers to the webhook,
    /// that node finds them in the table.
    pub writes: Vec<BatchWrite>,
    pub announced: AnnouncedEvents,
}

/// The state of a tenant that its events need.
struct Tenant {
    /// The position of the next event.
    next: i64,
    /// The due time of deliveries announced now. It never decreases within a tenant, whichever nodes announce: a
    /// later commit is not due earlier.
    due_at: Millis,
    webhooks: Vec<(WebhookId, Vec<String>)>,
}

/// Gives events their positions and finds the webhooks that subscribed to them. From here on, other transactions for
/// these tenants wait for this commit.
pub async fn announce(
    txn: &Transaction,
    events: &[NewEvent],
    node: &str,
    now: Millis,
) -> Result<Announcement, DbErr> {
    if events.is_empty() {
        return Ok(Announcement::default());
    }
    let mut tenants = take_positions(txn, events, node, now).await?;
    let mut dispatches = Vec::new();
    for event in events {
        let subscribed = |kinds: &Vec<String>| kinds.iter().any(|kind| kind == event.kind.as_str());
        let Some(tenant) = tenants.get(&event.tenant) else {
            continue;
        };
        let theirs = tenant
            .webhooks
            .iter()
            .filter(|(_, kinds)| subscribed(kinds));
        dispatches.extend(theirs.map(|(webhook, _)| dispatch(event, *webhook, tenant.due_at)));
    }
    Ok(Announcement {
        writes: vec![
            write_of_events(events, &mut tenants)?,
            write_of_deliveries(&dispatches, &tenants, node, now),
        ],
        announced: AnnouncedEvents {
            dispatches,
            tenants: events.iter().map(|event| event.tenant).collect(),
        },
    })
}

/// Writes events with their deliveries in a batch of its own.
pub async fn write(
    txn: &Transaction,
    events: &[NewEvent],
    node: &str,
    now: Millis,
) -> Result<AnnouncedEvents, DbErr> {
    let announcement = announce(txn, events, node, now).await?;
    written(txn.write_all(&announcement.writes).await?)?;
    Ok(announcement.announced)
}

/// Writes events for followers only, without deliveries.
pub async fn write_events(txn: &Transaction, events: &[NewEvent]) -> Result<(), DbErr> {
    let mut tenants = take_positions(txn, events, "", Millis::MIN).await?;
    let write = write_of_events(events, &mut tenants)?;
    written(txn.write_all(&[write]).await?)
}

fn written(all: bool) -> Result<(), DbErr> {
    if all {
        Ok(())
    } else {
        Err(DbErr::Custom("an event is there already".to_owned()))
    }
}

fn dispatch(event: &NewEvent, webhook: WebhookId, due_at: Millis) -> Dispatch {
    Dispatch {
        delivery: DeliveryId::new(due_at),
        webhook,
        tenant: event.tenant,
        event: event.id,
        kind: event.kind,
        call: event.call,
        body: Arc::clone(&event.body),
        attempts: 0,
        is_test: false,
        trace: event.trace.clone(),
        has_moved: event.has_moved,
    }
}

/// Takes the next positions for the tenants of these events, and reads their webhooks' subscriptions. The row keeps
/// the stamp of the node that announced last; events announced by no node leave the stamp alone.
async fn take_positions(
    txn: &Transaction,
    events: &[NewEvent],
    node: &str,
    now: Millis,
) -> Result<HashMap<TenantId, Tenant>, DbErr> {
    #[derive(Serialize)]
    struct Row<'a> {
        tenant_id: TenantId,
        count: i64,
        node: &'a str,
        stamped_at: i64,
    }
    let mut counts: BTreeMap<TenantId, i64> = BTreeMap::new();
    for event in events {
        *counts.entry(event.tenant).or_default() += 1;
    }
    let rows: Vec<Row<'_>> = counts
        .iter()
        .map(|(tenant_id, count)| Row {
            tenant_id: *tenant_id,
            count: *count,
            node,
            stamped_at: now.as_i64(),
        })
        .collect();
    let backend = txn.get_database_backend();
    let webhooks = match backend {
        DbBackend::Postgres => "json_agg(json_build_array(w.id, w.events::json))::text",
        _ => "json_group_array(json_array(w.id, json(w.events)))",
    };
    let columns = [
        ("tenant_id", ColumnType::Text),
        ("count", ColumnType::BigInt),
        ("node", ColumnType::Text),
        ("stamped_at", ColumnType::BigInt),
    ];
    let source = json_rows(backend, &columns);
    // Ids made by one node within a millisecond are in order; ids made by two nodes are not.
    let next = "event_positions.stamped_at + CASE WHEN event_positions.node = excluded.node THEN 0 ELSE 1 END";
    let sql = format!(
        "INSERT INTO event_positions (tenant_id, last, node, stamped_at) \
         SELECT tenant_id, count, node, stamped_at FROM {source} WHERE true ORDER BY tenant_id \
         ON CONFLICT (tenant_id) DO UPDATE SET last = event_positions.last + excluded.last, \
         node = CASE WHEN excluded.node = '' THEN event_positions.node ELSE excluded.node END, \
         stamped_at = CASE WHEN excluded.node = '' THEN event_positions.stamped_at \
         WHEN {next} BETWEEN excluded.stamped_at AND excluded.stamped_at + {AHEAD_MS_MAX} THEN {next} ELSE excluded.stamped_at END \
         RETURNING tenant_id, last, stamped_at, (SELECT {webhooks} FROM webhooks w \
         WHERE w.tenant_id = event_positions.tenant_id AND w.is_active) AS webhooks"
    );
    let taken = txn
        .query_all_raw(json_statement(backend, sql, &rows)?)
        .await?;
    let mut tenants = HashMap::new();
    for row in taken {
        let tenant: TenantId = row.try_get("", "tenant_id")?;
        let last: i64 = row.try_get("", "last")?;
        let stamped_at: Millis = row.try_get("", "stamped_at")?;
        let webhooks: Option<String> = row.try_get("", "webhooks")?;
        let webhooks = webhooks.map_or(Ok(Vec::new()), |json| serde_json::from_str(&json));
        let known = Tenant {
            next: last - counts.get(&tenant).copied().unwrap_or_default() + 1,
            due_at: if node.is_empty() { now } else { stamped_at },
            webhooks: webhooks.map_err(|error| DbErr::Json(error.to_string()))?,
        };
        tenants.insert(tenant, known);
    }
    Ok(tenants)
}

/// An event whose row exists was committed before, with its deliveries; only the answer was lost.
fn write_of_events(
    events: &[NewEvent],
    tenants: &mut HashMap<TenantId, Tenant>,
) -> Result<BatchWrite, DbErr> {
    let mut rows = Vec::with_capacity(events.len());
    for event in events {
        let tenant = tenants.get_mut(&event.tenant);
        let tenant = tenant
            .ok_or_else(|| DbErr::RecordNotFound("a tenant's position of events".to_owned()))?;
        rows.push(vec![
            event.id.into(),
            event.tenant.into(),
            event.call.into(),
            event.kind.into(),
            event.at.into(),
            event.body.to_string().into(),
            tenant.next.into(),
            event.is_test.into(),
        ]);
        tenant.next += 1;
    }
    let sql = "INSERT INTO events (id, tenant_id, call_id, kind, occurred_at, body, position, is_test) \
               SELECT id, tenant_id, call_id, kind, occurred_at, body, position, is_test FROM {rows} WHERE true \
               ON CONFLICT (id) DO NOTHING";
    let columns = [
        ("id", ColumnType::Text),
        ("tenant_id", ColumnType::Text),
        ("call_id", ColumnType::Text),
        ("kind", ColumnType::Text),
        ("occurred_at", ColumnType::BigInt),
        ("body", ColumnType::Text),
        ("position", ColumnType::BigInt),
        ("is_test", ColumnType::Boolean),
    ];
    Ok(BatchWrite::new(sql, &columns, rows))
}

fn write_of_deliveries(
    dispatches: &[Dispatch],
    tenants: &HashMap<TenantId, Tenant>,
    node: &str,
    now: Millis,
) -> BatchWrite {
    // Events announced by no node have no owner.
    let lease_owner = (!node.is_empty()).then(|| node.to_owned());
    let row = |dispatch: &Dispatch| {
        let tenant = tenants.get(&dispatch.tenant);
        vec![
            dispatch.delivery.into(),
            dispatch.tenant.into(),
            dispatch.webhook.into(),
            dispatch.event.into(),
            dispatch.call.into(),
            dispatch.kind.into(),
            tenant.map_or(now, |tenant| tenant.due_at).into(),
            lease_owner.clone().into(),
        ]
    };
    let sql = "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, \
               next_attempt_at, lease_owner, is_test, created_at) \
               SELECT id, tenant_id, webhook_id, event_id, call_id, kind, 'pending', 0, now, lease_owner, \
               false, now FROM {rows}";
    let columns = [
        ("id", ColumnType::Text),
        ("tenant_id", ColumnType::Text),
        ("webhook_id", ColumnType::Text),
        ("event_id", ColumnType::Text),
        ("call_id", ColumnType::Text),
        ("kind", ColumnType::Text),
        ("now", ColumnType::BigInt),
        ("lease_owner", ColumnType::Text),
    ];
    BatchWrite::new(sql, &columns, dispatches.iter().map(row).collect())
}
