//! The id of the request that a task works for.

use tracing::Instrument;

tokio::task_local! {
    static CURRENT: String;
}

/// The id of the request that this task works for; empty outside of one.
pub fn current_request_id() -> String {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Runs a future that outlives its request's connection under the request's id and span.
pub(super) fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(current_request_id(), future.in_current_span())
}

/// Runs the work for the request of that id.
pub(super) fn with_id<F: Future>(id: String, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(id, work)
}
