//! Ownership of calls. Only this module changes owners: by compare-and-set, the row together with its hold. A node takes over
//! calls that no node owns, and calls about which it gets messages.

use std::collections::BTreeSet;

use dikala_entities::{
    CallId, TenantId, call,
    rows::{ColumnType, json_rows},
    store::is_locked_out,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect, Statement, Value,
};
use serde::Serialize;

use super::deps::CallDeps;
use crate::{
    commit, ledger,
    nodes::lease::{Owner, Reason, may_take},
};

/// Calls per transaction.
const CHUNK: u64 = 500;
/// Finds owners of running calls by stepping through the index of running calls. A thousand calls of one owner cost as much as one.
const OWNERS_WITHOUT_A_NODE: &str = "WITH RECURSIVE o(owner) AS ( \
        SELECT (SELECT c.owner FROM calls c WHERE c.outcome IS NULL ORDER BY c.owner, c.id LIMIT 1) \
        UNION ALL \
        SELECT (SELECT c.owner FROM calls c WHERE c.outcome IS NULL AND c.owner > o.owner \
            ORDER BY c.owner, c.id LIMIT 1) \
        FROM o WHERE o.owner IS NOT NULL) \
    SELECT o.owner AS owner FROM o WHERE o.owner IS NOT NULL AND o.owner <> $1 AND o.owner NOT IN (SELECT id FROM nodes)";

/// A running call and its owner, as read.
#[derive(Clone, Debug, Serialize, FromQueryResult)]
pub(super) struct CallOwnership {
    pub(super) id: CallId,
    tenant_id: TenantId,
    owner: String,
    epoch: i64,
}

impl From<&call::Model> for CallOwnership {
    fn from(row: &call::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            owner: row.owner.clone(),
            epoch: row.epoch,
        }
    }
}

/// Owners of running calls that are not in `nodes` any more.
pub(super) async fn lost_owners(deps: &CallDeps) -> Result<Vec<String>, DbErr> {
    let me = [Value::from(deps.node.id().as_ref())];
    let lost = Statement::from_sql_and_values(deps.store.backend(), OWNERS_WITHOUT_A_NODE, me);
    let rows = deps.store.critical_reader().query_all_raw(lost).await?;
    rows.iter().map(|row| row.try_get("", "owner")).collect()
}

/// Some running calls of an owner, in the order of their ids, except those of these tenants. They are those after the call `after`
/// and after further `skipped` chunks.
pub(super) async fn calls_of_owner(
    deps: &CallDeps,
    owner: &str,
    but_for: &BTreeSet<TenantId>,
    (after, skipped): (Option<CallId>, u64),
) -> Result<Vec<CallOwnership>, DbErr> {
    let mut find = call::Entity::find();
    if !but_for.is_empty() {
        find = find.filter(call::Column::TenantId.is_not_in(but_for.iter().copied()));
    }
    if let Some(after) = after {
        find = find.filter(call::Column::Id.gt(after));
    }
    find.filter(call::unfinished())
        .filter(call::Column::Owner.eq(owner))
        // The order of the index of running calls. Without it SQLite uses a larger index that covers every column.
        .order_by_asc(call::Column::Owner)
        .order_by_asc(call::Column::Id)
        .select_only()
        .columns([
            call::Column::Id,
            call::Column::TenantId,
            call::Column::Owner,
            call::Column::Epoch,
        ])
        .offset(skipped * CHUNK)
        .limit(CHUNK)
        .into_model::<CallOwnership>()
        .all(deps.store.critical_reader())
        .await
}

pub(super) enum TakeOver {
    /// The calls taken over here; another node may have taken some of those asked for.
    Calls(Vec<CallId>),
    /// None were, because other sessions lock rows of these tenants.
    Locked(BTreeSet<TenantId>),
}

/// Takes over calls whose owner is not a node any more.
pub(super) async fn take_over_lost(
    deps: &CallDeps,
    lost: &[CallOwnership],
) -> Result<TakeOver, DbErr> {
    if !may_take(Owner::Nobody, Reason::Looking, deps.node.acts()) {
        return Ok(TakeOver::Calls(Vec::new()));
    }
    change_owner_of_unlocked(deps, lost, &deps.node.id()).await
}

async fn change_owner_of_unlocked(
    deps: &CallDeps,
    some: &[CallOwnership],
    owner: &str,
) -> Result<TakeOver, DbErr> {
    let error = match change_owner(deps, some, owner).await {
        Err(error) if is_locked_out(&error) => error,
        taken => return taken.map(TakeOver::Calls),
    };
    let calls: Vec<CallId> = some.iter().map(|call| call.id).collect();
    let locked = commit::locked_calls(&deps.store, &calls).await?;
    if locked.is_empty() {
        return Err(error);
    }
    tracing::warn!(tenants = ?locked, "another session locks rows of these tenants; the take-over of their calls waits");
    Ok(TakeOver::Locked(locked))
}

/// Takes over a call about which this node got a message, from any owner. Does nothing if the call changed since it was read.
pub(super) async fn take_over_addressed(deps: &CallDeps, row: &call::Model) -> Result<(), DbErr> {
    // For such a call it makes no difference whether its owner lives.
    if !may_take(Owner::Another, Reason::SpokenTo, deps.node.acts()) {
        return Ok(());
    }
    let taken = change_owner(deps, &[row.into()], &deps.node.id()).await?;
    if !taken.is_empty() {
        tracing::info!(call = %row.id, from = row.owner, "took over a call, because its bridge or a request addressed this node");
    }
    Ok(())
}

/// Gives up this node's calls, so that others take them over while it still stops. Returns some of them; empty when none are
/// left.
///
/// Calls of tenants whose rows are locked stay with this node until its lease ends.
pub(super) async fn give_back(deps: &CallDeps) -> Result<Vec<CallId>, DbErr> {
    let mut locked = BTreeSet::new();
    loop {
        let mine = calls_of_owner(deps, &deps.node.id(), &locked, (None, 0)).await?;
        if mine.is_empty() {
            return Ok(Vec::new());
        }
        match change_owner_of_unlocked(deps, &mine, call::GIVEN_BACK).await? {
            TakeOver::Calls(_) => return Ok(mine.iter().map(|call| call.id).collect()),
            TakeOver::Locked(theirs) => locked.extend(theirs),
        }
    }
}

/// Gives calls to a new owner if they are as read. No account is locked: it is busy while its tenant calls, and a chunk would wait
/// for those of all its tenants.
async fn change_owner(
    deps: &CallDeps,
    some: &[CallOwnership],
    owner: &str,
) -> Result<Vec<CallId>, DbErr> {
    let txn = deps.store.begin_critical_shared().await?;
    let calls: Vec<CallId> = some.iter().map(|call| call.id).collect();
    ledger::lock_holds(&txn, &calls).await?;
    let backend = txn.get_database_backend();
    let source = json_rows(
        backend,
        &[
            ("id", ColumnType::Text),
            ("owner", ColumnType::Text),
            ("epoch", ColumnType::BigInt),
        ],
    );
    let placeholder = match backend {
        sea_orm::DbBackend::Postgres => "$2",
        _ => "?2",
    };
    let sql = format!(
        "UPDATE calls SET owner = {placeholder}, epoch = calls.epoch + 1 FROM {source} WHERE calls.id = rows.id \
         AND calls.owner = rows.owner AND calls.epoch = rows.epoch AND calls.outcome IS NULL \
         RETURNING calls.id AS id"
    );
    let read = serde_json::to_string(some).map_err(|error| DbErr::Json(error.to_string()))?;
    let values = [Value::from(read), Value::from(owner)];
    let taken = txn
        .query_all_raw(Statement::from_sql_and_values(backend, sql, values))
        .await?;
    let taken: Vec<CallId> = taken
        .iter()
        .map(|row| row.try_get("", "id"))
        .collect::<Result<_, _>>()?;
    ledger::take_over(&txn, &taken, owner).await?;
    txn.commit().await?;
    Ok(taken)
}
