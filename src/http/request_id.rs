//! The request that a task works for: its id and its trace.

use dikala_actors::traces::{self, Span, for_request, within};
use dikala_entities::TraceParent;
use tracing::Instrument;

tokio::task_local! {
    static CURRENT: Current;
}

/// What all that is done for a request knows of its trace.
#[derive(Clone, Default)]
struct Current {
    trace: Option<TraceParent>,
    /// Whether the trace is the client's.
    is_named: bool,
}

/// The id of the request that this task works for; empty outside of one.
pub fn current_request_id() -> String {
    traces::request_id().map_or_else(String::new, |id| id.to_string())
}

/// The trace that the request is part of: as its client said, or one of its own where spans are recorded.
pub fn current_trace() -> Option<TraceParent> {
    CURRENT
        .try_with(|current| current.trace.clone())
        .unwrap_or_default()
}

/// The same as far as the client named one.
pub fn named_trace() -> Option<TraceParent> {
    let named = |current: &Current| current.trace.clone().filter(|_| current.is_named);
    CURRENT.try_with(named).unwrap_or_default()
}

/// Runs a future that outlives its request's connection under the request's id and span.
pub(super) fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let current = CURRENT.try_with(Clone::clone).unwrap_or_default();
    let work = CURRENT.scope(current, future.in_current_span());
    for_request(traces::request_id(), work)
}

/// Runs the work for the request of that id, which is part of that trace; with its span, where that is recorded.
pub(super) fn with_id<F: Future>(
    id: String,
    named: Option<TraceParent>,
    span: Option<&Span>,
    work: F,
) -> impl Future<Output = F::Output> {
    let current = Current {
        is_named: named.is_some(),
        trace: span.map(Span::traceparent).or(named),
    };
    let work = CURRENT.scope(current, within(span.map(Span::context), work));
    for_request(Some(id.into()), work)
}
