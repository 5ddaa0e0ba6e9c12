//! Who is calling a function's endpoint. The bridge asks again, at any node and after any crash, and the endpoint is called once; so
//! the invocation is claimed in the store before that, and who finds it claimed waits for what comes of it, or learns that nobody
//! will ever know.

use std::sync::Arc;

use dashmap::DashMap;
use dikala_entities::{
    CallId, Millis,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};
use serde::Serialize;

use super::parts::{CallParts, Invoking, Noted};

/// An outcome that was not written by then is given up, and nobody holds its claim any more.
const WRITTEN_WITHIN_MS: i64 = 15 * 60 * 1_000;
/// For so long a statement may be on its way of which nobody here heard whether it was carried out.
const LATE_MS: i64 = 60_000;

/// An invocation by its call and the bridge's name for it.
type Key = (CallId, String);

/// What one of this process at a time has of an invocation.
#[derive(Debug)]
struct Turn {
    key: Key,
    invoking: Invoking,
}

impl Turn {
    /// None where another of this process has it.
    fn take(invoking: &Invoking, key: Key) -> Option<Self> {
        let is_free = invoking.now.insert(key.clone());
        // A turn that is not taken must not be dropped either.
        is_free.then(|| Self {
            key,
            invoking: invoking.clone(),
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.invoking.now.remove(&self.key);
    }
}

/// The right to call an endpoint, in this process until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    turn: Turn,
    /// Which node this process was when it was claimed.
    node: Arc<str>,
    claimed_at: Millis,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Whether the claim is in the table is not known.
    Asked,
    /// The endpoint was not called so far.
    Free,
    /// It is called, and what comes of it is not written.
    Called,
    /// It may have been called by one who is no more. Nobody will ever know.
    Left,
    /// The outcome is written.
    Done,
    /// Another has it that lives.
    Others,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Turn { key, invoking } = &self.turn;
        let claimed_at = self.claimed_at;
        let (claims, until) = match self.state {
            State::Called => (&invoking.abandoned, claimed_at),
            State::Free | State::Done => (&invoking.over, claimed_at),
            State::Asked => (&invoking.over, claimed_at.plus_ms(LATE_MS)),
            State::Left | State::Others => return,
        };
        claims.insert(key.clone(), Noted { claimed_at, until });
    }
}

impl Claim {
    /// Whether the endpoint may have been called before. It must not be called again for that.
    pub(super) fn is_left(&self) -> bool {
        self.state == State::Left
    }

    /// For which node it was claimed: when that is no more, others give the invocation up.
    pub(super) fn node(&self) -> Arc<str> {
        Arc::clone(&self.node)
    }

    /// The endpoint is called now.
    pub(super) fn mark_called(&mut self) {
        self.state = State::Called;
    }

    /// The outcome is written: nobody needs the claim any more.
    pub(super) fn mark_done(&mut self) {
        self.state = State::Done;
        self.turn.invoking.abandoned.remove(&self.turn.key);
    }
}

/// Claims an invocation; none where another has it that lives. Who had it before may have written its outcome and let go of it since
/// that was looked for.
pub(super) async fn claim(
    parts: &CallParts,
    call: CallId,
    invocation: &str,
) -> Result<Option<Claim>, DbErr> {
    let invoking = &parts.invoking;
    let key = (call, invocation.to_owned());
    let Some(turn) = Turn::take(invoking, key.clone()) else {
        return Ok(None);
    };
    let mut claim = Claim {
        turn,
        node: parts.node.id(),
        claimed_at: parts.clock.now(),
        state: State::Left,
    };
    if let Some(noted) = invoking.abandoned.get(&key) {
        claim.claimed_at = noted.claimed_at;
        return Ok(Some(claim));
    }
    claim.state = State::Asked;
    invoking.over.remove(&key);
    let sql = "INSERT INTO invocation_claims (call_id, invocation_id, node, claimed_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (call_id, invocation_id) DO UPDATE SET claimed_at = excluded.claimed_at \
               WHERE invocation_claims.node = excluded.node AND invocation_claims.claimed_at <= excluded.claimed_at";
    let values = [
        Value::from(call),
        Value::from(invocation),
        Value::from(claim.node.as_ref()),
        Value::from(claim.claimed_at.as_i64()),
    ];
    let statement = Statement::from_sql_and_values(parts.store.backend(), sql, values);
    let written = parts.store.writer().execute_raw(statement).await?;
    if written.rows_affected() == 1 {
        claim.state = State::Free;
        return Ok(Some(claim));
    }
    claim.state = State::Others;
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
    let sql = "UPDATE invocation_claims SET node = ''";
    write_all(parts, sql, &parts.invoking.abandoned).await
}

/// Takes claims out of the table that nobody here needs any more.
pub(super) async fn forget_over(parts: &CallParts) -> Result<(), DbErr> {
    let sql = "DELETE FROM invocation_claims";
    write_all(parts, sql, &parts.invoking.over).await
}

/// Does this to those of these claims that are this node's, and forgets them here. Nobody here claims one of them meanwhile; and
/// where the statement is carried out later than anybody waits for it, a claim that was made since has another time.
async fn write_all(
    parts: &CallParts,
    sql: &str,
    claims: &DashMap<Key, Noted>,
) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row<'a> {
        call: CallId,
        invocation: &'a str,
        node: &'a str,
        claimed_at: i64,
    }
    let keys: Vec<Key> = claims.iter().map(|claim| claim.key().clone()).collect();
    let turns: Vec<Turn> = keys
        .into_iter()
        .filter_map(|key| Turn::take(&parts.invoking, key))
        .collect();
    let node = parts.node.id();
    // Those that nobody here claimed again just before.
    let mut rows = Vec::new();
    for Turn { key, .. } in &turns {
        if let Some(noted) = claims.get(key) {
            rows.push(Row {
                call: key.0,
                invocation: &key.1,
                node: node.as_ref(),
                claimed_at: noted.claimed_at.as_i64(),
            });
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let backend = parts.store.backend();
    let columns = [
        ("call", ColumnType::Text),
        ("invocation", ColumnType::Text),
        ("node", ColumnType::Text),
        ("claimed_at", ColumnType::BigInt),
    ];
    let source = json_rows(backend, &columns);
    let sql = format!(
        "{sql} WHERE (call_id, invocation_id, node, claimed_at) IN \
         (SELECT rows.call, rows.invocation, rows.node, rows.claimed_at FROM {source})"
    );
    let statement = json_statement(backend, sql, &rows)?;
    parts.store.writer().execute_raw(statement).await?;
    let now = parts.clock.now();
    for turn in &turns {
        claims.remove_if(&turn.key, |_, noted| noted.until <= now);
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
