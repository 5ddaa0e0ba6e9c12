//! How many invocations run at the same time, in all and per tenant.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use dashmap::DashMap;
use dikala_entities::TenantId;

use crate::webhooks::stats::{Histogram, HistogramReading};

#[derive(Clone, Debug)]
pub(super) struct Permits(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    tenant_max: usize,
    running: AtomicUsize,
    by_tenant: DashMap<TenantId, usize>,
    latency: Histogram,
}

/// The right to one invocation, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    tenant: TenantId,
    taken: Instant,
    shared: Arc<Shared>,
}

impl Permits {
    pub(super) fn new(max: usize, tenant_max: usize) -> Self {
        Self(Arc::new(Shared {
            max,
            tenant_max,
            running: AtomicUsize::new(0),
            by_tenant: DashMap::new(),
            latency: Histogram::default(),
        }))
    }

    /// A permit, or none where the limit of all or of the tenant is reached.
    pub(super) fn take(&self, tenant: TenantId) -> Option<Permit> {
        let shared = &self.0;
        {
            let mut running = shared.by_tenant.entry(tenant).or_insert(0);
            if *running >= shared.tenant_max {
                return None;
            }
            *running += 1;
        }
        // From here on dropping the permit undoes what was counted.
        let before = shared.running.fetch_add(1, Relaxed);
        let permit = Permit {
            tenant,
            taken: Instant::now(),
            shared: Arc::clone(shared),
        };
        (before < shared.max).then_some(permit)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.0.running.load(Relaxed)
    }

    pub(super) fn latency(&self) -> HistogramReading {
        self.0.latency.reading()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.running.fetch_sub(1, Relaxed);
        let took = self.taken.elapsed().as_millis();
        self.shared
            .latency
            .observe_ms(u64::try_from(took).unwrap_or(u64::MAX));
        if let Some(mut running) = self.shared.by_tenant.get_mut(&self.tenant) {
            *running = running.saturating_sub(1);
        }
        self.shared
            .by_tenant
            .remove_if(&self.tenant, |_, running| *running == 0);
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::Millis;

    use super::*;

    #[test]
    fn a_tenant_has_his_share_and_all_have_theirs() {
        let permits = Permits::new(3, 2);
        let now = Millis::from_i64(1);
        let (a, b) = (TenantId::new(now), TenantId::new(now));
        let first = permits.take(a);
        let second = permits.take(a);
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(a).is_none());
        let third = permits.take(b);
        assert!(third.is_some());
        assert!(permits.take(b).is_none());
        assert_eq!(permits.in_flight(), 3);
        drop(first);
        assert!(permits.take(b).is_some());
        drop((second, third));
        assert_eq!(permits.in_flight(), 0);
        assert!(permits.0.by_tenant.is_empty());
    }
}
