//! Calls of all tenants, as operators see them: running ones first; one call with its details.

use dikala_entities::{
    AgentId, BridgeId, CallId, CallStatus, CalleeNumber, CallerNumber, ChannelKind, DeliveryId,
    DeliveryStatus, EventId, EventKind, HangupInitiator, HangupReason, Millis, PhoneNumber,
    PhoneNumberId, TenantId, TurnLatencyMs, VoiceProvider, WebhookId,
    call::{Column, Entity, ended_as, unfinished},
    credit_hold, delivery, event,
};
use sea_orm::{
    ColumnTrait, Condition, DbErr, DerivePartialModel, QueryFilter, QueryOrder, QuerySelect, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    diagnosis::{self, CallMedia},
    filter::caller_number,
    find,
};
use crate::{
    http::{
        error::ApiError,
        extract::{FormFields, Id, OperatorQuery, ParseResult, e164, id, instant, word},
        field::{FieldCode, ValueFault},
    },
    operations::{
        OperationContext, PageRange, SKIPPED_MAX,
        list::{lists, reach},
    },
};

/// Maximum number of shown events of a call, and of their deliveries; oldest first.
const SHOWN_MAX: u64 = 500;
/// Maximum number of running calls that are read.
const LIVE_MAX: u64 = 10_000;

/// A call of whatever tenant. What was said in it is not for operators.
#[derive(Clone, Debug, DerivePartialModel, Serialize, ToSchema)]
#[sea_orm(entity = "Entity")]
#[serde(rename_all = "camelCase")]
#[schema(as = Call, example = json!({
    "id": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "bridgeId": "br_01k9zv3m8rj2q4w6y8a0c2e4g6", "bridgeCallId": "3848276298220188511@sip.example.com",
    "phoneNumberId": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentVersion": 3,
    "callerNumber": "+6281298765432", "calleeNumber": "+6281234567890", "channel": "phone", "status": "answered",
    "startedAt": "2026-01-15T03:30:00.000Z", "answeredAt": "2026-01-15T03:30:04.000Z", "joinedAt": null, "endedAt": null,
    "durationSeconds": null, "talkTimeSeconds": null, "hangupReason": null, "hangupInitiator": null, "failureDetail": null,
    "voiceProvider": null, "turnLatencyMs": null, "stalls": null, "interruptions": null,
    "lastSignAt": "2026-01-15T03:30:04.000Z", "owner": "node_01k9zv3m8rj2q4w6y8a0c2e4g6"
}))]
pub struct OperatorCall {
    pub id: CallId,
    pub tenant_id: TenantId,
    pub bridge_id: BridgeId,
    /// The bridge's own id of it.
    pub bridge_call_id: String,
    /// Null for a call from a browser.
    pub phone_number_id: Option<PhoneNumberId>,
    pub agent_id: Option<AgentId>,
    pub agent_version: Option<i64>,
    pub caller_number: CallerNumber,
    pub callee_number: CalleeNumber,
    pub channel: ChannelKind,
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
    /// The bridge's description of a failure.
    pub failure_detail: Option<String>,
    /// The voice's provider at the end.
    pub voice_provider: Option<VoiceProvider>,
    /// Null until the transcript is there, and without turns of known latency.
    pub turn_latency_ms: Option<TurnLatencyMs>,
    /// Pauses in which the caller waited for the agent and something was done about it.
    pub stalls: Option<i64>,
    /// Turns of the agent that the caller cut off.
    pub interruptions: Option<i64>,
    /// The last message about this call that changed something.
    pub last_sign_at: Millis,
    /// The node that runs it; empty once it was erased.
    pub owner: String,
}

/// The credit of a call.
#[derive(Clone, Debug, DerivePartialModel, Serialize, ToSchema)]
#[sea_orm(entity = "credit_hold::Entity")]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Granted and not begun.
    #[sea_orm(from_col = "held")]
    pub held_minutes: i64,
    /// Begun.
    #[sea_orm(from_col = "used")]
    pub used_minutes: i64,
    /// How often minutes were granted.
    #[sea_orm(from_col = "request")]
    pub grants: i64,
    /// The last grant was announced as the last.
    pub last: bool,
    /// Why the call was not admitted.
    pub refusal: Option<String>,
    pub created_at: Millis,
    pub settled_at: Option<Millis>,
}

/// An event of a call.
#[derive(Clone, Debug, DerivePartialModel, Serialize, ToSchema)]
#[sea_orm(entity = "event::Entity")]
#[serde(rename_all = "camelCase")]
#[schema(as = Announced)]
pub struct CallEventSummary {
    pub id: EventId,
    #[sea_orm(from_col = "kind")]
    pub event: EventKind,
    #[sea_orm(from_col = "occurred_at")]
    pub timestamp: Millis,
}

/// An event of a call on its way to a webhook.
#[derive(Clone, Debug, DerivePartialModel, Serialize, ToSchema)]
#[sea_orm(entity = "delivery::Entity")]
#[serde(rename_all = "camelCase")]
#[schema(as = Sent)]
pub struct CallDeliveryStatus {
    pub id: DeliveryId,
    pub webhook_id: WebhookId,
    pub event_id: EventId,
    #[sea_orm(from_col = "kind")]
    pub event: EventKind,
    pub status: DeliveryStatus,
    #[sea_orm(from_col = "attempts")]
    pub attempt_count: i64,
    pub next_attempt_at: Option<Millis>,
    pub created_at: Millis,
    pub completed_at: Option<Millis>,
}

/// A call with its credit, what it announced, and where that went.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "bridgeId": "br_01k9zv3m8rj2q4w6y8a0c2e4g6", "bridgeCallId": "3848276298220188511@sip.example.com",
    "phoneNumberId": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentVersion": 3,
    "callerNumber": "+6281298765432", "calleeNumber": "+6281234567890", "channel": "phone", "status": "answered",
    "startedAt": "2026-01-15T03:30:00.000Z", "answeredAt": "2026-01-15T03:30:04.000Z", "joinedAt": null, "endedAt": null,
    "durationSeconds": null, "talkTimeSeconds": null, "hangupReason": null, "hangupInitiator": null, "failureDetail": null,
    "voiceProvider": null, "turnLatencyMs": null, "stalls": null, "interruptions": null,
    "lastSignAt": "2026-01-15T03:30:04.000Z", "owner": "node_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "holds": [{"heldMinutes": 1, "usedMinutes": 1, "grants": 1, "last": false, "refusal": null,
               "createdAt": "2026-01-15T03:30:00.000Z", "settledAt": null}],
    "events": [{"id": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered", "timestamp": "2026-01-15T03:30:04.000Z"}],
    "deliveries": [{"id": "dlv_01k9zv3m8rj2q4w6y8a0c2e4g6", "webhookId": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6",
                    "eventId": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "call.answered", "status": "succeeded", "attemptCount": 1,
                    "nextAttemptAt": null, "createdAt": "2026-01-15T03:30:04.000Z", "completedAt": "2026-01-15T03:30:04.120Z"}],
    "media": {"connection": "good", "codec": "PCMA", "roundTripMs": 38,
              "received": {"packets": 4480, "lost": 12, "late": 3, "jitterP95Ms": 6, "concealedMs": 240, "mos": 4.35},
              "sent": {"packets": 4492, "lost": 8, "late": null, "jitterP95Ms": 4, "concealedMs": null, "mos": 4.36},
              "person": null}
}))]
pub struct CallDetail {
    #[serde(flatten)]
    #[schema(inline)]
    pub call: OperatorCall,
    /// None for a call that was refused before it asked for credit, or whose hold is no longer kept.
    pub holds: Vec<Hold>,
    /// Oldest first, 500 at most.
    pub events: Vec<CallEventSummary>,
    /// Oldest first, 500 at most.
    pub deliveries: Vec<CallDeliveryStatus>,
    /// The quality of the media; null if the telephony bridge of this process did not hold the call, or no longer knows it.
    pub media: Option<CallMedia>,
}

lists! {
    /// A page of calls: those that are not over, then the others; each newest first.
    CallList { calls: OperatorCall, "calls" }
}

/// The query's filters.
struct Filter {
    page: PageRange,
    status: Option<CallStatus>,
    tenant: Option<TenantId>,
    bridge: Option<BridgeId>,
    did: Option<PhoneNumber>,
    caller: Option<CallerNumber>,
    /// Inclusive.
    from: Option<Millis>,
    /// Exclusive.
    to: Option<Millis>,
}

impl Filter {
    fn read(form: &FormFields) -> Result<Self, ApiError> {
        form.read(&[], |form| {
            Some(Self {
                page: PageRange::read(form),
                status: form.optional("status", None, word("a status")),
                tenant: form.optional("tenantId", None, id("a tenant")),
                bridge: form.optional("bridgeId", None, id("a bridge")),
                did: form.optional("did", None, e164_in_query),
                caller: form.optional("callerNumber", None, caller_number),
                from: form.optional("from", None, instant),
                to: form.optional("to", None, instant),
            })
        })
    }

    fn condition(&self) -> Condition {
        Condition::all()
            .add_option(self.status.map(|status| match status.is_final() {
                true => ended_as(status),
                false => Column::Status.eq(status),
            }))
            .add_option(self.tenant.map(|tenant| Column::TenantId.eq(tenant)))
            .add_option(self.bridge.map(|bridge| Column::BridgeId.eq(bridge)))
            .add_option(self.did.clone().map(|did| Column::CalleeNumber.eq(did)))
            .add_option(
                self.caller
                    .clone()
                    .map(|from| Column::CallerNumber.eq(from)),
            )
            .add_option(self.from.map(|from| Column::StartedAt.gte(from)))
            .add_option(self.to.map(|to| Column::StartedAt.lt(to)))
    }

    /// Running calls, newest first. The order of the query is that of an index on such calls, so that both
    /// databases use it.
    async fn live(&self, context: &OperationContext) -> Result<Vec<CallId>, DbErr> {
        let mut found: Vec<(Millis, CallId)> = context
            .rows::<Entity>()
            .select_only()
            .columns([Column::StartedAt, Column::Id])
            .filter(unfinished())
            .filter(self.condition())
            .order_by_asc(Column::Owner)
            .order_by_asc(Column::Id)
            .limit(LIVE_MAX)
            .into_tuple()
            .all(context.store().api_reader())
            .await?;
        found.sort_unstable_by(|one, other| other.cmp(one));
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }

    /// Ended calls, newest first. A tenant's calls come from its index; without a tenant, only the newest calls by
    /// id are searched.
    async fn over(&self, context: &OperationContext) -> Result<Select<Entity>, DbErr> {
        let over = [CallStatus::Ringing, CallStatus::Answered];
        let over = context
            .rows::<Entity>()
            .filter(self.condition())
            .filter(Column::Status.is_not_in(over));
        if self.tenant.is_some() {
            return Ok(over
                .order_by_desc(Column::StartedAt)
                .order_by_desc(Column::Id));
        }
        // An id holds the time of its creation, which is not before the call's start. Calls that began before `to`
        // may have later ids.
        let came_in = context
            .rows::<Entity>()
            .filter(Column::Id.lt(CallId::first_at(context.now.plus_ms(1))))
            .order_by_desc(Column::Id);
        let oldest: Option<CallId> =
            reach(context.store().api_reader(), came_in, Column::Id).await?;
        let from = self.from.map(CallId::first_at);
        let oldest = oldest.max(from).unwrap_or(CallId::first_at(Millis::MIN));
        Ok(over
            .filter(Column::Id.gte(oldest))
            .order_by_desc(Column::Id))
    }
}

fn e164_in_query(value: &serde_json::Value) -> ParseResult<PhoneNumber> {
    // An unencoded plus arrives in a query string as a space.
    let text = value.as_str().unwrap_or_default();
    match text.strip_prefix(' ') {
        Some(digits) => e164(&format!("+{digits}").into()),
        None => e164(value),
    }
}

/// Calls with these ids, in this order.
async fn with_ids(context: &OperationContext, ids: &[CallId]) -> Result<Vec<OperatorCall>, DbErr> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let select = context.rows::<Entity>();
    let select = select.filter(Column::Id.is_in(ids.iter().copied()));
    let select = select.into_partial_model::<OperatorCall>();
    let mut rows = select.all(context.store().api_reader()).await?;
    rows.sort_unstable_by_key(|row| ids.iter().position(|id| *id == row.id));
    Ok(rows)
}

/// The requested page: of one tenant's calls, or of running calls and the newest 100,000 ended ones.
pub async fn list(context: OperationContext, query: OperatorQuery) -> Result<CallList, ApiError> {
    let filter = Filter::read(&query.0)?;
    let page = filter.page;
    let count = |figure: i64| usize::try_from(figure).unwrap_or(usize::MAX);
    let (wanted, offset) = (count(page.limit) + 1, count(page.offset));
    let mut live = Vec::new();
    if filter.status.is_none_or(|status| !status.is_final()) {
        live = filter.live(&context).await?;
    }
    let here = live.get(offset..).unwrap_or_default();
    let mut calls = with_ids(&context, &here[..here.len().min(wanted)]).await?;
    if calls.len() < wanted && filter.status.is_none_or(CallStatus::is_final) {
        let skipped = u64::try_from(offset.saturating_sub(live.len())).unwrap_or(u64::MAX);
        if skipped > SKIPPED_MAX {
            let predicate = format!(
                "must be at most {SKIPPED_MAX}; to go further back narrow it with tenantId, from or to"
            );
            let fault = ValueFault::new(FieldCode::TooLarge, predicate);
            return Err(ApiError::field(fault.in_field("offset")));
        }
        let left = u64::try_from(wanted - calls.len()).unwrap_or(u64::MAX);
        let over = filter.over(&context).await?.offset(skipped).limit(left);
        let over = over.into_partial_model::<OperatorCall>();
        calls.extend(over.all(context.store().api_reader()).await?);
    }
    let has_more = page.has_more(&mut calls);
    Ok(CallList::new(page, calls, has_more))
}

/// A call with its holds, events and deliveries.
pub async fn show(context: OperationContext, id: Id<CallId>) -> Result<CallDetail, ApiError> {
    let db = context.store().api_reader();
    let call: OperatorCall = find(&context, id.0).await?;
    let hold = context.one_of::<credit_hold::Entity>(id.0);
    let hold: Option<Hold> = hold.into_partial_model().one(db).await?;
    let events: Vec<CallEventSummary> = context
        .rows::<event::Entity>()
        .filter(event::Column::CallId.eq(id.0))
        .filter(event::Column::Kind.ne(EventKind::CallTurn))
        .order_by_asc(event::Column::Position)
        .limit(SHOWN_MAX)
        .into_partial_model()
        .all(db)
        .await?;
    let mut deliveries = Vec::new();
    if !events.is_empty() {
        deliveries = context
            .rows::<delivery::Entity>()
            .filter(delivery::Column::EventId.is_in(events.iter().map(|event| event.id)))
            .order_by_asc(delivery::Column::Id)
            .limit(SHOWN_MAX)
            .into_partial_model()
            .all(db)
            .await?;
    }
    let media = diagnosis::media(&context, call.bridge_id, &call.bridge_call_id);
    Ok(CallDetail {
        media,
        call,
        holds: hold.into_iter().collect(),
        events,
        deliveries,
    })
}
