//! The context of the operators' handlers.

use std::{fmt::Display, sync::Arc, time::Duration};

use dikala_actors::{ledger::Report, runtime::lag::EventLoops};
use dikala_entities::Millis;
use dikala_telephony::bridge::StatisticsReader;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    config::ConfigurationKey, http::meter::HttpMeter, node::Runtime,
    operations::OperationResources, overview::OverviewSampler,
};

/// The context of the operators' handlers.
#[derive(Clone, Debug)]
pub struct OperatorContext {
    pub node: Runtime,
    pub loops: EventLoops,
    pub overview: OverviewSampler,
    pub operations: OperationResources,
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
