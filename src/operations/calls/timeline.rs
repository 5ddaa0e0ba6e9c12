//! A call's timeline for operators: everything that happened to it, in one order. Nothing that was said is in it, and no arguments or
//! results of functions.

use std::time::Duration;

use dikala_actors::calls::MessageRecord;
use dikala_entities::{
    Actor, AuditAction, CallId, CallStatus, DeliveryId, DeliveryStatus, EventKind, FunctionId,
    HangupInitiator, HangupReason, Millis, TenantId, WebhookId, attempt, audit, credit_transaction,
    invocation,
};
use dikala_protocol::{ErrorCode, MessageType};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, DerivePartialModel, QueryFilter, QueryOrder, QuerySelect,
};

use super::{
    all_tenants::{CallDeliveryStatus, CallDetail},
    diagnosis::{SipLadder, SipStep, ladder},
};
use crate::{
    audit::AuditQuery,
    http::{
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery},
    },
    operations::{OperationContext, deliveries::DeliveryAttempt},
};

/// Functions, attempts and acts of a call that are read.
const READ_MAX: u64 = 500;
/// An act is written after the request for it, and its end is dated by the telephony.
const CLOCKS_APART_MS: i64 = 10_000;

/// An entry of the timeline.
#[derive(Clone, Debug)]
pub struct CallStep {
    pub at: Millis,
    pub what: StepKind,
}

/// Something that happened to a call.
#[derive(Clone, Debug)]
pub enum StepKind {
    Sip(SipStep),
    /// A bridge's message was read.
    Message {
        kind: MessageType,
        took: Duration,
        refusal: Option<ErrorCode>,
    },
    Rang,
    Answered,
    /// A person was joined to the caller.
    Joined,
    Ended {
        status: CallStatus,
        reason: Option<HangupReason>,
        by: Option<HangupInitiator>,
    },
    /// Somebody asked for the end, or for a transfer to the masked number.
    Asked {
        actor: Actor,
        action: AuditAction,
        detail: String,
    },
    /// The ledger reserved the first minute.
    Reserved,
    /// The ledger refused the call.
    Refused(String),
    /// The ledger booked the used minutes.
    Settled {
        minutes: i64,
        grants: i64,
        balance: Option<i64>,
    },
    Function(CalledFunctionStep),
    /// An event was written; it says that the cause was so long ago.
    Event {
        kind: EventKind,
        after_ms: i64,
    },
    Attempt(AttemptStep),
    /// The next attempt of a delivery.
    Due {
        delivery: DeliveryId,
        webhook: WebhookId,
        event: EventKind,
    },
}

/// A function that was called.
#[derive(Clone, Debug, PartialEq, Eq, DerivePartialModel)]
#[sea_orm(entity = "invocation::Entity")]
pub struct CalledFunctionStep {
    #[sea_orm(from_col = "function_name")]
    pub name: String,
    /// None if the agent has no such function.
    pub function_id: Option<FunctionId>,
    /// The code of an error.
    pub fault: Option<String>,
    /// 0 if nothing was sent.
    pub duration_ms: i64,
    /// When the outcome was written.
    pub created_at: Millis,
}

/// An attempt of a delivery, without the endpoint's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptStep {
    pub webhook: WebhookId,
    pub event: EventKind,
    pub attempt: DeliveryAttempt,
}

impl StepKind {
    /// Orders steps of the same millisecond: causes before effects.
    const fn rank(&self) -> u8 {
        match self {
            Self::Sip(_) => 0,
            Self::Asked { .. } => 1,
            Self::Message { .. } => 2,
            Self::Rang => 3,
            Self::Reserved | Self::Refused(_) => 4,
            Self::Answered => 5,
            Self::Joined => 6,
            Self::Function(_) => 7,
            Self::Ended { .. } => 8,
            Self::Settled { .. } => 9,
            Self::Event { .. } => 10,
            Self::Attempt(_) => 11,
            Self::Due { .. } => 12,
        }
    }
}

/// A call's timeline.
#[derive(Clone, Debug)]
pub struct CallTimeline {
    /// The ring, from which times count.
    pub rang_at: Millis,
    /// Oldest first.
    pub steps: Vec<CallStep>,
    /// True if the bridge's SIP messages are known.
    pub has_sip: bool,
    /// True if the bridge's messages to this process are known.
    pub has_messages: bool,
    /// Older SIP messages that are no longer kept.
    pub forgotten: u64,
}

/// The sources of the timeline besides the call.
#[derive(Debug, Default)]
struct TimelineRecords {
    ladder: Option<SipLadder>,
    messages: Vec<MessageRecord>,
    functions: Vec<CalledFunctionStep>,
    attempts: Vec<DeliveryAttempt>,
    acts: Vec<audit::Model>,
    /// The balance after the call was booked.
    balance: Option<i64>,
}

/// The timeline of a call that was found.
pub async fn timeline(
    context: &OperationContext,
    found: &CallDetail,
) -> Result<CallTimeline, ApiError> {
    let db = context.store().api_reader();
    let (call, tenant) = (found.call.id, found.call.tenant_id);
    let serving = context.serving()?;
    let deliveries: Vec<DeliveryId> = found.deliveries.iter().map(|sent| sent.id).collect();
    let records = TimelineRecords {
        ladder: masked_ladder(context, call).await?,
        messages: serving.node.calls.messages_of(call),
        functions: functions(context, db, call).await?,
        attempts: attempts(context, db, deliveries).await?,
        acts: acts(db, found).await?,
        balance: balance_after(context, db, tenant, call).await?,
    };
    Ok(ordered(found, records))
}

/// The SIP messages with masked numbers; `None` if they are not known here.
async fn masked_ladder(
    context: &OperationContext,
    call: CallId,
) -> Result<Option<SipLadder>, ApiError> {
    let query = OperatorQuery(FormFields::default());
    match ladder(context.clone(), Id(call), query).await {
        Ok(ladder) => Ok(Some(ladder)),
        Err(ApiError::NotFound(Missing::SipMessages)) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn functions(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    call: CallId,
) -> Result<Vec<CalledFunctionStep>, DbErr> {
    let of_call = context.rows::<invocation::Entity>();
    of_call
        .filter(invocation::Column::CallId.eq(call))
        .limit(READ_MAX)
        .into_partial_model()
        .all(db)
        .await
}

async fn attempts(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    deliveries: Vec<DeliveryId>,
) -> Result<Vec<DeliveryAttempt>, DbErr> {
    if deliveries.is_empty() {
        return Ok(Vec::new());
    }
    let sent = context.rows::<attempt::Entity>();
    sent.filter(attempt::Column::DeliveryId.is_in(deliveries))
        .order_by_asc(attempt::Column::DeliveryId)
        .order_by_asc(attempt::Column::Number)
        .limit(READ_MAX)
        .into_partial_model()
        .all(db)
        .await
}

/// Requests of people and programs to end or transfer the call.
async fn acts(db: &impl ConnectionTrait, found: &CallDetail) -> Result<Vec<audit::Model>, DbErr> {
    let call = &found.call;
    let mut acts = Vec::new();
    for action in [AuditAction::CallHangup, AuditAction::CallTransfer] {
        let entries = AuditQuery {
            tenant: Some(call.tenant_id),
            actor: None,
            action: Some(action),
            from: Some(call.started_at),
            to: call.ended_at.map(|at| at.plus_ms(CLOCKS_APART_MS)),
        };
        let of_call = audit::Column::Target.eq(call.id.to_string());
        let entries = entries.select().filter(of_call).limit(READ_MAX);
        acts.extend(entries.all(db).await?);
    }
    Ok(acts)
}

async fn balance_after(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    tenant: TenantId,
    call: CallId,
) -> Result<Option<i64>, DbErr> {
    let booked = context.rows::<credit_transaction::Entity>();
    booked
        .select_only()
        .column(credit_transaction::Column::BalanceAfter)
        .filter(credit_transaction::Column::TenantId.eq(tenant))
        .filter(credit_transaction::Column::IdempotencyKey.eq(format!("call:{call}")))
        .into_tuple()
        .one(db)
        .await
}

fn ordered(found: &CallDetail, records: TimelineRecords) -> CallTimeline {
    let mut steps = states(found);
    steps.extend(ledger(found, records.balance));
    steps.extend(deliveries(found, records.attempts));
    let step = |at, what| CallStep { at, what };
    let event = |event: &super::all_tenants::CallEventSummary| {
        let written = event.id.time().max(event.timestamp);
        let what = StepKind::Event {
            kind: event.event,
            after_ms: written.since(event.timestamp),
        };
        step(written, what)
    };
    steps.extend(found.events.iter().map(event));
    steps.extend(records.acts.into_iter().map(|act| {
        let what = StepKind::Asked {
            actor: act.actor,
            action: act.action,
            detail: act.detail,
        };
        step(act.at, what)
    }));
    // It is dated by its beginning.
    steps.extend(records.functions.into_iter().map(|function| {
        let begun = function.created_at.plus_ms(-function.duration_ms);
        step(begun, StepKind::Function(function))
    }));
    let has_messages = !records.messages.is_empty();
    steps.extend(records.messages.into_iter().map(|message| {
        let what = StepKind::Message {
            kind: message.kind,
            took: message.took,
            refusal: message.refusal,
        };
        step(message.at, what)
    }));
    let has_sip = records.ladder.is_some();
    let mut forgotten = 0;
    if let Some(ladder) = records.ladder {
        forgotten = ladder.forgotten;
        let messages = ladder.messages.into_iter();
        steps.extend(messages.map(|message| step(message.at, StepKind::Sip(message))));
    }
    steps.sort_by_key(|step| (step.at, step.what.rank()));
    CallTimeline {
        rang_at: found.call.started_at,
        steps,
        has_sip,
        has_messages,
        forgotten,
    }
}

fn states(found: &CallDetail) -> Vec<CallStep> {
    let call = &found.call;
    let over = StepKind::Ended {
        status: call.status,
        reason: call.hangup_reason,
        by: call.hangup_initiator,
    };
    let states = [
        (Some(call.started_at), StepKind::Rang),
        (call.answered_at, StepKind::Answered),
        (call.joined_at, StepKind::Joined),
        (call.ended_at, over),
    ];
    let step = |(at, what): (Option<Millis>, StepKind)| Some(CallStep { at: at?, what });
    states.into_iter().filter_map(step).collect()
}

fn ledger(found: &CallDetail, balance: Option<i64>) -> Vec<CallStep> {
    let mut steps = Vec::new();
    for hold in &found.holds {
        let begun = match &hold.refusal {
            Some(refusal) => StepKind::Refused(refusal.clone()),
            None => StepKind::Reserved,
        };
        steps.push(CallStep {
            at: hold.created_at,
            what: begun,
        });
        if let Some(at) = hold.settled_at.filter(|_| hold.refusal.is_none()) {
            let what = StepKind::Settled {
                minutes: hold.used_minutes,
                grants: hold.grants,
                balance,
            };
            steps.push(CallStep { at, what });
        }
    }
    steps
}

fn deliveries(found: &CallDetail, attempts: Vec<DeliveryAttempt>) -> Vec<CallStep> {
    let of = |id: DeliveryId| found.deliveries.iter().find(|sent| sent.id == id);
    let made = attempts.into_iter().filter_map(|attempt| {
        let sent = of(attempt.delivery_id)?;
        let at = attempt.started_at;
        let what = StepKind::Attempt(AttemptStep {
            webhook: sent.webhook_id,
            event: sent.event,
            attempt,
        });
        Some(CallStep { at, what })
    });
    let due = found
        .deliveries
        .iter()
        .filter_map(|sent: &CallDeliveryStatus| {
            let is_waiting = sent.status == DeliveryStatus::Pending;
            let what = StepKind::Due {
                delivery: sent.id,
                webhook: sent.webhook_id,
                event: sent.event,
            };
            let at = sent.next_attempt_at.filter(|_| is_waiting)?;
            Some(CallStep { at, what })
        });
    made.chain(due).collect()
}

#[cfg(test)]
mod tests;
