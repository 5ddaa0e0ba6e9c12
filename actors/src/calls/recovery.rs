//! Calls that run and have no actor here: what nobody has is taken up, and what fell through; and actors here whose calls others
//! have.

use std::collections::HashMap;

use dikala_entities::{
    CallId, Millis, call, credit_hold,
    rows::{ColumnType, json_rows, json_statement},
};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};
use serde::Serialize;

use super::{
    open::FIRST_EPOCH,
    ownership::{self, lost_owners, of_owner, take_lost},
    router::Calls,
    versions,
};
use crate::{
    nodes::{self, lease::may_end},
    webhooks,
};

/// Calls read from the store at once.
const CHUNK: usize = 500;
/// A call younger than this may just be on its way to its actor.
const OPENING_MS: i64 = 120_000;

/// At the start, before anybody looks for a call: ends nodes that are no more, and takes up what nobody has. Returns how many
/// calls that were.
pub(super) async fn recover(calls: &Calls) -> Result<usize, DbErr> {
    let parts = calls.parts();
    parts.bridges.recover(&parts.store).await?;
    end_lost_nodes(calls, true).await?;
    take_up_lost_calls(calls).await
}

/// Once a second: ends nodes whose lease is over, and takes up what nobody has.
pub(super) async fn look_for_lost(calls: &Calls) -> Result<(), DbErr> {
    end_lost_nodes(calls, false).await?;
    if calls.is_closed() {
        return Ok(());
    }
    let taken = take_up_lost_calls(calls).await?;
    if taken > 0 {
        tracing::warn!(calls = taken, "took up calls of a node that is no more");
    }
    Ok(())
}

impl Calls {
    /// This node stops, and is [closed](Self::close): others take its calls from now on, while it still ends what it began for them.
    pub async fn give_back(&self) -> Result<(), DbErr> {
        let parts = self.parts();
        while parts.node.has_others() && parts.node.acts() {
            let given = ownership::give_back(parts).await?;
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

async fn end_lost_nodes(calls: &Calls, at_start: bool) -> Result<(), DbErr> {
    let parts = calls.parts();
    let all = nodes::all(parts.store.reader()).await?;
    let mut left = all.len();
    // On SQLite nobody else can serve the file.
    let is_alone = parts.store.lease().is_none();
    for node in all.iter().filter(|node| !parts.node.is(&node.id)) {
        let [until, now] = [node.lease_until, node.now].map(Millis::as_i64);
        let is_over = may_end(until, now, parts.node.answering_since());
        if !(is_over || at_start && (is_alone || node.is_gone())) {
            continue;
        }
        let txn = parts.store.begin().await?;
        if nodes::end(&txn, node).await? {
            webhooks::give_back(&txn, &node.id).await?;
            txn.commit().await?;
            left -= 1;
            tracing::warn!(node = %node.id, name = node.name, address = node.address, "a node is no more; what it had is taken up");
        }
    }
    parts.node.found(left);
    Ok(())
}

async fn take_up_lost_calls(calls: &Calls) -> Result<usize, DbErr> {
    let parts = calls.parts();
    let mut count = take_up_unread(calls).await?;
    for owner in lost_owners(parts).await? {
        loop {
            let lost = of_owner(parts, &owner).await?;
            if lost.is_empty() || !parts.node.acts() {
                break;
            }
            // Until they are read: where that fails, and where the answer of the commit is lost, nobody would find them again.
            calls.set_unread(true);
            let taken = take_lost(parts, &lost).await?;
            load(calls, &taken).await?;
            calls.set_unread(false);
            count += taken.len();
        }
    }
    Ok(count)
}

/// Starts the actors of calls that an earlier try took and could not read. Returns how many those were.
async fn take_up_unread(calls: &Calls) -> Result<usize, DbErr> {
    if !calls.has_unread() {
        return Ok(0);
    }
    let parts = calls.parts();
    // One that was opened here has its first epoch, and may just be on its way to its actor.
    let taken: Vec<CallId> = call::Entity::find()
        .filter(call::unfinished())
        .filter(call::Column::Owner.eq(parts.node.id().as_ref()))
        .filter(call::Column::Epoch.gt(FIRST_EPOCH))
        .select_only()
        .column(call::Column::Id)
        .into_tuple()
        .all(parts.store.critical_reader())
        .await?;
    let unread = without_actor(calls, taken);
    for chunk in unread.chunks(CHUNK) {
        load(calls, chunk).await?;
    }
    calls.set_unread(false);
    Ok(unread.len())
}

fn without_actor(calls: &Calls, ids: Vec<CallId>) -> Vec<CallId> {
    ids.into_iter()
        .filter(|call| calls.directory().find(*call).is_none())
        .collect()
}

/// Starts the actors of calls that this node has taken.
async fn load(calls: &Calls, ids: &[CallId]) -> Result<(), DbErr> {
    if ids.is_empty() {
        return Ok(());
    }
    let parts = calls.parts();
    // They are billed to when their bridges were last seen, by whichever node.
    parts
        .bridges
        .look_elsewhere(&parts.store, &parts.node.id())
        .await?;
    let db = parts.store.reader();
    let rows = call::Entity::find()
        .filter(call::Column::Id.is_in(ids.iter().copied()))
        .all(db)
        .await?;
    let holds = credit_hold::Entity::find()
        .filter(credit_hold::Column::CallId.is_in(ids.iter().copied()))
        .all(db)
        .await?;
    let holds: HashMap<CallId, credit_hold::Model> =
        holds.into_iter().map(|hold| (hold.call_id, hold)).collect();
    let minutes = versions::durations(db, &rows).await?;
    for row in rows {
        let (hold, minutes) = (holds.get(&row.id), minutes.get(&row.id).copied());
        calls.start_taken(row, hold, minutes).await;
    }
    Ok(())
}

/// Running calls of this node without an actor get one; actors whose calls are others' go.
pub(super) async fn sweep(calls: &Calls) -> Result<(), DbErr> {
    let parts = calls.parts();
    let older_than = parts.clock.now().plus_ms(-OPENING_MS);
    let running: Vec<CallId> = call::Entity::find()
        .filter(call::unfinished())
        .filter(call::Column::Owner.eq(parts.node.id().as_ref()))
        .filter(call::Column::StartedAt.lt(older_than))
        .select_only()
        .column(call::Column::Id)
        .into_tuple()
        .all(parts.store.reader())
        .await?;
    take_up(calls, &without_actor(calls, running)).await;
    Ok(())
}

/// Lets go of what others have taken over from this node while it lived.
pub(super) async fn let_go(calls: &Calls) -> Result<(), DbErr> {
    #[derive(Serialize)]
    struct Row {
        id: CallId,
    }
    let parts = calls.parts();
    let here = calls.directory().stored();
    for chunk in here.chunks(CHUNK) {
        let rows: Vec<Row> = chunk.iter().map(|id| Row { id: *id }).collect();
        let backend = parts.store.backend();
        let source = json_rows(backend, &[("id", ColumnType::Text)]);
        let sql = format!(
            "SELECT rows.id AS id, calls.owner AS owner, calls.epoch AS epoch FROM {source} LEFT JOIN calls ON calls.id = rows.id"
        );
        let rows = parts
            .store
            .critical_reader()
            .query_all_raw(json_statement(backend, sql, &rows)?)
            .await?;
        for row in rows {
            let (id, owner): (CallId, Option<String>) =
                (row.try_get("", "id")?, row.try_get("", "owner")?);
            match owner {
                Some(owner) if parts.node.is(&owner) => {}
                // It may be over by now, without anybody here having heard of it.
                Some(_) => calls.let_go(id, row.try_get("", "epoch")?),
                // The database was replaced by one that has not heard of it.
                None => calls.let_go(id, i64::MAX),
            }
        }
    }
    Ok(())
}

/// Starts what is not in memory, one call after the other: a message may be doing the same at this moment.
pub(super) async fn take_up(calls: &Calls, ids: &[CallId]) {
    for call in ids {
        if let Err(error) = calls.find(*call).await {
            tracing::warn!(%call, %error, "the call is left to the next sweep");
        }
    }
}
