//! The request that a task works for: its id and its trace.

use dikala_actors::traces::{self, Span, for_request, within};
use dikala_entities::TraceParent;
use tracing::Instrument;

tokio::task_local! {
    static CURRENT: CurrentTrace;
}

/// The trace of the current request.
#[derive(Clone, Default)]
struct CurrentTrace {
    trace: Option<TraceParent>,
    /// True if the client named the trace.
    is_named: bool,
}

/// The id of the current request; empty outside of one.
pub fn current_request_id() -> String {
    traces::request_id().map_or_else(String::new, |id| id.to_string())
}

/// The trace of the current request: the client's, or a new one if spans are recorded.
pub fn current_trace() -> Option<TraceParent> {
    CURRENT
        .try_with(|current| current.trace.clone())
        .unwrap_or_default()
}

/// The trace that the client named, if it did.
pub fn named_trace() -> Option<TraceParent> {
    let named = |current: &CurrentTrace| current.trace.clone().filter(|_| current.is_named);
    CURRENT.try_with(named).unwrap_or_default()
}

/// Runs a future that outlives its connection, with the request's id and span.
pub fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let current = CURRENT.try_with(Clone::clone).unwrap_or_default();
    let work = CURRENT.scope(current, future.in_current_span());
    for_request(traces::request_id(), work)
}

/// Runs the work of a request with its id and trace, and with its span if spans are recorded.
pub(super) fn with_id<F: Future>(
    id: String,
    named: Option<TraceParent>,
    span: Option<&Span>,
    work: F,
) -> impl Future<Output = F::Output> {
    let current = CurrentTrace {
        is_named: named.is_some(),
        trace: span.map(Span::traceparent).or(named),
    };
    let work = CURRENT.scope(current, within(span.map(Span::context), work));
    for_request(Some(id.into()), work)
}
