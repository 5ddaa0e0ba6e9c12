//! Who owns which call. Calls change their owner here and nowhere else: by compare-and-set, the row together with its hold. A
//! node takes what nobody has, and what somebody speaks to there.

use dikala_entities::{
    CallId, TenantId, call,
    rows::{ColumnType, json_rows},
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

/// Some running calls of an owner.
pub(super) async fn of_owner(parts: &CallParts, owner: &str) -> Result<Vec<Owned>, DbErr> {
    call::Entity::find()
        .filter(call::unfinished())
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

/// Takes calls whose owner is no node any more. Returns those that nobody else took before.
pub(super) async fn take_lost(parts: &CallParts, lost: &[Owned]) -> Result<Vec<CallId>, DbErr> {
    if !may_take(Owner::Nobody, Reason::Looking, parts.node.acts()) {
        return Ok(Vec::new());
    }
    hand_to(parts, lost, &parts.node.id()).await
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
pub(super) async fn give_back(parts: &CallParts) -> Result<Vec<CallId>, DbErr> {
    let mine = of_owner(parts, &parts.node.id()).await?;
    if mine.is_empty() {
        return Ok(Vec::new());
    }
    hand_to(parts, &mine, call::GIVEN_BACK).await?;
    Ok(mine.iter().map(|call| call.id).collect())
}

/// Gives calls which are as they were read to an owner. Accounts are locked before holds and calls, as everywhere.
async fn hand_to(parts: &CallParts, some: &[Owned], owner: &str) -> Result<Vec<CallId>, DbErr> {
    let txn = parts.store.begin_critical().await?;
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
