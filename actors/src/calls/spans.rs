//! Trace spans of calls: one from ring to end, and a child for each message of the bridge.

use std::time::Instant;

use dikala_entities::{BridgeId, call};

use super::{
    deps::CallDeps,
    error::CallError,
    invoke::InvocationResult,
    messages::{CallInput, CallReply, InvokeFunction},
};
use crate::traces::{Context, Span, SpanKind};

pub(super) fn of_call(deps: &CallDeps, row: &call::Model) -> Option<Context> {
    deps.traces.call(row.id, row.traceparent.as_ref())
}

/// Ends the span of a call that is over.
pub(super) fn end_call(deps: &CallDeps, row: &call::Model) {
    let (Some(call), Some(trace)) = (of_call(deps, row), &row.traceparent) else {
        return;
    };
    let mut span = call
        .itself(SpanKind::Internal, "call", trace)
        .with("dikala.call.id", row.id)
        .with("dikala.tenant.id", row.tenant_id)
        .with("dikala.bridge.id", row.bridge_id)
        .with("dikala.node", deps.node.id())
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
    call.span(SpanKind::Server, name).since(since)
}

/// The span of an input; `None` if it does not come from the bridge.
pub(super) fn of_input(
    call: Option<&Context>,
    bridge: Option<BridgeId>,
    input: &CallInput,
    since: Instant,
) -> Option<Span> {
    let (call, bridge) = (call?, bridge?);
    let name = match input {
        CallInput::Reopen => "call.incoming",
        CallInput::Answered { .. } => "call.answered",
        CallInput::Transcript { .. } => "call.transcript",
        CallInput::HangUp { .. } => "call.hangup",
        CallInput::Failed { .. } => "call.failed",
        _ => return None,
    };
    Some(message(call, name, since).with("dikala.bridge.id", bridge))
}

/// Ends the span of a message.
pub(super) fn end_message(span: Option<Span>, reply: &Result<CallReply, CallError>) {
    let Some(mut span) = span else { return };
    match reply {
        Ok(CallReply::Admitted { call, .. }) => span.set("dikala.call.id", call),
        Ok(CallReply::Refused { call, reason }) => {
            span.set("dikala.call.id", call);
            span.set("dikala.call.reason", reason);
        }
        Ok(CallReply::Done) => {}
        Err(error) => span.failed(error.to_string()),
    }
    span.end();
}

/// The span of an invocation: a child of its call's, unless the bridge sent another trace.
pub(super) fn of_invocation(
    deps: &CallDeps,
    row: &call::Model,
    message: &InvokeFunction,
) -> Option<Span> {
    let span = match &message.trace {
        Some(trace) => deps
            .traces
            .span(SpanKind::Server, "call.function", Some(trace))?,
        None => of_call(deps, row)?.span(SpanKind::Server, "call.function"),
    };
    Some(
        span.since(message.since)
            .with("dikala.call.id", row.id)
            .with("dikala.bridge.id", message.bridge),
    )
}

/// Ends the span of an invocation.
pub(super) fn end_invocation(span: Option<Span>, invoked: &InvocationResult) {
    let Some(mut span) = span else { return };
    if let InvocationResult::Answered(Err(error)) | InvocationResult::Unwritten(error, _) = invoked
    {
        span.failed(error.to_string());
    }
    span.end();
}
