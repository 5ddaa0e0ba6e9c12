//! The calls of a simulated node. Each is the real [`CallDriver`] with its machine and steps. This module replaces
//! [`router`](super::router) and [`actor`](super::actor), on tables in memory. [`others`] replaces
//! [`recovery`](super::recovery).

mod others;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
};

use dikala_entities::{
    AgentId, BridgeId, CallId, Millis, PhoneNumberId, Plan, TenantId, agent, call, credit_hold,
};
use dikala_protocol::{CalleeNames, IncomingCall};
use futures_util::future::{FutureExt, select};
use tokio::sync::{Mutex, Notify};

pub(super) use self::others::{SimulatedOwnership, take_over};
use super::{
    CallDeps, CallError, CallInput, CallReply,
    driver::CallDriver,
    look_up::Callee,
    open::{FIRST_EPOCH, admit, new_row},
    settings::CallSettings,
    versions::Version,
};
use crate::{
    nodes::lease::{Owner, Reason},
    runtime::{
        clock::Clock,
        simulated::{
            clock::NodeClock,
            ids::Ids,
            tables::Tables,
            tasks::Tasks,
            wire::{NoAnswer, SimulatedNetwork},
        },
    },
};

const LINGER_MS: i64 = 10_000;
const PLACES_MAX: usize = 3;
/// A younger call may still be on its way to its driver.
const OPENING_MS: i64 = 120_000;

/// One call in memory: a driver that does one thing after the other.
pub(crate) struct Slot {
    bridge: BridgeId,
    epoch: i64,
    /// `None` while it is being opened, and once it is gone.
    driver: Mutex<Option<CallDriver>>,
    changed: Notify,
}

/// The dependencies of a node's calls.
pub(crate) struct NodeCallDeps {
    pub(crate) deps: Arc<CallDeps>,
    pub(crate) wire: SimulatedNetwork<Tables>,
    pub(crate) clock: Arc<NodeClock>,
    pub(crate) ids: Ids,
    pub(crate) tasks: Tasks,
    pub(crate) tenant: TenantId,
    pub(crate) number: PhoneNumberId,
    pub(crate) version: Arc<Version>,
    pub(crate) max_concurrent: Option<i64>,
}

/// A version of an agent whose calls last at most `minutes`.
pub(crate) fn version_lasting(agent: AgentId, minutes: i64) -> Arc<Version> {
    let agent = agent::Model {
        id: agent,
        name: "Kopi".to_owned(),
        system_prompt: "Be kind.".to_owned(),
        max_call_duration_minutes: minutes,
        tools_enabled: "[]".to_owned(),
        ..agent::Model::new(TenantId::new(Millis::MIN), Millis::MIN)
    };
    Version::new(1, CallSettings::new(agent, Vec::new())).expect("plain")
}

pub(crate) struct NodeCalls {
    node_deps: NodeCallDeps,
    slots: RefCell<BTreeMap<CallId, Rc<Slot>>>,
    named: RefCell<BTreeMap<(BridgeId, String), CallId>>,
    /// Prevents reading the same call twice at once.
    reading: RefCell<BTreeMap<CallId, Rc<Mutex<()>>>>,
    /// Set while calls that were taken over may not have been read.
    unread: Cell<bool>,
}

impl From<NoAnswer> for CallError {
    fn from(NoAnswer: NoAnswer) -> Self {
        Self::Unavailable
    }
}

impl NodeCalls {
    pub(crate) fn new(node_deps: NodeCallDeps) -> Rc<Self> {
        Rc::new(Self {
            node_deps,
            slots: RefCell::default(),
            named: RefCell::default(),
            reading: RefCell::default(),
            unread: Cell::default(),
        })
    }

    fn acts(&self) -> bool {
        self.node_deps.deps.node.acts()
    }

    async fn acts_soon(&self) -> Result<(), CallError> {
        for _ in 0..60 {
            if self.acts() {
                return Ok(());
            }
            self.node_deps.clock.sleep_ms(50).await;
        }
        Err(CallError::Unavailable)
    }

    pub(crate) async fn incoming(
        self: &Rc<Self>,
        bridge: BridgeId,
        incoming: IncomingCall,
    ) -> Result<CallReply, CallError> {
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
        if let Some(call) = self.node_deps.wire.ask("look up", find).await? {
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
        incoming: IncomingCall,
    ) -> Result<CallReply, CallError> {
        let NodeCallDeps {
            deps,
            clock,
            ids,
            version,
            ..
        } = &self.node_deps;
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
            tenant: self.node_deps.tenant,
            plan: Plan::Starter,
            is_suspended: false,
            max_concurrent: self.node_deps.max_concurrent,
            number: Some(self.node_deps.number),
            draft: None,
            number_active: true,
            agent: None,
            agent_active: true,
            names: CalleeNames::default(),
        };
        let mut row = new_row(deps, id, key.0, incoming, &callee, now);
        row.agent_id = Some(version.settings.id);
        row.agent_version = Some(version.number);
        let most = self.node_deps.max_concurrent;
        match admit(Arc::clone(deps), row, version, most, callee.names, now).await {
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

    /// Repeats the reply to a known `call.incoming`.
    async fn reopen(self: &Rc<Self>, call: CallId) -> Result<CallReply, CallError> {
        // Waits until the call is open.
        let slot = self.find(call).await?;
        drop(slot.driver.lock().await);
        let row = move |tables: &mut Tables, _| tables.calls.get(&call).cloned();
        let row = self.node_deps.wire.ask("row", row).await?;
        let row = row.ok_or(CallError::Busy)?;
        match (row.agent_version, row.hangup_reason) {
            (None, Some(reason)) => Ok(CallReply::Refused { call, reason }),
            _ => Ok(CallReply::Admitted {
                call,
                agent: Arc::default(),
                callee: CalleeNames::default(),
            }),
        }
    }

    /// Sends an input to a call, in memory or in the tables.
    pub(crate) async fn tell(
        self: &Rc<Self>,
        bridge: Option<BridgeId>,
        call: CallId,
        input: CallInput,
    ) -> Result<CallReply, CallError> {
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
        let hold = self.node_deps.wire.ask("hold", hold).await?;
        Ok(self.load(row, hold))
    }

    async fn read_as_ours(&self, call: CallId) -> Result<call::Model, CallError> {
        let deps = &self.node_deps.deps;
        for _ in 0..PLACES_MAX {
            let row = move |tables: &mut Tables, _| tables.calls.get(&call).cloned();
            let row = self.node_deps.wire.ask("row", row).await?;
            let row = row.ok_or(CallError::UnknownCall)?;
            if row.status.is_final() || deps.node.is(&row.owner) {
                return Ok(row);
            }
            if !self.acts() {
                return Err(CallError::Unavailable);
            }
            self.take(
                vec![SimulatedOwnership::from(&row)],
                Owner::Another,
                Reason::SpokenTo,
            )
            .await?;
        }
        Err(CallError::Busy)
    }

    fn load(self: &Rc<Self>, row: call::Model, hold: Option<credit_hold::Model>) -> Rc<Slot> {
        let (id, bridge, epoch) = (row.id, row.bridge_id, row.epoch);
        let key = (bridge, row.bridge_call_id.clone());
        let longest = Some(
            self.node_deps
                .version
                .settings
                .persona
                .max_call_duration_minutes,
        );
        let deps = Arc::clone(&self.node_deps.deps);
        let driver = CallDriver::load(deps, row, hold.as_ref(), longest);
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

    /// Carries out a call's deadlines until it is over or has another owner, and a little longer.
    fn watch(self: &Rc<Self>, id: CallId, slot: Rc<Slot>) {
        let (calls, clock) = (Rc::clone(self), Arc::clone(&self.node_deps.clock));
        self.node_deps.tasks.spawn(async move {
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

    /// Stops the call's driver if it was loaded under an older epoch.
    fn let_go(&self, call: CallId, epoch: i64) {
        let slot = self.slots.borrow().get(&call).cloned();
        if let Some(slot) = slot.filter(|slot| slot.epoch < epoch) {
            self.forget(call, &slot);
            self.node_deps.tasks.spawn(async move {
                if let Some(driver) = &mut *slot.driver.lock().await {
                    driver.disown();
                }
                slot.changed.notify_one();
            });
        }
    }

    /// This process got a new node id.
    pub(crate) fn let_go_of_all(&self) {
        let here: Vec<CallId> = self.slots.borrow().keys().copied().collect();
        here.into_iter()
            .for_each(|call| self.let_go(call, i64::MAX));
        self.node_deps.deps.bridges.republish();
    }

    /// Tells the calls that more credit is available.
    pub(crate) async fn credited(self: &Rc<Self>) {
        let here: Vec<CallId> = self.slots.borrow().keys().copied().collect();
        for call in here {
            let _ = self.tell(None, call, CallInput::Credited).await;
        }
    }
}
