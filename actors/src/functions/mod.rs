//! Calls of tenants' functions: one request, five seconds, and always an answer for the AI.
//!
//! Functions have threads, connections and permits of their own, so that webhooks never slow a live call. Each
//! invocation has its own connection: an answer that comes late or unsolicited cannot reach another invocation.

mod circuits;
mod invoker;
mod meter;
mod outcome;
mod permits;
mod request;
pub mod schema;
mod schemas;
mod span;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use actix::{Addr, Message};
use actix_rt::ArbiterHandle;
use dikala_entities::{AgentId, CallId, FunctionMethod, OutboundUrl, Secret, TenantId, function};
use serde_json::{Map, Value};

pub use self::circuits::CircuitState;
use self::{
    circuits::{CallRight, Circuits},
    meter::{FunctionMeter, MeteredInvocation},
    permits::{Permit, Permits},
};
pub use self::{
    invoker::FunctionInvoker,
    meter::FunctionReading,
    outcome::{EndpointAnswer, FaultCode, InvocationReport, Outcome},
    request::FunctionRequest,
    span::InvocationSpan,
};
use crate::{
    outbound::{Outbound, Permission},
    runtime::{
        clock::SharedClock,
        context::{MeteredContext, OnPanic},
        histogram::Distribution,
    },
};

/// Mailbox of one invoker; permits run out before it is full.
const MAILBOX: usize = 1_024;

/// Limits of function calls.
#[derive(Clone, Debug)]
pub struct FunctionsConfig {
    /// Timeout of one whole exchange, including the body.
    pub timeout: Duration,
    /// Concurrent invocations of all tenants.
    pub max_in_flight: usize,
    /// Concurrent invocations of one tenant while at most half of all permits are taken.
    pub tenant_max_in_flight: usize,
    /// Concurrent invocations of one endpoint of a tenant.
    pub endpoint_max_in_flight: usize,
}

impl Default for FunctionsConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            max_in_flight: 4_096,
            tenant_max_in_flight: 512,
            endpoint_max_in_flight: 128,
        }
    }
}

/// A function's data that an invocation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSpec {
    pub name: String,
    pub endpoint: OutboundUrl,
    pub method: FunctionMethod,
    /// The JSON Schema of the parameters, as text.
    pub parameters: Arc<str>,
}

impl From<&function::Model> for FunctionSpec {
    fn from(row: &function::Model) -> Self {
        Self {
            name: row.name.clone(),
            endpoint: row.endpoint.clone(),
            method: row.method,
            parameters: row.parameters.as_str().into(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Invoke {
    /// The call in which the AI invoked it; a made-up id for a test.
    pub call: CallId,
    pub tenant: TenantId,
    /// The agent that has the function.
    pub agent: Option<AgentId>,
    pub function: FunctionSpec,
    pub parameters: Map<String, Value>,
    /// The tenant's secret for signing function requests.
    pub secret: Secret,
    /// Adds `X-Service-Test: true` to the request.
    pub is_test: bool,
    /// The invocation's own `traceparent`, if it is part of a trace.
    pub traceparent: Option<String>,
    /// The request is written only while this is granted.
    pub permission: Permission,
}

/// An invocation with its permit.
#[derive(Message)]
#[rtype(result = "InvocationReport")]
pub(crate) struct Permitted {
    invoke: Invoke,
    /// Held until the invocation is over, even if the caller stops waiting.
    permit: Permit,
    turn: CallRight,
}

/// The handle of the invokers for the rest of the program.
#[derive(Clone, Debug)]
pub struct FunctionsHandle {
    invokers: Arc<[Addr<FunctionInvoker>]>,
    permits: Permits,
    circuits: Circuits,
    meter: FunctionMeter,
    clock: SharedClock,
}

/// Starts one invoker on each arbiter; give each an arbiter of its own.
pub fn start(
    arbiters: &[ArbiterHandle],
    outbound: &Outbound,
    config: &FunctionsConfig,
    clock: SharedClock,
) -> FunctionsHandle {
    let meter = FunctionMeter::default();
    let invokers = arbiters.iter().map(|arbiter| {
        let (outbound, timeout, clock) = (outbound.clone(), config.timeout, Arc::clone(&clock));
        let meter = meter.clone();
        MeteredContext::start(arbiter, MAILBOX, OnPanic::Restart, move |_| {
            FunctionInvoker::new(outbound, timeout, clock, meter)
        })
    });
    FunctionsHandle {
        invokers: invokers.collect(),
        meter,
        permits: Permits::new(config),
        circuits: Circuits::default(),
        clock,
    }
}

impl FunctionsHandle {
    /// Calls the endpoint once. A failure of the function is an outcome, never an error.
    pub async fn invoke(&self, invoke: Invoke) -> InvocationReport {
        let invocation = MeteredInvocation::of(&invoke);
        let Some(turn) = self.turn(&invoke) else {
            return self.at_once(invocation, Outcome::circuit_open());
        };
        let Some(permit) = self.permits.take(&invoke) else {
            return self.at_once(invocation, Outcome::busy());
        };
        let invoker = invoke.tenant.as_u128() % self.invokers.len().max(1) as u128;
        let Some(invoker) = self.invokers.get(usize::try_from(invoker).unwrap_or(0)) else {
            return self.at_once(invocation, Outcome::busy());
        };
        let permitted = Permitted {
            invoke,
            permit,
            turn,
        };
        let sent = invoker.send(permitted).await;
        sent.unwrap_or_else(|_| self.at_once(invocation, Outcome::busy()))
    }

    fn at_once(&self, invocation: MeteredInvocation, outcome: Outcome) -> InvocationReport {
        let now = self.clock.now();
        self.meter
            .observe(invocation, &outcome, Duration::ZERO, now);
        InvocationReport::at_once(outcome)
    }

    fn turn(&self, invoke: &Invoke) -> Option<CallRight> {
        let (tenant, endpoint) = (invoke.tenant, &invoke.function.endpoint);
        if invoke.is_test {
            return Some(self.circuits.turn_of_test(tenant, endpoint));
        }
        self.circuits.turn(tenant, endpoint, self.clock.now())
    }

    /// The state of an endpoint's circuit.
    pub fn circuit(&self, tenant: TenantId, endpoint: &OutboundUrl) -> CircuitState {
        self.circuits.state(tenant, endpoint, self.clock.now())
    }

    /// Invocations in progress, without tests.
    pub fn in_flight(&self) -> usize {
        self.permits.in_flight()
    }

    /// Functions that were called in conversations recently, in no order.
    pub fn functions(&self) -> Vec<FunctionReading> {
        self.meter
            .functions(|tenant, endpoint| self.circuit(tenant, endpoint))
    }

    /// Durations of all invocations since the start, in microseconds, by outcome.
    pub fn times(&self) -> Vec<(&'static str, Distribution)> {
        self.meter.reading()
    }
}
