//! Calls: their history, what they announced, what was said, and the two things a tenant can do to a running one.

use actix_web::{HttpResponse, web::Data};
use dikala_actors::call::versions;
use dikala_entities::{
    AgentId, CallId, CallStatus, CallerNumber, HangupInitiator, HangupReason, Millis, PhoneNumber,
    PhoneNumberId, TenantId, call, event, transcript,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DerivePartialModel, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use super::{
    Answer, Page,
    events::Event,
    listing::{self, Listing},
    refused,
};
use crate::{
    error::{ApiError, Missing},
    extract::{
        Body, Caller, Fault, FieldCode, Id, Parsed, Query, Reader, id, instant, transfer_target,
        word,
    },
    openapi::schema,
    services::Services,
};

/// Events of a call that are read at once.
const EVENTS_BATCH: u64 = 8;

/// What is said to who skips too many calls.
const GO_BACK: &str =
    "to go further back give the id of the last call that you have as before, or to";

/// The columns that the API shows.
#[derive(Clone, Debug, DerivePartialModel)]
#[sea_orm(entity = "call::Entity")]
struct CallRow {
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
#[schema(example = json!({
    "id": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "phoneNumberId": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentVersion": 3, "callerNumber": "+6281298765432", "calleeNumber": "+6281234567890",
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
    /// What the call began with; null where it was refused.
    agent_version: Option<i64>,
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

/// What a call announced, oldest first; with `limit` or `offset` a page of it.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"events": [{
    "id": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered", "timestamp": "2026-01-15T03:30:04.000Z",
    "data": {"callId": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6",
             "startedAt": "2026-01-15T03:30:00.000Z"}
}]}))]
pub struct EventList {
    pub events: Vec<Event>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

impl From<CallRow> for Call {
    fn from(row: CallRow) -> Self {
        Self {
            id: row.id,
            phone_number_id: row.phone_number_id,
            agent_id: row.agent_id,
            agent_version: row.agent_version,
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
    agent: Option<AgentId>,
    number: Option<PhoneNumberId>,
    caller: Option<CallerNumber>,
    before: Option<CallId>,
}

impl Filter {
    fn read(query: &Query) -> Result<Self, ApiError> {
        query.0.read(&[], |form| {
            Some(Self {
                page: Page::read(form),
                status: form.optional("status", None, word("a status")),
                from: form.optional("from", None, instant),
                to: form.optional("to", None, instant),
                agent: form.optional("agentId", None, id("an agent")),
                number: form.optional("phoneNumberId", None, id("a phone number")),
                caller: form.optional("callerNumber", None, caller_number),
                before: cursor(form),
            })
        })
    }

    fn of(&self, tenant: TenantId) -> Condition {
        Condition::all()
            .add(call::Column::TenantId.eq(tenant))
            .add_option(self.status.map(|status| call::Column::Status.eq(status)))
            .add_option(self.from.map(|from| call::Column::StartedAt.gte(from)))
            .add_option(self.to.map(|to| call::Column::StartedAt.lt(to)))
            .add_option(self.agent.map(|agent| call::Column::AgentId.eq(agent)))
            .add_option(
                self.number
                    .map(|number| call::Column::PhoneNumberId.eq(number)),
            )
            .add_option(
                self.caller
                    .clone()
                    .map(|caller| call::Column::CallerNumber.eq(caller)),
            )
    }
}

/// Where the page before ended. Calls that come in meanwhile do not move what is older than that, as they do with `offset`.
fn cursor(form: &mut Reader<'_>) -> Option<CallId> {
    form.optional("before", None, id("a call"))
}

fn caller_number(value: &Value) -> Parsed<CallerNumber> {
    let text = value.as_str().unwrap_or_default();
    // A plus that was not percent-encoded arrives in a query string as a blank.
    let mended = match text.strip_prefix(' ') {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => format!("+{digits}"),
        _ => text.to_owned(),
    };
    mended
        .parse()
        .map_err(|error| Fault::new(FieldCode::InvalidFormat, format!("{error}")).into())
}

/// Older than that call, in the order of the list.
async fn older(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    before: CallId,
) -> Result<Condition, ApiError> {
    let at: Option<Millis> = call::Entity::find_by_id(before)
        .filter(call::Column::TenantId.eq(tenant))
        .select_only()
        .column(call::Column::StartedAt)
        .into_tuple()
        .one(db)
        .await?;
    let at = at.ok_or_else(|| {
        let predicate = "names no call of this account; begin again without it";
        ApiError::field(Fault::new(FieldCode::NotFound, predicate).in_field("before"))
    })?;
    let same_moment = Condition::all()
        .add(call::Column::StartedAt.eq(at))
        .add(call::Column::Id.lt(before));
    // Said twice, so that the index begins where the page does.
    Ok(Condition::all().add(call::Column::StartedAt.lte(at)).add(
        Condition::any()
            .add(call::Column::StartedAt.lt(at))
            .add(same_moment),
    ))
}

/// `GET /calls`
pub async fn list(
    caller: Caller,
    services: Data<Services>,
    query: Query,
) -> Result<Answer, ApiError> {
    let filter = Filter::read(&query)?;
    let page = filter.page;
    let mut select = call::Entity::find().filter(filter.of(caller.tenant));
    if let Some(before) = filter.before {
        select = select.filter(older(services.store.api_reader(), caller.tenant, before).await?);
    }
    let select = select
        .order_by_desc(call::Column::StartedAt)
        .order_by_desc(call::Column::Id);
    let db = services.store.api_reader();
    let mut rows: Vec<CallRow> = Vec::new();
    if page.is_in_reach(db, &select, GO_BACK).await? {
        rows = page.of(select).into_partial_model().all(db).await?;
    }
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
    let row = find(services.store.api_reader(), caller.tenant, id.0).await?;
    Ok(Answer::ok(&Call::from(row)))
}

/// `GET /calls/{id}/transcript`
pub async fn transcript(
    caller: Caller,
    services: Data<Services>,
    id: Id<CallId>,
) -> Result<Answer, ApiError> {
    let call = find(services.store.api_reader(), caller.tenant, id.0).await?;
    let stored = transcript::Entity::find_by_id(call.id)
        .one(services.store.api_reader())
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
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let call = find(services.store.api_reader(), caller.tenant, id.0).await?;
    let list = Listing {
        key: "events",
        rows: event::Entity::find().filter(event::Column::CallId.eq(call.id)),
        by: event::Column::Id,
        batch: EVENTS_BATCH,
        show: listing::json::<Event, _>,
    };
    listing::answer(services, &caller, &query, list).await
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
    let row = find(services.store.api_reader(), caller.tenant, id.0).await?;
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
    let row = find(services.store.api_reader(), caller.tenant, id.0).await?;
    Ok(Answer::accepted(&Call::from(row)))
}

async fn running(services: &Services, tenant: TenantId, id: CallId) -> Result<(), ApiError> {
    let call = find(services.store.api_reader(), tenant, id).await?;
    if call.status.is_final() {
        Err(ApiError::CallNotActive)
    } else {
        Ok(())
    }
}

/// The number of the agent as it was when the call began.
async fn escalation_number(services: &Services, id: CallId) -> Result<PhoneNumber, ApiError> {
    let db = services.store.api_reader();
    let row = call::Entity::find_by_id(id).one(db).await?;
    let settings = match &row {
        Some(row) => versions::of_call(db, row).await?,
        None => None,
    };
    settings
        .and_then(|settings| settings.escalation_number)
        .ok_or_else(|| {
            let predicate = "is required: the call's agent has no escalationNumber";
            ApiError::field(Fault::new(FieldCode::Required, predicate).in_field("to"))
        })
}
