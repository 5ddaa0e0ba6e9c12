//! Calls: their history, what they announced, what was said, and the two things a tenant can do to a running one.

use actix_web::web::Data;
use dikala_entities::{
    AgentId, CallId, CallStatus, CallerNumber, HangupInitiator, HangupReason, Millis, PhoneNumber,
    PhoneNumberId, TenantId, call, event, transcript,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DerivePartialModel, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::{Answer, Page, events::Event, refused};
use crate::{
    error::{ApiError, Missing},
    extract::{Body, Caller, Fault, FieldCode, Id, Query, instant, transfer_target, word},
    openapi::schema,
    services::Services,
};

/// The events of a call are not paged: this bounds them.
const EVENTS_MAX: u64 = 1_000;

/// The columns that the API shows; the settings of a call can be a hundred times their size.
#[derive(Clone, Debug, DerivePartialModel)]
#[sea_orm(entity = "call::Entity")]
struct CallRow {
    id: CallId,
    phone_number_id: PhoneNumberId,
    agent_id: Option<AgentId>,
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
#[schema(example = json!({
    "id": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "phoneNumberId": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "callerNumber": "+6281298765432", "calleeNumber": "+6281234567890",
    "direction": "inbound", "status": "ended", "startedAt": "2026-01-15T03:30:00.000Z",
    "answeredAt": "2026-01-15T03:30:04.000Z", "endedAt": "2026-01-15T03:31:34.000Z", "durationSeconds": 94,
    "talkTimeSeconds": 90, "hangupReason": "normal", "hangupInitiator": "caller",
    "transcriptSummary": "The caller asked for an appointment on Friday.", "aiCostIdr": 450,
    "metadata": {"campaign": "january"}
}))]
pub struct Call {
    #[schema(schema_with = schema::call_id)]
    id: CallId,
    #[schema(schema_with = schema::phone_number_id)]
    phone_number_id: PhoneNumberId,
    #[schema(schema_with = schema::agent_id_or_null)]
    agent_id: Option<AgentId>,
    #[schema(value_type = String)]
    caller_number: CallerNumber,
    #[schema(schema_with = schema::phone)]
    callee_number: PhoneNumber,
    #[schema(schema_with = schema::direction)]
    direction: &'static str,
    #[schema(schema_with = schema::call_status)]
    status: CallStatus,
    #[schema(schema_with = schema::instant)]
    started_at: Millis,
    #[schema(schema_with = schema::instant_or_null)]
    answered_at: Option<Millis>,
    #[schema(schema_with = schema::instant_or_null)]
    ended_at: Option<Millis>,
    duration_seconds: Option<i64>,
    talk_time_seconds: Option<i64>,
    #[schema(schema_with = schema::hangup_reason)]
    hangup_reason: Option<HangupReason>,
    #[schema(schema_with = schema::hangup_initiator)]
    hangup_initiator: Option<HangupInitiator>,
    transcript_summary: Option<String>,
    ai_cost_idr: Option<i64>,
    #[schema(schema_with = schema::any_object)]
    metadata: Box<RawValue>,
}

/// A page of calls, newest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"calls": [], "limit": 50, "offset": 0, "hasMore": false}))]
pub struct CallList {
    calls: Vec<Call>,
    limit: i64,
    offset: i64,
    has_more: bool,
}

/// Where to connect the caller; the agent's `escalationNumber` if left out.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"to": "+6281234567890"}))]
pub struct Transfer {
    #[schema(schema_with = schema::phone_or_null)]
    pub to: Option<PhoneNumber>,
}

/// What was said in a call.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "summary": "The caller asked for an appointment on Friday.",
    "turns": [{"role": "agent", "text": "Selamat pagi!"}, {"role": "caller", "text": "Pagi, saya mau buat janji."}]
}))]
pub struct Transcript {
    #[schema(schema_with = schema::call_id)]
    call_id: CallId,
    summary: Option<String>,
    /// Objects of `role` (`caller`, `agent` or `tool`), `text` and perhaps `at`.
    #[schema(value_type = Vec<Turn>)]
    turns: Box<RawValue>,
}

/// One utterance.
#[derive(Clone, Debug, ToSchema)]
pub struct Turn {
    #[schema(schema_with = schema::role)]
    pub role: String,
    pub text: String,
    /// When, where the bridge said so.
    #[schema(required = false)]
    pub at: Option<String>,
}

/// What a call announced, oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"events": [{
    "id": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered", "timestamp": "2026-01-15T03:30:04.000Z",
    "data": {"callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6",
             "startedAt": "2026-01-15T03:30:00.000Z"}
}]}))]
pub struct EventList {
    events: Vec<Event>,
}

impl From<CallRow> for Call {
    fn from(row: CallRow) -> Self {
        Self {
            id: row.id,
            phone_number_id: row.phone_number_id,
            agent_id: row.agent_id,
            caller_number: row.caller_number,
            callee_number: row.callee_number,
            direction: "inbound",
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
            metadata: raw(row.metadata, "{}"),
        }
    }
}

/// JSON from the store as it stands, or `otherwise` where it is none.
pub(super) fn raw(json: String, otherwise: &'static str) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_else(|_| {
        RawValue::from_string(otherwise.to_owned()).expect("the fallback is JSON")
    })
}

async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: CallId,
) -> Result<CallRow, ApiError> {
    call::Entity::find_by_id(id)
        .filter(call::Column::TenantId.eq(tenant))
        .into_partial_model()
        .one(db)
        .await?
        .ok_or(ApiError::NotFound(Missing::Call))
}

struct Filter {
    page: Page,
    status: Option<CallStatus>,
    from: Option<Millis>,
    to: Option<Millis>,
}

impl Filter {
    fn read(query: &Query) -> Result<Self, ApiError> {
        query.0.read(&[], |form| {
            Some(Self {
                page: Page::read(form),
                status: form.optional("status", None, word("a status")),
                from: form.optional("from", None, instant),
                to: form.optional("to", None, instant),
            })
        })
    }
}

/// `GET /calls`
pub async fn list(
    caller: Caller,
    services: Data<Services>,
    query: Query,
) -> Result<Answer, ApiError> {
    let Filter {
        page,
        status,
        from,
        to,
    } = Filter::read(&query)?;
    let mut select = call::Entity::find().filter(call::Column::TenantId.eq(caller.tenant));
    if let Some(status) = status {
        select = select.filter(call::Column::Status.eq(status));
    }
    if let Some(from) = from {
        select = select.filter(call::Column::StartedAt.gte(from));
    }
    if let Some(to) = to {
        select = select.filter(call::Column::StartedAt.lt(to));
    }
    let select = select
        .order_by_desc(call::Column::StartedAt)
        .order_by_desc(call::Column::Id);
    let mut rows: Vec<CallRow> = page
        .of(select)
        .into_partial_model()
        .all(services.store.reader())
        .await?;
    Ok(Answer::ok(&CallList {
        has_more: page.has_more(&mut rows),
        calls: rows.into_iter().map(Into::into).collect(),
        limit: page.limit,
        offset: page.offset,
    }))
}

/// `GET /calls/{id}`
pub async fn show(
    caller: Caller,
    services: Data<Services>,
    id: Id<CallId>,
) -> Result<Answer, ApiError> {
    let row = find(services.store.reader(), caller.tenant, id.0).await?;
    Ok(Answer::ok(&Call::from(row)))
}

/// `GET /calls/{id}/transcript`
pub async fn transcript(
    caller: Caller,
    services: Data<Services>,
    id: Id<CallId>,
) -> Result<Answer, ApiError> {
    let call = find(services.store.reader(), caller.tenant, id.0).await?;
    let stored = transcript::Entity::find_by_id(call.id)
        .one(services.store.reader())
        .await?;
    let (summary, turns) = match stored {
        Some(stored) => (Some(stored.summary), stored.turns),
        None => (call.transcript_summary, "[]".to_owned()),
    };
    Ok(Answer::ok(&Transcript {
        call_id: call.id,
        summary,
        turns: raw(turns, "[]"),
    }))
}

/// `GET /calls/{id}/events`
pub async fn events(
    caller: Caller,
    services: Data<Services>,
    id: Id<CallId>,
) -> Result<Answer, ApiError> {
    let call = find(services.store.reader(), caller.tenant, id.0).await?;
    let stored = event::Entity::find()
        .filter(event::Column::CallId.eq(call.id))
        .order_by_asc(event::Column::Id)
        .limit(EVENTS_MAX)
        .all(services.store.reader())
        .await?;
    let events = stored.into_iter().map(Into::into).collect();
    Ok(Answer::ok(&EventList { events }))
}

/// `POST /calls/{id}/hangup`
pub async fn hang_up(
    caller: Caller,
    services: Data<Services>,
    id: Id<CallId>,
    body: Body,
) -> Result<Answer, ApiError> {
    running(&services, caller.tenant, id.0).await?;
    body.optional_form()?.expect_empty()?;
    let done = services.calls.hang_up(caller.tenant, id.0).await;
    done.map_err(|error| refused(error, Missing::Call))?;
    let row = find(services.store.reader(), caller.tenant, id.0).await?;
    Ok(Answer::accepted(&Call::from(row)))
}

/// `POST /calls/{id}/transfer`
pub async fn transfer(
    caller: Caller,
    services: Data<Services>,
    id: Id<CallId>,
    body: Body,
) -> Result<Answer, ApiError> {
    running(&services, caller.tenant, id.0).await?;
    let sent = body.optional_form()?.read(&[], |form| {
        let transfers = &services.settings.transfers;
        let target = |value: &Value| transfer_target(transfers, value);
        Some(form.optional("to", None, target))
    })?;
    let to = match sent {
        Some(to) => to,
        None => escalation_number(&services, id.0).await?,
    };
    let done = services.calls.transfer(caller.tenant, id.0, to).await;
    done.map_err(|error| refused(error, Missing::Call))?;
    let row = find(services.store.reader(), caller.tenant, id.0).await?;
    Ok(Answer::accepted(&Call::from(row)))
}

async fn running(services: &Services, tenant: TenantId, id: CallId) -> Result<(), ApiError> {
    let call = find(services.store.reader(), tenant, id).await?;
    if call.status.is_final() {
        Err(ApiError::CallNotActive)
    } else {
        Ok(())
    }
}

/// The number of the agent as it was when the call began.
async fn escalation_number(services: &Services, id: CallId) -> Result<PhoneNumber, ApiError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Settings {
        escalation_number: Option<PhoneNumber>,
    }
    let settings: Option<Option<String>> = call::Entity::find_by_id(id)
        .select_only()
        .column(call::Column::Settings)
        .into_tuple()
        .one(services.store.reader())
        .await?;
    settings
        .flatten()
        .and_then(|settings| serde_json::from_str::<Settings>(&settings).ok())
        .and_then(|settings| settings.escalation_number)
        .ok_or_else(|| {
            let predicate = "is required: the call's agent has no escalationNumber";
            ApiError::field(Fault::new(FieldCode::Required, predicate).in_field("to"))
        })
}
