//! Durations of invocations: by outcome, and by function for functions called recently.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use dikala_entities::{AgentId, Millis, OutboundUrl, TenantId};

use super::{CircuitState, FaultCode, Invoke, Outcome};
use crate::runtime::{
    histogram::{ANSWER_US, Distribution, Histogram},
    last_minute::{LastMinute, MinuteCounts},
};

/// Limit of functions counted individually: those called last.
const FUNCTIONS_MAX: usize = 1_000;

/// Durations of all invocations since the start. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct FunctionMeter(Arc<Times>);

#[derive(Debug)]
struct Times {
    ok: Histogram,
    faults: [Histogram; FaultCode::ALL.len()],
    each: Mutex<HashMap<FunctionKey, FunctionCounts>>,
}

/// A tenant's function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FunctionKey {
    tenant: TenantId,
    agent: Option<AgentId>,
    name: String,
}

/// The facts of an invocation that are counted. A test counts for no function.
#[derive(Clone, Debug)]
pub(super) struct MeteredInvocation {
    which: Option<FunctionKey>,
    endpoint: OutboundUrl,
}

#[derive(Debug)]
struct FunctionCounts {
    /// The endpoint of the last call.
    endpoint: OutboundUrl,
    calls: u64,
    failed: u64,
    last_at: Millis,
    last_fault: Option<(FaultCode, Millis)>,
    last_minute: LastMinute,
    times: Histogram,
}

/// Statistics of a function that was called in a conversation since this process started.
#[derive(Clone, Debug)]
pub struct FunctionReading {
    pub tenant: TenantId,
    /// None if the agent was deleted during the call.
    pub agent: Option<AgentId>,
    pub name: String,
    /// The endpoint of the last call.
    pub endpoint: OutboundUrl,
    pub calls: u64,
    pub failed: u64,
    pub last_minute: MinuteCounts,
    /// The time of the last call.
    pub last_at: Millis,
    pub last_fault: Option<(FaultCode, Millis)>,
    /// Durations in microseconds, without invocations that were not sent.
    pub times: Distribution,
    pub circuit: CircuitState,
}

impl Default for FunctionMeter {
    fn default() -> Self {
        let new = |_| Histogram::new(ANSWER_US);
        Self(Arc::new(Times {
            ok: new(()),
            faults: [(); FaultCode::ALL.len()].map(new),
            each: Mutex::default(),
        }))
    }
}

impl MeteredInvocation {
    pub(super) fn of(invoke: &Invoke) -> Self {
        let which = FunctionKey {
            tenant: invoke.tenant,
            agent: invoke.agent,
            name: invoke.function.name.clone(),
        };
        Self {
            which: Some(which).filter(|_| !invoke.is_test),
            endpoint: invoke.function.endpoint.clone(),
        }
    }
}

impl FunctionCounts {
    fn new(endpoint: OutboundUrl) -> Self {
        Self {
            endpoint,
            calls: 0,
            failed: 0,
            last_at: Millis::MIN,
            last_fault: None,
            last_minute: LastMinute::new(Instant::now()),
            times: Histogram::new(ANSWER_US),
        }
    }
}

impl FunctionMeter {
    /// Counts a finished invocation; `took` is zero if nothing was sent.
    pub(super) fn observe(
        &self,
        invocation: MeteredInvocation,
        outcome: &Outcome,
        took: Duration,
        now: Millis,
    ) {
        let histogram = match outcome {
            Outcome::Ok { .. } => &self.0.ok,
            Outcome::Error { code, .. } => &self.0.faults[*code as usize],
        };
        histogram.observe_time(took);
        let Some(which) = invocation.which else {
            return;
        };
        let mut each = self.each();
        if each.len() >= FUNCTIONS_MAX && !each.contains_key(&which) {
            forget_the_oldest(&mut each);
        }
        let endpoint = invocation.endpoint;
        let counts = each
            .entry(which)
            .or_insert_with(|| FunctionCounts::new(endpoint.clone()));
        let fault = outcome.fault();
        counts.endpoint = endpoint;
        counts.calls += 1;
        counts.failed += u64::from(fault.is_some());
        counts.last_at = now;
        counts.last_fault = fault.map(|code| (code, now)).or(counts.last_fault);
        counts.last_minute.count(fault.is_some(), Instant::now());
        if took > Duration::ZERO {
            counts.times.observe_time(took);
        }
    }

    pub(super) fn reading(&self) -> Vec<(&'static str, Distribution)> {
        let faults = FaultCode::ALL.iter().zip(&self.0.faults);
        let faults = faults.map(|(code, times)| (code.as_str(), times.reading()));
        [("ok", self.0.ok.reading())]
            .into_iter()
            .chain(faults)
            .collect()
    }

    /// Recently called functions, in no order. `circuit` returns an endpoint's state.
    pub(super) fn functions(
        &self,
        circuit: impl Fn(TenantId, &OutboundUrl) -> CircuitState,
    ) -> Vec<FunctionReading> {
        let now = Instant::now();
        let each = self.each();
        let reading = each.iter().map(|(which, counts)| FunctionReading {
            tenant: which.tenant,
            agent: which.agent,
            name: which.name.clone(),
            endpoint: counts.endpoint.clone(),
            calls: counts.calls,
            failed: counts.failed,
            last_minute: counts.last_minute.reading(now),
            last_at: counts.last_at,
            last_fault: counts.last_fault,
            times: counts.times.reading(),
            circuit: circuit(which.tenant, &counts.endpoint),
        });
        reading.collect()
    }

    fn each(&self) -> MutexGuard<'_, HashMap<FunctionKey, FunctionCounts>> {
        self.0.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_the_oldest(each: &mut HashMap<FunctionKey, FunctionCounts>) {
    let oldest = each.iter().min_by_key(|(_, counts)| counts.last_at);
    if let Some(which) = oldest.map(|(which, _)| which.clone()) {
        each.remove(&which);
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::UrlPolicy;

    use super::*;

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    fn ok() -> Outcome {
        Outcome::Ok {
            result: serde_json::Map::new(),
        }
    }

    fn invocation(tenant: TenantId, name: &str, is_test: bool) -> MeteredInvocation {
        let url = "https://example.com/f";
        let which = FunctionKey {
            tenant,
            agent: None,
            name: name.to_owned(),
        };
        MeteredInvocation {
            which: Some(which).filter(|_| !is_test),
            endpoint: OutboundUrl::parse(url, UrlPolicy::default()).expect("an address"),
        }
    }

    #[test]
    fn every_outcome_has_its_own_times() {
        let meter = FunctionMeter::default();
        let test = || invocation(TenantId::new(NOW), "f", true);
        meter.observe(test(), &ok(), Duration::from_millis(3), NOW);
        for code in FaultCode::ALL {
            let took = Duration::from_millis(code as u64);
            meter.observe(test(), &Outcome::error(code, ""), took, NOW);
        }
        let mut reading = meter.reading().into_iter();
        assert_eq!(
            reading.next().map(|(name, times)| (name, times.sum)),
            Some(("ok", 3_000))
        );
        for (code, (name, times)) in FaultCode::ALL.into_iter().zip(reading) {
            assert_eq!(
                (name, times.count(), times.sum),
                (code.as_str(), 1, code as u64 * 1_000)
            );
        }
        assert!(meter.functions(|_, _| CircuitState::Closed).is_empty());
    }

    #[test]
    fn each_function_is_counted_and_those_called_last_are_kept() {
        let (meter, tenant) = (FunctionMeter::default(), TenantId::new(NOW));
        let called = |name: &str, outcome: &Outcome, ms, at| {
            let took = Duration::from_millis(ms);
            meter.observe(invocation(tenant, name, false), outcome, took, at);
        };
        let timeout = Outcome::error(FaultCode::Timeout, "");
        called("f", &timeout, 40, NOW);
        called("f", &ok(), 4, NOW);
        called("f", &Outcome::circuit_open(), 0, NOW.plus_ms(1));
        let shown = || meter.functions(|_, _| CircuitState::HalfOpen);
        let [f] = &shown()[..] else {
            panic!("{:?}", shown());
        };
        assert_eq!((f.tenant, f.name.as_str()), (tenant, "f"));
        assert_eq!((f.calls, f.failed, f.times.count()), (3, 2, 2));
        let last_minute = MinuteCounts { all: 3, failed: 2 };
        assert_eq!(f.last_minute, last_minute);
        let last = (FaultCode::CircuitOpen, NOW.plus_ms(1));
        assert_eq!((f.last_fault, f.last_at), (Some(last), last.1));
        assert_eq!(f.circuit, CircuitState::HalfOpen);
        for n in 0..1_000 {
            called(&format!("g{n}"), &ok(), 1, NOW.plus_ms(2 + n));
        }
        let names = shown();
        assert_eq!(names.len(), FUNCTIONS_MAX);
        assert!(names.iter().all(|of| of.name != "f"));
    }
}
