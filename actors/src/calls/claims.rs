//! Who is calling a function's endpoint. The bridge asks again at any node; so the invocation is claimed in the store before the
//! endpoint is called, and who finds it claimed waits for what comes of it.
//!
//! On SQLite there is one process, which knows what it is doing.

use std::sync::Arc;

use dashmap::DashSet;
use dikala_entities::{
    CallId,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ConnectionTrait, DbErr, Statement, Value};
use serde::Serialize;

use super::{
    parts::{CallParts, Invoking},
    router::Calls,
};

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

/// Claims an invocation; none where another has it that lives.
pub(super) async fn claim(
    parts: &CallParts,
    call: CallId,
    invocation: &str,
) -> Result<Option<Claim>, DbErr> {
    let now = Arc::clone(&parts.invoking.now);
    let key = (call, invocation.to_owned());
    if !now.insert(key.clone()) {
        return Ok(None);
    }
    let claim = Claim { key, now };
    if parts.store.lease().is_none() {
        return Ok(Some(claim));
    }
    let sql = "INSERT INTO invocation_claims (call_id, invocation_id, node, claimed_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (call_id, invocation_id) DO UPDATE SET node = excluded.node, claimed_at = excluded.claimed_at \
               WHERE invocation_claims.node = excluded.node OR invocation_claims.node NOT IN (SELECT id FROM nodes)";
    let values = [
        Value::from(call),
        Value::from(invocation),
        Value::from(parts.node.id().as_ref()),
        Value::from(parts.clock.now().as_i64()),
    ];
    let statement = Statement::from_sql_and_values(parts.store.backend(), sql, values);
    let written = parts.store.writer().execute_raw(statement).await?;
    Ok((written.rows_affected() == 1).then_some(claim))
}

/// Takes claims out of the table that are done.
pub(super) async fn forget_done(parts: &CallParts) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        call: CallId,
        invocation: String,
    }
    let done: Vec<Key> = parts.invoking.done.iter().map(|key| key.clone()).collect();
    if done.is_empty() || parts.store.lease().is_none() {
        parts.invoking.done.clear();
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
        "DELETE FROM invocation_claims USING {} WHERE call_id = rows.call AND invocation_id = rows.invocation",
        json_rows(backend, &columns)
    );
    let statement = json_statement(backend, sql, &rows)?;
    parts.store.writer().execute_raw(statement).await?;
    for key in &done {
        parts.invoking.done.remove(key);
    }
    Ok(())
}

impl Calls {
    /// This node stops: it gives up what it owns, and what it has claimed.
    pub async fn leave(&self) -> Result<(), DbErr> {
        let parts = self.parts();
        let node = parts.node.id();
        let txn = parts.store.begin().await?;
        parts.node.leave(&txn).await?;
        forget_node(&txn, &node).await?;
        txn.commit().await
    }
}

/// What a node had claimed that is no more.
pub(super) async fn forget_node(txn: &impl ConnectionTrait, node: &str) -> Result<(), DbErr> {
    let sql = "DELETE FROM invocation_claims WHERE node = $1";
    let statement =
        Statement::from_sql_and_values(txn.get_database_backend(), sql, [Value::from(node)]);
    txn.execute_raw(statement).await.map(drop)
}
