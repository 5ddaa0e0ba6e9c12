//! How a call begins: who is called, whether the call can be taken, and the one minute that it holds.

use std::sync::Arc;

use dikala_entities::{
    BridgeId, CallId, CallStatus, HangupInitiator, HangupReason, Millis, agent, call, phone_number,
    tenant,
};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::{
    Call,
    core::{CallCore, CallParts, WriteError, unavailable},
    ending::Ending,
    events,
    messages::{CallError, Incoming, Reply},
    settings::CallSettings,
    versions,
};
use crate::{
    journal::{CallWrite, Entry},
    ledger::{Admission, Admit, LedgerError, Settle},
};

/// Opens a call, or stores that it was refused. The reply goes out after the commit.
pub async fn open(
    parts: Arc<CallParts>,
    id: CallId,
    bridge: BridgeId,
    incoming: Incoming,
) -> Result<(CallCore, Reply), CallError> {
    let now = parts.clock.now();
    let callee = Callee::find(&parts, &incoming, now).await?;
    let mut row = new_row(&parts, id, bridge, incoming, &callee, now);
    let refusal = match callee.refusal() {
        Some(reason) => Some(reason),
        None => admit(&parts, &row, &callee).await?,
    };
    match (refusal, callee.settings) {
        (None, Some((version, settings))) => {
            row.agent_version = Some(version);
            take(parts, row, settings, now).await
        }
        (reason, _) => refuse(parts, row, reason.unwrap_or(HangupReason::NoAgent), now).await,
    }
}

/// Who was called.
struct Callee {
    number: phone_number::Model,
    tenant: tenant::Model,
    agent_active: bool,
    /// With the number of their version.
    settings: Option<(i64, CallSettings)>,
}

impl Callee {
    async fn find(parts: &CallParts, incoming: &Incoming, now: Millis) -> Result<Self, CallError> {
        let db = parts.store.core_reader();
        let number = phone_number::Entity::find()
            .filter(phone_number::Column::Did.eq(incoming.did.clone()))
            .one(db)
            .await
            .map_err(unavailable)?
            .ok_or(CallError::UnknownNumber)?;
        let tenant = tenant::Entity::find_by_id(number.tenant_id)
            .one(db)
            .await
            .map_err(unavailable)?
            .ok_or(CallError::UnknownNumber)?;
        let agent = match number.agent_id {
            Some(agent) => agent::Entity::find_by_id(agent)
                .filter(agent::Column::TenantId.eq(tenant.id))
                .one(db)
                .await
                .map_err(unavailable)?,
            None => None,
        };
        let agent_active = agent.as_ref().is_some_and(|agent| agent.is_active);
        let settings = match agent {
            Some(agent) => versions::current(&parts.store, &agent, now)
                .await
                .map_err(unavailable)?,
            None => None,
        };
        Ok(Self {
            number,
            tenant,
            agent_active,
            settings,
        })
    }

    /// Why the call cannot be taken, as far as that does not depend on credit.
    fn refusal(&self) -> Option<HangupReason> {
        if self.tenant.suspended_at.is_some() {
            Some(HangupReason::TenantSuspended)
        } else if !self.number.is_active {
            Some(HangupReason::NumberInactive)
        } else if self.settings.is_none() {
            Some(HangupReason::NoAgent)
        } else if !self.agent_active {
            Some(HangupReason::AgentInactive)
        } else {
            None
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
        tenant_id: callee.tenant.id,
        bridge_id: bridge,
        bridge_call_id: incoming.bridge_call_id,
        phone_number_id: callee.number.id,
        agent_id: callee.settings.as_ref().map(|(_, settings)| settings.id),
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
    }
}

async fn admit(
    parts: &CallParts,
    row: &call::Model,
    callee: &Callee,
) -> Result<Option<HangupReason>, CallError> {
    let plan_limit = parts.concurrency.of(callee.tenant.plan);
    let admit = Admit {
        call: row.id,
        tenant: row.tenant_id,
        owner: Arc::clone(&parts.node),
        epoch: row.epoch,
        max_concurrent: callee.tenant.max_concurrent_calls.or(plan_limit),
    };
    match parts.ledger.admit(admit).await {
        Ok(Admission::Granted) => Ok(None),
        Ok(Admission::Refused(reason)) => Ok(Some(reason)),
        Err(LedgerError::Busy) => Err(CallError::Busy),
        Err(_) => Err(CallError::Unavailable),
    }
}

async fn take(
    parts: Arc<CallParts>,
    row: call::Model,
    settings: CallSettings,
    now: Millis,
) -> Result<(CallCore, Reply), CallError> {
    let entry = Entry {
        call: Some(CallWrite::Insert(Box::new(row.clone()))),
        events: vec![events::started(&row, now)],
        ..Entry::default()
    };
    if let Err(error) = parts.write(entry).await {
        // Only where the row surely was not written: a call that is there after all must keep its minute. Else the sweep decides.
        if matches!(
            error,
            WriteError::NotOurs | WriteError::Failed(CallError::Busy)
        ) {
            give_back(&parts, &row).await;
        }
        return Err(not_written(error));
    }
    let max_minutes = settings.max_call_duration_minutes;
    let state = Call::ringing(row.started_at, now, max_minutes, &parts.rules);
    let reply = Reply::Taken {
        call: row.id,
        agent: Arc::new(settings.for_bridge(&parts.transfers)),
    };
    tracing::info!(call = %row.id, tenant = %row.tenant_id, caller = ?row.caller_number, "call taken");
    Ok((CallCore::fresh(parts, row, state), reply))
}

async fn refuse(
    parts: Arc<CallParts>,
    mut row: call::Model,
    reason: HangupReason,
    now: Millis,
) -> Result<(CallCore, Reply), CallError> {
    let state = Call::ringing(row.started_at, now, 1, &parts.rules);
    let ending = Ending {
        status: CallStatus::Failed,
        reason,
        initiator: HangupInitiator::System,
        at: row.started_at,
        duration_seconds: 0,
        talk_seconds: 0,
    };
    row.status = ending.status;
    row.ended_at = Some(ending.at);
    row.duration_seconds = Some(0);
    row.talk_time_seconds = Some(0);
    row.hangup_reason = Some(reason);
    row.hangup_initiator = Some(ending.initiator);
    row.ai_cost_idr = Some(0);
    let entry = Entry {
        events: vec![
            events::started(&row, now),
            events::ended(&row, &ending, 0, now),
        ],
        call: Some(CallWrite::Insert(Box::new(row.clone()))),
        ..Entry::default()
    };
    parts.write(entry).await.map_err(not_written)?;
    let reply = Reply::Refused {
        call: row.id,
        reason,
    };
    tracing::info!(call = %row.id, tenant = %row.tenant_id, %reason, "call refused");
    let state = state.over(&ending);
    Ok((CallCore::fresh(parts, row, state), reply))
}

/// The minute of a call that was never written goes back. If this fails too, the registry's sweep finds the hold.
async fn give_back(parts: &CallParts, row: &call::Model) {
    let settle = Settle {
        call: row.id,
        tenant: row.tenant_id,
        owner: Arc::clone(&parts.node),
        epoch: row.epoch,
        minutes: 0,
    };
    if let Err(error) = parts.ledger.settle(settle).await {
        tracing::warn!(call = %row.id, ?error, "a hold without a call is left to the sweep");
    }
}

fn not_written(error: WriteError) -> CallError {
    match error {
        // The same bridge call was opened elsewhere at this moment: asking again finds it.
        WriteError::NotOurs => CallError::Busy,
        WriteError::Failed(error) => error,
    }
}
