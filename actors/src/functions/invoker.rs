//! The actor that calls endpoints: keeps compiled schemas, and lets every invocation run on its own.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Actor, Handler, ResponseFuture, Supervised};
use jsonschema::Validator;

use super::{FaultCode, Invoke, Invoked, Outcome, Permitted, circuits::Heard, request, schema};
use crate::{
    clock::SharedClock,
    meter::MeteredContext,
    metered,
    outbound::{Outbound, exchange},
};

/// The largest answer, in bytes.
const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Compiled schemas kept. One with many patterns has megabytes; most are compiled again well under a millisecond.
const SCHEMAS_MAX: usize = 64;

/// Calls functions on its own thread.
#[derive(Debug)]
pub struct FunctionInvoker {
    kept: Rc<Kept>,
}

struct Kept {
    outbound: Outbound,
    timeout: Duration,
    clock: SharedClock,
    schemas: RefCell<HashMap<Arc<str>, Option<Arc<Validator>>>>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

metered!(FunctionInvoker, "function_invoker");

impl FunctionInvoker {
    pub(super) fn new(outbound: Outbound, timeout: Duration, clock: SharedClock) -> Self {
        let kept = Kept {
            outbound,
            timeout,
            clock,
            schemas: RefCell::default(),
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
    type Result = ResponseFuture<Invoked>;

    fn handle(&mut self, permitted: Permitted, _: &mut Self::Context) -> Self::Result {
        let kept = Rc::clone(&self.kept);
        // A task of its own: who asked may stop waiting, and the endpoint is called all the same.
        let task = actix_rt::spawn(async move {
            let Permitted {
                invoke,
                permit,
                turn,
            } = permitted;
            let (invoked, heard) = kept.invoke(invoke).await;
            turn.heard(heard, kept.clock.now());
            drop(permit);
            invoked
        });
        Box::pin(async move {
            task.await
                .unwrap_or_else(|_| Invoked::at_once(Outcome::busy()))
        })
    }
}

fn unusable() -> Outcome {
    Outcome::error(
        FaultCode::InvalidArguments,
        "The function's parameter schema cannot be used.",
    )
}

fn compiled(text: &str) -> Option<Arc<Validator>> {
    let schema = serde_json::from_str(text).ok()?;
    schema::compile(&schema).ok().map(Arc::new)
}

impl Kept {
    async fn invoke(&self, invoke: Invoke) -> (Invoked, Heard) {
        let began = Instant::now();
        let checked = tokio::time::timeout(self.timeout, self.check_arguments(&invoke)).await;
        if let Err(outcome) = checked.unwrap_or_else(|_| Err(unusable())) {
            return (Invoked::at_once(outcome), Heard::Nothing);
        }
        let Ok((head, body)) = request::build(&invoke) else {
            let unusable = Outcome::error(
                FaultCode::Connection,
                "The address of the function's endpoint cannot be used.",
            );
            return (Invoked::at_once(unusable), Heard::Nothing);
        };
        let client = self.outbound.client_for_one(Some(invoke.tenant));
        let rest = self.timeout.saturating_sub(began.elapsed());
        let answer = exchange(&client, head, body, RESULT_BYTES_MAX, rest).await;
        let (outcome, heard) = match answer {
            Ok(answer) => (request::outcome_of(&answer), Heard::Answered),
            Err(failure) => (Outcome::no_answer(failure.kind), Heard::of(failure.kind)),
        };
        let invoked = Invoked {
            outcome,
            duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        };
        (invoked, heard)
    }

    /// On a thread of its own: a schema and arguments that take long hold up nobody else's functions.
    async fn check_arguments(&self, invoke: &Invoke) -> Result<(), Outcome> {
        let text = Arc::clone(&invoke.function.parameters);
        let known = self.schemas.borrow().get(&text).cloned();
        let arguments = serde_json::Value::Object(invoke.parameters.clone());
        let work = tokio::task::spawn_blocking(move || {
            let validator = known.unwrap_or_else(|| compiled(&text));
            let checked = validator
                .as_ref()
                .map(|validator| schema::check(validator, &arguments));
            (text, validator.clone(), checked)
        });
        let (text, validator, checked) = work.await.map_err(|_| Outcome::busy())?;
        self.keep(text, validator);
        checked
            .ok_or_else(unusable)?
            .map_err(|sentence| Outcome::error(FaultCode::InvalidArguments, sentence))
    }

    fn keep(&self, text: Arc<str>, validator: Option<Arc<Validator>>) {
        let mut schemas = self.schemas.borrow_mut();
        if schemas.len() >= SCHEMAS_MAX && !schemas.contains_key(&text) {
            schemas.clear();
        }
        schemas.insert(text, validator);
    }
}
