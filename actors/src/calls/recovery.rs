//! Calls that run and have no actor: at the start all of them, later those that fell through.

use std::collections::HashMap;

use dikala_entities::{CallId, call, credit_hold};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    Statement, Value,
};

use super::{router::Calls, versions};
use crate::ledger;

/// Calls read from the store at once.
const CHUNK: usize = 500;
/// A call younger than this may just be on its way to its actor.
const OPENING_MS: i64 = 120_000;

/// Takes up every unfinished call of the store, with a new epoch, so that whoever had it before writes no more. Returns how
/// many there were.
pub(super) async fn recover(calls: &Calls) -> Result<usize, DbErr> {
    let parts = calls.parts();
    parts.bridges.recover(&parts.store).await?;
    let txn = parts.store.begin_critical().await?;
    // The order is the partial index's own: without it SQLite takes a larger one that holds every column it needs.
    let ids: Vec<CallId> = call::Entity::find()
        .filter(call::unfinished())
        .order_by_asc(call::Column::Owner)
        .order_by_asc(call::Column::Id)
        .select_only()
        .column(call::Column::Id)
        .into_tuple()
        .all(&txn)
        .await?;
    // The order of everybody's locks: accounts and holds before calls.
    ledger::take_over(&txn, &ids, &parts.node).await?;
    let take = Statement::from_sql_and_values(
        parts.store.backend(),
        "UPDATE calls SET owner = $1, epoch = epoch + 1 WHERE status IN ('ringing', 'answered')",
        [Value::from(parts.node.as_ref())],
    );
    txn.execute_raw(take).await?;
    txn.commit().await?;
    load(calls, &ids).await?;
    Ok(ids.len())
}

/// For the start, before anybody else looks for a call.
async fn load(calls: &Calls, ids: &[CallId]) -> Result<(), DbErr> {
    let db = calls.parts().store.reader();
    for chunk in ids.chunks(CHUNK) {
        let rows = call::Entity::find()
            .filter(call::Column::Id.is_in(chunk.iter().copied()))
            .all(db)
            .await?;
        let holds = credit_hold::Entity::find()
            .filter(credit_hold::Column::CallId.is_in(chunk.iter().copied()))
            .all(db)
            .await?;
        let holds: HashMap<CallId, credit_hold::Model> =
            holds.into_iter().map(|hold| (hold.call_id, hold)).collect();
        let minutes = versions::durations(db, &rows).await?;
        for row in rows {
            let (hold, minutes) = (holds.get(&row.id), minutes.get(&row.id).copied());
            calls.start_loaded(row, hold, minutes);
        }
    }
    Ok(())
}

/// Running calls without an actor get one.
pub(super) async fn sweep(calls: &Calls) -> Result<(), DbErr> {
    let parts = calls.parts();
    let older_than = parts.clock.now().plus_ms(-OPENING_MS);
    let running: Vec<CallId> = call::Entity::find()
        .filter(call::unfinished())
        .filter(call::Column::Owner.eq(parts.node.as_ref()))
        .filter(call::Column::StartedAt.lt(older_than))
        .select_only()
        .column(call::Column::Id)
        .into_tuple()
        .all(parts.store.reader())
        .await?;
    let lost: Vec<CallId> = running
        .into_iter()
        .filter(|call| calls.directory().find(*call).is_none())
        .collect();
    take_up(calls, &lost).await;
    Ok(())
}

/// Starts what is not in memory, one call after the other: a message may be doing the same at this moment.
pub(super) async fn take_up(calls: &Calls, ids: &[CallId]) {
    for call in ids {
        if let Err(error) = calls.find(*call).await {
            tracing::warn!(%call, %error, "the call is left to the next sweep");
        }
    }
}
