//! The context of the operators' handlers, and their write transactions.

use std::{fmt::Display, sync::Arc, time::Duration};

use actix_web::web::Data;
use dikala_actors::{ledger::Report, runtime::lag::EventLoops};
use dikala_entities::{Millis, store::Transaction};
use dikala_telephony::bridge::StatisticsReader;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    config::ConfigurationKey,
    http::{
        answer::ApiAnswer, context::HttpContext, error::ApiError, extract::OperatorRequest,
        meter::HttpMeter,
    },
    node::Runtime,
    overview::OverviewSampler,
};

/// The context of the operators' handlers.
#[derive(Clone, Debug)]
pub struct OperatorContext {
    pub node: Runtime,
    pub loops: EventLoops,
    pub overview: OverviewSampler,
    /// Prefix of links to this service, without a trailing slash.
    pub base: Arc<str>,
    /// The HTTP context of the tenants' API.
    pub tenants: Data<HttpContext>,
    /// Counters of the requests to both listeners.
    pub requests: HttpMeter,
    /// Counters of the telephony bridge inside this process; `None` if it does not run.
    pub telephony: Option<StatisticsReader>,
    pub configuration: Arc<[ConfigurationKey]>,
    pub started_at: Millis,
    /// The last verification of the whole ledger. Locked while one runs.
    pub verified: Arc<Mutex<Option<LastVerification>>>,
}

/// Result of a verification of the whole ledger.
#[derive(Clone, Debug)]
pub struct LastVerification {
    pub at: Millis,
    pub report: Report,
}

/// Timeout of database reads that an answer can do without.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Explains the missing part of such an answer.
pub const UNANSWERED: &str =
    "The database does not answer in time: what only it knows is left out.";

/// The result of a database read, or `None` after an error or the timeout.
pub(super) async fn in_time<T, E: Display>(told: impl Future<Output = Result<T, E>>) -> Option<T> {
    match timeout(ANSWERS_WITHIN, told).await {
        Ok(told) => told
            .inspect_err(|error| tracing::warn!(%error, "the database did not tell an operator what was asked"))
            .ok(),
        Err(_) => None,
    }
}

impl OperatorContext {
    pub fn now(&self) -> Millis {
        self.node.clock.now()
    }
}

/// A write transaction that also stores the answer to the request's `Idempotency-Key`. The caller writes the audit
/// entries of its changes. Dropping it rolls back.
#[derive(Debug)]
pub struct OperatorUnit {
    txn: Transaction,
    operator: OperatorRequest,
}

impl OperatorUnit {
    pub async fn begin(
        desk: &OperatorContext,
        operator: &OperatorRequest,
    ) -> Result<Self, ApiError> {
        Ok(Self {
            txn: desk.node.store.begin().await?,
            operator: operator.clone(),
        })
    }

    pub fn txn(&self) -> &Transaction {
        &self.txn
    }

    /// Commits the changes together with the answer.
    pub async fn commit(self, answer: ApiAnswer) -> Result<ApiAnswer, ApiError> {
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
