//! Circuit breakers of functions' endpoints. While a circuit is open, the AI receives an answer at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dikala_entities::{Millis, OutboundUrl, TenantId};

use crate::{
    outbound::ErrorKind,
    runtime::circuit::{Admits, Circuit},
};

/// The first pause of a circuit, in milliseconds: the time of one call that hangs.
const FIRST_PAUSE_MS: i64 = 5_000;
/// Limit of circuits per tenant; calls to further endpoints are not protected.
const ENDPOINTS_MAX: usize = 1_000;
/// A circuit that was idle for this long is removed, in milliseconds.
const KEPT_MS: i64 = 10 * 60 * 1_000;

/// The circuits of all tenants' endpoints.
#[derive(Clone, Debug, Default)]
pub(super) struct Circuits(Arc<Mutex<HashMap<TenantId, Endpoints>>>);

type Endpoints = HashMap<OutboundUrl, CircuitEntry>;

#[derive(Debug)]
struct CircuitEntry {
    circuit: Circuit,
    /// The time of the last change.
    at: Millis,
}

/// The state of an endpoint's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// The endpoint is called.
    Closed,
    /// The endpoint kept failing and is not called.
    Open { until: Millis },
    /// One probe decides if the endpoint is called again.
    HalfOpen,
}

/// The effect of a call on the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallFinding {
    /// The endpoint answered, with whatever status.
    Answered,
    /// The endpoint did not answer in time or could not be reached.
    Silent,
    /// The endpoint was not called.
    Nothing,
}

impl CallFinding {
    pub(super) const fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Timeout
            | ErrorKind::Connect
            | ErrorKind::Dns
            | ErrorKind::Tls
            | ErrorKind::Reset => Self::Silent,
            ErrorKind::InvalidResponse => Self::Answered,
            ErrorKind::BlockedTarget | ErrorKind::Busy => Self::Nothing,
        }
    }
}

/// Permission to call an endpoint. Report the result with `heard`; dropping it counts as [`CallFinding::Nothing`].
#[derive(Debug)]
pub(super) struct CallRight {
    circuits: Circuits,
    tenant: TenantId,
    endpoint: OutboundUrl,
    kind: CallKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    /// A call with a closed circuit.
    Usual,
    /// The probe of an open circuit.
    Probe,
    /// A test: only a success counts.
    Test,
}

impl Circuits {
    /// Permission for a call in a conversation. None while the circuit is open.
    pub(super) fn turn(
        &self,
        tenant: TenantId,
        endpoint: &OutboundUrl,
        now: Millis,
    ) -> Option<CallRight> {
        let mut all = self.all();
        let kind = match kept_of(&mut all, tenant, endpoint) {
            None => CallKind::Usual,
            Some(kept) => match kept.circuit.admits(now) {
                Admits::All => CallKind::Usual,
                Admits::One => {
                    kept.circuit.begun();
                    CallKind::Probe
                }
                Admits::None => return None,
            },
        };
        drop(all);
        Some(self.make(tenant, endpoint, kind))
    }

    /// Permission for a test: always granted, and only a success counts.
    pub(super) fn turn_of_test(&self, tenant: TenantId, endpoint: &OutboundUrl) -> CallRight {
        self.make(tenant, endpoint, CallKind::Test)
    }

    pub(super) fn state(
        &self,
        tenant: TenantId,
        endpoint: &OutboundUrl,
        now: Millis,
    ) -> CircuitState {
        let mut all = self.all();
        let Some(kept) = kept_of(&mut all, tenant, endpoint) else {
            return CircuitState::Closed;
        };
        match kept.circuit.probe_at() {
            _ if !kept.circuit.is_open() => CircuitState::Closed,
            Some(until) if now < until => CircuitState::Open { until },
            _ => CircuitState::HalfOpen,
        }
    }

    fn make(&self, tenant: TenantId, endpoint: &OutboundUrl, kind: CallKind) -> CallRight {
        CallRight {
            circuits: self.clone(),
            tenant,
            endpoint: endpoint.clone(),
            kind,
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<TenantId, Endpoints>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kept_of<'a>(
    all: &'a mut HashMap<TenantId, Endpoints>,
    tenant: TenantId,
    endpoint: &OutboundUrl,
) -> Option<&'a mut CircuitEntry> {
    all.get_mut(&tenant)?.get_mut(endpoint)
}

impl CallRight {
    /// Reports the result of the call.
    pub(super) fn record(mut self, finding: CallFinding, now: Millis) {
        let mut all = self.circuits.all();
        match finding {
            CallFinding::Nothing => return,
            CallFinding::Answered => forget(&mut all, self.tenant, &self.endpoint),
            CallFinding::Silent if self.kind == CallKind::Test => {}
            CallFinding::Silent => self.failed(&mut all, now),
        }
        drop(all);
        // The probe has its result, so `drop` must not return its turn.
        self.kind = CallKind::Usual;
    }

    fn failed(&self, all: &mut HashMap<TenantId, Endpoints>, now: Millis) {
        let endpoints = all.entry(self.tenant).or_default();
        if !endpoints.contains_key(&self.endpoint) {
            if endpoints.len() >= ENDPOINTS_MAX {
                endpoints.retain(|_, kept| now.since(kept.at) < KEPT_MS);
            }
            if endpoints.len() >= ENDPOINTS_MAX {
                return;
            }
        }
        let kept = endpoints
            .entry(self.endpoint.clone())
            .or_insert_with(|| CircuitEntry {
                circuit: Circuit::new(FIRST_PAUSE_MS),
                at: now,
            });
        // A call that began before the circuit opened tells nothing new.
        if self.kind == CallKind::Probe || !kept.circuit.is_open() {
            kept.circuit.failed(now, None);
            kept.at = now;
        }
    }
}

/// A probe without a result leaves its turn to the next call.
impl Drop for CallRight {
    fn drop(&mut self) {
        if self.kind != CallKind::Probe {
            return;
        }
        let mut all = self.circuits.all();
        if let Some(kept) = kept_of(&mut all, self.tenant, &self.endpoint) {
            kept.circuit.not_made();
        }
    }
}

fn forget(all: &mut HashMap<TenantId, Endpoints>, tenant: TenantId, endpoint: &OutboundUrl) {
    let Some(endpoints) = all.get_mut(&tenant) else {
        return;
    };
    endpoints.remove(endpoint);
    if endpoints.is_empty() {
        all.remove(&tenant);
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::UrlPolicy;

    use super::*;

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    fn url(path: &str) -> OutboundUrl {
        let url = format!("https://example.com/{path}");
        OutboundUrl::parse(&url, UrlPolicy::default()).expect("an address")
    }

    fn fail_times(circuits: &Circuits, tenant: TenantId, url: &OutboundUrl, times: usize) {
        for _ in 0..times {
            let turn = circuits.turn(tenant, url, NOW).expect("a turn");
            turn.record(CallFinding::Silent, NOW);
        }
    }

    #[test]
    fn one_tenants_endpoint_is_left_alone_and_no_other() {
        let (circuits, tenant, url) = (Circuits::default(), TenantId::new(NOW), url("a"));
        fail_times(&circuits, tenant, &url, 4);
        assert_eq!(circuits.state(tenant, &url, NOW), CircuitState::Closed);
        fail_times(&circuits, tenant, &url, 1);
        let until = NOW.plus_ms(FIRST_PAUSE_MS);
        let open = CircuitState::Open { until };
        assert_eq!(circuits.state(tenant, &url, NOW), open);
        assert!(circuits.turn(tenant, &url, NOW).is_none());
        assert!(circuits.turn(TenantId::new(NOW), &url, NOW).is_some());
        let other = super::tests::url("b");
        assert!(circuits.turn(tenant, &other, NOW).is_some());

        assert_eq!(circuits.state(tenant, &url, until), CircuitState::HalfOpen);
        let probe = circuits.turn(tenant, &url, until).expect("a probe");
        assert!(circuits.turn(tenant, &url, until).is_none());
        probe.record(CallFinding::Silent, until);
        let longer = until.plus_ms(FIRST_PAUSE_MS * 2);
        let open = CircuitState::Open { until: longer };
        assert_eq!(circuits.state(tenant, &url, until), open);
        let probe = circuits.turn(tenant, &url, longer).expect("a probe");
        probe.record(CallFinding::Answered, longer);
        assert!(circuits.turn(tenant, &url, longer).is_some());
        assert!(circuits.all().is_empty());
    }

    #[test]
    fn a_probe_that_was_not_made_leaves_the_turn_to_the_next() {
        let (circuits, tenant, url) = (Circuits::default(), TenantId::new(NOW), url("a"));
        fail_times(&circuits, tenant, &url, 5);
        let later = NOW.plus_ms(FIRST_PAUSE_MS);
        let probe = circuits.turn(tenant, &url, later).expect("a probe");
        probe.record(CallFinding::Nothing, later);
        drop(circuits.turn(tenant, &url, later).expect("a probe"));
        assert!(circuits.turn(tenant, &url, later).is_some());
    }

    #[test]
    fn what_was_under_way_when_it_opened_decides_nothing() {
        let (circuits, tenant, url) = (Circuits::default(), TenantId::new(NOW), url("a"));
        let turn = |now| circuits.turn(tenant, &url, now);
        let (slow, slower) = (turn(NOW).expect("a turn"), turn(NOW).expect("a turn"));
        fail_times(&circuits, tenant, &url, 5);
        let later = NOW.plus_ms(FIRST_PAUSE_MS);
        let probe = turn(later).expect("a probe");
        slow.record(CallFinding::Silent, later);
        drop(slower);
        assert!(turn(later).is_none(), "the probe is still under way");
        probe.record(CallFinding::Answered, later);
        assert!(turn(later).is_some());
    }

    #[test]
    fn a_test_is_always_made_and_closes_the_circuit_when_it_is_answered() {
        let (circuits, tenant, url) = (Circuits::default(), TenantId::new(NOW), url("a"));
        for _ in 0..9 {
            circuits
                .turn_of_test(tenant, &url)
                .record(CallFinding::Silent, NOW);
        }
        assert_eq!(circuits.state(tenant, &url, NOW), CircuitState::Closed);
        fail_times(&circuits, tenant, &url, 5);
        assert!(circuits.turn(tenant, &url, NOW).is_none());
        circuits
            .turn_of_test(tenant, &url)
            .record(CallFinding::Answered, NOW);
        assert!(circuits.turn(tenant, &url, NOW).is_some());
    }

    #[test]
    fn what_is_kept_of_a_tenant_is_bounded() {
        let (circuits, tenant) = (Circuits::default(), TenantId::new(NOW));
        for n in 0..ENDPOINTS_MAX + 5 {
            fail_times(&circuits, tenant, &url(&n.to_string()), 1);
        }
        assert_eq!(circuits.all()[&tenant].len(), ENDPOINTS_MAX);
        let turn = circuits.turn(tenant, &url("late"), NOW).expect("a turn");
        turn.record(CallFinding::Silent, NOW.plus_ms(KEPT_MS));
        assert_eq!(circuits.all()[&tenant].len(), 1);
    }
}
