//! A simulated node's handling of calls that are not in its memory: those that a bridge does not list, that no node owns, and
//! that other nodes took over.

use std::{collections::BTreeSet, rc::Rc};

use dikala_entities::{BridgeId, CallId, Millis, call};

use super::{FIRST_EPOCH, NodeCallDeps, NodeCalls, OPENING_MS};
use crate::{
    calls::{CallError, CallInput},
    nodes::{
        self,
        lease::{Owner, Reason, may_take},
    },
    runtime::{
        clock::Clock,
        simulated::{
            tables::{Flaw, Tables},
            wire::NoAnswer,
        },
    },
    webhooks,
};

impl NodeCalls {
    pub(super) async fn take(
        &self,
        some: Vec<SimulatedOwnership>,
        owner: Owner,
        reason: Reason,
    ) -> Result<Vec<CallId>, NoAnswer> {
        if !may_take(owner, reason, self.acts()) {
            return Ok(Vec::new());
        }
        let me = self.node_deps.deps.node.id();
        let take = move |tables: &mut Tables, _| take_over(tables, &some, &me, reason);
        self.node_deps.wire.ask("take", take).await
    }

    /// Handles a bridge's list of its calls. Returns those that are over.
    pub(crate) async fn heartbeat(
        self: &Rc<Self>,
        bridge: BridgeId,
        held: Vec<CallId>,
        at: Millis,
    ) -> Result<Vec<CallId>, CallError> {
        if !self.node_deps.deps.node.hears() {
            return Err(CallError::Unavailable);
        }
        let listed_at = self.node_deps.clock.dated(Some(at));
        let listed: BTreeSet<CallId> = held.iter().copied().collect();
        let mut missing: BTreeSet<CallId> = self.of_bridge_without(bridge, &listed);
        if self.node_deps.deps.node.has_others() {
            let running = move |tables: &mut Tables, _| -> Vec<CallId> {
                let is_its = |row: &&call::Model| !row.status.is_final() && row.bridge_id == bridge;
                let rows = tables.calls.values().filter(is_its);
                let began = rows.filter(|row| row.started_at <= listed_at);
                began.map(|row| row.id).collect()
            };
            let running = self.node_deps.wire.ask("elsewhere", running).await?;
            missing.extend(running.into_iter().filter(|call| !listed.contains(call)));
        }
        for call in missing {
            match self
                .tell(Some(bridge), call, CallInput::Missing { listed_at })
                .await
            {
                Ok(_) | Err(CallError::UnknownCall) => {}
                Err(error) => return Err(error),
            }
        }
        self.node_deps.deps.bridges.listed(bridge);
        let over = move |tables: &mut Tables, _| -> Vec<CallId> {
            let is_over = |id: &&CallId| {
                let row = tables.calls.get(*id);
                row.is_some_and(|row| row.ended_at.is_some())
            };
            held.iter().filter(is_over).copied().collect()
        };
        Ok(self.node_deps.wire.ask("over", over).await?)
    }

    fn of_bridge_without(&self, bridge: BridgeId, listed: &BTreeSet<CallId>) -> BTreeSet<CallId> {
        let slots = self.slots.borrow();
        let of_bridge = slots.iter().filter(|(_, slot)| slot.bridge == bridge);
        let ids = of_bridge.map(|(id, _)| *id);
        ids.filter(|id| !listed.contains(id)).collect()
    }

    /// Runs at start, before any message. `gone` are nodes that are known to be dead.
    pub(crate) async fn recover(self: &Rc<Self>, gone: &[String]) -> Result<(), NoAnswer> {
        let NodeCallDeps { deps, wire, .. } = &self.node_deps;
        deps.bridges.recover_signs(wire).await?;
        self.end_lost_nodes(gone).await?;
        self.take_up_lost_calls().await
    }

    /// Runs once a second, and does not wait for the store.
    pub(crate) fn send_bridges_away(&self) {
        let deps = &self.node_deps.deps;
        let keeps = deps.node.keeps_bridges(deps.rules.lost_after_ms);
        if !self.acts() && !keeps {
            deps.bridges.close_all();
        }
    }

    /// Runs once a second.
    pub(crate) async fn look_at_others(self: &Rc<Self>) -> Result<(), NoAnswer> {
        let NodeCallDeps { deps, wire, .. } = &self.node_deps;
        let (bridges, me) = (&deps.bridges, deps.node.id());
        if !self.acts() {
            return Ok(());
        }
        let ended = self.end_lost_nodes(&[]).await;
        let taken_up = self.take_up_lost_calls().await;
        let published = bridges.publish_to(wire, &me).await;
        let rest = if deps.node.has_others() {
            let looked = bridges.look_for(wire, &me).await;
            self.let_go_of_others().await.and(looked)
        } else {
            bridges.forget_remote_nodes();
            bridges.exchange(wire).await
        };
        ended.and(taken_up).and(published).and(rest)
    }

    async fn end_lost_nodes(&self, gone: &[String]) -> Result<(), NoAnswer> {
        let NodeCallDeps { deps, wire, .. } = &self.node_deps;
        for (id, until) in nodes::simulated::lost(&deps.node, wire, gone).await? {
            let end = move |tables: &mut Tables, _| {
                if nodes::simulated::end(tables, &id, until) {
                    webhooks::simulated::tables::give_back(tables, &id);
                }
            };
            wire.ask("end", end).await?;
        }
        Ok(())
    }

    async fn take_up_lost_calls(self: &Rc<Self>) -> Result<(), NoAnswer> {
        let NodeCallDeps { deps, wire, .. } = &self.node_deps;
        let me = deps.node.id();
        let lost = move |tables: &mut Tables, _| -> Vec<SimulatedOwnership> {
            let from_the_living = tables.has(Flaw::TakenFromTheLiving);
            let is_lost = |row: &&call::Model| {
                let is_nobodys = !tables.nodes.contains_key(&row.owner) || from_the_living;
                !row.status.is_final() && *row.owner != *me && is_nobodys
            };
            tables
                .calls
                .values()
                .filter(is_lost)
                .map(SimulatedOwnership::from)
                .collect()
        };
        self.take_up_unread().await?;
        let lost = wire.ask("lost", lost).await?;
        if lost.is_empty() {
            return Ok(());
        }
        self.unread.set(true);
        let taken = self.take(lost, Owner::Nobody, Reason::Looking).await?;
        self.read_taken(taken).await?;
        self.unread.set(false);
        Ok(())
    }

    /// Loads calls that were taken over earlier but not read.
    async fn take_up_unread(self: &Rc<Self>) -> Result<(), NoAnswer> {
        if !self.unread.get() {
            return Ok(());
        }
        let me = self.node_deps.deps.node.id();
        let taken = move |tables: &mut Tables, _| -> Vec<CallId> {
            let is_taken = |row: &&call::Model| {
                !row.status.is_final() && *row.owner == *me && row.epoch > FIRST_EPOCH
            };
            let rows = tables.calls.values().filter(is_taken);
            rows.map(|row| row.id).collect()
        };
        let mut taken = self.node_deps.wire.ask("unread", taken).await?;
        taken.retain(|call| !self.slots.borrow().contains_key(call));
        self.read_taken(taken).await?;
        self.unread.set(false);
        Ok(())
    }

    async fn read_taken(self: &Rc<Self>, taken: Vec<CallId>) -> Result<(), NoAnswer> {
        let NodeCallDeps { deps, wire, .. } = &self.node_deps;
        deps.bridges.look_for(wire, &deps.node.id()).await?;
        for call in taken {
            let both = move |tables: &mut Tables, _| {
                let row = tables.calls.get(&call)?;
                Some((row.clone(), tables.holds.get(&call).cloned()))
            };
            if let Some((row, hold)) = wire.ask("taken", both).await? {
                let reading = Rc::clone(self.reading.borrow_mut().entry(call).or_default());
                let _one_at_a_time = reading.lock().await;
                self.let_go(call, row.epoch);
                let is_here = self.slots.borrow().contains_key(&call);
                if !is_here {
                    self.load(row, hold);
                }
            }
        }
        Ok(())
    }

    async fn let_go_of_others(&self) -> Result<(), NoAnswer> {
        let here: Vec<CallId> = self.slots.borrow().keys().copied().collect();
        let rows = move |tables: &mut Tables, _| -> Vec<(CallId, String, i64)> {
            let rows = here.iter().filter_map(|id| tables.calls.get(id));
            let running = rows.filter(|row| !row.status.is_final());
            running
                .map(|row| (row.id, row.owner.clone(), row.epoch))
                .collect()
        };
        for (id, owner, epoch) in self.node_deps.wire.ask("owners", rows).await? {
            if !self.node_deps.deps.node.is(&owner) {
                self.let_go(id, epoch);
            }
        }
        Ok(())
    }

    pub(crate) async fn store_signs(&self) -> Result<(), NoAnswer> {
        let NodeCallDeps { deps, wire, .. } = &self.node_deps;
        if !deps.node.acts() {
            return Ok(());
        }
        deps.bridges.store_signs(wire).await
    }

    /// Exchanges commands with other nodes.
    pub(crate) async fn exchange(&self) -> Result<(), NoAnswer> {
        let NodeCallDeps { deps, wire, .. } = &self.node_deps;
        if !deps.node.has_others() {
            return Ok(());
        }
        deps.bridges.exchange(wire).await
    }

    /// Loads running calls of this node that have no driver.
    pub(crate) async fn sweep(self: &Rc<Self>) -> Result<(), NoAnswer> {
        let me = self.node_deps.deps.node.id();
        let before = self.node_deps.clock.now().plus_ms(-OPENING_MS);
        let running = move |tables: &mut Tables, _| -> Vec<CallId> {
            let is_mine = |row: &&call::Model| {
                !row.status.is_final() && *row.owner == *me && row.started_at < before
            };
            let rows = tables.calls.values().filter(is_mine);
            rows.map(|row| row.id).collect()
        };
        for call in self.node_deps.wire.ask("running", running).await? {
            let _ = self.find(call).await;
        }
        Ok(())
    }
}

/// A running call and its owner, as read.
#[derive(Clone, Debug)]
pub(in crate::calls) struct SimulatedOwnership {
    id: CallId,
    owner: String,
    epoch: i64,
}

impl From<&call::Model> for SimulatedOwnership {
    fn from(row: &call::Model) -> Self {
        Self {
            id: row.id,
            owner: row.owner.clone(),
            epoch: row.epoch,
        }
    }
}

/// Replaces `change_owner` in [`ownership`](crate::calls::ownership): changes the owner of rows and holds that are as read.
pub(in crate::calls) fn take_over(
    tables: &mut Tables,
    some: &[SimulatedOwnership],
    me: &str,
    reason: Reason,
) -> Vec<CallId> {
    let without_hold = tables.has(Flaw::TakenWithoutHold);
    let mut taken = Vec::new();
    for was in some {
        let Some(row) = tables.calls.get_mut(&was.id) else {
            continue;
        };
        if row.status.is_final() || (&row.owner, row.epoch) != (&was.owner, was.epoch) {
            continue;
        }
        if reason == Reason::Looking && tables.nodes.contains_key(&row.owner) {
            let breach = format!("{} is taken from {}, which lives", row.id, row.owner);
            tables.breaches.push(breach);
        }
        row.owner = me.to_owned();
        row.epoch += 1;
        let hold = tables.holds.get_mut(&was.id);
        if let Some(hold) = hold.filter(|hold| hold.settled_at.is_none() && !without_hold) {
            hold.owner = me.to_owned();
            hold.epoch += 1;
        }
        taken.push(was.id);
    }
    taken
}
