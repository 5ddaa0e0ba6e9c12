//! The actor that calls endpoints: keeps connections and compiled schemas, and lets every invocation run on its own.

use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    time::{Duration, Instant},
};

use actix::{Actor, AsyncContext, Handler, ResponseFuture, Supervised};

use super::{FaultCode, Invoke, Invoked, Outcome, Permitted, request, schemas::Schemas};
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

/// Calls functions on its own thread.
#[derive(Debug)]
pub struct FunctionInvoker {
    kept: Rc<Kept>,
}

struct Kept {
    outbound: Outbound,
    timeout: Duration,
    clients: RefCell<HashMap<String, KeptClient>>,
    schemas: Schemas,
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
            schemas: Schemas::default(),
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

impl Kept {
    async fn invoke(&self, invoke: Invoke) -> Invoked {
        let began = Instant::now();
        let checked = self
            .schemas
            .check(&invoke.function.parameters, &invoke.parameters);
        if let Err(outcome) = checked.await {
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
