//! Calls: history, transcripts, and the acts on one: hang up, transfer, erase.

pub mod all_tenants;
pub mod callers;
pub mod diagnosis;
mod erasure;
pub mod filter;
pub mod timeline;
pub mod turns;

use dikala_actors::calls::{CallError, CallInput, TRANSFERS_MAX, versions};
use dikala_entities::{
    AgentId, AuditAction, CallId, CallStatus, CalleeNumber, CallerNumber, ChannelKind,
    HangupInitiator, HangupReason, Millis, OfTenant, PhoneNumber, PhoneNumberId, Speaker, TenantId,
    TurnLatencyMs, VoiceProvider, call, hangup_request, transcript,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, DerivePartialModel, EntityTrait,
    IntoActiveModel, PartialModelTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, ExprTrait, OnConflict},
};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

pub use self::erasure::{ERASED, erase};
use self::filter::{CallFilter, end_of_page};
use super::{
    OperationContext, Principal,
    list::lists,
    stored::{Json, raw},
};
use crate::{
    audit::AuditChange,
    http::{
        answer::{Accepted, OfCall},
        error::{ApiError, Missing},
        extract::{Id, Query, RequestBody, no_transfer, transfer_target},
        field::{FieldCode, ValueFault},
    },
};

/// The hint in the error for a too large `offset`.
const GO_BACK: &str =
    "to go further back give the id of the last call that you have as before, or to";

/// The largest `offset` of a search, whose calls before the page are kept in memory.
const SEARCH_OFFSET_MAX: i64 = 1_000;
/// A search that is not done looks at 10,000 older calls, up to this many times.
const SEARCHES_MAX: usize = 20;

/// A call, running or over. What is only known at the end is null until then.
#[derive(Clone, Debug, DerivePartialModel, Serialize, ToSchema)]
#[sea_orm(entity = "call::Entity")]
#[serde(rename_all = "camelCase")]
#[schema(as = Call, example = json!({
    "id": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "phoneNumberId": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentVersion": 3, "draft": false, "callerNumber": "+6281298765432",
    "calleeNumber": "+6281234567890", "channel": "phone", "direction": "inbound", "status": "ended", "startedAt": "2026-01-15T03:30:00.000Z",
    "answeredAt": "2026-01-15T03:30:04.000Z", "joinedAt": null, "endedAt": "2026-01-15T03:31:34.000Z", "durationSeconds": 94,
    "talkTimeSeconds": 90, "hangupReason": "normal", "hangupInitiator": "caller",
    "transcriptSummary": "The caller asked for an appointment on Friday.", "aiCostIdr": 450, "voiceProvider": "gemini",
    "turnLatencyMs": {"p50": 620, "p95": 1180}, "stalls": 0, "interruptions": 1,
    "metadata": {"campaign": "january"}
}))]
pub struct CallView {
    pub id: CallId,
    /// Null for a call from a browser.
    pub phone_number_id: Option<PhoneNumberId>,
    pub agent_id: Option<AgentId>,
    /// The version of the agent that the call began with; null if the call was refused, or tried settings that are not saved.
    pub agent_version: Option<i64>,
    /// The call tried settings that are not saved.
    #[sea_orm(from_expr = "Expr::col((call::Entity, call::Column::Settings)).is_not_null()")]
    pub draft: bool,
    pub caller_number: CallerNumber,
    pub callee_number: CalleeNumber,
    pub channel: ChannelKind,
    #[sea_orm(skip)]
    pub direction: CallDirection,
    pub status: CallStatus,
    pub started_at: Millis,
    pub answered_at: Option<Millis>,
    /// When a person answered and was joined to the caller.
    pub joined_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub duration_seconds: Option<i64>,
    pub talk_time_seconds: Option<i64>,
    pub hangup_reason: Option<HangupReason>,
    pub hangup_initiator: Option<HangupInitiator>,
    pub transcript_summary: Option<String>,
    pub ai_cost_idr: Option<i64>,
    /// The voice's provider at the end.
    pub voice_provider: Option<VoiceProvider>,
    /// Null until the transcript is there, and without turns of known latency.
    pub turn_latency_ms: Option<TurnLatencyMs>,
    /// Pauses in which the caller waited for the agent and something was done about it.
    pub stalls: Option<i64>,
    /// Turns of the agent that the caller cut off.
    pub interruptions: Option<i64>,
    pub metadata: Json,
}

/// The direction of a call.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallDirection {
    /// A customer called one of the tenant's numbers.
    #[default]
    Inbound,
}

lists! {
    /// A page of calls, newest first.
    CallList { calls: CallView, "calls" }
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
    "turns": [{"role": "caller", "text": "Pagi, saya mau buat janji."},
        {"role": "agent", "text": "Baik, untuk hari", "latencyMs": 640, "interrupted": true}]
}))]
pub struct TranscriptView {
    call_id: CallId,
    summary: Option<String>,
    /// Objects of `role` (`caller`, `agent` or `tool`), `text` and perhaps `at`, `latencyMs` and `interrupted`.
    #[schema(value_type = Vec<UtteranceView>)]
    turns: Box<RawValue>,
}

/// One utterance.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = Turn, rename_all = "camelCase")]
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
    /// Time from the end of the caller's voice to the agent's first sound.
    #[schema(required = false, minimum = 0)]
    pub latency_ms: Option<i64>,
    /// The agent was cut off, and the text is what was heard.
    #[schema(required = false)]
    pub interrupted: bool,
}

async fn find<V: PartialModelTrait>(context: &OperationContext, id: CallId) -> Result<V, ApiError> {
    let found = context.one_of::<call::Entity>(id).into_partial_model();
    let found = found.one(context.store().api_reader()).await?;
    found.ok_or(ApiError::NotFound(Missing::Call))
}

/// One call. `V` is the view for whoever asks.
pub async fn show<V: PartialModelTrait + Serialize>(
    context: OperationContext,
    id: Id<CallId>,
) -> Result<V, ApiError> {
    find(&context, id.0).await
}

/// A page of the tenant's calls.
pub async fn list(context: OperationContext, query: Query) -> Result<CallList, ApiError> {
    let filter = CallFilter::read(&query.0)?;
    let (db, tenant) = (context.store().api_reader(), context.tenant()?);
    match &filter.part {
        None => page(db, tenant, &filter).await,
        Some(_) => search(db, tenant, &filter).await,
    }
}

/// A page of the calls in which a part of a number was found. Looks at the newest calls, a bounded number of them.
async fn search(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    filter: &CallFilter,
) -> Result<CallList, ApiError> {
    let page = filter.page;
    if page.offset > SEARCH_OFFSET_MAX {
        let predicate = format!("must be at most {SEARCH_OFFSET_MAX} in a search; {GO_BACK}");
        let fault = ValueFault::new(FieldCode::TooLarge, predicate).bounded(SEARCH_OFFSET_MAX);
        return Err(ApiError::field(fault.in_field("offset")));
    }
    let wanted = page.offset.saturating_add(page.limit).unsigned_abs() + 1;
    let mut older = match filter.before {
        Some(before) => Some(end_of_page(db, tenant, before).await?),
        None => None,
    };
    let mut calls: Vec<CallView> = Vec::new();
    for _ in 0..SEARCHES_MAX {
        let missing = wanted - calls.len() as u64;
        let (found, since) = newest(db, tenant, filter, older, missing).await?;
        calls.extend(found);
        older = since;
        if older.is_none() || calls.len() as u64 >= wanted {
            break;
        }
    }
    let (calls, has_more) = page.cut(calls);
    Ok(CallList::new(page, calls, has_more))
}

/// A page of a tenant's calls, newest first.
pub async fn page(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    filter: &CallFilter,
) -> Result<CallList, ApiError> {
    let (page, _) = searched_page(db, tenant, filter).await?;
    Ok(page)
}

/// A page of a tenant's calls, newest first, and the oldest call that was searched for it, if older ones may match, too.
pub async fn searched_page(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    filter: &CallFilter,
) -> Result<(CallList, Option<CallId>), ApiError> {
    let page = filter.page;
    let start = match filter.before {
        Some(before) => Some(end_of_page(db, tenant, before).await?),
        None => None,
    };
    let narrowed = filter.by_index(db, tenant, start).await?;
    let select = newest_first(tenant, narrowed.calls.clone());
    let mut calls = Vec::new();
    if page.is_in_reach(db, &select, GO_BACK).await? {
        calls = narrowed.read(db, page.of(select)).await?;
    }
    let has_more = page.has_more(&mut calls);
    let since = narrowed.since.map(|(_, call)| call);
    Ok((CallList::new(page, calls, has_more), since))
}

/// Matching calls, newest first, at most `limit`; only those older than `after`, if it is given. With them the
/// oldest call that was searched, if older ones may match, too.
pub async fn newest<V: PartialModelTrait>(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    filter: &CallFilter,
    after: Option<(Millis, CallId)>,
    limit: u64,
) -> Result<(Vec<V>, Option<(Millis, CallId)>), DbErr> {
    let narrowed = filter.by_index(db, tenant, after).await?;
    let select = newest_first(tenant, narrowed.calls.clone());
    let calls = narrowed.read(db, select.limit(limit)).await?;
    Ok((calls, narrowed.since))
}

/// The tenant's newest calls, at most `limit`.
pub async fn latest(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    limit: u64,
) -> Result<Vec<CallView>, DbErr> {
    let select = newest_first(tenant, Condition::all()).limit(limit);
    select.into_partial_model().all(db).await
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
    select.into_partial_model().all(db).await
}

fn newest_first(tenant: TenantId, wanted: Condition) -> Select<call::Entity> {
    call::Entity::of(tenant)
        .filter(wanted)
        .order_by_desc(call::Column::StartedAt)
        .order_by_desc(call::Column::Id)
}

/// A transcript without turns, which replaces none.
pub const NO_TURNS: &str = "[]";

/// The transcript of a call.
pub async fn transcript(
    context: OperationContext,
    id: Id<CallId>,
) -> Result<TranscriptView, ApiError> {
    let call: CallView = find(&context, id.0).await?;
    let stored = context.one_of::<transcript::Entity>(call.id);
    let stored = stored.one(context.store().api_reader()).await?;
    let (summary, turns) = match stored {
        Some(stored) if stored.turns != NO_TURNS => (Some(stored.summary), stored.turns),
        _ => {
            let tenant = context.tenant()?;
            let heard = turns::heard(context.store().api_reader(), tenant, call.id).await?;
            (call.transcript_summary, heard)
        }
    };
    Ok(TranscriptView {
        call_id: call.id,
        summary,
        turns: raw(turns, "[]"),
    })
}

/// Ends a running call. `V` is the view for whoever asks.
pub async fn hang_up<V: PartialModelTrait + Serialize>(
    context: OperationContext,
    id: Id<CallId>,
    body: RequestBody,
) -> Result<OfCall<Accepted<V>>, ApiError> {
    let tenant = running(&context, id.0).await?;
    body.optional_form()?.expect_empty()?;
    let shown = find(&context, id.0).await?;
    if context.principal == Principal::CommandLine {
        request_hang_up(&context, id.0).await?;
    } else {
        let change = AuditChange::new(AuditAction::CallHangup, id.0);
        let by = match context.principal.scope() {
            Some(_) => HangupInitiator::Tenant,
            None => HangupInitiator::Operator,
        };
        let audit = Some(Box::new(context.entry(tenant, change)));
        tell(&context, id.0, CallInput::RequestHangUp { by, audit }).await?;
    }
    Ok(OfCall(id.0, Accepted(shown)))
}

/// Stores a request, which the node that runs the call finds within half a second. A repeat changes nothing. If no node
/// runs the call, the next start carries it out. The audit entry names the operator and is written by the node that
/// carries it out.
async fn request_hang_up(context: &OperationContext, call: CallId) -> Result<(), ApiError> {
    let request = hangup_request::Model {
        call_id: call,
        actor: context.principal.actor(),
        node: context.origin.node.to_string(),
        asked_at: context.now,
    };
    let exists = OnConflict::column(hangup_request::Column::CallId)
        .do_nothing()
        .to_owned();
    let write = context.begin().await?;
    let inserted = hangup_request::Entity::insert(request.into_active_model())
        .on_conflict(exists)
        .exec_without_returning(&*write)
        .await;
    match inserted {
        Ok(_) | Err(DbErr::RecordNotInserted) => write.commit(()).await,
        Err(error) => Err(error.into()),
    }
}

/// Connects a running call to a person.
pub async fn transfer(
    context: OperationContext,
    id: Id<CallId>,
    body: RequestBody,
) -> Result<OfCall<Accepted<CallView>>, ApiError> {
    let tenant = running(&context, id.0).await?;
    let transfers = &context.agent_limits()?.transfers;
    let sent = body.optional_form()?.read(&[], |form| {
        let target = |value: &Value| transfer_target(transfers, value);
        Some(form.optional("to", None, target))
    })?;
    let to = match sent {
        Some(to) => to,
        None => escalation_number(&context, id.0).await?,
    };
    let shown = find(&context, id.0).await?;
    let change = AuditChange::new(AuditAction::CallTransfer, id.0).with(format_args!("{to:?}"));
    let audit = Some(Box::new(context.entry(tenant, change)));
    tell(&context, id.0, CallInput::RequestTransfer { to, audit }).await?;
    Ok(OfCall(id.0, Accepted(shown)))
}

/// The tenant of a running call; an error if it is over.
async fn running(context: &OperationContext, id: CallId) -> Result<TenantId, ApiError> {
    let found: Option<(TenantId, CallStatus)> = context
        .one_of::<call::Entity>(id)
        .select_only()
        .columns([call::Column::TenantId, call::Column::Status])
        .into_tuple()
        .one(context.store().api_reader())
        .await?;
    match found {
        None => Err(ApiError::NotFound(Missing::Call)),
        Some((_, status)) if status.is_final() => Err(ApiError::CallNotActive),
        Some((tenant, _)) => Ok(tenant),
    }
}

/// Sends a command to a call. On success the command is stored and on its way to the bridge; the call changes once the
/// bridge reports it.
async fn tell(context: &OperationContext, id: CallId, input: CallInput) -> Result<(), ApiError> {
    let told = context.serving()?.node.calls.tell(None, id, input).await;
    told.map(drop).map_err(|error| match error {
        CallError::UnknownCall
        | CallError::UnknownNumber
        | CallError::UnknownAgent
        | CallError::NotWeb => ApiError::NotFound(Missing::Call),
        CallError::NotActive | CallError::InvalidTransition { .. } => ApiError::CallNotActive,
        CallError::TransferNotAllowed => ApiError::field(no_transfer().in_field("to")),
        CallError::Joined => {
            let sentence = "The caller is connected to a person already.";
            let fault = ValueFault::sentence(FieldCode::NotAllowed, sentence);
            ApiError::field(fault.in_words("fault-is-joined").in_field("to"))
        }
        CallError::TooManyTransfers => {
            let sentence = format!(
                "The call was transferred {TRANSFERS_MAX} times, the most that a call can be."
            );
            let fault = ValueFault::sentence(FieldCode::NotAllowed, sentence);
            let fault = fault.bounded(TRANSFERS_MAX.into());
            ApiError::field(fault.in_words("fault-too-many-transfers").in_field("to"))
        }
        CallError::Busy | CallError::Moved | CallError::Unavailable => ApiError::Unavailable,
    })
}

async fn escalation_number(
    context: &OperationContext,
    id: CallId,
) -> Result<PhoneNumber, ApiError> {
    let db = context.store().api_reader();
    let row = context.one_of::<call::Entity>(id).one(db).await?;
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
