//! Announcing: an event and its delivery rows are written in the transaction of what they announce, so neither can be
//! without the other. Delivering comes after the commit and may be lost without losing an event.
//!
//! Each event gets its position in the order of its tenant's commits here. The positions come from a row of the tenant that is
//! kept until the transaction ends, so they are taken right before the last write: others of the tenant wait no longer than
//! for that and the commit. Rows of several tenants are taken in the order of their ids, so that nobody waits in a circle.

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

/// How far ahead of a node's clock the last stamp of a tenant may be for that node to go on from there, in milliseconds. More than
/// that is no difference between clocks that were set by the same database: somebody had set his clock wrong.
pub(crate) const AHEAD_MS_MAX: i64 = 10_000;

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
    /// That of the call, where it has one.
    pub trace: Option<TraceParent>,
    /// The call has been at another node, which may have announced something of it that is not delivered yet.
    pub has_moved: bool,
}

impl NewEvent {
    /// An event that happened at `at`. `now` stamps its id.
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

    /// An event of a kind that tells of nothing that happened.
    pub fn sample(kind: EventKind, tenant: TenantId, now: Millis) -> Self {
        let data = SampleCall::new(now).payload(kind);
        Self {
            is_test: true,
            ..Self::new(tenant, None, now, now, &data)
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
    /// The trace that its attempts are part of.
    pub trace: Option<TraceParent>,
    /// Another node may have announced something of the call before: it is read from the table, in the order of the commits.
    pub has_moved: bool,
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

/// Who hears of what was committed: the dispatcher, and who follows the tenant's events.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    pub deliver: Option<Recipient<Deliver>>,
    pub followers: Followers,
}

impl Audience {
    /// Tells them. Call it after the commit.
    pub fn tell(&self, announced: Announced) {
        if !announced.tenants.is_empty() {
            self.followers.announce(announced.tenants);
        }
        if let Some(deliver) = &self.deliver
            && !announced.dispatches.is_empty()
        {
            // A full mailbox costs time only: the dispatcher reads the table too.
            let _ = deliver.try_send(Deliver(announced.dispatches));
        }
    }
}

/// What is to be written of events, and who is told once that is committed.
#[derive(Debug, Default)]
pub struct Announcement {
    /// The rows of the events, and one delivery for each active webhook that subscribed to their kind. The deliveries are this
    /// node's, whose dispatcher is told of them after the commit; where another delivers to the webhook, that finds them.
    pub writes: Vec<BatchWrite>,
    pub announced: Announced,
}

/// What a tenant's events need to know.
struct Tenant {
    /// The position of the next event.
    next: i64,
    /// When deliveries of what is announced now are due. Whichever nodes announce something of this tenant: what is committed
    /// later is not due earlier.
    due_at: Millis,
    webhooks: Vec<(WebhookId, Vec<String>)>,
}

/// Gives events their positions and finds who wants them. From here on others of these tenants wait for the commit.
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
        announced: Announced {
            dispatches,
            tenants: events.iter().map(|event| event.tenant).collect(),
        },
    })
}

/// Writes events with their deliveries, and nothing else.
pub async fn write(
    txn: &Transaction,
    events: &[NewEvent],
    node: &str,
    now: Millis,
) -> Result<Announced, DbErr> {
    let announcement = announce(txn, events, node, now).await?;
    written(txn.write_all(&announcement.writes).await?)?;
    Ok(announcement.announced)
}

/// Writes events that followers see, without deliveries.
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

/// The next positions of the tenants of these events, and who of theirs subscribed to what. The row remembers when what a node
/// announced last was due; what is announced by no node leaves that as it is.
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
    // One node's ids are in the order of their making also within a millisecond; those of two are not.
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

/// An event that is there already was committed before, with its deliveries, and the answer was lost.
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
    // What is announced by no node is on its way to none.
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
