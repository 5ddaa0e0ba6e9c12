//! Limits concurrent attempts and shares them between tenants, so that a few busy ones do not use all.

use std::collections::HashMap;

use dikala_entities::{TenantId, WebhookId};

use crate::runtime::shared_limit::fair;

#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    /// The limit of one tenant: a quarter of all.
    each: usize,
    in_flight: usize,
    by_tenant: HashMap<TenantId, usize>,
    /// Queues of tenants at their limit, until one of the tenant's attempts ends.
    parked: HashMap<TenantId, Vec<WebhookId>>,
}

impl Slots {
    pub(super) fn new(max: usize) -> Self {
        let max = max.max(1);
        Self {
            max,
            each: max.div_ceil(4),
            in_flight: 0,
            by_tenant: HashMap::new(),
            parked: HashMap::new(),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight >= self.max
    }

    /// True if a tenant may begin another attempt. Once more than half of all slots are taken, it gets a part of the
    /// other half that leaves as much for a new tenant.
    pub(super) fn may_begin(&self, tenant: TenantId) -> bool {
        let running = self.by_tenant.get(&tenant).copied().unwrap_or(0);
        running < fair(self.max, self.each, self.in_flight, self.by_tenant.len())
    }

    pub(super) fn begin(&mut self, tenant: TenantId) {
        self.in_flight += 1;
        *self.by_tenant.entry(tenant).or_insert(0) += 1;
    }

    /// Parks a queue until an attempt of its tenant ends.
    pub(super) fn park(&mut self, tenant: TenantId, webhook: WebhookId) {
        self.parked.entry(tenant).or_default().push(webhook);
    }

    /// Handles the end of an attempt. Returns the queues parked for it.
    pub(super) fn end(&mut self, tenant: TenantId) -> Vec<WebhookId> {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(running) = self.by_tenant.get_mut(&tenant) {
            *running = running.saturating_sub(1);
            if *running == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
        self.parked.remove(&tenant).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;

    use super::*;

    /// However many tenants take all they can get, a tenant without an attempt finds a slot.
    #[test]
    fn no_number_of_busy_tenants_takes_everything() {
        let now = Millis::from_i64(1_768_447_800_000);
        for busy in 1..100 {
            let mut slots = Slots::new(256);
            let tenants: Vec<TenantId> = (0..busy).map(|_| TenantId::new(now)).collect();
            // Round-robin, like queues.
            while tenants.iter().any(|tenant| slots.may_begin(*tenant)) {
                for tenant in &tenants {
                    if slots.may_begin(*tenant) {
                        slots.begin(*tenant);
                    }
                }
            }
            assert!(!slots.is_full(), "{busy} tenants took all");
            assert!(slots.may_begin(TenantId::new(now)));
            if busy == 1 {
                assert_eq!(slots.in_flight(), 64);
            }
        }
    }

    #[test]
    fn a_queue_is_parked_until_an_attempt_of_its_tenant_ends() {
        let now = Millis::from_i64(1_768_447_800_000);
        let (mut slots, tenant, webhook) = (Slots::new(4), TenantId::new(now), WebhookId::new(now));
        slots.begin(tenant);
        assert!(!slots.may_begin(tenant));
        slots.park(tenant, webhook);
        assert_eq!(slots.end(TenantId::new(now)), []);
        assert_eq!(slots.end(tenant), [webhook]);
        assert!(slots.may_begin(tenant));
    }
}
