//! Invocation claims. A bridge may repeat an invocation at any node and after any crash, but its endpoint is called only once.
//! So an invocation is claimed in the store before the call. A second claimant waits for the outcome, or learns that it is
//! lost.

use std::sync::Arc;

use dashmap::DashMap;
use dikala_entities::{
    CallId, Millis,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};
use serde::Serialize;

use super::deps::{CallDeps, ClaimWrite, Invocations};

/// After that time an unwritten outcome is given up, and its claim may be deleted.
const WRITTEN_WITHIN_MS: i64 = 15 * 60 * 1_000;
/// Time in which a statement with an unknown outcome may still be executed.
const LATE_MS: i64 = 60_000;

/// A call, and the bridge's id of the invocation.
type Key = (CallId, String);

/// Exclusive work on an invocation within this process.
#[derive(Debug)]
struct InvocationGuard {
    key: Key,
    invocations: Invocations,
}

impl InvocationGuard {
    /// `None` if it is taken already in this process.
    fn take(invocations: &Invocations, key: Key) -> Option<Self> {
        let is_free = invocations.running.insert(key.clone());
        // Lazily: dropping a guard that was not taken would free the other one's.
        is_free.then(|| Self {
            key,
            invocations: invocations.clone(),
        })
    }
}

impl Drop for InvocationGuard {
    fn drop(&mut self) {
        self.invocations.running.remove(&self.key);
    }
}

/// The right to call an endpoint. Within this process it is exclusive until dropped.
#[derive(Debug)]
pub(super) struct InvocationClaim {
    guard: InvocationGuard,
    /// This process's node id at the time of the claim.
    node: Arc<str>,
    claimed_at: Millis,
    state: ClaimState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    /// The claim was sent to the table, with an unknown outcome.
    Unconfirmed,
    /// Claimed; the endpoint was not called yet.
    Claimed,
    /// The endpoint was called; its outcome is not written.
    Called,
    /// A dead process may have called the endpoint; the outcome is lost.
    Lost,
    /// The outcome is written.
    Done,
    /// Another live process has the claim.
    OthersClaim,
}

impl Drop for InvocationClaim {
    fn drop(&mut self) {
        let InvocationGuard { key, invocations } = &self.guard;
        let claimed_at = self.claimed_at;
        let (claims, until) = match self.state {
            ClaimState::Called => (&invocations.abandoned, claimed_at),
            ClaimState::Claimed | ClaimState::Done => (&invocations.released, claimed_at),
            ClaimState::Unconfirmed => (&invocations.released, claimed_at.plus_ms(LATE_MS)),
            ClaimState::Lost | ClaimState::OthersClaim => return,
        };
        claims.insert(key.clone(), ClaimWrite { claimed_at, until });
    }
}

impl InvocationClaim {
    /// True if the endpoint may have been called before: it must not be called again.
    pub(super) fn is_lost(&self) -> bool {
        self.state == ClaimState::Lost
    }

    /// The node that claimed it. Once that node is ended, others give the invocation up.
    pub(super) fn node(&self) -> Arc<str> {
        Arc::clone(&self.node)
    }

    pub(super) fn mark_called(&mut self) {
        self.state = ClaimState::Called;
    }

    /// The outcome is written: the claim is no longer needed.
    pub(super) fn mark_done(&mut self) {
        self.state = ClaimState::Done;
        self.guard.invocations.abandoned.remove(&self.guard.key);
    }
}

/// Claims an invocation; `None` if another live process has it. Afterwards look for the outcome again: the previous claimant
/// may have written it and released the claim meanwhile.
pub(super) async fn claim(
    deps: &CallDeps,
    call: CallId,
    invocation: &str,
) -> Result<Option<InvocationClaim>, DbErr> {
    let invocations = &deps.invocations;
    let key = (call, invocation.to_owned());
    let Some(guard) = InvocationGuard::take(invocations, key.clone()) else {
        return Ok(None);
    };
    let mut claim = InvocationClaim {
        guard,
        node: deps.node.id(),
        claimed_at: deps.clock.now(),
        state: ClaimState::Lost,
    };
    if let Some(pending_write) = invocations.abandoned.get(&key) {
        claim.claimed_at = pending_write.claimed_at;
        return Ok(Some(claim));
    }
    claim.state = ClaimState::Unconfirmed;
    invocations.released.remove(&key);
    let sql = "INSERT INTO invocation_claims (call_id, invocation_id, node, claimed_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (call_id, invocation_id) DO UPDATE SET claimed_at = excluded.claimed_at \
               WHERE invocation_claims.node = excluded.node AND invocation_claims.claimed_at <= excluded.claimed_at";
    let values = [
        Value::from(call),
        Value::from(invocation),
        Value::from(claim.node.as_ref()),
        Value::from(claim.claimed_at.as_i64()),
    ];
    let statement = Statement::from_sql_and_values(deps.store.backend(), sql, values);
    let written = deps.store.writer().execute_raw(statement).await?;
    if written.rows_affected() == 1 {
        claim.state = ClaimState::Claimed;
        return Ok(Some(claim));
    }
    claim.state = ClaimState::OthersClaim;
    // The row stays the other node's. Otherwise it would look unclaimed if the outcome cannot be written at first.
    let sql = "SELECT node FROM invocation_claims WHERE call_id = $1 AND invocation_id = $2 AND node NOT IN (SELECT id FROM nodes)";
    let values = [Value::from(call), Value::from(invocation)];
    let statement = Statement::from_sql_and_values(deps.store.backend(), sql, values);
    let left = deps.store.critical_reader().query_one_raw(statement);
    if left.await?.is_none() {
        return Ok(None);
    }
    claim.state = ClaimState::Lost;
    Ok(Some(claim))
}

/// Marks abandoned claims, so every node reports their outcome as unknown.
pub(super) async fn mark_abandoned(deps: &CallDeps) -> Result<(), DbErr> {
    let sql = "UPDATE invocation_claims SET node = ''";
    write_all(deps, sql, &deps.invocations.abandoned).await
}

/// Deletes claims that this process no longer needs.
pub(super) async fn delete_released(deps: &CallDeps) -> Result<(), DbErr> {
    let sql = "DELETE FROM invocation_claims";
    write_all(deps, sql, &deps.invocations.released).await
}

/// Writes those of these claims that belong to this node, then forgets them. Their guards are held, so none is claimed here
/// meanwhile. If the statement is executed later than expected, a newer claim has another `claimed_at`.
async fn write_all(
    deps: &CallDeps,
    sql: &str,
    claims: &DashMap<Key, ClaimWrite>,
) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row<'a> {
        call: CallId,
        invocation: &'a str,
        node: &'a str,
        claimed_at: i64,
    }
    let keys: Vec<Key> = claims.iter().map(|claim| claim.key().clone()).collect();
    let guards: Vec<InvocationGuard> = keys
        .into_iter()
        .filter_map(|key| InvocationGuard::take(&deps.invocations, key))
        .collect();
    let node = deps.node.id();
    // Skips those that were claimed again just before.
    let mut rows = Vec::new();
    for InvocationGuard { key, .. } in &guards {
        if let Some(pending_write) = claims.get(key) {
            rows.push(Row {
                call: key.0,
                invocation: &key.1,
                node: node.as_ref(),
                claimed_at: pending_write.claimed_at.as_i64(),
            });
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let backend = deps.store.backend();
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
    deps.store.writer().execute_raw(statement).await?;
    let now = deps.clock.now();
    for guard in &guards {
        claims.remove_if(&guard.key, |_, pending_write| pending_write.until <= now);
    }
    Ok(())
}

/// Deletes claims that are neither held nor needed: their calls are over, or their outcomes are written.
pub(super) async fn delete_stale(deps: &CallDeps) -> Result<(), DbErr> {
    let sql = "DELETE FROM invocation_claims WHERE (node NOT IN (SELECT id FROM nodes) OR claimed_at < $1) \
               AND (NOT EXISTS (SELECT 1 FROM calls WHERE calls.id = invocation_claims.call_id AND calls.status = 'answered') \
               OR EXISTS (SELECT 1 FROM invocations WHERE invocations.call_id = invocation_claims.call_id \
               AND invocations.invocation_id = invocation_claims.invocation_id))";
    let before = deps.clock.now().plus_ms(-WRITTEN_WITHIN_MS);
    let values = [Value::from(before.as_i64())];
    let statement = Statement::from_sql_and_values(deps.store.backend(), sql, values);
    deps.store.writer().execute_raw(statement).await.map(drop)
}
