//! The calls in memory, found by their different keys. Pure lookups: it asks and waits for nothing.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use actix::Addr;
use dashmap::DashMap;
use dikala_entities::{BridgeId, CallId, TenantId, call};

use super::actor::CallActor;

/// Numbers whose tenants are remembered. Beyond that all are forgotten.
const NUMBERS_MAX: usize = 100_000;

/// The tenant of a message, as far as it is known without the store. Used only to order messages: the number may belong to
/// another tenant now.
pub type TenantHint = Option<TenantId>;

/// A call by the bridge's id for it.
pub(super) type BridgeCall = (BridgeId, String);

#[derive(Default)]
pub(super) struct Directory {
    by_id: DashMap<CallId, RunningActor>,
    by_bridge_call: DashMap<BridgeCall, CallId>,
    /// The tenant of each number's last call.
    numbers: DashMap<String, TenantId>,
    /// The last call of the last [`next_stored`](Self::next_stored).
    taken_last: Mutex<Option<CallId>>,
}

/// A call whose actor was started.
pub(super) struct RunningActor {
    pub(super) addr: Addr<CallActor>,
    /// The actor's serial number.
    pub(super) number: usize,
    /// Empty while the call is being opened. The actor fills it, perhaps before it is registered here.
    pub(super) tenant: Arc<OnceLock<TenantId>>,
    pub(super) bridge_call: BridgeCall,
    /// The call's epoch when the actor was started.
    pub(super) epoch: i64,
}

impl Directory {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn register(&self, id: CallId, running: RunningActor) {
        let key = running.bridge_call.clone();
        self.by_id.insert(id, running);
        self.by_bridge_call.insert(key, id);
    }

    /// A call's actor, if it is alive.
    pub(super) fn find(&self, call: CallId) -> Option<Addr<CallActor>> {
        let addr = self.by_id.get(&call).map(|running| running.addr.clone())?;
        addr.connected().then_some(addr)
    }

    /// The call with the bridge's id, if its actor is alive.
    pub(super) fn known(&self, key: &BridgeCall) -> Option<CallId> {
        let call = self.by_bridge_call.get(key).map(|call| *call)?;
        if self.find(call).is_some() {
            return Some(call);
        }
        self.by_bridge_call
            .remove_if(key, |_, known| *known == call);
        None
    }

    pub(super) fn ids(&self) -> Vec<CallId> {
        self.by_id.iter().map(|running| *running.key()).collect()
    }

    /// At most this many calls in memory whose rows are stored. If there are more, each of them has its turn.
    pub(super) fn next_stored(&self, most: usize) -> Vec<CallId> {
        let opened = self
            .by_id
            .iter()
            .filter(|running| running.tenant.get().is_some());
        let stored = opened.map(|running| *running.key()).collect();
        let last = self.taken_last.lock();
        let mut last = last.unwrap_or_else(PoisonError::into_inner);
        let next = next_after(*last, stored, most);
        *last = next.last().copied();
        next
    }

    /// Removes an actor that stopped, but not its replacement.
    pub(super) fn forget(&self, call: CallId, addr: &Addr<CallActor>) {
        self.forget_if(call, |running| running.addr == *addr);
    }

    /// Removes the actor if it was started under an older epoch.
    pub(super) fn take_older(&self, call: CallId, epoch: i64) -> Option<Addr<CallActor>> {
        self.forget_if(call, |running| running.epoch < epoch)
    }

    /// Removes the actor with that number.
    pub(super) fn forget_number(&self, call: CallId, number: usize) {
        self.forget_if(call, |running| running.number == number);
    }

    fn forget_if(
        &self,
        call: CallId,
        is_it: impl FnOnce(&RunningActor) -> bool,
    ) -> Option<Addr<CallActor>> {
        let removed = self.by_id.remove_if(&call, |_, running| is_it(running));
        let (_, running) = removed?;
        self.by_bridge_call
            .remove_if(&running.bridge_call, |_, known| *known == call);
        Some(running.addr)
    }

    /// Records the tenant of a number whose call was opened.
    pub(super) fn opened(&self, row: &call::Model) {
        let number = row.callee_number.as_str();
        if row.phone_number_id.is_some() && self.tenant_of_number(number) != Some(row.tenant_id) {
            if self.numbers.len() >= NUMBERS_MAX {
                self.numbers.clear();
            }
            self.numbers.insert(number.to_owned(), row.tenant_id);
        }
    }

    /// The tenant of the last call to a number, if known.
    pub(super) fn tenant_of_number(&self, number: &str) -> TenantHint {
        self.numbers.get(number).map(|tenant| *tenant)
    }

    /// The tenant of a call in memory.
    pub(super) fn tenant_of_call(&self, call: CallId) -> TenantHint {
        let running = self.by_id.get(&call)?;
        running.tenant.get().copied()
    }

    /// A tenant's calls in memory, and those that are being opened.
    pub(super) fn of_tenant(&self, tenant: TenantId) -> Vec<CallId> {
        let running = self.by_id.iter();
        running
            .filter(|call| call.tenant.get().is_none_or(|t| *t == tenant))
            .map(|call| *call.key())
            .collect()
    }

    /// A bridge's calls in memory that are not in `listed`.
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

/// At most this many of the calls, the newest first: those older than `last`, then from the newest one on. New calls do not come
/// between a call and its turn.
fn next_after(last: Option<CallId>, mut calls: Vec<CallId>, most: usize) -> Vec<CallId> {
    calls.sort_unstable_by(|one, other| other.cmp(one));
    let first = last.map_or(0, |last| calls.partition_point(|call| *call >= last));
    calls.rotate_left(first);
    calls.truncate(most);
    calls
}

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;

    use super::*;

    #[test]
    fn each_call_has_its_turn_whatever_comes_and_goes() {
        let call = |n: i64| CallId::first_at(Millis::from_i64(n));
        let calls = |some: &[i64]| some.iter().map(|n| call(*n)).collect::<Vec<_>>();
        // The calls in memory, the last one of the look before, and the next ones.
        let table: &[(&[i64], Option<i64>, &[i64])] = &[
            (&[], None, &[]),
            (&[], Some(3), &[]),
            (&[1, 2], None, &[2, 1]),
            (&[1, 2], Some(1), &[2, 1]),
            (&[5, 3, 1, 4, 2], None, &[5, 4, 3]),
            (&[5, 3, 1, 4, 2], Some(3), &[2, 1, 5]),
            (&[5, 9, 1, 8, 2], Some(3), &[2, 1, 9]),
            (&[9, 8, 7], Some(3), &[9, 8, 7]),
            (&[1, 2, 3], Some(9), &[3, 2, 1]),
        ];
        for (there, last, next) in table {
            let found = next_after(last.map(call), calls(there), 3);
            assert_eq!(found, calls(next), "{there:?} after {last:?}");
        }
    }
}
