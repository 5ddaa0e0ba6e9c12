//! The outbox: an event is written in the transaction of its cause, with the webhooks that subscribed to it. Deliveries
//! start after the commit; losing that wake-up loses no event.
//!
//! Each webhook counts the events that it subscribed to (its sequence), without gaps. So the node that delivers notices
//! an event that it did not hear of, and reads it from the table.
//!
//! Each event gets a position in the order of its tenant's commits. Positions come from a row of the tenant. It is
//! locked when it is read ([`read_positions`]), or it is remembered from the last commit; either way it is written only
//! if it is unchanged. Rows of several tenants are locked in the order of their ids, which prevents deadlocks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use actix::{Message, Recipient};
use dikala_entities::{
    CallId, DeliveryId, EventId, EventKind, Millis, TenantId, TraceParent, WebhookId,
    batch::BatchWrite,
    rows::{ColumnType, json_rows, json_statement},
    store::Transaction,
};
use sea_orm::{ConnectionTrait, DbErr, Value};
use serde::Serialize;

use super::{
    followers::Followers,
    payload::{Payload, SampleCall},
    sequences::{LogPlace, Sequences, read_sequences, sequences_text, subscribers_text},
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
    /// Its place in the log of events, if no row of the delivery was read.
    pub place: Option<LogPlace>,
}

/// Deliveries that were just committed. A dispatcher without room for them finds their events in the table later.
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
            // A full mailbox costs time only: the dispatcher also reads the log.
            let _ = deliver.try_send(Deliver(announced.dispatches));
        }
    }
}

/// The writes for events, and the notifications to send after their commit.
#[derive(Debug, Default)]
pub struct Announcement {
    /// The rows of the events, each with the active webhooks that subscribed to its kind. This node's dispatcher hears of
    /// them after the commit. If another node delivers to a webhook, that node finds them in the log.
    pub writes: Vec<BatchWrite>,
    pub announced: AnnouncedEvents,
}

/// A tenant's row of `event_positions`, and the tenant's active webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventPosition {
    /// The position of the newest event.
    last: i64,
    /// The node that announced last.
    node: Arc<str>,
    /// The due time of the last announced deliveries. It never decreases within a tenant, whichever nodes announce: a
    /// later commit is not due earlier.
    stamped_at: Millis,
    webhooks: Subscriptions,
    sequences: Sequences,
}

/// The webhooks of a tenant and the kinds of events that they subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subscriptions {
    /// As the database writes them, by which it finds out that they changed.
    text: Arc<str>,
    webhooks: Arc<[Subscription]>,
}

/// A webhook, the kinds of events that it subscribed to, and whether it is active.
type Subscription = (WebhookId, Vec<String>, bool);

pub(crate) type EventPositions = BTreeMap<TenantId, EventPosition>;

/// The positions of the tenants of some events, and how they are known.
#[derive(Clone, Debug)]
pub(crate) enum KnownPositions {
    /// Read and locked by the transaction that writes.
    Locked(EventPositions),
    /// As last written. Meanwhile others may have changed the row, or the webhooks.
    Remembered(EventPositions),
}

impl KnownPositions {
    fn positions(&self) -> &EventPositions {
        match self {
            Self::Locked(positions) | Self::Remembered(positions) => positions,
        }
    }

    fn positions_mut(&mut self) -> &mut EventPositions {
        match self {
            Self::Locked(positions) | Self::Remembered(positions) => positions,
        }
    }

    pub(crate) fn into_inner(self) -> EventPositions {
        match self {
            Self::Locked(positions) | Self::Remembered(positions) => positions,
        }
    }

    /// Tenants whose events another node than this announced last.
    pub(crate) fn of_others(&self, node: &str) -> BTreeSet<TenantId> {
        let positions = self.positions().iter();
        let others = positions.filter(|(_, position)| !["", node].contains(&&*position.node));
        others.map(|(tenant, _)| *tenant).collect()
    }
}

/// Gives events their positions and finds the webhooks that subscribed to them. `known` has the tenants of all
/// these events; afterwards it is as the writes leave it.
pub(crate) fn announce(
    events: &[NewEvent],
    known: &mut KnownPositions,
    node: &str,
    now: Millis,
) -> Result<Announcement, DbErr> {
    if events.is_empty() {
        return Ok(Announcement::default());
    }
    let before = known.clone();
    let positions = known.positions_mut();
    for position in positions.values_mut() {
        position.stamp(node, now);
    }
    let mut rows = Vec::with_capacity(events.len());
    let mut dispatches = Vec::new();
    for event in events {
        let position = next_position(positions, event.tenant)?;
        let subscribers = position.subscribers(event.kind);
        let place = |sequence| LogPlace {
            sequence,
            position: position.last,
        };
        let at = position.stamped_at;
        let theirs = subscribers.iter();
        dispatches.extend(theirs.map(|(webhook, n)| dispatch(event, *webhook, at, place(*n))));
        rows.push(row_of_event(event, position.last, Some(at), &subscribers));
    }
    Ok(Announcement {
        writes: vec![
            write_of_positions(&before, positions),
            write_of_events(rows),
        ],
        announced: AnnouncedEvents {
            dispatches,
            tenants: events.iter().map(|event| event.tenant).collect(),
        },
    })
}

/// The position of a tenant after its next event.
fn next_position(
    positions: &mut EventPositions,
    tenant: TenantId,
) -> Result<&mut EventPosition, DbErr> {
    let position = positions.get_mut(&tenant);
    let position = position
        .ok_or_else(|| DbErr::RecordNotFound("a tenant's position of events".to_owned()))?;
    position.last += 1;
    Ok(position)
}

impl EventPosition {
    /// Ids made by one node within a millisecond are in order; ids made by two nodes are not.
    fn stamp(&mut self, node: &str, now: Millis) {
        let next = self.stamped_at.plus_ms(i64::from(*self.node != *node));
        let is_ahead = next >= now && next <= now.plus_ms(AHEAD_MS_MAX);
        self.stamped_at = if is_ahead { next } else { now };
        if *self.node != *node {
            self.node = Arc::from(node);
        }
    }

    /// The active webhooks that subscribed to this kind, each with the next number of its sequence.
    fn subscribers(&mut self, kind: EventKind) -> Vec<(WebhookId, i64)> {
        let webhooks = Arc::clone(&self.webhooks.webhooks);
        self.sequences
            .retain(|id, _| webhooks.iter().any(|(webhook, ..)| webhook == id));
        let subscribed = webhooks
            .iter()
            .filter(|(_, kinds, is_active)| *is_active && kinds.iter().any(|k| k == kind.as_str()));
        let position = self.last;
        let mut next = |webhook: WebhookId| {
            let place = self.sequences.entry(webhook).or_default();
            *place = LogPlace {
                sequence: place.sequence + 1,
                position,
            };
            (webhook, place.sequence)
        };
        subscribed.map(|(webhook, ..)| next(*webhook)).collect()
    }
}

/// Writes events with their subscribers in a batch of its own.
pub async fn write(
    txn: &Transaction,
    events: &[NewEvent],
    node: &str,
    now: Millis,
) -> Result<AnnouncedEvents, DbErr> {
    let positions = read_positions(txn, &tenants_of(events)).await?;
    let announcement = announce(events, &mut KnownPositions::Locked(positions), node, now)?;
    written(txn.write_all(&announcement.writes).await?)?;
    Ok(announcement.announced)
}

/// Writes events for followers only, without deliveries.
pub async fn write_events(txn: &Transaction, events: &[NewEvent]) -> Result<(), DbErr> {
    let mut after = read_positions(txn, &tenants_of(events)).await?;
    let before = KnownPositions::Locked(after.clone());
    let mut rows = Vec::with_capacity(events.len());
    for event in events {
        let position = next_position(&mut after, event.tenant)?.last;
        rows.push(row_of_event(event, position, None, &[]));
    }
    let writes = [write_of_positions(&before, &after), write_of_events(rows)];
    written(txn.write_all(&writes).await?)
}

pub(crate) fn tenants_of(events: &[NewEvent]) -> BTreeSet<TenantId> {
    events.iter().map(|event| event.tenant).collect()
}

fn written(all: bool) -> Result<(), DbErr> {
    if all {
        Ok(())
    } else {
        Err(DbErr::Custom("an event is there already".to_owned()))
    }
}

fn dispatch(event: &NewEvent, webhook: WebhookId, at: Millis, place: LogPlace) -> Dispatch {
    Dispatch {
        delivery: DeliveryId::of(at, place.sequence, event.id, webhook),
        webhook,
        tenant: event.tenant,
        event: event.id,
        kind: event.kind,
        call: event.call,
        body: Arc::clone(&event.body),
        attempts: 0,
        is_test: false,
        trace: event.trace.clone(),
        place: Some(place),
    }
}

/// The webhooks of a tenant with their kinds, as the elements of a JSON array.
fn subscriptions_of(tenant: &str) -> String {
    format!(
        "COALESCE((SELECT string_agg('[\"' || w.id || '\",' || w.events || CASE WHEN w.is_active THEN ',true]' ELSE ',false]' END, \
         ',' ORDER BY w.id) FROM webhooks w WHERE w.tenant_id = {tenant}), '')"
    )
}

/// Reads the positions of tenants and locks their rows until the transaction ends. Rows that are missing are made.
pub(crate) async fn read_positions(
    txn: &Transaction,
    tenants: &BTreeSet<TenantId>,
) -> Result<EventPositions, DbErr> {
    #[derive(Serialize)]
    struct Row {
        tenant_id: TenantId,
    }
    if tenants.is_empty() {
        return Ok(EventPositions::new());
    }
    let rows: Vec<Row> = tenants.iter().map(|&tenant_id| Row { tenant_id }).collect();
    let backend = txn.get_database_backend();
    let sql = format!(
        "INSERT INTO event_positions (tenant_id, last) SELECT tenant_id, 0 FROM {} WHERE true ORDER BY tenant_id \
         ON CONFLICT (tenant_id) DO UPDATE SET last = event_positions.last \
         RETURNING tenant_id, last, node, stamped_at, sequences, {} AS webhooks",
        json_rows(backend, &[("tenant_id", ColumnType::Text)]),
        subscriptions_of("event_positions.tenant_id"),
    );
    let read = txn
        .query_all_raw(json_statement(backend, sql, &rows)?)
        .await?;
    let mut positions = EventPositions::new();
    for row in read {
        let text: String = row.try_get("", "webhooks")?;
        let webhooks: Vec<Subscription> = serde_json::from_str(&format!("[{text}]"))
            .map_err(|error| DbErr::Json(error.to_string()))?;
        let node: String = row.try_get("", "node")?;
        let sequences: String = row.try_get("", "sequences")?;
        let position = EventPosition {
            last: row.try_get("", "last")?,
            node: node.into(),
            stamped_at: row.try_get("", "stamped_at")?,
            webhooks: Subscriptions {
                text: text.into(),
                webhooks: webhooks.into(),
            },
            sequences: read_sequences(&sequences)?,
        };
        positions.insert(row.try_get("", "tenant_id")?, position);
    }
    Ok(positions)
}

/// Changes nothing for a tenant whose row is not as it was known, or whose webhooks are not as they were remembered. The whole
/// row is compared: after a crash of the database, other events may have its last position.
fn write_of_positions(before: &KnownPositions, after: &EventPositions) -> BatchWrite {
    let rows = before.positions().iter().zip(after.values());
    let rows = rows.filter(|((_, before), after)| before.last != after.last);
    let rows = rows.map(|((tenant, before), after)| {
        vec![
            (*tenant).into(),
            before.last.into(),
            before.node.to_string().into(),
            before.stamped_at.into(),
            before.webhooks.text.to_string().into(),
            after.last.into(),
            after.node.to_string().into(),
            after.stamped_at.into(),
            sequences_text(&before.sequences).into(),
            sequences_text(&after.sequences).into(),
        ]
    });
    let columns = [
        ("tenant_id", ColumnType::Text),
        ("last_was", ColumnType::BigInt),
        ("node_was", ColumnType::Text),
        ("stamped_at_was", ColumnType::BigInt),
        ("webhooks", ColumnType::Text),
        ("last", ColumnType::BigInt),
        ("node", ColumnType::Text),
        ("stamped_at", ColumnType::BigInt),
        ("sequences_were", ColumnType::Text),
        ("sequences", ColumnType::Text),
    ];
    let mut sql = "UPDATE event_positions SET last = rows.last, node = rows.node, stamped_at = rows.stamped_at, \
                   sequences = rows.sequences FROM {rows} \
                   WHERE event_positions.tenant_id = rows.tenant_id AND event_positions.last = rows.last_was \
                   AND event_positions.node = rows.node_was AND event_positions.stamped_at = rows.stamped_at_was \
                   AND event_positions.sequences = rows.sequences_were"
        .to_owned();
    if matches!(before, KnownPositions::Remembered(_)) {
        let now = subscriptions_of("rows.tenant_id");
        sql.push_str(&format!(" AND {now} = rows.webhooks"));
    }
    BatchWrite::new(sql, &columns, rows.collect())
}

fn row_of_event(
    event: &NewEvent,
    position: i64,
    announced_at: Option<Millis>,
    subscribers: &[(WebhookId, i64)],
) -> Vec<Value> {
    let subscribed = (!subscribers.is_empty()).then(|| subscribers_text(subscribers));
    vec![
        event.id.into(),
        event.tenant.into(),
        event.call.into(),
        event.kind.into(),
        event.at.into(),
        event.body.to_string().into(),
        position.into(),
        event.is_test.into(),
        announced_at.filter(|_| subscribed.is_some()).into(),
        subscribed.into(),
    ]
}

/// An event whose row exists was committed before; only the answer was lost.
fn write_of_events(rows: Vec<Vec<Value>>) -> BatchWrite {
    let sql = "INSERT INTO events (id, tenant_id, call_id, kind, occurred_at, body, position, is_test, announced_at, \
               subscribers) \
               SELECT id, tenant_id, call_id, kind, occurred_at, body, position, is_test, announced_at, subscribers \
               FROM {rows} WHERE true ON CONFLICT (id) DO NOTHING";
    let columns = [
        ("id", ColumnType::Text),
        ("tenant_id", ColumnType::Text),
        ("call_id", ColumnType::Text),
        ("kind", ColumnType::Text),
        ("occurred_at", ColumnType::BigInt),
        ("body", ColumnType::Text),
        ("position", ColumnType::BigInt),
        ("is_test", ColumnType::Boolean),
        ("announced_at", ColumnType::BigInt),
        ("subscribers", ColumnType::Text),
    ];
    BatchWrite::new(sql, &columns, rows)
}
