//! Which calls are in memory, by every name that somebody asks for them by. Asks nobody and waits for nobody.

use std::collections::HashSet;

use actix::Addr;
use dashmap::DashMap;
use dikala_entities::{BridgeId, CallId, PhoneNumber, TenantId, call};

use super::actor::CallActor;

/// Numbers whose tenants are remembered; past that all are forgotten.
const NUMBERS_MAX: usize = 100_000;

/// Whose a message is, as far as that is known without asking the store: for the order in which messages are carried out, and
/// for nothing else. A number may have another tenant by now.
pub type Payer = Option<TenantId>;

/// A call by the name that its bridge has for it.
pub(super) type BridgeCall = (BridgeId, String);

#[derive(Default)]
pub(super) struct Directory {
    by_id: DashMap<CallId, Running>,
    by_bridge_call: DashMap<BridgeCall, CallId>,
    /// Whose number it was at the last call.
    numbers: DashMap<PhoneNumber, TenantId>,
}

/// A call whose actor was started.
pub(super) struct Running {
    pub(super) addr: Addr<CallActor>,
    /// Which of all actors that were started.
    pub(super) number: usize,
    /// None while the call is being opened.
    pub(super) tenant: Option<TenantId>,
    pub(super) bridge_call: BridgeCall,
    /// Of the call, when the actor was started.
    pub(super) epoch: i64,
}

impl Directory {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn register(&self, id: CallId, running: Running) {
        let key = running.bridge_call.clone();
        self.by_id.insert(id, running);
        self.by_bridge_call.insert(key, id);
    }

    /// The actor of a call, if it lives.
    pub(super) fn find(&self, call: CallId) -> Option<Addr<CallActor>> {
        let addr = self.by_id.get(&call).map(|running| running.addr.clone())?;
        addr.connected().then_some(addr)
    }

    /// The call of a bridge's call whose actor is here.
    pub(super) fn known(&self, key: &BridgeCall) -> Option<CallId> {
        let call = self.by_bridge_call.get(key).map(|call| *call)?;
        if self.find(call).is_some() {
            return Some(call);
        }
        self.by_bridge_call
            .remove_if(key, |_, known| *known == call);
        None
    }

    /// Calls in memory.
    pub(super) fn ids(&self) -> Vec<CallId> {
        self.by_id.iter().map(|running| *running.key()).collect()
    }

    /// Those of them whose rows are in the store.
    pub(super) fn stored(&self) -> Vec<CallId> {
        let opened = self.by_id.iter().filter(|running| running.tenant.is_some());
        opened.map(|running| *running.key()).collect()
    }

    /// An actor is gone; whoever took its place stays.
    pub(super) fn forget(&self, call: CallId, addr: &Addr<CallActor>) {
        self.forget_if(call, |running| running.addr == *addr);
    }

    /// Takes out an actor that was started before the call had that epoch.
    pub(super) fn take_older(&self, call: CallId, epoch: i64) -> Option<Addr<CallActor>> {
        self.forget_if(call, |running| running.epoch < epoch)
    }

    /// The same by the actor's number.
    pub(super) fn forget_number(&self, call: CallId, number: usize) {
        self.forget_if(call, |running| running.number == number);
    }

    fn forget_if(
        &self,
        call: CallId,
        is_it: impl FnOnce(&Running) -> bool,
    ) -> Option<Addr<CallActor>> {
        let removed = self.by_id.remove_if(&call, |_, running| is_it(running));
        let (_, running) = removed?;
        self.by_bridge_call
            .remove_if(&running.bridge_call, |_, known| *known == call);
        Some(running.addr)
    }

    /// A call was opened: whose it is.
    pub(super) fn opened(&self, row: &call::Model) {
        if let Some(mut running) = self.by_id.get_mut(&row.id) {
            running.tenant = Some(row.tenant_id);
        }
        if self.payer_of_number(&row.callee_number) != Some(row.tenant_id) {
            if self.numbers.len() >= NUMBERS_MAX {
                self.numbers.clear();
            }
            self.numbers
                .insert(row.callee_number.clone(), row.tenant_id);
        }
    }

    /// Whose calls come in at a number.
    pub(super) fn payer_of_number(&self, number: &PhoneNumber) -> Payer {
        self.numbers.get(number).map(|tenant| *tenant)
    }

    /// Whose a call is.
    pub(super) fn payer_of_call(&self, call: CallId) -> Payer {
        self.by_id.get(&call).and_then(|running| running.tenant)
    }

    /// Calls of a tenant that are running here, or are just being opened.
    pub(super) fn of_tenant(&self, tenant: TenantId) -> Vec<CallId> {
        let running = self.by_id.iter();
        running
            .filter(|call| call.tenant.is_none_or(|t| t == tenant))
            .map(|call| *call.key())
            .collect()
    }

    /// Calls of a bridge that are not among those.
    pub(super) fn of_bridge_without(
        &self,
        bridge: BridgeId,
        listed: &HashSet<CallId>,
    ) -> Vec<CallId> {
        let running = self.by_id.iter();
        running
            .filter(|call| call.bridge_call.0 == bridge && !listed.contains(call.key()))
            .map(|call| *call.key())
            .collect()
    }
}
