//! Starts and stops the actors of calls, new ones and those read from the store.

use std::{
    hash::{BuildHasher, Hash},
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
    time::Instant,
};

use actix::Addr;
use dikala_entities::{CallId, TenantId, call, credit_hold};
use sea_orm::EntityTrait;
use tokio::sync::Mutex;

use super::{ActorDied, CallRouter, PLACES_MAX, STRIPES};
use crate::{
    calls::{
        actor::{ActorStart, CallActor, Hooks},
        directory::{BridgeCall, RunningActor},
        driver::CallDriver,
        error::{CallError, unavailable},
        messages::LetGo,
        ownership::take_over_addressed,
        versions,
    },
    runtime::context::{MeteredContext, OnPanic},
};

/// Messages that wait for one call.
const MAILBOX: usize = 16;

impl CallRouter {
    /// A call's actor, started from the store if necessary.
    pub(in crate::calls) async fn find(&self, call: CallId) -> Result<Addr<CallActor>, CallError> {
        match self.directory().find(call) {
            Some(addr) => Ok(addr),
            // Boxed: the future is large and rarely needed.
            None => Box::pin(self.read_back(call)).await,
        }
    }

    async fn read_back(&self, call: CallId) -> Result<Addr<CallActor>, CallError> {
        let _stripe = self.stripe(&call).lock().await;
        if let Some(addr) = self.directory().find(call) {
            return Ok(addr);
        }
        let db = self.0.deps.store.critical_reader();
        let read_at = Instant::now();
        let row = self.read_as_ours(call).await?;
        let hold = credit_hold::Entity::find_by_id(call)
            .one(db)
            .await
            .map_err(unavailable)?;
        let minutes = versions::durations(db, std::slice::from_ref(&row))
            .await
            .map_err(unavailable)?;
        let minutes = minutes.get(&row.id).copied();
        // Bridges are answered from this row, so a failover must not undo it.
        let confirmed = self.0.deps.store.confirm(read_at).await;
        confirmed.map_err(unavailable)?;
        Ok(self.start_loaded(row, hold.as_ref(), minutes))
    }

    /// A call's row. A running call of another owner is taken over first: this node got a message about it.
    async fn read_as_ours(&self, call: CallId) -> Result<call::Model, CallError> {
        let deps = self.deps();
        for _ in 0..PLACES_MAX {
            let row = call::Entity::find_by_id(call)
                .one(deps.store.critical_reader())
                .await
                .map_err(unavailable)?;
            let row = row.ok_or(CallError::UnknownCall)?;
            if row.status.is_final() || deps.node.is(&row.owner) {
                return Ok(row);
            }
            if !deps.node.acts() {
                return Err(CallError::Unavailable);
            }
            take_over_addressed(deps, &row).await.map_err(unavailable)?;
        }
        Err(CallError::Busy)
    }

    /// Starts the actor of a call that was taken over, unless a message was faster.
    pub(in crate::calls) async fn start_taken(
        &self,
        row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) {
        let _stripe = self.stripe(&row.id).lock().await;
        self.let_go(row.id, row.epoch);
        if self.directory().find(row.id).is_none() {
            self.start_loaded(row, hold, max_minutes);
        }
    }

    /// Stops the call's actor if it was started under an older epoch.
    pub(in crate::calls) fn let_go(&self, call: CallId, epoch: i64) {
        if let Some(addr) = self.directory().take_older(call, epoch) {
            // Lost if the mailbox is full: the actor's next write fails instead.
            let _ = addr.try_send(LetGo);
        }
    }

    /// Stops all actors after this process got a new node id.
    pub(in crate::calls) fn let_go_of_all(&self) {
        for call in self.directory().ids() {
            self.let_go(call, i64::MAX);
        }
    }

    /// Starts the actor of a call read from the store. `max_minutes` is the limit that it began with.
    fn start_loaded(
        &self,
        row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) -> Addr<CallActor> {
        let (id, tenant) = (row.id, row.tenant_id);
        let key = (row.bridge_id, row.bridge_call_id.clone());
        let epoch = row.epoch;
        let driver = CallDriver::load(Arc::clone(&self.0.deps), row, hold, max_minutes);
        let beginning = ActorStart::Loaded(Box::new(driver));
        self.start(id, epoch, key, Some(tenant), beginning)
    }

    pub(super) fn start(
        &self,
        id: CallId,
        epoch: i64,
        bridge_call: BridgeCall,
        tenant: Option<TenantId>,
        beginning: ActorStart,
    ) -> Addr<CallActor> {
        let number = self.0.started.fetch_add(1, Relaxed);
        let arbiter = &self.0.arbiters[number % self.0.arbiters.len()];
        let (deps, bridge) = (Arc::clone(&self.0.deps), bridge_call.0);
        let tenant = Arc::new(tenant.map_or_else(OnceLock::new, OnceLock::from));
        let hooks = self.hooks(id, Arc::clone(&tenant));
        let calls = self.clone();
        let died = OnPanic::GiveUp(Box::new(move || calls.died(id, number)));
        let addr = MeteredContext::start(arbiter, MAILBOX, died, move |_| {
            CallActor::new(deps, hooks, id, bridge, beginning)
        });
        let running = RunningActor {
            addr: addr.clone(),
            number,
            tenant,
            bridge_call,
            epoch,
        };
        self.directory().register(id, running);
        addr
    }

    fn hooks(&self, call: CallId, tenant: Arc<OnceLock<TenantId>>) -> Hooks {
        let (opening, leaving) = (self.clone(), self.clone());
        Hooks {
            opened: Box::new(move |row| {
                // A call is opened once.
                let _ = tenant.set(row.tenant_id);
                opening.directory().opened(row);
            }),
            stopped: Box::new(move |addr| leaving.directory().forget(call, addr)),
        }
    }

    /// The call's actor with that number panicked.
    pub(in crate::calls) fn died(&self, call: CallId, number: usize) {
        self.directory().forget_number(call, number);
        if let Some(recipient) = self.0.deaths.get() {
            // Lost if the mailbox is full: the sweep finds the call instead.
            let _ = recipient.try_send(ActorDied(call));
        }
    }

    pub(super) fn stripe(&self, key: &impl Hash) -> &Mutex<()> {
        let hash = usize::try_from(self.0.hasher.hash_one(key) % (STRIPES as u64)).unwrap_or(0);
        &self.0.stripes[hash]
    }
}
