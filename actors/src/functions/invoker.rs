//! The actor that calls endpoints: keeps connections and compiled schemas, and lets every invocation run on its own.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Actor, AsyncContext, Handler, ResponseFuture, Supervised};
use jsonschema::Validator;

use super::{FaultCode, Invoke, Invoked, Outcome, Permitted, request, schema};
use crate::{
    meter::MeteredContext,
    metered,
    outbound::{Client, Outbound, exchange},
};

/// The largest answer, in bytes.
const RESULT_BYTES_MAX: usize = 64 * 1024;
/// Origins with connections kept; beyond, the one unused for longest is dropped.
const CLIENTS_MAX: usize = 512;
/// A client unused for this long is dropped, and its sockets with it.
const CLIENT_IDLE: Duration = Duration::from_secs(60);
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);
/// Connections to one origin at the same time; a tenant's permits are fewer.
const CONNECTIONS_PER_ORIGIN: usize = 128;
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
    clients: RefCell<HashMap<String, KeptClient>>,
    schemas: RefCell<HashMap<Arc<str>, Option<Arc<Validator>>>>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

struct KeptClient {
    client: Client,
    used: Instant,
}

metered!(FunctionInvoker, "function_invoker");

impl FunctionInvoker {
    pub(super) fn new(outbound: Outbound, timeout: Duration) -> Self {
        let kept = Kept {
            outbound,
            timeout,
            clients: RefCell::default(),
            schemas: RefCell::default(),
        };
        Self {
            kept: Rc::new(kept),
        }
    }
}

impl Actor for FunctionInvoker {
    type Context = MeteredContext<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(SWEEP_INTERVAL, |invoker, _| invoker.kept.sweep());
    }
}

impl Supervised for FunctionInvoker {}

impl Handler<Permitted> for FunctionInvoker {
    type Result = ResponseFuture<Invoked>;

    fn handle(&mut self, permitted: Permitted, _: &mut Self::Context) -> Self::Result {
        let kept = Rc::clone(&self.kept);
        // A task of its own: who asked may stop waiting, and the endpoint is called all the same.
        let task = actix_rt::spawn(async move {
            let Permitted { invoke, permit } = permitted;
            let invoked = kept.invoke(invoke).await;
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
    async fn invoke(&self, invoke: Invoke) -> Invoked {
        let began = Instant::now();
        let checked = tokio::time::timeout(self.timeout, self.check_arguments(&invoke)).await;
        if let Err(outcome) = checked.unwrap_or_else(|_| Err(unusable())) {
            return Invoked::at_once(outcome);
        }
        let Ok((head, body)) = request::build(&invoke) else {
            return Invoked::at_once(Outcome::error(
                FaultCode::Connection,
                "The address of the function's endpoint cannot be used.",
            ));
        };
        let client = self.client(&request::origin(&invoke.function.endpoint));
        let rest = self.timeout.saturating_sub(began.elapsed());
        let answer = exchange(&client, head, body, RESULT_BYTES_MAX, rest).await;
        let outcome = match answer {
            Ok(answer) => request::outcome_of(&answer),
            Err(failure) => Outcome::no_answer(failure.kind),
        };
        Invoked {
            outcome,
            duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        }
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

    fn client(&self, origin: &str) -> Client {
        let mut clients = self.clients.borrow_mut();
        if let Some(kept) = clients.get_mut(origin) {
            kept.used = Instant::now();
            return kept.client.clone();
        }
        if clients.len() >= CLIENTS_MAX {
            let oldest = clients.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(origin, _)| origin.clone()) {
                clients.remove(&oldest);
            }
        }
        let client = self.outbound.client(CONNECTIONS_PER_ORIGIN);
        let kept = KeptClient {
            client: client.clone(),
            used: Instant::now(),
        };
        clients.insert(origin.to_owned(), kept);
        client
    }

    fn sweep(&self) {
        self.clients
            .borrow_mut()
            .retain(|_, kept| kept.used.elapsed() < CLIENT_IDLE);
    }
}
