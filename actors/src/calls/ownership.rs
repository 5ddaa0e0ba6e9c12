//! Who owns which call. Calls change their owner here and nowhere else: by compare-and-set, the row together with its hold. A
//! node takes what nobody has, and what somebody speaks to there.

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

use super::parts::CallParts;
use crate::{
    ledger,
    nodes::lease::{Owner, Reason, may_take},
};

/// Calls taken in one transaction.
const CHUNK: u64 = 500;
/// Owners of running calls, walked from one to the next in the index that holds only those, so that a thousand calls of one
/// owner cost as much as one. The states stand in the text: what is bound is not known when a plan is made.
const OWNERS_WITHOUT_A_NODE: &str = "WITH RECURSIVE o(owner) AS ( \
        SELECT (SELECT c.owner FROM calls c WHERE c.status IN ('ringing', 'answered') ORDER BY c.owner, c.id LIMIT 1) \
        UNION ALL \
        SELECT (SELECT c.owner FROM calls c WHERE c.status IN ('ringing', 'answered') AND c.owner > o.owner \
            ORDER BY c.owner, c.id LIMIT 1) \
        FROM o WHERE o.owner IS NOT NULL) \
    SELECT o.owner AS owner FROM o WHERE o.owner IS NOT NULL AND o.owner <> $1 AND o.owner NOT IN (SELECT id FROM nodes)";

/// A running call as it was read, by whom it is owned.
#[derive(Clone, Debug, Serialize, FromQueryResult)]
pub(super) struct Owned {
    id: CallId,
    tenant_id: TenantId,
    owner: String,
    epoch: i64,
}

impl From<&call::Model> for Owned {
    fn from(row: &call::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            owner: row.owner.clone(),
            epoch: row.epoch,
        }
    }
}

/// Owners of running calls that are no node any more.
pub(super) async fn lost_owners(parts: &CallParts) -> Result<Vec<String>, DbErr> {
    let me = [Value::from(parts.node.id().as_ref())];
    let lost = Statement::from_sql_and_values(parts.store.backend(), OWNERS_WITHOUT_A_NODE, me);
    let rows = parts.store.critical_reader().query_all_raw(lost).await?;
    rows.iter().map(|row| row.try_get("", "owner")).collect()
}

/// Some running calls of an owner, but for those of these tenants.
pub(super) async fn of_owner(
    parts: &CallParts,
    owner: &str,
    but_for: &BTreeSet<TenantId>,
) -> Result<Vec<Owned>, DbErr> {
    let mut find = call::Entity::find();
    if !but_for.is_empty() {
        find = find.filter(call::Column::TenantId.is_not_in(but_for.iter().copied()));
    }
    find.filter(call::unfinished())
        .filter(call::Column::Owner.eq(owner))
        // The order is the partial index's own: without it SQLite takes a larger one that holds every column it needs.
        .order_by_asc(call::Column::Owner)
        .order_by_asc(call::Column::Id)
        .select_only()
        .columns([
            call::Column::Id,
            call::Column::TenantId,
            call::Column::Owner,
            call::Column::Epoch,
        ])
        .limit(CHUNK)
        .into_model::<Owned>()
        .all(parts.store.critical_reader())
        .await
}

/// The result of taking over calls.
pub(super) enum Taken {
    /// These, which nobody else took before.
    Calls(Vec<CallId>),
    /// None, because somebody has locked the rows of these tenants.
    Locked(BTreeSet<TenantId>),
}

/// Takes calls whose owner is no node any more.
pub(super) async fn take_lost(parts: &CallParts, lost: &[Owned]) -> Result<Taken, DbErr> {
    if !may_take(Owner::Nobody, Reason::Looking, parts.node.acts()) {
        return Ok(Taken::Calls(Vec::new()));
    }
    hand_unlocked(parts, lost, &parts.node.id()).await
}

async fn hand_unlocked(parts: &CallParts, some: &[Owned], owner: &str) -> Result<Taken, DbErr> {
    let error = match hand_to(parts, some, owner).await {
        Err(error) if is_locked_out(&error) => error,
        taken => return taken.map(Taken::Calls),
    };
    let tenants = some.iter().map(|call| call.tenant_id).collect();
    let calls: Vec<CallId> = some.iter().map(|call| call.id).collect();
    let locked = ledger::locked(&parts.store, &tenants, &calls).await?;
    if locked.is_empty() {
        return Err(error);
    }
    tracing::warn!(tenants = ?locked, "rows of tenants are locked by somebody else; their calls wait for a new owner");
    Ok(Taken::Locked(locked))
}

/// Takes a call that somebody speaks to here, whoever has it. Where it changed since it was read nothing happens.
pub(super) async fn take_spoken_to(parts: &CallParts, row: &call::Model) -> Result<(), DbErr> {
    // Whether it is another's or nobody's makes no difference to who is spoken to.
    if !may_take(Owner::Another, Reason::SpokenTo, parts.node.acts()) {
        return Ok(());
    }
    let taken = hand_to(parts, &[row.into()], &parts.node.id()).await?;
    if !taken.is_empty() {
        tracing::info!(call = %row.id, from = row.owner, "the call moved here, where it is spoken to");
    }
    Ok(())
}

/// Makes this node's calls nobody's, so that others find them while it still ends. Returns some of them, none when all are.
///
/// Calls of tenants whose rows somebody has locked stay with this node until its lease is over.
pub(super) async fn give_back(parts: &CallParts) -> Result<Vec<CallId>, DbErr> {
    let mut locked = BTreeSet::new();
    loop {
        let mine = of_owner(parts, &parts.node.id(), &locked).await?;
        if mine.is_empty() {
            return Ok(Vec::new());
        }
        match hand_unlocked(parts, &mine, call::GIVEN_BACK).await? {
            Taken::Calls(_) => return Ok(mine.iter().map(|call| call.id).collect()),
            Taken::Locked(theirs) => locked.extend(theirs),
        }
    }
}

/// Gives calls which are as they were read to an owner. Accounts are locked before holds and calls, as everywhere.
async fn hand_to(parts: &CallParts, some: &[Owned], owner: &str) -> Result<Vec<CallId>, DbErr> {
    let txn = parts.store.begin_shared().await?;
    ledger::lock(&txn, some.iter().map(|call| call.tenant_id)).await?;
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
         AND calls.owner = rows.owner AND calls.epoch = rows.epoch AND calls.status IN ('ringing', 'answered') \
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
