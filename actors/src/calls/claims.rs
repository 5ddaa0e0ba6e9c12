//! Who is calling a function's endpoint. The bridge asks again, at any node and after any crash, and the endpoint is called once; so
//! the invocation is claimed in the store before that, and who finds it claimed waits for what comes of it, or learns that nobody
//! will ever know.

use std::sync::Arc;

use dashmap::DashSet;
use dikala_entities::{
    CallId,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};
use serde::Serialize;

use super::parts::{CallParts, Invoking};

/// An outcome that was not written by then is given up, and nobody holds its claim any more.
const WRITTEN_WITHIN_MS: i64 = 15 * 60 * 1_000;

/// An invocation by its call and the bridge's name for it.
type Key = (CallId, String);

/// The right to call an endpoint, in this process until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    key: Key,
    now: Arc<DashSet<Key>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.now.remove(&self.key);
    }
}

impl Claim {
    /// The outcome is written: nobody needs the claim any more.
    pub(super) fn is_done(&self, invoking: &Invoking) {
        invoking.done.insert(self.key.clone());
    }
}

/// What claiming an invocation came to.
pub(super) enum Claimed {
    /// Its endpoint was not called so far.
    Now(Claim),
    /// A process that is no more was calling its endpoint. Whether that was carried out, nobody knows.
    Left(Claim),
    /// Another has it that lives.
    Elsewhere,
}

/// Claims an invocation.
pub(super) async fn claim(
    parts: &CallParts,
    call: CallId,
    invocation: &str,
) -> Result<Claimed, DbErr> {
    let now = Arc::clone(&parts.invoking.now);
    let key = (call, invocation.to_owned());
    if !now.insert(key.clone()) {
        return Ok(Claimed::Elsewhere);
    }
    let claim = Claim { key, now };
    let sql = "INSERT INTO invocation_claims (call_id, invocation_id, node, claimed_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (call_id, invocation_id) DO UPDATE SET claimed_at = excluded.claimed_at \
               WHERE invocation_claims.node = excluded.node";
    let values = [
        Value::from(call),
        Value::from(invocation),
        Value::from(parts.node.id().as_ref()),
        Value::from(parts.clock.now().as_i64()),
    ];
    let statement = Statement::from_sql_and_values(parts.store.backend(), sql, values);
    let written = parts.store.writer().execute_raw(statement).await?;
    if written.rows_affected() == 1 {
        return Ok(Claimed::Now(claim));
    }
    // It stays the other's, so that it is not taken for an invocation that may begin where the outcome cannot be written at first.
    let sql = "SELECT node FROM invocation_claims WHERE call_id = $1 AND invocation_id = $2 AND node NOT IN (SELECT id FROM nodes)";
    let values = [Value::from(call), Value::from(invocation)];
    let statement = Statement::from_sql_and_values(parts.store.backend(), sql, values);
    let left = parts.store.critical_reader().query_one_raw(statement);
    Ok(match left.await? {
        Some(_) => Claimed::Left(claim),
        None => Claimed::Elsewhere,
    })
}

/// Takes claims out of the table that are done.
pub(super) async fn forget_done(parts: &CallParts) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        call: CallId,
        invocation: String,
    }
    let done: Vec<Key> = parts.invoking.done.iter().map(|key| key.clone()).collect();
    if done.is_empty() {
        return Ok(());
    }
    let rows: Vec<Row> = done
        .iter()
        .map(|(call, invocation)| Row {
            call: *call,
            invocation: invocation.clone(),
        })
        .collect();
    let backend = parts.store.backend();
    let columns = [("call", ColumnType::Text), ("invocation", ColumnType::Text)];
    let sql = format!(
        "DELETE FROM invocation_claims WHERE (call_id, invocation_id) IN (SELECT rows.call, rows.invocation FROM {})",
        json_rows(backend, &columns)
    );
    let statement = json_statement(backend, sql, &rows)?;
    parts.store.writer().execute_raw(statement).await?;
    for key in &done {
        parts.invoking.done.remove(key);
    }
    Ok(())
}

/// Takes claims out of the table that nobody holds and nobody needs: their calls are over, or their outcomes are written.
pub(super) async fn forget_left(parts: &CallParts) -> Result<(), DbErr> {
    let sql = "DELETE FROM invocation_claims WHERE (node NOT IN (SELECT id FROM nodes) OR claimed_at < $1) \
               AND (NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = invocation_claims.call_id AND calls.status = 'answered') \
               OR EXISTS (SELECT 1 FROM invocations WHERE invocations.call_id = invocation_claims.call_id \
               AND invocations.invocation_id = invocation_claims.invocation_id))";
    let before = parts.clock.now().plus_ms(-WRITTEN_WITHIN_MS);
    let values = [Value::from(before.as_i64())];
    let statement = Statement::from_sql_and_values(parts.store.backend(), sql, values);
    parts.store.writer().execute_raw(statement).await.map(drop)
}
