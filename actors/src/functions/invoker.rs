//! The actor that calls endpoints. It keeps compiled schemas; each invocation runs as its own task.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use actix::{Actor, Handler, ResponseFuture, Supervised};

use super::{
    EndpointAnswer, FaultCode, InvocationReport, Invoke, Outcome, Permitted,
    circuits::CallFinding,
    meter::{FunctionMeter, MeteredInvocation},
    request::{self, UnusableAddress},
    schemas::CompiledSchemas,
};
use crate::{
    metered,
    outbound::{Exchange, Failure, Outbound, exchange},
    runtime::{clock::SharedClock, context::MeteredContext},
};

/// Maximum size of an answer, in bytes.
const RESULT_BYTES_MAX: usize = 64 * 1024;

/// Calls functions on a thread of its own.
#[derive(Debug)]
pub struct FunctionInvoker {
    kept: Rc<InvokerState>,
}

struct InvokerState {
    outbound: Outbound,
    timeout: Duration,
    clock: SharedClock,
    meter: FunctionMeter,
    schemas: CompiledSchemas,
}

impl std::fmt::Debug for InvokerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

metered!(FunctionInvoker, "function_invoker");

impl FunctionInvoker {
    pub(super) fn new(
        outbound: Outbound,
        timeout: Duration,
        clock: SharedClock,
        meter: FunctionMeter,
    ) -> Self {
        let kept = InvokerState {
            outbound,
            timeout,
            clock,
            meter,
            schemas: CompiledSchemas::default(),
        };
        Self {
            kept: Rc::new(kept),
        }
    }
}

impl Actor for FunctionInvoker {
    type Context = MeteredContext<Self>;
}

impl Supervised for FunctionInvoker {}

impl Handler<Permitted> for FunctionInvoker {
    type Result = ResponseFuture<InvocationReport>;

    fn handle(&mut self, permitted: Permitted, _: &mut Self::Context) -> Self::Result {
        let kept = Rc::clone(&self.kept);
        // A task of its own: the caller may stop waiting, and the endpoint is called all the same.
        let task = actix_rt::spawn(async move {
            let Permitted {
                invoke,
                permit,
                turn,
            } = permitted;
            let (began, invocation) = (Instant::now(), MeteredInvocation::of(&invoke));
            let (invoked, finding) = kept.invoke(invoke).await;
            let now = kept.clock.now();
            let took = match invoked.duration_ms {
                0 if finding == CallFinding::Nothing => Duration::ZERO,
                _ => began.elapsed(),
            };
            kept.meter.observe(invocation, &invoked.outcome, took, now);
            turn.record(finding, now);
            drop(permit);
            invoked
        });
        Box::pin(async move {
            task.await
                .unwrap_or_else(|_| InvocationReport::at_once(Outcome::busy()))
        })
    }
}

fn unusable(fault: UnusableAddress) -> Outcome {
    match fault {
        UnusableAddress::TooLong => Outcome::error(
            FaultCode::InvalidArguments,
            "With the arguments the address has more than 65,534 bytes. Give shorter ones, or use POST.",
        ),
        UnusableAddress::Malformed => Outcome::error(
            FaultCode::Connection,
            "The address of the function's endpoint cannot be used.",
        ),
    }
}

impl InvokerState {
    async fn invoke(&self, invoke: Invoke) -> (InvocationReport, CallFinding) {
        let began = Instant::now();
        let checked = self.schemas.check(
            invoke.tenant,
            &invoke.function.parameters,
            &invoke.parameters,
        );
        let checked = tokio::time::timeout(self.timeout, checked).await;
        if let Err(outcome) = checked.unwrap_or_else(|_| Err(Outcome::busy())) {
            return (InvocationReport::at_once(outcome), CallFinding::Nothing);
        }
        let (head, body) = match request::build(&invoke) {
            Ok(built) => built,
            Err(fault) => {
                let report = InvocationReport::at_once(unusable(fault));
                return (report, CallFinding::Nothing);
            }
        };
        let outbound = self.outbound.permitted(invoke.permission.clone());
        let client = outbound.client_for_one(Some(invoke.tenant));
        let rest = self.timeout.saturating_sub(began.elapsed());
        let answer = exchange(&client, head, body, RESULT_BYTES_MAX, rest).await;
        let (outcome, finding) = match &answer {
            Ok(answer) => (request::outcome_of(answer), CallFinding::Answered),
            Err(failure) => (
                Outcome::no_answer(failure.kind),
                CallFinding::of(failure.kind),
            ),
        };
        let invoked = InvocationReport {
            outcome,
            duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
            answered: invoke.is_test.then(|| answered(answer)).flatten(),
        };
        (invoked, finding)
    }
}

/// The part of the answer that arrived, even if it broke off.
fn answered(answer: Result<Exchange, Failure>) -> Option<EndpointAnswer> {
    let (status, body) = match answer {
        Ok(Exchange { status, body, .. }) => (status, body),
        Err(Failure { status, body, .. }) => (status?, body),
    };
    Some(EndpointAnswer { status, body })
}
