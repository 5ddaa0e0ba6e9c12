//! `/health/live`: the process answers. `/health/ready`: the node can take calls, or the answer says why not:
//! - the store accepts no writes, or may lose them,
//! - an actor does not answer,
//! - the node's lease is lost,
//! - the schema is too new for this program,
//! - the node is stopping.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{
    HttpResponse,
    http::{Method, StatusCode},
    middleware::from_fn,
    web,
};
use dikala_actors::runtime::context::Ping;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, watch};

use crate::{
    http::{meter::HttpMeter, middleware::only_reads},
    node::Runtime,
};

/// Longest time for a part to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Lifetime of a cached result.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Time for which the checks are repeated after they were last read: longer than the interval of scrapes.
const WATCHED_FOR: Duration = Duration::from_secs(150);

/// The state of the readiness check.
#[derive(Clone, Debug)]
pub struct HealthChecks {
    runtime: Runtime,
    stopping: watch::Receiver<bool>,
    /// True if the operator allows a database that may lose acknowledged commits.
    allow_unsafe: bool,
    /// The last result, and its time.
    last: Arc<Mutex<Option<(Instant, AliveParts)>>>,
    watch: Arc<Watch>,
}

/// The results while the checks are repeated.
#[derive(Debug, Default)]
struct Watch {
    /// The time of the last read. None: the checks are not repeated.
    asked: std::sync::Mutex<Option<Instant>>,
    found: std::sync::Mutex<Vec<(&'static str, bool)>>,
}

/// The parts that answered.
#[derive(Clone, Copy, Debug)]
struct AliveParts {
    store: bool,
    registry: bool,
    ledger: bool,
    webhooks: bool,
}

impl HealthChecks {
    pub fn new(runtime: Runtime, stopping: watch::Receiver<bool>, allow_unsafe: bool) -> Self {
        Self {
            runtime,
            stopping,
            allow_unsafe,
            last: Arc::default(),
            watch: Arc::default(),
        }
    }

    /// The latest results by name. Only the first read after a pause waits for the checks; from then on they are
    /// repeated every second.
    pub async fn lately(&self) -> Vec<(&'static str, bool)> {
        let before = lock(&self.watch.asked).replace(Instant::now());
        if before.is_none() {
            self.look().await;
            actix_web::rt::spawn(self.clone().watch());
        }
        lock(&self.watch.found).clone()
    }

    async fn watch(self) {
        let is_asked = |asked: &Instant| asked.elapsed() < WATCHED_FOR;
        while lock(&self.watch.asked).as_ref().is_some_and(is_asked) {
            tokio::time::sleep(ASK_EVERY).await;
            self.look().await;
        }
        *lock(&self.watch.asked) = None;
    }

    async fn look(&self) {
        let checks = checks(self).await;
        let found = checks.iter().map(|(name, is_well, _)| (*name, *is_well));
        *lock(&self.watch.found) = found.collect();
    }

    /// Checks which parts answer, at most once a second.
    async fn answering(&self) -> AliveParts {
        let mut last = self.last.lock().await;
        if let Some((when, answering)) = *last
            && when.elapsed() < ASK_EVERY
        {
            return answering;
        }
        let runtime = &self.runtime;
        let (store, registry, ledger, webhooks) = tokio::join!(
            in_time(async { runtime.store.ping().await.is_ok() }),
            in_time(async { runtime.registry.send(Ping).await.is_ok() }),
            in_time(runtime.ledger.is_alive(ANSWER_WITHIN)),
            in_time(runtime.webhooks.is_alive()),
        );
        let answering = AliveParts {
            store,
            registry,
            ledger,
            webhooks,
        };
        *last = Some((Instant::now(), answering));
        answering
    }
}

/// A check: its name in the answer, its result, and the message if it failed.
type Check = (&'static str, bool, &'static str);

/// Shows the counter of refusals before the first one, so that Prometheus sees it increase.
pub fn begin(meter: &HttpMeter) {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    meter.begin(&Method::GET, "/health/ready", status);
}

/// Mounts both checks.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::scope("/health")
            .service(web::resource("/live").wrap(from_fn(only_reads)).to(live))
            .service(web::resource("/ready").wrap(from_fn(only_reads)).to(ready)),
    );
}

async fn live() -> HttpResponse {
    HttpResponse::Ok().json(json!({"status": "live"}))
}

/// The failed checks: their names and messages.
pub async fn problems(parts: &HealthChecks) -> Vec<(&'static str, &'static str)> {
    let checks = checks(parts).await.into_iter();
    checks
        .filter(|(_, is_well, _)| !is_well)
        .map(|(name, _, words)| (name, words))
        .collect()
}

async fn ready(parts: web::Data<HealthChecks>) -> HttpResponse {
    let checks = checks(&parts).await;
    let problems: Vec<&str> = checks
        .iter()
        .filter(|(_, is_well, _)| !is_well)
        .map(|(.., words)| *words)
        .collect();
    let shown: Map<String, Value> = checks
        .iter()
        .map(|(name, is_well, _)| ((*name).to_owned(), json!(is_well)))
        .collect();
    let status = if problems.is_empty() {
        "ready"
    } else {
        "not ready"
    };
    let mut body = json!({"status": status, "checks": shown, "problems": problems});
    let unsafe_settings = parts.runtime.member.terms().unsafe_settings();
    if !unsafe_settings.is_empty() {
        let words =
            format!("A crash of the database loses acknowledged commits: {unsafe_settings}.");
        body["warnings"] = json!([words]);
    }
    if problems.is_empty() {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

async fn checks(parts: &HealthChecks) -> [Check; 8] {
    // After a refused write the store checks at once; other results are cached.
    let (answering, commits) =
        tokio::join!(parts.answering(), in_time(parts.runtime.store.can_commit()),);
    let AliveParts {
        store: reads,
        registry,
        ledger,
        webhooks,
    } = answering;
    [
        (
            "store",
            reads && commits,
            if reads {
                "The database takes no writes, or takes too long: check whether its disk is full or slow, and whether it is read-only."
            } else {
                "The database does not answer: check that it runs, can be reached, and takes another connection of this user; the log has \
                 its words."
            },
        ),
        (
            "callRegistry",
            registry,
            "The actor that supervises calls (call_registry) does not answer.",
        ),
        (
            "creditLedger",
            ledger,
            "The actor that books minutes (credit_ledger) does not answer.",
        ),
        (
            "webhookDispatcher",
            webhooks,
            "The actor that delivers webhooks (webhook_dispatcher) does not answer.",
        ),
        (
            "lease",
            parts.runtime.member.acts(),
            "The node's lease is lost: the database did not renew it in time, and other nodes may have taken over its calls. The node \
             recovers by itself when the database answers.",
        ),
        (
            "durability",
            parts.allow_unsafe || parts.runtime.member.terms().unsafe_settings().is_empty(),
            "A crash of PostgreSQL loses acknowledged commits: set fsync, full_page_writes and synchronous_commit on; `dikala check` \
             names those that are off.",
        ),
        (
            "schema",
            !parts.runtime.member.terms().is_outdated(),
            "The schema is too new for this version: the node hands over its calls and stops; install the newer version.",
        ),
        (
            "running",
            !*parts.stopping.borrow(),
            "The service is stopping: it takes no new calls.",
        ),
    ]
}

async fn in_time(answer: impl Future<Output = bool>) -> bool {
    tokio::time::timeout(ANSWER_WITHIN, answer)
        .await
        .unwrap_or(false)
}

#[cfg(test)]
mod tests;
