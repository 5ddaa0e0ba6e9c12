//! The request that a task works for. Its id goes with a message to the actor that carries it out, and stands in what that writes to
//! the log: whoever reads of a call there finds what asked for it.

use std::sync::Arc;

tokio::task_local! {
    static REQUEST: Option<Arc<str>>;
}

/// The id of the request that this task works for: over HTTP that of the request, over a socket that of the one that opened it.
pub fn request_id() -> Option<Arc<str>> {
    REQUEST.try_with(Clone::clone).unwrap_or_default()
}

/// Works for the request of that id.
pub fn for_request<F: Future>(id: Option<Arc<str>>, work: F) -> impl Future<Output = F::Output> {
    REQUEST.scope(id, work)
}
