//! What the operators' handlers work with, and a write on behalf of an operator.

use std::{fmt::Display, sync::Arc, time::Duration};

use actix_web::web::Data;
use dikala_actors::{ledger::Report, runtime::lag::EventLoops};
use dikala_entities::{Millis, store::Transaction};
use dikala_telephony::bridge::Counted;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    config::Shown,
    http::{
        answer::Answer, context::HttpContext, error::ApiError, extract::Operator, meter::HttpMeter,
    },
    node::Node,
    overview::Overview,
};

/// Everything an operator's handler can reach.
#[derive(Clone, Debug)]
pub struct Desk {
    pub node: Node,
    pub loops: EventLoops,
    /// What goes on, for who looks.
    pub overview: Overview,
    /// What links to this service begin with, without a slash at the end.
    pub base: Arc<str>,
    /// What the tenants' requests are taken with.
    pub tenants: Data<HttpContext>,
    /// The requests to both listeners.
    pub requests: HttpMeter,
    /// What the bridge inside counts; none where none runs.
    pub telephony: Option<Counted>,
    pub configuration: Arc<[Shown]>,
    pub started_at: Millis,
    /// The last time that the whole ledger was verified here; held while it is.
    pub verified: Arc<Mutex<Option<Verified>>>,
}

/// What a verification of the whole ledger found.
#[derive(Clone, Debug)]
pub struct Verified {
    pub at: Millis,
    pub report: Report,
}

/// How long the database may take to tell something beside which there is more to tell.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// What stands beside what was left out.
pub const UNANSWERED: &str =
    "The database does not answer in time: what only it knows is left out.";

/// What the database tells in time; none where it does not.
pub(super) async fn in_time<T, E: Display>(told: impl Future<Output = Result<T, E>>) -> Option<T> {
    match timeout(ANSWERS_WITHIN, told).await {
        Ok(told) => told
            .inspect_err(|error| tracing::warn!(%error, "the database did not tell an operator what was asked"))
            .ok(),
        Err(_) => None,
    }
}

impl Desk {
    /// The time.
    pub fn now(&self) -> Millis {
        self.node.clock.now()
    }
}

/// A write transaction, with the answer to the `Idempotency-Key` under which its request runs. Whoever changes something in it
/// writes what the audit says of that. Dropped, it is rolled back.
#[derive(Debug)]
pub struct Unit {
    txn: Transaction,
    operator: Operator,
}

impl Unit {
    /// Begins.
    pub async fn begin(desk: &Desk, operator: &Operator) -> Result<Self, ApiError> {
        Ok(Self {
            txn: desk.node.store.begin().await?,
            operator: operator.clone(),
        })
    }

    /// The transaction.
    pub fn txn(&self) -> &Transaction {
        &self.txn
    }

    /// Commits the effect together with its answer.
    pub async fn commit(self, answer: Answer) -> Result<Answer, ApiError> {
        let claim = self.operator.claim;
        if let Some(claim) = &claim
            && !claim.settle(&self.txn, &answer).await?
        {
            return Err(ApiError::IdempotencyInProgress);
        }
        self.txn.commit().await.map_err(ApiError::of_commit)?;
        if let Some(claim) = claim {
            claim.committed(&answer);
        }
        Ok(answer)
    }
}
