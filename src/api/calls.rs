//! Calls: history, events, transcripts, and the two commands for a running call: hang up and transfer.

use actix_web::web::Data;
use dikala_actors::calls::{CallError, CallInput, TRANSFERS_MAX, versions};
use dikala_entities::{
    AgentId, AuditAction, CallId, CallStatus, CallerNumber, HangupInitiator, HangupReason, Millis,
    OfTenant, PhoneNumber, PhoneNumberId, Speaker, TenantId, call, transcript,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, DerivePartialModel, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::call_filter::{CallFilter, end_of_page};
use crate::{
    api::context::Services,
    audit::AuditChange,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{Id, Query, RequestBody, TenantRequest, no_transfer, transfer_target},
        field::{FieldCode, ValueFault},
    },
    operations::stored::{Json, raw},
};

/// The hint in the error for a too large `offset`.
const GO_BACK: &str =
    "to go further back give the id of the last call that you have as before, or to";

/// The columns that the API shows.
#[derive(Clone, Debug, DerivePartialModel)]
#[sea_orm(entity = "call::Entity")]
pub(super) struct CallRow {
    id: CallId,
    phone_number_id: PhoneNumberId,
    agent_id: Option<AgentId>,
    agent_version: Option<i64>,
    caller_number: CallerNumber,
    callee_number: PhoneNumber,
    status: CallStatus,
    started_at: Millis,
    answered_at: Option<Millis>,
    ended_at: Option<Millis>,
    duration_seconds: Option<i64>,
    talk_time_seconds: Option<i64>,
    hangup_reason: Option<HangupReason>,
    hangup_initiator: Option<HangupInitiator>,
    transcript_summary: Option<String>,
    ai_cost_idr: Option<i64>,
    metadata: String,
}

/// A call, running or over. What is only known at the end is null until then.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Call, example = json!({
    "id": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "phoneNumberId": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentVersion": 3, "callerNumber": "+6281298765432", "calleeNumber": "+6281234567890",
    "direction": "inbound", "status": "ended", "startedAt": "2026-01-15T03:30:00.000Z",
    "answeredAt": "2026-01-15T03:30:04.000Z", "endedAt": "2026-01-15T03:31:34.000Z", "durationSeconds": 94,
    "talkTimeSeconds": 90, "hangupReason": "normal", "hangupInitiator": "caller",
    "transcriptSummary": "The caller asked for an appointment on Friday.", "aiCostIdr": 450,
    "metadata": {"campaign": "january"}
}))]
pub struct CallView {
    pub id: CallId,
    pub phone_number_id: PhoneNumberId,
    pub agent_id: Option<AgentId>,
    /// The version of the agent that the call began with; null if the call was refused.
    pub agent_version: Option<i64>,
    pub caller_number: CallerNumber,
    pub callee_number: PhoneNumber,
    pub direction: CallDirection,
    pub status: CallStatus,
    pub started_at: Millis,
    pub answered_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub duration_seconds: Option<i64>,
    pub talk_time_seconds: Option<i64>,
    pub hangup_reason: Option<HangupReason>,
    pub hangup_initiator: Option<HangupInitiator>,
    pub transcript_summary: Option<String>,
    pub ai_cost_idr: Option<i64>,
    pub metadata: Json,
}

/// The direction of a call.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallDirection {
    /// A customer called one of the tenant's numbers.
    Inbound,
}

/// A page of calls, newest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"calls": [], "limit": 50, "offset": 0, "hasMore": false}))]
pub struct CallList {
    pub calls: Vec<CallView>,
    limit: i64,
    offset: i64,
    pub has_more: bool,
}

/// The number to connect the caller to; the agent's `escalationNumber` if left out.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = Transfer, example = json!({"to": "+6281234567890"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct TransferInput {
    pub to: Option<PhoneNumber>,
}

/// The summary and the utterances of a call.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Transcript, example = json!({
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "summary": "The caller asked for an appointment on Friday.",
    "turns": [{"role": "agent", "text": "Selamat pagi!"}, {"role": "caller", "text": "Pagi, saya mau buat janji."}]
}))]
pub struct TranscriptView {
    call_id: CallId,
    summary: Option<String>,
    /// Objects of `role` (`caller`, `agent` or `tool`), `text` and perhaps `at`.
    #[schema(value_type = Vec<UtteranceView>)]
    turns: Box<RawValue>,
}

/// One utterance.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = Turn)]
#[expect(
    dead_code,
    reason = "the description of what is written as it is stored"
)]
pub struct UtteranceView {
    pub role: Speaker,
    pub text: String,
    /// The time of the utterance, if the bridge reported it.
    #[schema(required = false)]
    pub at: Option<String>,
}

impl From<CallRow> for CallView {
    fn from(row: CallRow) -> Self {
        Self {
            id: row.id,
            phone_number_id: row.phone_number_id,
            agent_id: row.agent_id,
            agent_version: row.agent_version,
            caller_number: row.caller_number,
            callee_number: row.callee_number,
            direction: CallDirection::Inbound,
            status: row.status,
            started_at: row.started_at,
            answered_at: row.answered_at,
            ended_at: row.ended_at,
            duration_seconds: row.duration_seconds,
            talk_time_seconds: row.talk_time_seconds,
            hangup_reason: row.hangup_reason,
            hangup_initiator: row.hangup_initiator,
            transcript_summary: row.transcript_summary,
            ai_cost_idr: row.ai_cost_idr,
            metadata: Json::object(row.metadata),
        }
    }
}

pub(super) async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: CallId,
) -> Result<CallRow, ApiError> {
    call::Entity::one_of(tenant, id)
        .into_partial_model()
        .one(db)
        .await?
        .ok_or(ApiError::NotFound(Missing::Call))
}

/// `GET /calls`
pub async fn list(
    caller: TenantRequest,
    services: Data<Services>,
    query: Query,
) -> Result<ApiAnswer, ApiError> {
    let filter = CallFilter::read(&query.0)?;
    let listed = page(services.store.api_reader(), caller.tenant, &filter).await?;
    Ok(ApiAnswer::ok(&listed))
}

/// A page of a tenant's calls, newest first.
pub async fn page(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    filter: &CallFilter,
) -> Result<CallList, ApiError> {
    let page = filter.page;
    let start = match filter.before {
        Some(before) => Some(end_of_page(db, tenant, before).await?),
        None => None,
    };
    let narrowed = filter.by_index(db, tenant, start).await?;
    let select = newest_first(tenant, narrowed.calls.clone());
    let mut rows: Vec<CallRow> = Vec::new();
    if page.is_in_reach(db, &select, GO_BACK).await? {
        rows = narrowed.read(db, page.of(select)).await?;
    }
    Ok(CallList {
        has_more: page.has_more(&mut rows),
        calls: rows.into_iter().map(Into::into).collect(),
        limit: page.limit,
        offset: page.offset,
    })
}

/// Matching calls, newest first, at most `limit`; only those older than `after`, if it is given.
pub async fn batch(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    filter: &CallFilter,
    after: Option<(Millis, CallId)>,
    limit: u64,
) -> Result<Vec<CallView>, DbErr> {
    let narrowed = filter.by_index(db, tenant, after).await?;
    let select = newest_first(tenant, narrowed.calls.clone());
    let rows: Vec<CallRow> = narrowed.read(db, select.limit(limit)).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// The tenant's newest calls, at most `limit`.
pub async fn latest(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    limit: u64,
) -> Result<Vec<CallView>, DbErr> {
    let select = newest_first(tenant, Condition::all()).limit(limit);
    let rows: Vec<CallRow> = select.into_partial_model().all(db).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

/// Those of the given calls that belong to the tenant and match the filter, newest first.
pub async fn among(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    filter: Option<&CallFilter>,
    ids: impl IntoIterator<Item = CallId>,
) -> Result<Vec<CallView>, DbErr> {
    let wanted = filter.map_or_else(Condition::all, CallFilter::condition);
    let select = newest_first(tenant, wanted).filter(call::Column::Id.is_in(ids));
    let rows: Vec<CallRow> = select.into_partial_model().all(db).await?;
    Ok(rows.into_iter().map(Into::into).collect())
}

fn newest_first(tenant: TenantId, wanted: Condition) -> Select<call::Entity> {
    call::Entity::of(tenant)
        .filter(wanted)
        .order_by_desc(call::Column::StartedAt)
        .order_by_desc(call::Column::Id)
}

/// `GET /calls/{id}`
pub async fn show(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<CallId>,
) -> Result<ApiAnswer, ApiError> {
    let row = find(services.store.api_reader(), caller.tenant, id.0).await?;
    Ok(ApiAnswer::ok(&CallView::from(row)))
}

/// `GET /calls/{id}/transcript`
pub async fn transcript(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<CallId>,
) -> Result<ApiAnswer, ApiError> {
    let call = find(services.store.api_reader(), caller.tenant, id.0).await?;
    let stored = transcript::Entity::one_of(caller.tenant, call.id)
        .one(services.store.api_reader())
        .await?;
    let (summary, turns) = match stored {
        Some(stored) => (Some(stored.summary), stored.turns),
        None => (call.transcript_summary, "[]".to_owned()),
    };
    Ok(ApiAnswer::ok(&TranscriptView {
        call_id: call.id,
        summary,
        turns: raw(turns, "[]"),
    }))
}

/// `POST /calls/{id}/hangup`
pub async fn hang_up(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<CallId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let call = running(&services, caller.tenant, id.0).await?;
    body.optional_form()?.expect_empty()?;
    let change = AuditChange::new(AuditAction::CallHangup, id.0);
    let wish = CallInput::RequestHangUp {
        by: HangupInitiator::Tenant,
        audit: Some(Box::new(caller.entry(change, services.clock.now()))),
    };
    ask(&services, &call, wish).await?;
    Ok(ApiAnswer::accepted(&CallView::from(call)).about(id.0))
}

/// `POST /calls/{id}/transfer`
pub async fn transfer(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<CallId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let call = running(&services, caller.tenant, id.0).await?;
    let sent = body.optional_form()?.read(&[], |form| {
        let transfers = &services.settings.agents.transfers;
        let target = |value: &Value| transfer_target(transfers, value);
        Some(form.optional("to", None, target))
    })?;
    let to = match sent {
        Some(to) => to,
        None => escalation_number(&services, caller.tenant, id.0).await?,
    };
    let change = AuditChange::new(AuditAction::CallTransfer, id.0).with(format_args!("{to:?}"));
    let audit = Some(Box::new(caller.entry(change, services.clock.now())));
    ask(&services, &call, CallInput::RequestTransfer { to, audit }).await?;
    Ok(ApiAnswer::accepted(&CallView::from(call)).about(id.0))
}

/// The tenant's running call; 404, or an error if it is over.
async fn running(services: &Services, tenant: TenantId, id: CallId) -> Result<CallRow, ApiError> {
    let call = find(services.store.api_reader(), tenant, id).await?;
    if call.status.is_final() {
        Err(ApiError::CallNotActive)
    } else {
        Ok(call)
    }
}

/// Sends a command to a call that is known to be the tenant's. On success the command is stored and on its way to the
/// bridge; the call changes once the bridge reports it.
async fn ask(services: &Services, call: &CallRow, input: CallInput) -> Result<(), ApiError> {
    services.calls.tell(None, call.id, input).await?;
    Ok(())
}

/// The error of a call as an API error.
impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::UnknownCall | CallError::UnknownNumber => Self::NotFound(Missing::Call),
            CallError::NotActive | CallError::InvalidTransition { .. } => Self::CallNotActive,
            CallError::TransferNotAllowed => Self::field(no_transfer().in_field("to")),
            CallError::TooManyTransfers => {
                let sentence = format!(
                    "The call was transferred {TRANSFERS_MAX} times, the most that a call can be."
                );
                let fault = ValueFault::sentence(FieldCode::NotAllowed, sentence);
                Self::field(fault.in_field("to"))
            }
            CallError::Busy | CallError::Moved | CallError::Unavailable => Self::Unavailable,
        }
    }
}

async fn escalation_number(
    services: &Services,
    tenant: TenantId,
    id: CallId,
) -> Result<PhoneNumber, ApiError> {
    let db = services.store.api_reader();
    let row = call::Entity::one_of(tenant, id).one(db).await?;
    let number = match &row {
        Some(row) => agents_number(db, row).await?,
        None => None,
    };
    number.ok_or_else(|| {
        let predicate = "is required: the call's agent has no escalationNumber";
        ApiError::field(ValueFault::new(FieldCode::Required, predicate).in_field("to"))
    })
}

/// The transfer target of a request without a number: the agent's number from the version that the call began with.
pub async fn agents_number(
    db: &impl ConnectionTrait,
    call: &call::Model,
) -> Result<Option<PhoneNumber>, DbErr> {
    let settings = versions::of_call(db, call).await?;
    Ok(settings.and_then(|settings| settings.escalation_number))
}
