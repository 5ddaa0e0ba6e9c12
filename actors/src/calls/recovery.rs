//! Take-over of running calls without an owner. Restarts this node's calls without an actor, and stops actors whose calls have
//! another owner.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Instant,
};

use dikala_entities::{
    CallId, Millis, call, credit_hold,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryFilter, QuerySelect,
    QueryTrait, Select,
};
use serde::Serialize;

use super::{
    deps::CallDeps,
    open::FIRST_EPOCH,
    ownership::{self, TakeOver, calls_of_owner, lost_owners, take_over_lost},
    router::CallRouter,
    versions,
};
use crate::{
    nodes::{self, NodeRow, lease::may_end},
    webhooks,
};

/// Calls per read.
const CHUNK: usize = 500;
/// Calls of which one look asks whether they are still owned here. A call with another owner stops at its next write anyway.
const ASKED_MAX: usize = 4 * CHUNK;
/// A younger call may still be on its way to its actor.
const OPENING_MS: i64 = 120_000;

/// Runs at start, before any message: ends dead nodes and takes up calls without an owner. Returns the number of calls.
///
/// With a lease, a start does not fail for what could not be taken: [`look_for_lost`] tries again each second.
pub(super) async fn recover(calls: &CallRouter) -> Result<usize, DbErr> {
    let deps = calls.deps();
    deps.bridges.recover(&deps.store).await?;
    let ended = end_lost_nodes(calls, true).await;
    let taken = take_up_lost_calls(calls).await;
    match ended.and(taken) {
        Err(error) if deps.store.lease().is_some() => {
            tracing::warn!(%error, "not everything of lost nodes could be taken over at the start; trying again");
            Ok(0)
        }
        taken => taken,
    }
}

/// Runs once a second: ends nodes whose lease has expired, and takes up calls without an owner, even if ending a node failed.
pub(super) async fn look_for_lost(calls: &CallRouter) -> Result<(), DbErr> {
    let ended = end_lost_nodes(calls, false).await;
    if calls.is_closed() {
        return ended;
    }
    let taken = take_up_lost_calls(calls).await;
    if let Ok(taken @ 1..) = taken {
        tracing::warn!(calls = taken, "took over calls that no node owned");
    }
    ended.and(taken.map(drop))
}

impl CallRouter {
    /// Gives up this node's calls. It is stopping and [closed](Self::close), so others take them over while it finishes its
    /// work for them.
    pub async fn give_back(&self) -> Result<(), DbErr> {
        let deps = self.deps();
        while deps.node.has_others() && deps.node.acts() {
            let given = ownership::give_back(deps).await?;
            if given.is_empty() {
                break;
            }
            for call in given {
                self.let_go(call, i64::MAX);
            }
        }
        Ok(())
    }
}

/// Ends each dead node, even if an earlier one failed. Ending a node releases what it owned; none of those rows is written
/// here.
async fn end_lost_nodes(calls: &CallRouter, at_start: bool) -> Result<(), DbErr> {
    let deps = calls.deps();
    let all = nodes::all(deps.store.reader()).await?;
    let mut left = all.len();
    let mut outcome = Ok(());
    // On SQLite no other process can serve the file.
    let is_alone = deps.store.lease().is_none();
    for node in all.iter().filter(|node| !deps.node.is(&node.id)) {
        let [until, now] = [node.lease_until, node.now].map(Millis::as_i64);
        let is_over = may_end(until, now, deps.node.answering_since());
        if !(is_over || at_start && (is_alone || node.is_gone())) {
            continue;
        }
        match end(deps, node).await {
            Ok(false) => {}
            Ok(true) => {
                left -= 1;
                tracing::warn!(node = %node.id, name = node.name, address = node.address, "ended a node whose lease expired; its calls are taken over");
            }
            Err(error) => {
                tracing::warn!(node = %node.id, name = node.name, %error, "could not end a node whose lease expired; trying again");
                outcome = Err(error);
            }
        }
    }
    deps.node.found(left);
    outcome
}

/// False if the node lives, or if another node ended it.
async fn end(deps: &CallDeps, node: &NodeRow) -> Result<bool, DbErr> {
    let txn = deps.store.begin().await?;
    if !nodes::end(&txn, node).await? {
        return Ok(false);
    }
    txn.commit().await?;
    // Other nodes take its endpoint queues over anyway.
    if let Err(error) = webhooks::give_back(deps.store.writer(), &node.id).await {
        tracing::debug!(%error, "could not release the endpoint queues of an ended node; other nodes take them over anyway");
    }
    Ok(true)
}

/// Takes up calls that an earlier try could not read. Then takes up the calls of each owner that is gone, even if an earlier
/// one failed.
async fn take_up_lost_calls(calls: &CallRouter) -> Result<usize, DbErr> {
    let mut count = 0;
    let mut outcome = take_up_unread(calls).await.map(|read| count += read);
    let lost = lost_owners(calls.deps()).await?;
    if lost.is_empty() {
        return outcome.map(|()| count);
    }
    let place = place_among_nodes(calls.deps()).await?;
    for owner in lost {
        let taken = take_up_calls_of(calls, &owner, place, &mut count).await;
        outcome = outcome.and(taken);
    }
    outcome.map(|()| count)
}

/// The number of living nodes that are older than this one.
async fn place_among_nodes(deps: &CallDeps) -> Result<u64, DbErr> {
    let nodes = nodes::all(deps.store.reader()).await?;
    let me = deps.node.id();
    let older = nodes
        .iter()
        .filter(|node| node.lease_until > node.now && *node.id < *me);
    Ok(older.count() as u64)
}

/// Goes through the calls of an owner until none is left. Each of several nodes leaves as many chunks to the others as there are
/// older nodes, so they do not wait for each other's locks. The index keeps entries of calls that were taken, so the search goes
/// on where it was.
async fn take_up_calls_of(
    calls: &CallRouter,
    owner: &str,
    place: u64,
    count: &mut usize,
) -> Result<(), DbErr> {
    let deps = calls.deps();
    let mut locked = BTreeSet::new();
    let mut from = (None, place);
    loop {
        let lost = calls_of_owner(deps, owner, &locked, from).await?;
        if lost.is_empty() && from != (None, 0) {
            from = (None, 0);
            continue;
        }
        let Some(last) = lost.last().filter(|_| deps.node.acts()) else {
            return Ok(());
        };
        from.0 = Some(last.id);
        let had_unread = calls.has_unread();
        // Stays set until they are read. If the read fails, or the commit's answer is lost, they would not be found again
        // otherwise.
        calls.set_unread(true);
        let taken = match take_over_lost(deps, &lost).await? {
            TakeOver::Calls(taken) => taken,
            TakeOver::Locked(theirs) => {
                // Nothing was taken. The next run tries these tenants again.
                calls.set_unread(had_unread);
                locked.extend(theirs);
                continue;
            }
        };
        load(calls, &taken).await?;
        calls.set_unread(had_unread);
        *count += taken.len();
    }
}

/// Starts the actors of calls that were taken over earlier but not read. Returns their number.
async fn take_up_unread(calls: &CallRouter) -> Result<usize, DbErr> {
    if !calls.has_unread() {
        return Ok(0);
    }
    let deps = calls.deps();
    // A call opened here has its first epoch, and may still be on its way to its actor.
    let taken: Vec<CallId> = call::Entity::find()
        .filter(call::unfinished())
        .filter(call::Column::Owner.eq(deps.node.id().as_ref()))
        .filter(call::Column::Epoch.gt(FIRST_EPOCH))
        .select_only()
        .column(call::Column::Id)
        .into_tuple()
        .all(deps.store.critical_reader())
        .await?;
    let unread = without_actor(calls, taken);
    for chunk in unread.chunks(CHUNK) {
        load(calls, chunk).await?;
    }
    calls.set_unread(false);
    Ok(unread.len())
}

fn without_actor(calls: &CallRouter, ids: Vec<CallId>) -> Vec<CallId> {
    ids.into_iter()
        .filter(|call| calls.directory().find(*call).is_none())
        .collect()
}

/// Starts the actors of calls that this node took over.
async fn load(calls: &CallRouter, ids: &[CallId]) -> Result<(), DbErr> {
    if ids.is_empty() {
        return Ok(());
    }
    let deps = calls.deps();
    // They are billed to their bridges' last signs of life, at any node.
    deps.bridges
        .read_remote_bridges(&deps.store, &deps.node.id())
        .await?;
    let db = deps.store.reader();
    let read_at = Instant::now();
    let ids = || ids.iter().copied();
    let mut unreadable = HashSet::new();
    let holds = credit_hold::Entity::find().filter(credit_hold::Column::CallId.is_in(ids()));
    let holds = read(db, holds, "call_id", &mut unreadable).await?;
    let rows = call::Entity::find().filter(call::Column::Id.is_in(ids()));
    let mut rows = read(db, rows, "id", &mut unreadable).await?;
    rows.retain(|row| !unreadable.contains(&row.id.to_string()));
    let holds: HashMap<CallId, credit_hold::Model> =
        holds.into_iter().map(|hold| (hold.call_id, hold)).collect();
    let minutes = versions::durations(db, &rows).await?;
    // Bridges are answered from these rows, so a failover must not undo them.
    deps.store.confirm(read_at).await?;
    for row in rows {
        let (hold, minutes) = (holds.get(&row.id), minutes.get(&row.id).copied());
        calls.start_taken(row, hold, minutes).await;
    }
    Ok(())
}

/// Reads rows. One that this version cannot read is logged and skipped, so the others are still taken up. The sweep tries it
/// again.
async fn read<E: EntityTrait>(
    db: &impl ConnectionTrait,
    find: Select<E>,
    id: &str,
    unreadable: &mut HashSet<String>,
) -> Result<Vec<E::Model>, DbErr> {
    let rows = db
        .query_all_raw(find.build(db.get_database_backend()))
        .await?;
    let mut read = Vec::with_capacity(rows.len());
    for row in rows {
        match E::Model::from_query_result(&row, "") {
            Ok(model) => read.push(model),
            Err(error) => {
                let call: String = row.try_get("", id)?;
                tracing::error!(call, %error, "a call was taken over, but this version cannot read it; it is neither billed nor ended until it can be read");
                unreadable.insert(call);
            }
        }
    }
    Ok(read)
}

/// Starts actors for running calls of this node that have none.
pub(super) async fn sweep(calls: &CallRouter) -> Result<(), DbErr> {
    let deps = calls.deps();
    let older_than = deps.clock.now().plus_ms(-OPENING_MS);
    let running: Vec<CallId> = call::Entity::find()
        .filter(call::unfinished())
        .filter(call::Column::Owner.eq(deps.node.id().as_ref()))
        .filter(call::Column::StartedAt.lt(older_than))
        .select_only()
        .column(call::Column::Id)
        .into_tuple()
        .all(deps.store.reader())
        .await?;
    take_up(calls, &without_actor(calls, running)).await;
    Ok(())
}

/// Stops the actors of calls that other nodes took over while this one lived.
pub(super) async fn let_go(calls: &CallRouter) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: CallId,
    }
    let deps = calls.deps();
    let here = calls.directory().next_stored(ASKED_MAX);
    for chunk in here.chunks(CHUNK) {
        let rows: Vec<Row> = chunk.iter().map(|id| Row { id: *id }).collect();
        let backend = deps.store.backend();
        let source = json_rows(backend, &[("id", ColumnType::Text)]);
        let sql = format!(
            "SELECT rows.id AS id, calls.owner AS owner, calls.epoch AS epoch FROM {source} LEFT JOIN calls ON calls.id = rows.id"
        );
        let rows = deps
            .store
            .critical_reader()
            .query_all_raw(json_statement(backend, sql, &rows)?)
            .await?;
        for row in rows {
            let (id, owner): (CallId, Option<String>) =
                (row.try_get("", "id")?, row.try_get("", "owner")?);
            match owner {
                Some(owner) if deps.node.is(&owner) => {}
                // The call may even be over already.
                Some(_) => calls.let_go(id, row.try_get("", "epoch")?),
                // The database was replaced by one without this call.
                None => calls.let_go(id, i64::MAX),
            }
        }
    }
    Ok(())
}

/// Starts the actors of calls one after the other; a message may be starting one at this moment.
pub(super) async fn take_up(calls: &CallRouter, ids: &[CallId]) {
    for call in ids {
        if let Err(error) = calls.find(*call).await {
            tracing::warn!(%call, %error, "could not start a call's actor; the next sweep tries again");
        }
    }
}
