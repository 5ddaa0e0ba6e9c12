//! `/health/live`: the process answers. `/health/ready`: calls can be taken, or it says in words why not: the store takes no
//! writes or may lose them, one of the actors of which there is one does not answer, the node's lease is lost, the schema has become
//! too new for it, or a stop is under way.

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
    node::Node,
};

/// How long a part may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long it is believed that a part answers, or does not, because it did or did not.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long the checks are watched after somebody wanted to know them as of late: longer than between two scrapes.
const WATCHED_FOR: Duration = Duration::from_secs(150);

/// What readiness asks.
#[derive(Clone, Debug)]
pub struct HealthParts {
    node: Node,
    stopping: watch::Receiver<bool>,
    /// True if the operator allows a database that may lose acknowledged commits.
    allow_unsafe: bool,
    /// Which parts answered the last time, and when that was.
    last: Arc<Mutex<Option<(Instant, Answering)>>>,
    watch: Arc<Watch>,
}

/// What was found while somebody watches.
#[derive(Debug, Default)]
struct Watch {
    /// When somebody asked last. None: nobody watches.
    asked: std::sync::Mutex<Option<Instant>>,
    found: std::sync::Mutex<Vec<(&'static str, bool)>>,
}

/// Which parts answer.
#[derive(Clone, Copy, Debug)]
struct Answering {
    store: bool,
    registry: bool,
    ledger: bool,
    webhooks: bool,
}

impl HealthParts {
    pub fn new(node: Node, stopping: watch::Receiver<bool>, allow_unsafe: bool) -> Self {
        Self {
            node,
            stopping,
            allow_unsafe,
            last: Arc::default(),
            watch: Arc::default(),
        }
    }

    /// The checks by name as they were a moment ago. Waits for nothing but the first look after a while in which nobody asked:
    /// from then on they are looked at every second.
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

    /// Which parts answer: they are asked once a second at most, however often readiness is.
    async fn answering(&self) -> Answering {
        let mut last = self.last.lock().await;
        if let Some((when, answering)) = *last
            && when.elapsed() < ASK_EVERY
        {
            return answering;
        }
        let node = &self.node;
        let (store, registry, ledger, webhooks) = tokio::join!(
            in_time(async { node.store.ping().await.is_ok() }),
            in_time(async { node.registry.send(Ping).await.is_ok() }),
            in_time(node.ledger.is_alive(ANSWER_WITHIN)),
            in_time(node.webhooks.is_alive()),
        );
        let answering = Answering {
            store,
            registry,
            ledger,
            webhooks,
        };
        *last = Some((Instant::now(), answering));
        answering
    }
}

/// Something that has to be well, by its name in the answer, and what to say where it is not.
type Check = (&'static str, bool, &'static str);

/// Who counts refusals sees the first one.
pub fn begin(meter: &HttpMeter) {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    meter.begin(&Method::GET, "/health/ready", status);
}

/// Mounts both questions.
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

/// What readiness finds wrong now: the name of each, and the words.
pub async fn problems(parts: &HealthParts) -> Vec<(&'static str, &'static str)> {
    let checks = checks(parts).await.into_iter();
    checks
        .filter(|(_, is_well, _)| !is_well)
        .map(|(name, _, words)| (name, words))
        .collect()
}

async fn ready(parts: web::Data<HealthParts>) -> HttpResponse {
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
    let unsafe_settings = parts.node.member.terms().unsafe_settings();
    if !unsafe_settings.is_empty() {
        let words =
            format!("A crash of the database loses what was acknowledged: {unsafe_settings}.");
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

async fn checks(parts: &HealthParts) -> [Check; 8] {
    // A store that refused a write is asked anew at once, which it sees to itself.
    let (answering, commits) =
        tokio::join!(parts.answering(), in_time(parts.node.store.can_commit()),);
    let Answering {
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
                "The database takes no writes: look whether its disk is full, or it only reads."
            } else {
                "The database does not answer: look whether it is there."
            },
        ),
        (
            "callRegistry",
            registry,
            "The actor that looks after calls (call_registry) does not answer.",
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
            parts.node.member.acts(),
            "The node's lease is lost: the database did not renew it in time, and others may have taken its calls. It comes back by \
             itself when the database answers.",
        ),
        (
            "durability",
            parts.allow_unsafe || parts.node.member.terms().unsafe_settings().is_empty(),
            "A crash of PostgreSQL loses what was acknowledged: set fsync, full_page_writes and synchronous_commit on; `dikala check` \
             names those that are not.",
        ),
        (
            "schema",
            !parts.node.member.terms().is_outdated(),
            "The schema is of a later version, and this node cannot serve from it: it stops; install the later version.",
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
