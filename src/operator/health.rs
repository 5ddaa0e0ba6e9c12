//! `/health/live`: the process answers. `/health/ready`: the store and the singletons do, and no stop is under way.

use std::time::Duration;

use actix::{
    Actor, Addr, Handler, Message,
    dev::{MessageResponse, ToEnvelope},
};
use actix_web::{HttpResponse, middleware::from_fn, web};
use dikala_actors::runtime::context::Ping;
use dikala_entities::Store;
use serde_json::json;
use tokio::sync::watch;

use crate::{http::middleware::only_reads, node::Node};

/// How long a part may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What readiness asks.
#[derive(Clone, Debug)]
pub struct HealthParts {
    pub node: Node,
    pub stopping: watch::Receiver<bool>,
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

async fn ready(parts: web::Data<HealthParts>) -> HttpResponse {
    let store = async {
        matches!(
            tokio::time::timeout(ANSWER_WITHIN, takes_writes(&parts.node.store)).await,
            Ok(true)
        )
    };
    let (store, registry, ledger, webhooks) = tokio::join!(
        store,
        answers(&parts.node.registry, Ping),
        parts.node.ledger.is_alive(ANSWER_WITHIN),
        async {
            tokio::time::timeout(ANSWER_WITHIN, parts.node.webhooks.is_alive())
                .await
                .unwrap_or(false)
        },
    );
    let running = !*parts.stopping.borrow();
    let all = store && registry && ledger && webhooks && running;
    let body = json!({
        "status": if all { "ready" } else { "not ready" },
        "checks": {
            "store": store,
            "callRegistry": registry,
            "creditLedger": ledger,
            "webhookDispatcher": webhooks,
            "running": running,
        },
    });
    if all {
        HttpResponse::Ok().json(body)
    } else {
        HttpResponse::ServiceUnavailable().json(body)
    }
}

/// Reads, and commits: a disk that is full still reads.
async fn takes_writes(store: &Store) -> bool {
    let (read, write) = tokio::join!(store.ping(), store.can_commit());
    read.is_ok() && write
}

async fn answers<A, M>(addr: &Addr<A>, question: M) -> bool
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result = ()> + Send + 'static,
    M::Result: MessageResponse<A, M>,
{
    addr.send(question).timeout(ANSWER_WITHIN).await.is_ok()
}
