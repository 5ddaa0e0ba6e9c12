//! Trace spans of calls: one from ring to end, and a child for each message of the bridge.

use std::time::Instant;

use dikala_entities::{BridgeId, call};

use super::{
    error::CallError,
    invoke::Invocation,
    messages::{Input, InvokeFunction, Reply},
    parts::CallParts,
};
use crate::traces::{Context, Kind, Span};

pub(super) fn of_call(parts: &CallParts, row: &call::Model) -> Option<Context> {
    parts.traces.call(row.id, row.traceparent.as_ref())
}

/// Ends the span of a call that is over.
pub(super) fn over(parts: &CallParts, row: &call::Model) {
    let (Some(call), Some(trace)) = (of_call(parts, row), &row.traceparent) else {
        return;
    };
    let mut span = call
        .itself(Kind::Internal, "call", trace)
        .with("dikala.call.id", row.id)
        .with("dikala.tenant.id", row.tenant_id)
        .with("dikala.bridge.id", row.bridge_id)
        .with("dikala.node", parts.node.id())
        .with("dikala.caller", format_args!("{:?}", row.caller_number))
        .with("dikala.called", format_args!("{:?}", row.callee_number))
        .with("dikala.call.status", row.status);
    if let Some(agent) = row.agent_id {
        span.set("dikala.agent.id", agent);
    }
    if let Some(reason) = row.hangup_reason {
        span.set("dikala.call.reason", reason);
    }
    if let Some(seconds) = row.talk_time_seconds {
        span.count("dikala.call.talk_seconds", seconds);
    }
    span.end_as(row.started_at, row.ended_at.unwrap_or(row.started_at));
}

/// The span of a bridge message about a call; `since` is when it was read.
pub(super) fn message(call: &Context, name: &'static str, since: Instant) -> Span {
    call.span(Kind::Server, name).since(since)
}

/// The span of an input; `None` if it does not come from the bridge.
pub(super) fn told(
    call: Option<&Context>,
    bridge: Option<BridgeId>,
    input: &Input,
    since: Instant,
) -> Option<Span> {
    let (call, bridge) = (call?, bridge?);
    let name = match input {
        Input::Reopen => "call.incoming",
        Input::Answered { .. } => "call.answered",
        Input::Transcript { .. } => "call.transcript",
        Input::HangUp { .. } => "call.hangup",
        Input::Failed { .. } => "call.failed",
        _ => return None,
    };
    Some(message(call, name, since).with("dikala.bridge.id", bridge))
}

/// Ends the span of a message.
pub(super) fn answered(span: Option<Span>, reply: &Result<Reply, CallError>) {
    let Some(mut span) = span else { return };
    match reply {
        Ok(Reply::Taken { call, .. }) => span.set("dikala.call.id", call),
        Ok(Reply::Refused { call, reason }) => {
            span.set("dikala.call.id", call);
            span.set("dikala.call.reason", reason);
        }
        Ok(Reply::Done) => {}
        Err(error) => span.failed(error.to_string()),
    }
    span.end();
}

/// The span of an invocation: a child of its call's, unless the bridge sent another trace.
pub(super) fn invoking(
    parts: &CallParts,
    row: &call::Model,
    message: &InvokeFunction,
) -> Option<Span> {
    let span = match &message.trace {
        Some(trace) => parts
            .traces
            .span(Kind::Server, "call.function", Some(trace))?,
        None => of_call(parts, row)?.span(Kind::Server, "call.function"),
    };
    Some(
        span.since(message.since)
            .with("dikala.call.id", row.id)
            .with("dikala.bridge.id", message.bridge),
    )
}

/// Ends the span of an invocation.
pub(super) fn invoked(span: Option<Span>, invoked: &Invocation) {
    let Some(mut span) = span else { return };
    if let Invocation::Answered(Err(error)) | Invocation::Unwritten(error, _) = invoked {
        span.failed(error.to_string());
    }
    span.end();
}
