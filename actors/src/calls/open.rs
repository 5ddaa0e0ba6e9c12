//! How a call begins: who is called, whether the call can be taken, and the one minute that it holds.

use std::sync::Arc;

use dikala_entities::{
    AgentId, BridgeId, CallId, CallStatus, HangupInitiator, HangupReason, Millis, PhoneNumberId,
    Plan, TenantId, call,
};
use sea_orm::{FromQueryResult, Statement};

use super::{
    driver::CallDriver,
    ending::Ending,
    error::{CallError, not_written, unavailable},
    events,
    machine::CallState,
    messages::{Incoming, Reply},
    parts::CallParts,
    versions::Version,
};
use crate::{
    journal::{CallWrite, Counted, Entry},
    ledger::{Admission, Admit},
};

/// What the store knows of a call that a bridge reports.
#[derive(Debug)]
pub(super) enum LookedUp {
    /// The bridge reported it before.
    Known(CallId),
    /// It is new, and for this number.
    New(Box<Callee>),
}

/// Who is called.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    tenant: TenantId,
    is_suspended: bool,
    /// Calls of the tenant at the same time; none: any number.
    max_concurrent: Option<i64>,
    number: PhoneNumberId,
    number_active: bool,
    /// With its present version.
    agent: Option<(AgentId, i64)>,
    agent_active: bool,
}

#[derive(FromQueryResult)]
struct Row {
    known: Option<CallId>,
    number: Option<PhoneNumberId>,
    number_active: Option<bool>,
    tenant: Option<TenantId>,
    plan: Option<Plan>,
    suspended_at: Option<Millis>,
    max_concurrent: Option<i64>,
    agent: Option<AgentId>,
    agent_version: Option<i64>,
    agent_active: Option<bool>,
}

/// Everything by key, and in one statement: with a database that is not on this machine every question costs its distance.
const LOOK_UP: &str = "SELECT c.id AS known, n.id AS number, n.is_active AS number_active, t.id AS tenant, t.plan AS plan, \
    t.suspended_at AS suspended_at, t.max_concurrent_calls AS max_concurrent, a.id AS agent, a.version AS agent_version, \
    a.is_active AS agent_active FROM (SELECT 1 AS one) AS one \
    LEFT JOIN calls c ON c.bridge_id = $1 AND c.bridge_call_id = $2 \
    LEFT JOIN phone_numbers n ON n.did = $3 LEFT JOIN tenants t ON t.id = n.tenant_id \
    LEFT JOIN agents a ON a.id = n.agent_id AND a.tenant_id = n.tenant_id";

/// Looks whether the bridge's call is known already, and who is called.
pub(super) async fn look_up(
    parts: &CallParts,
    bridge: BridgeId,
    incoming: &Incoming,
) -> Result<LookedUp, CallError> {
    let db = parts.store.critical_reader();
    let values = [
        bridge.into(),
        incoming.bridge_call_id.clone().into(),
        incoming.did.clone().into(),
    ];
    let look = Statement::from_sql_and_values(parts.store.backend(), LOOK_UP, values);
    let row = Row::find_by_statement(look)
        .one(db)
        .await
        .map_err(unavailable)?;
    let row = row.ok_or(CallError::Unavailable)?;
    if let Some(known) = row.known {
        return Ok(LookedUp::Known(known));
    }
    let (Some(tenant), Some(number)) = (row.tenant, row.number) else {
        return Err(CallError::UnknownNumber);
    };
    let plan_limit = row.plan.and_then(|plan| parts.concurrency.of(plan));
    Ok(LookedUp::New(Box::new(Callee {
        tenant,
        is_suspended: row.suspended_at.is_some(),
        max_concurrent: row.max_concurrent.or(plan_limit),
        number,
        number_active: row.number_active.unwrap_or_default(),
        agent: row.agent.zip(row.agent_version),
        agent_active: row.agent_active.unwrap_or_default(),
    })))
}

impl Callee {
    /// Why the call cannot be taken, as far as that does not depend on credit.
    fn refusal(&self, version: Option<&Version>) -> Option<HangupReason> {
        if self.is_suspended {
            Some(HangupReason::TenantSuspended)
        } else if !self.number_active {
            Some(HangupReason::NumberInactive)
        } else if version.is_none() {
            Some(HangupReason::NoAgent)
        } else if !self.agent_active {
            Some(HangupReason::AgentInactive)
        } else {
            None
        }
    }
}

/// Opens a call, or stores that it was refused. The reply goes out after the commit.
pub(super) async fn open(
    parts: Arc<CallParts>,
    id: CallId,
    bridge: BridgeId,
    incoming: Incoming,
    callee: Callee,
) -> Result<(CallDriver, Reply), CallError> {
    let now = parts.clock.now();
    let version = match callee.agent {
        Some((agent, version)) => parts
            .versions
            .current(&parts.store, agent, version, now)
            .await
            .map_err(unavailable)?,
        None => None,
    };
    let mut row = new_row(&parts, id, bridge, incoming, &callee, now);
    row.agent_id = version.as_ref().map(|version| version.settings.id);
    match (callee.refusal(version.as_deref()), version) {
        (None, Some(version)) => {
            row.agent_version = Some(version.number);
            take(parts, row, &version, callee.max_concurrent, now).await
        }
        (reason, _) => {
            let refused = Refused::new(row, reason.unwrap_or(HangupReason::NoAgent));
            let entry = refused.entry(now);
            parts.ledger.write(entry).await.map_err(not_written)?;
            Ok(refused.reply(parts, now))
        }
    }
}

fn new_row(
    parts: &CallParts,
    id: CallId,
    bridge: BridgeId,
    incoming: Incoming,
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
        callee_number: incoming.did,
        status: CallStatus::Ringing,
        started_at: parts.clock.dated(incoming.at).min(now),
        answered_at: None,
        ended_at: None,
        duration_seconds: None,
        talk_time_seconds: None,
        hangup_reason: None,
        hangup_initiator: None,
        transcript_summary: None,
        ai_cost_idr: None,
        metadata: serde_json::Value::Object(metadata).to_string(),
        settings: None,
        agent_version: None,
        pending: None,
        answer_message_id: None,
        failure_detail: None,
        last_sign_at: now,
        owner: parts.node.to_string(),
        epoch: 1,
        traceparent: incoming.trace,
    }
}

/// Asks for the first minute; the call is written with the answer, ringing or refused.
async fn take(
    parts: Arc<CallParts>,
    row: call::Model,
    version: &Version,
    max_concurrent: Option<i64>,
    now: Millis,
) -> Result<(CallDriver, Reply), CallError> {
    let admit = Admit {
        call: row.id,
        tenant: row.tenant_id,
        owner: Arc::clone(&parts.node),
        epoch: row.epoch,
        max_concurrent,
    };
    let ringing = row.clone();
    let then = move |admission| match admission {
        Admission::Granted => Entry {
            call: Some(CallWrite::Insert(Box::new(ringing.clone()))),
            events: vec![events::started(&ringing, now)],
            ..Entry::of(ringing.tenant_id)
        },
        Admission::Refused(reason) => Refused::new(ringing.clone(), reason).entry(now),
    };
    match parts.ledger.admit(admit, then).await.map_err(not_written)? {
        Admission::Refused(reason) => Ok(Refused::new(row, reason).reply(parts, now)),
        Admission::Granted => {
            let max_minutes = version.settings.max_call_duration_minutes;
            let state = CallState::ringing(row.started_at, now, max_minutes, &parts.rules);
            let reply = Reply::Taken {
                call: row.id,
                agent: version.for_bridge(&parts.transfers),
            };
            tracing::info!(
                call = %row.id, tenant = %row.tenant_id, caller = ?row.caller_number, trace_id = row.trace_id(), "call taken"
            );
            Ok((CallDriver::fresh(parts, row, state), reply))
        }
    }
}

/// A call that is not taken: it failed as soon as it came in.
struct Refused {
    row: call::Model,
    ending: Ending,
}

impl Refused {
    fn new(row: call::Model, reason: HangupReason) -> Self {
        let ending = Ending {
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
            // It began with nothing of its agent.
            agent_version: None,
            ..row
        };
        Self { row, ending }
    }

    fn entry(&self, now: Millis) -> Entry {
        Entry {
            events: vec![
                events::started(&self.row, now),
                events::ended(&self.row, &self.ending, 0, now),
            ],
            call: Some(CallWrite::Insert(Box::new(self.row.clone()))),
            counted: Some(Counted::new(&self.row, 0)),
            ..Entry::of(self.row.tenant_id)
        }
    }

    /// Once it is written.
    fn reply(self, parts: Arc<CallParts>, now: Millis) -> (CallDriver, Reply) {
        let Self { row, ending } = self;
        let reply = Reply::Refused {
            call: row.id,
            reason: ending.reason,
        };
        tracing::info!(
            call = %row.id, tenant = %row.tenant_id, reason = %ending.reason, trace_id = row.trace_id(), "call refused"
        );
        parts.meter.ended(ending.status, ending.reason);
        let state = CallState::ringing(row.started_at, now, 1, &parts.rules).over(&ending);
        (CallDriver::fresh(parts, row, state), reply)
    }
}
