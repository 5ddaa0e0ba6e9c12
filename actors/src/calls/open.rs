//! Opening a call: admission with a first minute, or refusal.

use std::sync::Arc;

use dikala_entities::{
    BridgeId, CallId, CallStatus, CalleeNumber, ChannelKind, HangupInitiator, HangupReason, Millis,
    call,
};
use dikala_protocol::{CalledParty, CalleeNames, IncomingCall};

use super::{
    deps::CallDeps,
    driver::CallDriver,
    ending::CallEnding,
    error::{CallError, not_written, unavailable},
    events,
    look_up::Callee,
    machine::MachineState,
    messages::CallReply,
    spans,
    versions::{self, Version},
};
use crate::{
    commit::{CallCounts, CallWrite, CommitEntry},
    ledger::{Admission, Admit},
    traces::request_id,
};

/// The epoch of a new call.
pub(super) const FIRST_EPOCH: i64 = 1;

impl Callee {
    /// A reason to refuse the call that does not depend on credit.
    fn refusal(&self, version: Option<&Version>) -> Option<HangupReason> {
        if self.is_suspended {
            Some(HangupReason::TenantSuspended)
        } else if !self.number_active {
            Some(HangupReason::NumberInactive)
        } else if version.is_none() {
            Some(HangupReason::NoAgent)
        } else if !self.agent_active && self.draft.is_none() {
            Some(HangupReason::AgentInactive)
        } else {
            None
        }
    }
}

/// Opens a call, or stores its refusal. The reply goes out after the commit.
pub(super) async fn open(
    deps: Arc<CallDeps>,
    id: CallId,
    bridge: BridgeId,
    incoming: IncomingCall,
    callee: Callee,
) -> Result<(CallDriver, CallReply), CallError> {
    let now = deps.clock.now();
    let version = match (&callee.draft, &callee.agent) {
        (Some(draft), _) => Some(versions::of_draft(draft).map_err(unavailable)?),
        (None, Some(present)) => deps
            .versions
            .current(&deps.store, present, now)
            .await
            .map_err(unavailable)?,
        (None, None) => None,
    };
    let mut row = new_row(&deps, id, bridge, incoming, &callee, now);
    row.agent_id = version.as_ref().map(|version| version.settings.id);
    match (callee.refusal(version.as_deref()), version) {
        (None, Some(version)) => {
            match callee.draft {
                Some(draft) => row.settings = Some(draft),
                None => row.agent_version = Some(version.number),
            }
            let of_plan = deps.concurrency.of(callee.plan);
            let max_concurrent = callee.max_concurrent.or(of_plan);
            admit(deps, row, &version, max_concurrent, callee.names, now).await
        }
        (reason, _) => {
            let refused = RefusedCall::new(row, reason.unwrap_or(HangupReason::NoAgent));
            let entry = refused.entry(now);
            deps.ledger.write(entry).await.map_err(not_written)?;
            Ok(refused.reply(deps, now))
        }
    }
}

pub(super) fn new_row(
    deps: &CallDeps,
    id: CallId,
    bridge: BridgeId,
    incoming: IncomingCall,
    callee: &Callee,
    now: Millis,
) -> call::Model {
    let metadata = incoming.metadata.unwrap_or_default();
    call::Model {
        id,
        tenant_id: callee.tenant,
        bridge_id: bridge,
        bridge_call_id: incoming.bridge_call_id,
        phone_number_id: callee.number,
        agent_id: None,
        caller_number: incoming.caller_number,
        callee_number: match incoming.called {
            CalledParty::Number(number) => number.into(),
            CalledParty::Agent(_) => CalleeNumber::web(),
        },
        channel: incoming.channel.unwrap_or(ChannelKind::Phone),
        status: CallStatus::Ringing,
        started_at: deps.clock.dated(incoming.at).min(now),
        answered_at: None,
        joined_at: None,
        ended_at: None,
        duration_seconds: None,
        talk_time_seconds: None,
        hangup_reason: None,
        hangup_initiator: None,
        transcript_summary: None,
        ai_cost_idr: None,
        voice_provider: None,
        turn_latency_ms: None,
        stalls: None,
        interruptions: None,
        metadata: serde_json::Value::Object(metadata).to_string(),
        settings: None,
        agent_version: None,
        pending: None,
        answer_message_id: None,
        failure_detail: None,
        last_sign_at: now,
        owner: deps.node.id().to_string(),
        epoch: FIRST_EPOCH,
        traceparent: incoming.trace,
    }
}

/// Asks for the first minute. `names` are for the reply. The same commit writes the call, ringing or refused.
pub(super) async fn admit(
    deps: Arc<CallDeps>,
    row: call::Model,
    version: &Version,
    max_concurrent: Option<i64>,
    names: CalleeNames,
    now: Millis,
) -> Result<(CallDriver, CallReply), CallError> {
    let admit = Admit {
        call: row.id,
        tenant: row.tenant_id,
        owner: Arc::from(row.owner.as_str()),
        epoch: row.epoch,
        max_concurrent,
    };
    let ringing = row.clone();
    let then = move |admission| match admission {
        Admission::Granted => CommitEntry {
            call: Some(CallWrite::Insert(Box::new(ringing.clone()))),
            events: vec![events::started(&ringing, now)],
            ..CommitEntry::of(ringing.tenant_id)
        },
        Admission::Refused(reason) => RefusedCall::new(ringing.clone(), reason).entry(now),
    };
    match deps.ledger.admit(admit, then).await.map_err(not_written)? {
        Admission::Refused(reason) => Ok(RefusedCall::new(row, reason).reply(deps, now)),
        Admission::Granted => {
            let max_minutes = version.settings.persona.max_call_duration_minutes;
            let state = MachineState::ringing(row.started_at, now, max_minutes, &deps.rules);
            let reply = CallReply::Admitted {
                call: row.id,
                agent: version.for_bridge(&deps.transfers, &deps.default_time_zone),
                callee: names,
            };
            tracing::info!(
                call = %row.id, tenant = %row.tenant_id, caller = ?row.caller_number, trace_id = row.trace_id(),
                request_id = request_id().as_deref(), "call taken"
            );
            Ok((CallDriver::fresh(deps, row, state), reply))
        }
    }
}

/// A refused call: it is stored as failed.
struct RefusedCall {
    row: call::Model,
    ending: CallEnding,
}

impl RefusedCall {
    fn new(row: call::Model, reason: HangupReason) -> Self {
        let ending = CallEnding {
            status: CallStatus::Failed,
            reason,
            initiator: HangupInitiator::System,
            at: row.started_at,
            duration_seconds: 0,
            talk_seconds: 0,
        };
        let row = call::Model {
            status: ending.status,
            ended_at: Some(ending.at),
            duration_seconds: Some(0),
            talk_time_seconds: Some(0),
            hangup_reason: Some(reason),
            hangup_initiator: Some(ending.initiator),
            ai_cost_idr: Some(0),
            // A refused call has no agent version.
            agent_version: None,
            settings: None,
            ..row
        };
        Self { row, ending }
    }

    fn entry(&self, now: Millis) -> CommitEntry {
        CommitEntry {
            events: vec![
                events::started(&self.row, now),
                events::ended(&self.row, &self.ending, 0, now),
            ],
            call: Some(CallWrite::Insert(Box::new(self.row.clone()))),
            counted: Some(CallCounts::of_end(&self.row, 0)),
            ..CommitEntry::of(self.row.tenant_id)
        }
    }

    /// Call this after the commit only.
    fn reply(self, deps: Arc<CallDeps>, now: Millis) -> (CallDriver, CallReply) {
        let Self { row, ending } = self;
        let reply = CallReply::Refused {
            call: row.id,
            reason: ending.reason,
        };
        tracing::info!(
            call = %row.id, tenant = %row.tenant_id, reason = %ending.reason, trace_id = row.trace_id(),
            request_id = request_id().as_deref(), "call refused"
        );
        deps.meter.ended(ending.status, ending.reason);
        spans::end_call(&deps, &row);
        let state = MachineState::ringing(row.started_at, now, 1, &deps.rules).over(&ending);
        (CallDriver::fresh(deps, row, state), reply)
    }
}
