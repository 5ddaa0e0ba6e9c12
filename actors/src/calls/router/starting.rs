//! Starting the actors of calls, new ones and those that are read back from the store, and letting go of them.

use std::{
    hash::{BuildHasher, Hash},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use actix::Addr;
use dikala_entities::{CallId, TenantId, call, credit_hold};
use sea_orm::EntityTrait;
use tokio::sync::Mutex;

use super::{Calls, Died, PLACES_MAX, STRIPES};
use crate::{
    calls::{
        actor::{Beginning, CallActor, Hooks},
        directory::{BridgeCall, Running},
        driver::CallDriver,
        error::{CallError, unavailable},
        messages::LetGo,
        ownership::take_spoken_to,
        versions,
    },
    runtime::context::{MeteredContext, OnPanic},
};

/// Messages that wait for one call.
const MAILBOX: usize = 16;

impl Calls {
    /// The actor of a call, started from the store if need be.
    pub(in crate::calls) async fn find(&self, call: CallId) -> Result<Addr<CallActor>, CallError> {
        match self.directory().find(call) {
            Some(addr) => Ok(addr),
            // Seldom, and large: in a box, or whoever asks for a call would have the room for it.
            None => Box::pin(self.read_back(call)).await,
        }
    }

    async fn read_back(&self, call: CallId) -> Result<Addr<CallActor>, CallError> {
        let _stripe = self.stripe(&call).lock().await;
        if let Some(addr) = self.directory().find(call) {
            return Ok(addr);
        }
        let db = self.0.parts.store.critical_reader();
        let row = self.read_as_ours(call).await?;
        let hold = credit_hold::Entity::find_by_id(call)
            .one(db)
            .await
            .map_err(unavailable)?;
        let minutes = versions::durations(db, std::slice::from_ref(&row))
            .await
            .map_err(unavailable)?;
        let minutes = minutes.get(&row.id).copied();
        // A bridge is answered from this row, so a failover must not take it back.
        let confirmed = self.0.parts.store.confirm().await;
        confirmed.map_err(unavailable)?;
        Ok(self.start_loaded(row, hold.as_ref(), minutes))
    }

    /// A call's row. One that runs is taken first where another has it: somebody speaks to it here.
    async fn read_as_ours(&self, call: CallId) -> Result<call::Model, CallError> {
        let parts = self.parts();
        for _ in 0..PLACES_MAX {
            let row = call::Entity::find_by_id(call)
                .one(parts.store.critical_reader())
                .await
                .map_err(unavailable)?;
            let row = row.ok_or(CallError::UnknownCall)?;
            if row.status.is_final() || parts.node.is(&row.owner) {
                return Ok(row);
            }
            if !parts.node.acts() {
                return Err(CallError::Unavailable);
            }
            take_spoken_to(parts, &row).await.map_err(unavailable)?;
        }
        Err(CallError::Busy)
    }

    /// Starts the actor of a call that this node has taken, unless somebody who asked for the call was faster.
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

    /// The call has that epoch: an actor from before goes.
    pub(in crate::calls) fn let_go(&self, call: CallId, epoch: i64) {
        if let Some(addr) = self.directory().take_older(call, epoch) {
            // Lost where the mailbox is full: the actor finds out with its next write.
            let _ = addr.try_send(LetGo);
        }
    }

    /// This process has become another node: what it had is not its own any more.
    pub(in crate::calls) fn let_go_of_all(&self) {
        for call in self.directory().ids() {
            self.let_go(call, i64::MAX);
        }
    }

    /// Starts the actor of a call that was read from the store, with its hold and the longest talk that it began with.
    fn start_loaded(
        &self,
        row: call::Model,
        hold: Option<&credit_hold::Model>,
        max_minutes: Option<i64>,
    ) -> Addr<CallActor> {
        let (id, tenant) = (row.id, row.tenant_id);
        let key = (row.bridge_id, row.bridge_call_id.clone());
        let epoch = row.epoch;
        let driver = CallDriver::load(Arc::clone(&self.0.parts), row, hold, max_minutes);
        let beginning = Beginning::Loaded(Box::new(driver));
        self.start(id, epoch, key, Some(tenant), beginning)
    }

    pub(super) fn start(
        &self,
        id: CallId,
        epoch: i64,
        bridge_call: BridgeCall,
        tenant: Option<TenantId>,
        beginning: Beginning,
    ) -> Addr<CallActor> {
        let number = self.0.started.fetch_add(1, Relaxed);
        let arbiter = &self.0.arbiters[number % self.0.arbiters.len()];
        let (parts, bridge) = (Arc::clone(&self.0.parts), bridge_call.0);
        let hooks = self.hooks(id);
        let calls = self.clone();
        let died = OnPanic::GiveUp(Box::new(move || calls.died(id, number)));
        let addr = MeteredContext::start(arbiter, MAILBOX, died, move |_| {
            CallActor::new(parts, hooks, id, bridge, beginning)
        });
        let running = Running {
            addr: addr.clone(),
            number,
            tenant,
            bridge_call,
            epoch,
        };
        self.directory().register(id, running);
        addr
    }

    fn hooks(&self, call: CallId) -> Hooks {
        let (opening, leaving) = (self.clone(), self.clone());
        Hooks {
            opened: Box::new(move |row| opening.directory().opened(row)),
            stopped: Box::new(move |addr| leaving.directory().forget(call, addr)),
        }
    }

    /// The actor of a call panicked, the one with that number.
    pub(in crate::calls) fn died(&self, call: CallId, number: usize) {
        self.directory().forget_number(call, number);
        if let Some(recipient) = self.0.deaths.get() {
            // If this is lost in a full mailbox, the sweep finds the call.
            let _ = recipient.try_send(Died(call));
        }
    }

    pub(super) fn stripe(&self, key: &impl Hash) -> &Mutex<()> {
        let hash = usize::try_from(self.0.hasher.hash_one(key) % (STRIPES as u64)).unwrap_or(0);
        &self.0.stripes[hash]
    }
}
