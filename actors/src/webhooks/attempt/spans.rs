//! The span of an attempt, as part of its event's trace.

use crate::{
    events::outbox::Dispatch,
    traces::{Span, SpanKind, Traces},
    webhooks::retry::AttemptVerdict,
};

use super::AttemptRecord;

/// The span of the next attempt. Its parent is the call, or else the request that caused the event. Without either,
/// all attempts of an event form one trace.
pub(in crate::webhooks) fn attempt(traces: &Traces, dispatch: &Dispatch) -> Option<Span> {
    const NAME: &str = "webhook";
    let trace = dispatch.trace.as_ref();
    let span = match (dispatch.call, trace) {
        (Some(call), Some(_)) => traces.call(call, trace)?.span(SpanKind::Client, NAME),
        (None, Some(_)) => traces.span(SpanKind::Client, NAME, trace)?,
        (_, None) => traces.first(SpanKind::Client, NAME, dispatch.event.as_u128())?,
    };
    Some(span)
}

/// The `traceparent` for the attempt's request.
pub(in crate::webhooks) fn traceparent(span: Option<&Span>, dispatch: &Dispatch) -> Option<String> {
    match span {
        Some(span) => Some(span.traceparent().as_str().to_owned()),
        None => dispatch
            .trace
            .as_ref()
            .map(|trace| trace.child(rand::random())),
    }
}

/// Ends the span with the result.
pub(in crate::webhooks) fn attempted(
    span: Option<Span>,
    dispatch: &Dispatch,
    record: &AttemptRecord,
) {
    let Some(mut span) = span else { return };
    span.set("dikala.tenant.id", record.tenant);
    span.set("dikala.webhook.id", record.webhook);
    span.set("dikala.delivery.id", record.delivery);
    span.set("dikala.event.id", dispatch.event);
    span.set("dikala.event.kind", dispatch.kind.as_str());
    span.count("dikala.delivery.attempt", record.number);
    if let Some(call) = dispatch.call {
        span.set("dikala.call.id", call);
    }
    if let Some(status) = record.status_code {
        span.count("http.response.status_code", status.into());
    }
    let outcome = match record.verdict {
        AttemptVerdict::Delivered => "delivered",
        AttemptVerdict::Retry { .. } => "retried",
        AttemptVerdict::GivenUp | AttemptVerdict::Gone => "failed",
    };
    span.set("dikala.delivery.outcome", outcome);
    if record.verdict != AttemptVerdict::Delivered {
        let kind = record.error_kind.map(|kind| kind.as_str());
        span.failed(kind.unwrap_or("http_status"));
    }
    span.end();
}
