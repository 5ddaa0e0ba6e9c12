//! Removes calls and transcripts after the operator's retention time. Credit transactions are never removed; the
//! ledger can be verified without the removed holds.

use std::time::Instant;

use dikala_actors::calls::without_summary;
use dikala_entities::{
    CallId, CallerNumber, EventId, Millis, Store, TenantId, call, credit_hold, invocation,
    rows::{ColumnType, json_rows, json_statement},
    store::Transaction,
    transcript,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter, QuerySelect,
    sea_query::Expr,
};

use super::{ids, rest, statement};
use crate::operations::calls::callers;

/// Finds calls that ended and were settled before a time. PostgreSQL would turn `NOT EXISTS` into a join that reads all
/// holds from the oldest on.
pub(super) const OVER: &str = "SELECT c.id FROM calls c WHERE c.id < $1 AND c.id > $2 AND c.ended_at < $3 AND \
    (SELECT 1 FROM credit_holds h WHERE h.call_id = c.id AND (h.settled_at IS NULL OR h.settled_at >= $3) LIMIT 1) IS NULL \
    ORDER BY c.id LIMIT 200";
/// Finds holds that were settled before a time and whose call is gone, or was never written.
pub(super) const HOLDS: &str = "SELECT h.call_id FROM credit_holds h WHERE h.call_id < $1 AND h.call_id > $2 AND h.settled_at < $3 \
    AND (SELECT 1 FROM calls c WHERE c.id = h.call_id LIMIT 1) IS NULL ORDER BY h.call_id LIMIT 200";
const TRANSCRIPTS: &str = "SELECT t.call_id FROM transcripts t WHERE t.call_id < $1 AND t.call_id > $2 AND t.created_at < $3 \
    ORDER BY t.call_id LIMIT 100";

/// Removes calls that ended before `older_than`, with their holds, transcripts and invocations. Returns the number of
/// calls.
pub(super) async fn sweep_calls(store: &Store, older_than: Millis) -> Result<u64, DbErr> {
    let removed = batches(store, OVER, older_than, async |txn, calls| {
        holds_are_swept(store, txn, older_than).await?;
        remove(txn, &calls).await
    });
    let removed = removed.await?;
    let holds = batches(store, HOLDS, older_than, async |txn, calls| {
        holds_are_swept(store, txn, older_than).await?;
        remove(txn, &calls).await
    });
    holds.await?;
    Ok(removed)
}

/// Removes transcripts from before `older_than`, and their summaries in calls and events.
pub(super) async fn sweep_transcripts(store: &Store, older_than: Millis) -> Result<u64, DbErr> {
    batches(store, TRANSCRIPTS, older_than, async |txn, calls| {
        transcript::Entity::delete_many()
            .filter(transcript::Column::CallId.is_in(calls.iter().copied()))
            .exec(txn)
            .await?;
        call::Entity::update_many()
            .col_expr(call::Column::TranscriptSummary, Expr::value(None::<String>))
            .filter(call::Column::Id.is_in(calls.iter().copied()))
            .exec(txn)
            .await?;
        blank_summaries(txn, &calls).await
    })
    .await
}

/// Finds a few ids at a time and gives them to `work`, each batch in a transaction. Returns their number.
async fn batches(
    store: &Store,
    find: &str,
    older_than: Millis,
    work: impl AsyncFn(&Transaction, Vec<CallId>) -> Result<(), DbErr>,
) -> Result<u64, DbErr> {
    // A call's id begins with the time of its start, which is before its end.
    let first_kept = CallId::first_at(older_than).to_string();
    let mut last = String::new();
    let mut removed = 0;
    loop {
        let began = Instant::now();
        let values = [
            first_kept.clone().into(),
            last.into(),
            older_than.as_i64().into(),
        ];
        let found: Vec<CallId> = ids(store.reader(), statement(store, find, values)).await?;
        let Some(newest) = found.last() else {
            return Ok(removed);
        };
        last = newest.to_string();
        removed += u64::try_from(found.len()).unwrap_or(u64::MAX);
        let txn = store.begin().await?;
        work(&txn, found).await?;
        txn.commit().await?;
        rest(began).await;
    }
}

async fn remove(txn: &Transaction, calls: &[CallId]) -> Result<(), DbErr> {
    let of = || calls.iter().copied();
    transcript::Entity::delete_many()
        .filter(transcript::Column::CallId.is_in(of()))
        .exec(txn)
        .await?;
    invocation::Entity::delete_many()
        .filter(invocation::Column::CallId.is_in(of()))
        .exec(txn)
        .await?;
    credit_hold::Entity::delete_many()
        .filter(credit_hold::Column::CallId.is_in(of()))
        .exec(txn)
        .await?;
    let callers: Vec<(TenantId, CallerNumber)> = call::Entity::find()
        .select_only()
        .columns([call::Column::TenantId, call::Column::CallerNumber])
        .distinct()
        .filter(call::Column::Id.is_in(of()))
        .into_tuple()
        .all(txn)
        .await?;
    call::Entity::delete_many()
        .filter(call::Column::Id.is_in(of()))
        .exec(txn)
        .await?;
    for (tenant, caller) in callers {
        callers::forget(txn, tenant, &caller).await?;
    }
    Ok(())
}

/// Records, with the removal, the time before which holds may be missing, for the verification of the ledger.
async fn holds_are_swept(store: &Store, txn: &Transaction, before: Millis) -> Result<(), DbErr> {
    let sql = "INSERT INTO swept_holds (one, before) VALUES (1, $1) ON CONFLICT (one) \
               DO UPDATE SET before = excluded.before WHERE swept_holds.before < excluded.before";
    txn.execute_raw(statement(store, sql, [before.as_i64().into()]))
        .await
        .map(drop)
}

async fn blank_summaries(txn: &Transaction, calls: &[CallId]) -> Result<(), DbErr> {
    #[derive(FromQueryResult)]
    struct Row {
        id: EventId,
        body: String,
    }
    #[derive(serde::Serialize)]
    struct Blank {
        id: EventId,
        body: String,
    }
    let backend = sea_orm::ConnectionTrait::get_database_backend(txn);
    let rows = json_rows(backend, &[("id", ColumnType::Text)]);
    let find = format!(
        "SELECT e.id, e.body FROM {rows} JOIN events e ON e.call_id = rows.id \
         WHERE e.kind IN ('call.ended', 'call.transcript')"
    );
    let calls: Vec<serde_json::Value> = calls
        .iter()
        .map(|call| serde_json::json!({"id": call}))
        .collect();
    let found = Row::find_by_statement(json_statement(backend, find, &calls)?)
        .all(txn)
        .await?;
    let blank: Vec<Blank> = found
        .into_iter()
        .map(|row| Blank {
            id: row.id,
            body: without_summary(&row.body),
        })
        .collect();
    let rows = json_rows(
        backend,
        &[("id", ColumnType::Text), ("body", ColumnType::Text)],
    );
    let sql = format!("UPDATE events SET body = rows.body FROM {rows} WHERE events.id = rows.id");
    txn.execute_raw(json_statement(backend, sql, &blank)?)
        .await
        .map(drop)
}
