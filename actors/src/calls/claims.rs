//! Who is calling a function's endpoint. The bridge asks again, at any node and after any crash, and the endpoint is called once; so
//! the invocation is claimed in the store before that, and who finds it claimed waits for what comes of it, or learns that nobody
//! will ever know.

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
    invoking: Invoking,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The endpoint was not called so far.
    Free,
    /// It is called, and what comes of it is not written.
    Called,
    /// It may have been called by one who is no more. Nobody will ever know.
    Left,
    /// The outcome is written.
    Done,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.state == State::Called {
            self.invoking.abandoned.insert(self.key.clone());
        }
        self.invoking.now.remove(&self.key);
    }
}

impl Claim {
    /// Whether the endpoint may have been called before. It must not be called again for that.
    pub(super) fn is_left(&self) -> bool {
        self.state == State::Left
    }

    /// The endpoint is called now.
    pub(super) fn mark_called(&mut self) {
        self.state = State::Called;
    }

    /// The outcome is written: nobody needs the claim any more.
    pub(super) fn mark_done(&mut self) {
        self.state = State::Done;
        self.invoking.abandoned.remove(&self.key);
        self.invoking.done.insert(self.key.clone());
    }
}

/// Claims an invocation; none where another has it that lives.
pub(super) async fn claim(
    parts: &CallParts,
    call: CallId,
    invocation: &str,
) -> Result<Option<Claim>, DbErr> {
    let invoking = parts.invoking.clone();
    let key = (call, invocation.to_owned());
    if !invoking.now.insert(key.clone()) {
        return Ok(None);
    }
    let is_abandoned = invoking.abandoned.contains(&key);
    let mut claim = Claim {
        key,
        invoking,
        state: State::Free,
    };
    if is_abandoned {
        claim.state = State::Left;
        return Ok(Some(claim));
    }
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
        return Ok(Some(claim));
    }
    // It stays the other's, so that it is not taken for an invocation that may begin where the outcome cannot be written at first.
    let sql = "SELECT node FROM invocation_claims WHERE call_id = $1 AND invocation_id = $2 AND node NOT IN (SELECT id FROM nodes)";
    let values = [Value::from(call), Value::from(invocation)];
    let statement = Statement::from_sql_and_values(parts.store.backend(), sql, values);
    let left = parts.store.critical_reader().query_one_raw(statement);
    if left.await?.is_none() {
        return Ok(None);
    }
    claim.state = State::Left;
    Ok(Some(claim))
}

/// Says in the table of which claims nobody knows any more what came of them, wherever they are asked for.
pub(super) async fn give_up_abandoned(parts: &CallParts) -> Result<(), DbErr> {
    let sql = "UPDATE invocation_claims SET node = '' WHERE (call_id, invocation_id) IN";
    write_all(parts, sql, &parts.invoking.abandoned).await
}

/// Takes claims out of the table that are done.
pub(super) async fn forget_done(parts: &CallParts) -> Result<(), DbErr> {
    let sql = "DELETE FROM invocation_claims WHERE (call_id, invocation_id) IN";
    write_all(parts, sql, &parts.invoking.done).await
}

/// Carries a statement out for these claims, which ends in the list of them, and forgets them here.
async fn write_all(parts: &CallParts, sql: &str, claims: &DashSet<Key>) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        call: CallId,
        invocation: String,
    }
    let rows: Vec<Row> = claims
        .iter()
        .map(|key| Row {
            call: key.0,
            invocation: key.1.clone(),
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let backend = parts.store.backend();
    let columns = [("call", ColumnType::Text), ("invocation", ColumnType::Text)];
    let source = json_rows(backend, &columns);
    let sql = format!("{sql} (SELECT rows.call, rows.invocation FROM {source})");
    let statement = json_statement(backend, sql, &rows)?;
    parts.store.writer().execute_raw(statement).await?;
    for row in rows {
        claims.remove(&(row.call, row.invocation));
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
