//! The log of events: rows are written for deliveries that so far are only there.

use dikala_entities::{
    CallId, DeliveryId, EventId, EventKind, Millis, Store, TenantId, WebhookId, event,
    rows::{ColumnType, json_rows, json_statement},
    store::Transaction,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect,
};
use serde::Serialize;

use super::statement::statement;
use crate::{
    events::sequences::{LogPlace, read_sequences, read_subscribers},
    webhooks::scheduler::Refill,
};

/// Events read from the log by one query.
const LOG_PAGE: u64 = 500;

/// A delivery that has no row yet.
#[derive(Clone, Copy, Debug)]
pub struct UnwrittenDelivery {
    pub tenant: TenantId,
    pub webhook: WebhookId,
    pub event: EventId,
    pub call: Option<CallId>,
    pub kind: EventKind,
    pub announced_at: Millis,
    pub sequence: i64,
}

/// Writes rows for a page of the log after `from`, with the cursor. Returns the place up to which all events have rows, and
/// true if that is the end of the log. None if another node has the cursor.
pub(super) async fn write_rows(
    store: &Store,
    refill: &Refill,
    from: LogPlace,
    node: &str,
) -> Result<Option<(LogPlace, bool)>, DbErr> {
    if log_end(store.reader(), refill).await?.sequence <= from.sequence {
        return Ok(Some((from, true)));
    }
    // Read by the transaction that writes: what a crash of the database takes back must not move the cursor.
    let txn = store.begin().await?;
    let end = log_end(&txn, refill).await?;
    // If exactly one event is new, reading begins right before it.
    let start = match end.sequence - from.sequence {
        1 => end.before().position.max(from.position),
        _ => from.position,
    };
    let page = read_page(&txn, refill, start).await?;
    let read = LogPlace {
        sequence: page
            .unwritten
            .last()
            .map_or(from.sequence, |last| last.sequence),
        position: page.end,
    };
    let written = if page.is_last { read.max(end) } else { read };
    if !move_cursor(&txn, refill.webhook, written, node).await? {
        return Ok(None);
    }
    insert_rows(&txn, &page.unwritten, ExistingRows::Left).await?;
    txn.commit().await?;
    Ok(Some((written, page.is_last)))
}

/// A page of the log.
struct LogPage {
    /// The deliveries of its events to the webhook.
    unwritten: Vec<UnwrittenDelivery>,
    /// The position of its last event.
    end: i64,
    is_last: bool,
}

/// Reads the page after a position.
async fn read_page(txn: &Transaction, refill: &Refill, start: i64) -> Result<LogPage, DbErr> {
    #[derive(FromQueryResult)]
    struct Logged {
        id: EventId,
        call_id: Option<CallId>,
        kind: EventKind,
        announced_at: Option<Millis>,
        position: i64,
        subscribers: Option<String>,
    }
    let page: Vec<Logged> = event::Entity::find()
        .select_only()
        .columns([
            event::Column::Id,
            event::Column::CallId,
            event::Column::Kind,
            event::Column::AnnouncedAt,
            event::Column::Position,
            event::Column::Subscribers,
        ])
        .filter(event::Column::TenantId.eq(refill.tenant))
        .filter(event::Column::Position.gt(start))
        .order_by_asc(event::Column::Position)
        .limit(LOG_PAGE)
        .into_model()
        .all(txn)
        .await?;
    let mut unwritten = Vec::new();
    for event in &page {
        let sequences = read_subscribers(event.subscribers.as_deref().unwrap_or_default())?;
        let sequence = sequences.get(&refill.webhook).copied();
        if let (Some(sequence), Some(announced_at)) = (sequence, event.announced_at) {
            unwritten.push(UnwrittenDelivery {
                tenant: refill.tenant,
                webhook: refill.webhook,
                event: event.id,
                call: event.call_id,
                kind: event.kind,
                announced_at,
                sequence,
            });
        }
    }
    Ok(LogPage {
        unwritten,
        end: page.last().map_or(start, |last| last.position),
        is_last: u64::try_from(page.len()).is_ok_and(|rows| rows < LOG_PAGE),
    })
}

/// The newest event of the webhook.
async fn log_end(db: &impl ConnectionTrait, refill: &Refill) -> Result<LogPlace, DbErr> {
    let sql = "SELECT sequences FROM event_positions WHERE tenant_id = $1";
    let end = statement(db.get_database_backend(), sql, vec![refill.tenant.into()]);
    let Some(row) = db.query_one_raw(end).await? else {
        return Ok(LogPlace::default());
    };
    let sequences: String = row.try_get("", "sequences")?;
    let end = read_sequences(&sequences)?.get(&refill.webhook).copied();
    Ok(end.unwrap_or_default())
}

/// False if another node has the cursor.
async fn move_cursor(
    txn: &Transaction,
    webhook: WebhookId,
    to: LogPlace,
    node: &str,
) -> Result<bool, DbErr> {
    let sql = "UPDATE webhook_cursors SET sequence = $1, position = $2 WHERE webhook_id = $3 AND node = $4";
    let values = vec![
        to.sequence.into(),
        to.position.into(),
        webhook.into(),
        node.into(),
    ];
    let moved = statement(txn.get_database_backend(), sql, values);
    let moved = txn.execute_raw(moved).await?;
    Ok(moved.rows_affected() == 1)
}

/// The treatment of rows that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingRows {
    Left,
    /// Locked until the transaction ends.
    Locked,
}

/// Writes the rows of pending deliveries, except those that exist. In the order of their ids, which prevents deadlocks.
pub async fn insert_rows(
    txn: &Transaction,
    deliveries: &[UnwrittenDelivery],
    existing: ExistingRows,
) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: DeliveryId,
        tenant_id: TenantId,
        webhook_id: WebhookId,
        event_id: EventId,
        call_id: Option<CallId>,
        kind: EventKind,
        at: i64,
    }
    if deliveries.is_empty() {
        return Ok(());
    }
    let row = |it: &UnwrittenDelivery| Row {
        id: DeliveryId::of(it.announced_at, it.sequence, it.event, it.webhook),
        tenant_id: it.tenant,
        webhook_id: it.webhook,
        event_id: it.event,
        call_id: it.call,
        kind: it.kind,
        at: it.announced_at.as_i64(),
    };
    let rows: Vec<Row> = deliveries.iter().map(row).collect();
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", ColumnType::Text),
            ("tenant_id", ColumnType::Text),
            ("webhook_id", ColumnType::Text),
            ("event_id", ColumnType::Text),
            ("call_id", ColumnType::Text),
            ("kind", ColumnType::Text),
            ("at", ColumnType::BigInt),
        ],
    );
    let sql = format!(
        "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, next_attempt_at, \
            is_test, created_at) \
         SELECT id, tenant_id, webhook_id, event_id, call_id, kind, 'pending', 0, at, false, at \
         FROM {source} WHERE true ORDER BY id ON CONFLICT (id) DO {}",
        match existing {
            ExistingRows::Left => "NOTHING",
            ExistingRows::Locked => "UPDATE SET id = excluded.id",
        }
    );
    txn.execute_raw(json_statement(backend, sql, &rows)?)
        .await
        .map(drop)
}
