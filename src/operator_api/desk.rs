//! What the operators' handlers work with, and a write on behalf of an operator.

use std::sync::Arc;

use actix_web::web::Data;
use dikala_actors::{ledger::Report, runtime::lag::EventLoops};
use dikala_entities::{Millis, store::Transaction};
use tokio::sync::Mutex;

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
        self.txn.commit().await?;
        if let Some(claim) = claim {
            claim.committed(&answer);
        }
        Ok(answer)
    }
}
