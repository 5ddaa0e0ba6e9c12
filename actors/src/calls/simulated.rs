//! The calls of one node of a simulation. Each is the real [`CallDriver`] with its machine, its steps and the real bookkeeping
//! around it; here is what finds it (as [`router`](super::router) does with actors), lets it look at the clock (as
//! [`actor`](super::actor)), and takes it from nodes that are no more (as [`recovery`](super::recovery)), on tables in memory.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use dikala_entities::{
    AgentId, BridgeId, CallId, Language, Millis, PhoneNumberId, Plan, TenantId, call, credit_hold,
};
use futures_util::future::{FutureExt, select};
use tokio::sync::{Mutex, Notify};

use super::{
    CallError, CallParts, Incoming, Input, Reply,
    driver::CallDriver,
    look_up::Callee,
    open::{FIRST_EPOCH, new_row, take},
    settings::CallSettings,
    versions::Version,
};
use crate::{
    nodes::{
        self,
        lease::{Owner, Reason, may_take},
    },
    runtime::{
        clock::Clock,
        simulated::{
            clock::NodeClock,
            ids::Ids,
            tables::{Flaw, Tables},
            tasks::Tasks,
            wire::{Away, Wire},
        },
    },
    webhooks,
};

const LINGER_MS: i64 = 10_000;
const PLACES_MAX: usize = 3;
/// A call younger than this may just be on its way to its driver.
const OPENING_MS: i64 = 120_000;

/// One call in memory: a driver that does one thing after the other.
pub(crate) struct Slot {
    bridge: BridgeId,
    epoch: i64,
    /// None while it is being opened, and once it is gone.
    driver: Mutex<Option<CallDriver>>,
    changed: Notify,
}

/// What the calls of a node stand on.
pub(crate) struct Ground {
    pub(crate) parts: Arc<CallParts>,
    pub(crate) wire: Wire<Tables>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) ids: Ids,
    pub(crate) tasks: Tasks,
    pub(crate) tenant: TenantId,
    pub(crate) number: PhoneNumberId,
    pub(crate) version: Arc<Version>,
    pub(crate) max_concurrent: Option<i64>,
    pub(crate) flaw: Option<Flaw>,
}

/// A version of an agent whose calls last so many minutes at most.
pub(crate) fn version_lasting(agent: AgentId, minutes: i64) -> Arc<Version> {
    let settings = CallSettings {
        id: agent,
        name: "Kopi".to_owned(),
        system_prompt: "Be kind.".to_owned(),
        voice_id: None,
        greeting_text: None,
        language: Language::default(),
        max_call_duration_minutes: minutes,
        escalation_number: None,
        tools: Vec::new(),
        functions: Vec::new(),
    };
    Version::new(1, settings).expect("plain")
}

/// The calls of one node.
pub(crate) struct NodeCalls {
    ground: Ground,
    slots: RefCell<BTreeMap<CallId, Rc<Slot>>>,
    named: RefCell<BTreeMap<(BridgeId, String), CallId>>,
    /// Keeps two from reading the same call.
    reading: RefCell<BTreeMap<CallId, Rc<Mutex<()>>>>,
}

impl From<Away> for CallError {
    fn from(Away: Away) -> Self {
        Self::Unavailable
    }
}

impl NodeCalls {
    pub(crate) fn new(ground: Ground) -> Rc<Self> {
        Rc::new(Self {
            ground,
            slots: RefCell::default(),
            named: RefCell::default(),
            reading: RefCell::default(),
        })
    }

    fn acts(&self) -> bool {
        self.ground.parts.node.acts()
    }

    async fn acts_soon(&self) -> Result<(), CallError> {
        for _ in 0..60 {
            if self.acts() {
                return Ok(());
            }
            self.ground.clock.sleep_ms(50).await;
        }
        Err(CallError::Unavailable)
    }

    /// A call came in at a bridge.
    pub(crate) async fn incoming(
        self: &Rc<Self>,
        bridge: BridgeId,
        incoming: Incoming,
    ) -> Result<Reply, CallError> {
        let key = (bridge, incoming.bridge_call_id.clone());
        self.acts_soon().await?;
        let known = self.named.borrow().get(&key).copied();
        if let Some(call) = known {
            return self.reopen(call).await;
        }
        let name = key.clone();
        let find = move |tables: &mut Tables, _| {
            let mut rows = tables.calls.values();
            let row = rows.find(|row| (row.bridge_id, &row.bridge_call_id) == (name.0, &name.1));
            row.map(|row| row.id)
        };
        if let Some(call) = self.ground.wire.ask("look up", find).await? {
            return self.reopen(call).await;
        }
        let known = self.named.borrow().get(&key).copied();
        if let Some(call) = known {
            return self.reopen(call).await;
        }
        if !self.acts() {
            return Err(CallError::Unavailable);
        }
        self.open(key, incoming).await
    }

    async fn open(
        self: &Rc<Self>,
        key: (BridgeId, String),
        incoming: Incoming,
    ) -> Result<Reply, CallError> {
        let Ground {
            parts,
            clock,
            ids,
            version,
            ..
        } = &self.ground;
        let now = clock.now();
        let id: CallId = ids.next("call", now);
        let slot = Rc::new(Slot {
            bridge: key.0,
            epoch: FIRST_EPOCH,
            driver: Mutex::new(None),
            changed: Notify::new(),
        });
        let mut driver = slot.driver.lock().await;
        self.slots.borrow_mut().insert(id, Rc::clone(&slot));
        self.named.borrow_mut().insert(key.clone(), id);
        let callee = Callee {
            tenant: self.ground.tenant,
            plan: Plan::Starter,
            is_suspended: false,
            max_concurrent: self.ground.max_concurrent,
            number: self.ground.number,
            number_active: true,
            agent: Some((version.settings.id, version.number)),
            agent_active: true,
        };
        let mut row = new_row(parts, id, key.0, incoming, &callee, now);
        row.agent_id = Some(version.settings.id);
        row.agent_version = Some(version.number);
        let most = self.ground.max_concurrent;
        match take(Arc::clone(parts), row, version, most, now).await {
            Ok((opened, reply)) => {
                *driver = Some(opened);
                drop(driver);
                self.watch(id, slot);
                Ok(reply)
            }
            Err(error) => {
                drop(driver);
                self.forget(id, &slot);
                Err(error)
            }
        }
    }

    /// What the bridge was told before.
    async fn reopen(self: &Rc<Self>, call: CallId) -> Result<Reply, CallError> {
        // One that is being opened is waited for.
        let slot = self.find(call).await?;
        drop(slot.driver.lock().await);
        let row = move |tables: &mut Tables, _| tables.calls.get(&call).cloned();
        let row = self.ground.wire.ask("row", row).await?;
        let row = row.ok_or(CallError::Busy)?;
        match (row.agent_version, row.hangup_reason) {
            (None, Some(reason)) => Ok(Reply::Refused { call, reason }),
            _ => Ok(Reply::Taken {
                call,
                agent: Arc::default(),
            }),
        }
    }

    /// Tells a call something, wherever it is.
    pub(crate) async fn tell(
        self: &Rc<Self>,
        bridge: Option<BridgeId>,
        call: CallId,
        input: Input,
    ) -> Result<Reply, CallError> {
        self.acts_soon().await?;
        for _ in 0..PLACES_MAX {
            let slot = self.find(call).await?;
            let answer = match &mut *slot.driver.lock().await {
                Some(driver) => driver.handle(bridge, input.clone()).await,
                None => Err(CallError::Moved),
            };
            slot.changed.notify_one();
            match answer {
                Err(CallError::Moved) => self.forget(call, &slot),
                answer => return answer,
            }
        }
        Err(CallError::Busy)
    }

    async fn find(self: &Rc<Self>, call: CallId) -> Result<Rc<Slot>, CallError> {
        if let Some(slot) = self.slots.borrow().get(&call) {
            return Ok(Rc::clone(slot));
        }
        let reading = Rc::clone(self.reading.borrow_mut().entry(call).or_default());
        let _one_at_a_time = reading.lock().await;
        if let Some(slot) = self.slots.borrow().get(&call) {
            return Ok(Rc::clone(slot));
        }
        let row = self.read_as_ours(call).await?;
        let hold = move |tables: &mut Tables, _| tables.holds.get(&call).cloned();
        let hold = self.ground.wire.ask("hold", hold).await?;
        Ok(self.load(row, hold))
    }

    async fn read_as_ours(&self, call: CallId) -> Result<call::Model, CallError> {
        let parts = &self.ground.parts;
        for _ in 0..PLACES_MAX {
            let row = move |tables: &mut Tables, _| tables.calls.get(&call).cloned();
            let row = self.ground.wire.ask("row", row).await?;
            let row = row.ok_or(CallError::UnknownCall)?;
            if row.status.is_final() || parts.node.is(&row.owner) {
                return Ok(row);
            }
            if !self.acts() {
                return Err(CallError::Unavailable);
            }
            self.take(vec![Owned::from(&row)], Owner::Another, Reason::SpokenTo)
                .await?;
        }
        Err(CallError::Busy)
    }

    async fn take(
        &self,
        some: Vec<Owned>,
        owner: Owner,
        reason: Reason,
    ) -> Result<Vec<CallId>, Away> {
        if !may_take(owner, reason, self.acts()) {
            return Ok(Vec::new());
        }
        let me = self.ground.parts.node.id();
        let take = move |tables: &mut Tables, _| take_over(tables, &some, &me, reason);
        self.ground.wire.ask("take", take).await
    }

    fn load(self: &Rc<Self>, mut row: call::Model, hold: Option<credit_hold::Model>) -> Rc<Slot> {
        if self.ground.flaw == Some(Flaw::PromiseForgotten) {
            row.pending = None;
        }
        let (id, bridge, epoch) = (row.id, row.bridge_id, row.epoch);
        let key = (bridge, row.bridge_call_id.clone());
        let longest = Some(self.ground.version.settings.max_call_duration_minutes);
        let parts = Arc::clone(&self.ground.parts);
        let driver = CallDriver::load(parts, row, hold.as_ref(), longest);
        let slot = Rc::new(Slot {
            bridge,
            epoch,
            driver: Mutex::new(Some(driver)),
            changed: Notify::new(),
        });
        self.slots.borrow_mut().insert(id, Rc::clone(&slot));
        self.named.borrow_mut().insert(key, id);
        self.watch(id, Rc::clone(&slot));
        slot
    }

    /// Looks at the clock for a call until that is over or another's, and a little longer.
    fn watch(self: &Rc<Self>, id: CallId, slot: Rc<Slot>) {
        let (calls, clock) = (Rc::clone(self), Arc::clone(&self.ground.clock));
        self.ground.tasks.spawn(async move {
            loop {
                let next = match &mut *slot.driver.lock().await {
                    Some(driver) => {
                        driver.run_due().await;
                        (!driver.is_done()).then(|| driver.next_deadline())
                    }
                    None => None,
                };
                let Some(next) = next else { break };
                let sleep = clock.sleep_until(next.unwrap_or(Millis::MAX));
                select(sleep, slot.changed.notified().boxed_local()).await;
            }
            clock.sleep_ms(LINGER_MS).await;
            calls.forget(id, &slot);
        });
    }

    fn forget(&self, id: CallId, slot: &Rc<Slot>) {
        let mut slots = self.slots.borrow_mut();
        if slots.get(&id).is_some_and(|known| Rc::ptr_eq(known, slot)) {
            slots.remove(&id);
            self.named.borrow_mut().retain(|_, call| *call != id);
        }
    }

    /// The call has that epoch: what is here from before goes.
    fn let_go(&self, call: CallId, epoch: i64) {
        let slot = self.slots.borrow().get(&call).cloned();
        if let Some(slot) = slot.filter(|slot| slot.epoch < epoch) {
            self.forget(call, &slot);
            self.ground.tasks.spawn(async move {
                if let Some(driver) = &mut *slot.driver.lock().await {
                    driver.disown();
                }
                slot.changed.notify_one();
            });
        }
    }

    /// This process has become another node.
    pub(crate) fn let_go_of_all(&self) {
        let here: Vec<CallId> = self.slots.borrow().keys().copied().collect();
        here.into_iter()
            .for_each(|call| self.let_go(call, i64::MAX));
        self.ground.parts.bridges.publish_anew();
    }

    /// A bridge lists what it holds; the answer names those that are over.
    pub(crate) async fn heartbeat(
        self: &Rc<Self>,
        bridge: BridgeId,
        held: Vec<CallId>,
        at: Millis,
    ) -> Result<Vec<CallId>, CallError> {
        let listed_at = self.ground.clock.dated(Some(at));
        let listed: BTreeSet<CallId> = held.iter().copied().collect();
        let mut missing = self.of_bridge_without(bridge, &listed);
        if self.ground.parts.node.has_others() {
            let me = self.ground.parts.node.id();
            let elsewhere = move |tables: &mut Tables, _| -> Vec<CallId> {
                let is_theirs = |row: &&call::Model| {
                    !row.status.is_final() && row.bridge_id == bridge && *row.owner != *me
                };
                let rows = tables.calls.values().filter(is_theirs);
                let began = rows.filter(|row| row.started_at <= listed_at);
                began.map(|row| row.id).collect()
            };
            let elsewhere = self.ground.wire.ask("elsewhere", elsewhere).await?;
            missing.extend(elsewhere.into_iter().filter(|call| !listed.contains(call)));
        }
        for call in missing {
            match self
                .tell(Some(bridge), call, Input::Missing { listed_at })
                .await
            {
                Ok(_) | Err(CallError::UnknownCall) => {}
                Err(error) => return Err(error),
            }
        }
        self.ground.parts.bridges.listed(bridge);
        let over = move |tables: &mut Tables, _| -> Vec<CallId> {
            let is_over = |id: &&CallId| {
                let row = tables.calls.get(*id);
                row.is_some_and(|row| row.ended_at.is_some())
            };
            held.iter().filter(is_over).copied().collect()
        };
        Ok(self.ground.wire.ask("over", over).await?)
    }

    fn of_bridge_without(&self, bridge: BridgeId, listed: &BTreeSet<CallId>) -> Vec<CallId> {
        let slots = self.slots.borrow();
        let of_bridge = slots.iter().filter(|(_, slot)| slot.bridge == bridge);
        let ids = of_bridge.map(|(id, _)| *id);
        ids.filter(|id| !listed.contains(id)).collect()
    }

    /// The tenant's balance went up.
    pub(crate) async fn credited(self: &Rc<Self>) {
        let here: Vec<CallId> = self.slots.borrow().keys().copied().collect();
        for call in here {
            let _ = self.tell(None, call, Input::Credited).await;
        }
    }

    /// At the start, before anybody looks for a call. `gone` are nodes that are known not to run any more.
    pub(crate) async fn recover(self: &Rc<Self>, gone: &[String]) -> Result<(), Away> {
        let Ground { parts, wire, .. } = &self.ground;
        parts.bridges.recover_signs(wire).await?;
        self.end_lost_nodes(gone).await?;
        self.take_up_lost_calls().await
    }

    /// What is done once a second.
    pub(crate) async fn look_at_others(self: &Rc<Self>) -> Result<(), Away> {
        let Ground { parts, wire, .. } = &self.ground;
        let (bridges, me) = (&parts.bridges, parts.node.id());
        if !self.acts() {
            if parts.node.has_others() {
                bridges.send_away();
            }
            return Ok(());
        }
        self.end_lost_nodes(&[]).await?;
        self.take_up_lost_calls().await?;
        bridges.publish_to(wire, &me).await?;
        if parts.node.has_others() {
            bridges.store_signs(wire).await?;
            bridges.look_for(wire, &me).await?;
            self.let_go_of_others().await
        } else {
            bridges.nobody_elsewhere();
            bridges.exchange(wire).await
        }
    }

    async fn end_lost_nodes(&self, gone: &[String]) -> Result<(), Away> {
        let Ground {
            parts, wire, clock, ..
        } = &self.ground;
        for (id, until) in nodes::simulated::lost(&parts.node, wire, clock, gone).await? {
            let end = move |tables: &mut Tables, _| {
                if nodes::simulated::end(tables, &id, until) {
                    webhooks::simulated::give_back(tables, &id);
                }
            };
            wire.ask("end", end).await?;
        }
        Ok(())
    }

    async fn take_up_lost_calls(self: &Rc<Self>) -> Result<(), Away> {
        let Ground { parts, wire, .. } = &self.ground;
        let me = parts.node.id();
        let lost = move |tables: &mut Tables, _| -> Vec<Owned> {
            let from_the_living = tables.has(Flaw::TakenFromTheLiving);
            let is_lost = |row: &&call::Model| {
                let is_nobodys = !tables.nodes.contains_key(&row.owner) || from_the_living;
                !row.status.is_final() && *row.owner != *me && is_nobodys
            };
            tables
                .calls
                .values()
                .filter(is_lost)
                .map(Owned::from)
                .collect()
        };
        let lost = wire.ask("lost", lost).await?;
        if lost.is_empty() {
            return Ok(());
        }
        let taken = self.take(lost, Owner::Nobody, Reason::Looking).await?;
        parts.bridges.look_for(wire, &parts.node.id()).await?;
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

    async fn let_go_of_others(&self) -> Result<(), Away> {
        let here: Vec<CallId> = self.slots.borrow().keys().copied().collect();
        let rows = move |tables: &mut Tables, _| -> Vec<(CallId, String, i64)> {
            let rows = here.iter().filter_map(|id| tables.calls.get(id));
            let running = rows.filter(|row| !row.status.is_final());
            running
                .map(|row| (row.id, row.owner.clone(), row.epoch))
                .collect()
        };
        for (id, owner, epoch) in self.ground.wire.ask("owners", rows).await? {
            if !self.ground.parts.node.is(&owner) {
                self.let_go(id, epoch);
            }
        }
        Ok(())
    }

    pub(crate) async fn store_signs(&self) -> Result<(), Away> {
        let Ground { parts, wire, .. } = &self.ground;
        parts.bridges.store_signs(wire).await
    }

    /// Commands go to bridges at other nodes, and come from there.
    pub(crate) async fn exchange(&self) -> Result<(), Away> {
        let Ground { parts, wire, .. } = &self.ground;
        if !parts.node.has_others() {
            return Ok(());
        }
        parts.bridges.exchange(wire).await
    }

    /// Running calls of this node that fell through get a driver.
    pub(crate) async fn sweep(self: &Rc<Self>) -> Result<(), Away> {
        let me = self.ground.parts.node.id();
        let before = self.ground.clock.now().plus_ms(-OPENING_MS);
        let running = move |tables: &mut Tables, _| -> Vec<CallId> {
            let is_mine = |row: &&call::Model| {
                !row.status.is_final() && *row.owner == *me && row.started_at < before
            };
            let rows = tables.calls.values().filter(is_mine);
            rows.map(|row| row.id).collect()
        };
        for call in self.ground.wire.ask("running", running).await? {
            let _ = self.find(call).await;
        }
        Ok(())
    }
}

/// A running call as it was read.
#[derive(Clone, Debug)]
struct Owned {
    id: CallId,
    owner: String,
    epoch: i64,
}

impl From<&call::Model> for Owned {
    fn from(row: &call::Model) -> Self {
        Self {
            id: row.id,
            owner: row.owner.clone(),
            epoch: row.epoch,
        }
    }
}

/// As `take` in [`ownership`](super::ownership) does it: what is as it was read changes its owner, row and hold.
fn take_over(tables: &mut Tables, some: &[Owned], me: &str, reason: Reason) -> Vec<CallId> {
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
