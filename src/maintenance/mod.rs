//! Removes old rows: attempts, finished deliveries, events, idempotency keys and, if configured, calls and
//! transcripts.
//!
//! Every sweep finds a few rows on a reader and removes them in a short write of its own, so that its reads delay
//! nobody. Rows may change in between; where that matters, the write checks those rows again.

mod books;
mod brief;
mod callers;
mod calls;
mod people;
mod records;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dikala_actors::{
    commit::CommitHandle,
    nodes::{self, Membership},
    runtime::clock::SharedClock,
};
use dikala_entities::{
    DeliveryId, EventId, Millis, Store, attempt, delivery, event,
    rows::{ColumnType, json_rows},
    store::Transaction,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect, Statement, Value,
};

use crate::{config::Retention, http::idempotency};

/// Interval of copying SQLite's log into the file.
const COPY_EVERY: Duration = Duration::from_secs(1);
/// Copies between two attempts to empty the log.
const COPIES: u32 = 60;
/// Rows per transaction.
const BATCH: u64 = 500;
/// Shortest and longest rest between two batches.
const RESTS: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Runs all maintenance for as long as the process runs.
pub async fn run(
    store: Store,
    clock: SharedClock,
    node: Membership,
    retention: Retention,
    ledger: CommitHandle,
) {
    tokio::join!(
        books::look_regularly(&store, &ledger),
        sweep_regularly(&store, &clock, &node, &retention),
        callers::index_regularly(&store, &clock, &node),
        keep_log_short(&store)
    );
}

async fn sweep_regularly(
    store: &Store,
    clock: &SharedClock,
    node: &Membership,
    retention: &Retention,
) {
    let mut callers_swept_at: Option<Millis> = None;
    loop {
        tokio::time::sleep(Duration::from_secs(retention.sweep_seconds)).await;
        let sweeping = sweep_in_turn(
            store.clone(),
            Arc::clone(clock),
            node.clone(),
            retention.clone(),
        );
        // A task of its own: after a panic the next sweep still runs.
        match actix_web::rt::spawn(sweeping).await {
            Ok(Ok(0)) => {}
            Ok(Ok(removed)) => tracing::info!(removed, "removed old rows"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not remove old rows; the next sweep tries again");
            }
            Err(error) => tracing::error!(%error, "a sweep of old rows died; the next one runs"),
        }
        let now = clock.now();
        if callers_swept_at.is_some_and(|at| now.since(at) < DAY_MS) {
            continue;
        }
        let sweeping = callers::sweep_in_turn(store.clone(), node.clone());
        match actix_web::rt::spawn(sweeping).await {
            Ok(Ok(true)) => callers_swept_at = Some(now),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not look for callers without calls; the next sweep tries again");
            }
            Err(error) => tracing::error!(%error, "a sweep of callers died; the next one runs"),
        }
    }
}

/// Sweeps, if it is this node's turn. Returns the number of removed rows.
async fn sweep_in_turn(
    store: Store,
    clock: SharedClock,
    node: Membership,
    retention: Retention,
) -> Result<u64, DbErr> {
    if is_sweeper(&store, &node).await? {
        sweep(&store, &clock, &retention).await
    } else {
        Ok(0)
    }
}

/// True on one node: the oldest that lives. All nodes would find the same rows.
async fn is_sweeper(store: &Store, node: &Membership) -> Result<bool, DbErr> {
    if !node.has_others() {
        return Ok(true);
    }
    let nodes = nodes::all(store.reader()).await?;
    let oldest = nodes.iter().find(|node| node.lease_until > node.now);
    Ok(oldest.is_none_or(|oldest| node.is(&oldest.id)))
}

/// Rests for as long as the batch took that began then. So sweeps leave half of the time to other writers, and remove more rows
/// where the database is faster.
async fn rest(began: Instant) {
    let [shortest, longest] = RESTS;
    tokio::time::sleep(began.elapsed().clamp(shortest, longest)).await;
}

/// If the log cannot be copied or emptied now, the next attempt may find a moment without writers.
async fn keep_log_short(store: &Store) {
    loop {
        for _ in 0..COPIES {
            tokio::time::sleep(COPY_EVERY).await;
            if let Err(error) = store.copy_log().await {
                tracing::debug!(%error, "could not checkpoint the write-ahead log; trying again");
            }
        }
        match store.empty_log().await {
            Ok(None) => {}
            Ok(Some(bytes)) => tracing::debug!(bytes, "emptied the write-ahead log"),
            Err(error) => {
                tracing::debug!(%error, "could not empty the write-ahead log; trying again later")
            }
        }
    }
}

/// Removes expired rows. Returns their number.
pub async fn sweep(
    store: &Store,
    clock: &SharedClock,
    retention: &Retention,
) -> Result<u64, DbErr> {
    let now = Arc::clone(clock).now();
    let ago = |days: i64| now.plus_ms(-days.saturating_mul(DAY_MS));
    let mut removed = idempotency::sweep(store, now).await?;
    removed += brief::sweep(store, now).await?;
    removed += people::sweep(store, now).await?;
    removed += sweep_attempts(store, ago(retention.attempts_days)).await?;
    removed += records::sweep_figures(store, ago(retention.attempts_days)).await?;
    removed += sweep_events(store, ago(retention.events_days), SweptEvents::Any).await?;
    if retention.audit_days > 0 {
        removed += records::sweep_audit(store, ago(retention.audit_days)).await?;
    }
    if retention.transcripts_days > 0 {
        let older_than = ago(retention.transcripts_days);
        // In this order: without a transcript the turns would be shown again.
        removed += sweep_events(store, older_than, SweptEvents::Turns).await?;
        removed += calls::sweep_transcripts(store, older_than).await?;
    }
    if retention.calls_days > 0 {
        let older_than = ago(retention.calls_days);
        removed += sweep_events(store, older_than, SweptEvents::Calls).await?;
        removed += calls::sweep_calls(store, older_than).await?;
    }
    Ok(removed)
}

async fn sweep_attempts(store: &Store, older_than: Millis) -> Result<u64, DbErr> {
    #[derive(FromQueryResult, serde::Serialize)]
    struct Row {
        delivery_id: DeliveryId,
        number: i64,
    }
    let find = "SELECT delivery_id, number FROM delivery_attempts WHERE started_at < $1 \
                ORDER BY started_at LIMIT 500";
    let columns = [
        ("delivery_id", ColumnType::Text),
        ("number", ColumnType::BigInt),
    ];
    let remove = format!(
        "DELETE FROM delivery_attempts WHERE (delivery_id, number) IN (SELECT delivery_id, number FROM {})",
        json_rows(store.backend(), &columns)
    );
    let mut removed = 0;
    loop {
        let began = Instant::now();
        let old = statement(store, find, [older_than.as_i64().into()]);
        let old = Row::find_by_statement(old).all(store.reader()).await?;
        if old.is_empty() {
            return Ok(removed);
        }
        let remove = dikala_entities::rows::json_statement(store.backend(), remove.clone(), &old)?;
        removed += store.writer().execute_raw(remove).await?.rows_affected();
        rest(began).await;
    }
}

/// The events of a sweep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SweptEvents {
    Any,
    /// Events of calls only.
    Calls,
    /// Turns of calls only.
    Turns,
}

impl SweptEvents {
    /// Finds old events that no active webhook waits for. Looks up the deliveries of each event: PostgreSQL would turn
    /// `NOT EXISTS` into a join that reads all deliveries from the oldest on.
    fn find(self) -> String {
        let whose = match self {
            Self::Any => "",
            Self::Calls => " AND e.call_id IS NOT NULL",
            Self::Turns => " AND e.kind = 'call.turn'",
        };
        format!(
            "SELECT e.id FROM events e WHERE e.id < $1 AND e.id > $2{whose} AND \
             (SELECT 1 FROM deliveries d JOIN webhooks w ON w.id = d.webhook_id \
              WHERE d.event_id = e.id AND d.status = 'pending' AND w.is_active LIMIT 1) IS NULL ORDER BY e.id LIMIT 500"
        )
    }
}

/// Removes old events with their deliveries, unless a delivery is pending at an active webhook.
async fn sweep_events(store: &Store, older_than: Millis, whose: SweptEvents) -> Result<u64, DbErr> {
    let find = whose.find();
    let first_kept = EventId::first_at(older_than).to_string();
    let mut last = String::new();
    let mut removed = 0;
    loop {
        let began = Instant::now();
        let old = statement(store, &find, [first_kept.clone().into(), last.into()]);
        let ids: Vec<EventId> = ids(store.reader(), old).await?;
        let Some(newest) = ids.last() else {
            return Ok(removed);
        };
        last = newest.to_string();
        let txn = store.begin().await?;
        removed += remove_events(&txn, ids).await?;
        txn.commit().await?;
        rest(began).await;
    }
}

async fn remove_events(txn: &Transaction, mut ids: Vec<EventId>) -> Result<u64, DbErr> {
    let locked: Vec<(DeliveryId, EventId)> = delivery::Entity::find()
        .select_only()
        .columns([delivery::Column::Id, delivery::Column::EventId])
        .filter(delivery::Column::EventId.is_in(ids.iter().copied()))
        .order_by_asc(delivery::Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(txn)
        .await?;
    // Checks again under the lock: a resend may have been requested since the rows were found.
    let wanted: Vec<EventId> = delivery::Entity::find()
        .select_only()
        .column(delivery::Column::EventId)
        .filter(delivery::Column::EventId.is_in(ids.iter().copied()))
        .filter(delivery::Column::Status.eq(dikala_entities::DeliveryStatus::Pending))
        .join(
            sea_orm::JoinType::InnerJoin,
            delivery::Entity::belongs_to(dikala_entities::webhook::Entity)
                .from(delivery::Column::WebhookId)
                .to(dikala_entities::webhook::Column::Id)
                .into(),
        )
        .filter(dikala_entities::webhook::Column::IsActive.eq(true))
        .into_tuple()
        .all(txn)
        .await?;
    ids.retain(|id| !wanted.contains(id));
    let deliveries: Vec<DeliveryId> = locked
        .into_iter()
        .filter(|(_, event)| !wanted.contains(event))
        .map(|(delivery, _)| delivery)
        .collect();
    for chunk in deliveries.chunks(usize::try_from(BATCH).unwrap_or(usize::MAX)) {
        let of_chunk = || chunk.iter().copied();
        attempt::Entity::delete_many()
            .filter(attempt::Column::DeliveryId.is_in(of_chunk()))
            .exec(txn)
            .await?;
        delivery::Entity::delete_many()
            .filter(delivery::Column::Id.is_in(of_chunk()))
            .exec(txn)
            .await?;
    }
    let removed = event::Entity::delete_many()
        .filter(event::Column::Id.is_in(ids))
        .exec(txn)
        .await?;
    Ok(removed.rows_affected)
}

/// The ids in the first column of a statement's result.
async fn ids<T: sea_orm::TryGetable>(
    db: &impl ConnectionTrait,
    statement: Statement,
) -> Result<Vec<T>, DbErr> {
    let rows = db.query_all_raw(statement).await?;
    rows.iter().map(|row| row.try_get_by_index(0)).collect()
}

fn statement<const N: usize>(store: &Store, sql: &str, values: [Value; N]) -> Statement {
    Statement::from_sql_and_values(store.backend(), sql, values)
}
