//! The request of the current task. Its id travels with messages to actors and appears in their log lines, so that a
//! line about a call leads to the request that caused it.

use std::sync::Arc;

tokio::task_local! {
    static REQUEST: Option<Arc<str>>;
}

/// The id of the current task's request: over HTTP its own, over a socket that of the request which opened it.
pub fn request_id() -> Option<Arc<str>> {
    REQUEST.try_with(Clone::clone).unwrap_or_default()
}

/// Runs work for the request with this id.
pub fn for_request<F: Future>(id: Option<Arc<str>>, work: F) -> impl Future<Output = F::Output> {
    REQUEST.scope(id, work)
}
