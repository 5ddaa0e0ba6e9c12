//! An invocation as part of a trace.

use dikala_entities::{CallId, FunctionId, TenantId, TraceParent};

use super::InvocationReport;
use crate::traces::{self, Span, SpanKind};

/// An invocation's span, if it is recorded.
#[derive(Debug)]
pub struct InvocationSpan {
    span: Option<Span>,
    /// The header for its request.
    pub traceparent: Option<String>,
}

impl InvocationSpan {
    /// Begins a span below the current one, or else as a part of `trace`.
    pub fn begin(trace: Option<&TraceParent>) -> Self {
        let span = traces::current().map(|below| below.span(SpanKind::Client, "function"));
        let traceparent = match &span {
            Some(span) => Some(span.traceparent().as_str().to_owned()),
            None => trace.map(|trace| trace.child(rand::random())),
        };
        Self { span, traceparent }
    }

    /// Ends the span with the outcome. A trial belongs to no call.
    pub fn end(
        self,
        tenant: TenantId,
        call: Option<CallId>,
        function: Option<FunctionId>,
        invoked: &InvocationReport,
    ) {
        let Some(mut span) = self.span else { return };
        span.set("dikala.tenant.id", tenant);
        if let Some(call) = call {
            span.set("dikala.call.id", call);
        }
        if let Some(function) = function {
            span.set("dikala.function.id", function);
        }
        if let Some(fault) = invoked.outcome.fault() {
            span.failed(fault.as_str());
        }
        span.end();
    }
}
