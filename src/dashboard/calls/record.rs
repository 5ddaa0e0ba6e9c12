//! Reads all data of one call for its page; each kind is limited to what the page shows.

use std::collections::{BTreeSet, HashMap};

use dikala_entities::{
    AgentId, CallId, ConnectionQuality, DeliveryId, DeliveryStatus, EventId, EventKind, Millis,
    OfTenant, PhoneNumberId, Speaker, WebhookId, agent, call, credit_hold, delivery, event,
    invocation, phone_number, transcript, webhook,
};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryFilter, QueryOrder, QuerySelect};
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::view::SignedIn,
    by_hand::{self, ManualAct},
};
use crate::{
    http::error::{ApiError, Missing},
    operations::calls::{NO_TURNS, diagnosis, turns},
};

/// Number of events, and of invoked functions, that are shown; the first ones.
pub const EVENTS_MAX: usize = 100;
/// Events per read; one may hold 100 KB.
const EVENTS_BATCH: u64 = 8;
/// Shown deliveries: those of all shown events to 20 webhooks, the maximum of a tenant.
const DELIVERIES_MAX: usize = 2_000;

/// Time after a call's end within which its page still waits for the transcript, in milliseconds.
const TRANSCRIPT_WITHIN_MS: i64 = 10 * 60 * 1_000;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TranscriptTurn {
    pub role: Speaker,
    pub text: String,
    /// Missing if the bridge did not send a time.
    pub at: Option<Millis>,
    /// Of the agent: from the end of the caller's voice to the first sound.
    pub latency_ms: Option<i64>,
    /// The caller cut the agent off.
    #[serde(default)]
    pub interrupted: bool,
}

/// An event that the call caused.
#[derive(Clone, Debug, PartialEq)]
pub struct CallEvent {
    pub id: EventId,
    pub kind: EventKind,
    pub at: Millis,
    /// The invoked function; null in events of other kinds.
    pub function: Value,
}

/// A delivery of an event to a webhook.
#[derive(Clone, Debug)]
pub struct CallDelivery {
    pub id: DeliveryId,
    pub status: DeliveryStatus,
    /// Number of attempts so far.
    pub attempts: i64,
    /// `None` once the delivery succeeded or failed for good.
    pub next_attempt_at: Option<Millis>,
    /// `None` if the webhook was removed.
    pub url: Option<String>,
}

/// A call with all its data.
#[derive(Clone, Debug)]
pub struct CallRecord {
    pub call: call::Model,
    /// `None` if the agent was removed.
    pub agent: Option<String>,
    /// The called number's label.
    pub number: Option<String>,
    pub hold: Option<credit_hold::Model>,
    /// `None` if this process does not know the call's media.
    pub connection: Option<ConnectionQuality>,
    /// The person or key that ended or transferred it by hand.
    pub hand: Option<ManualAct>,
    pub events: Vec<CallEvent>,
    pub invocations: Vec<invocation::Model>,
    pub transcript: Option<CallTranscript>,
    /// The turns so far. Empty once a transcript with turns is there.
    pub heard: Vec<TranscriptTurn>,
    pub deliveries: HashMap<EventId, Vec<CallDelivery>>,
    /// True if there is more than is shown.
    pub is_cut: bool,
}

impl CallRecord {
    /// The summary, if it is known and was not erased.
    pub fn summary(&self) -> Option<&str> {
        let told = self.transcript.as_ref().map(|said| said.summary.as_str());
        let summary = told.or(self.call.transcript_summary.as_deref());
        summary.filter(|summary| !summary.trim().is_empty())
    }

    /// The words of the call so far.
    pub fn turns(&self) -> &[TranscriptTurn] {
        match &self.transcript {
            Some(said) if !said.turns.is_empty() => &said.turns,
            _ => &self.heard,
        }
    }

    /// True once the call is over, no delivery is pending, and the transcript has arrived or is no longer expected.
    pub fn is_settled(&self, now: Millis) -> bool {
        let waits = |sent: &CallDelivery| sent.status == DeliveryStatus::Pending;
        let is_delivered = !self.deliveries.values().flatten().any(waits);
        let is_told = self.transcript.is_some() || self.call.transcript_summary.is_some();
        let ended = self.call.ended_at;
        is_delivered && ended.is_some_and(|at| is_told || now.since(at) > TRANSCRIPT_WITHIN_MS)
    }
}

/// The transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTranscript {
    pub summary: String,
    pub turns: Vec<TranscriptTurn>,
    pub at: Millis,
}

/// The tenant's call with this id.
pub async fn find(visit: &SignedIn, id: CallId) -> Result<call::Model, ApiError> {
    call::Entity::one_of(visit.tenant(), id)
        .one(visit.store().api_reader())
        .await?
        .ok_or(ApiError::NotFound(Missing::Call))
}

/// Reads everything about a call that [`find`] returned.
pub async fn read(visit: &SignedIn, call: call::Model) -> Result<CallRecord, ApiError> {
    let db = visit.store().api_reader();
    let events = events(db, &call).await?;
    let mut rows = sent(db, &call, events.iter().map(|event| event.id)).await?;
    let is_cut = events.len() >= EVENTS_MAX || rows.len() > DELIVERIES_MAX;
    rows.truncate(DELIVERIES_MAX);
    let deliveries = deliveries(db, &call, rows).await?;
    let invocations = invocation::Entity::of(call.tenant_id)
        .filter(invocation::Column::CallId.eq(call.id))
        .order_by_asc(invocation::Column::InvocationId)
        .limit(EVENTS_MAX as u64)
        .all(db)
        .await?;
    let transcript = transcript::Entity::one_of(call.tenant_id, call.id)
        .one(db)
        .await?;
    let heard = match &transcript {
        Some(stored) if stored.turns != NO_TURNS => Vec::new(),
        _ => {
            let heard = turns::heard(db, call.tenant_id, call.id).await?;
            serde_json::from_str(&heard).unwrap_or_default()
        }
    };
    let hold = credit_hold::Entity::one_of(call.tenant_id, call.id)
        .one(db)
        .await?;
    let agent = match call.agent_id {
        Some(id) => agent_name(db, &call, id).await?,
        None => None,
    };
    let ended = (call.id, call.ended_at, call.hangup_reason);
    let hand = by_hand::of(visit, [ended]).await?.remove(&call.id);
    let media = diagnosis::media(&visit.operation(), call.bridge_id, &call.bridge_call_id);
    Ok(CallRecord {
        connection: media.and_then(|media| media.connection),
        hand,
        agent,
        number: match call.phone_number_id {
            Some(id) => number_label(db, &call, id).await?,
            None => None,
        },
        hold,
        events,
        invocations,
        transcript: transcript.map(said),
        heard,
        deliveries,
        is_cut,
        call,
    })
}

fn said(stored: transcript::Model) -> CallTranscript {
    CallTranscript {
        summary: stored.summary,
        turns: serde_json::from_str(&stored.turns).unwrap_or_default(),
        at: stored.created_at,
    }
}

async fn agent_name(
    db: &impl ConnectionTrait,
    call: &call::Model,
    id: AgentId,
) -> Result<Option<String>, DbErr> {
    agent::Entity::one_of(call.tenant_id, id)
        .select_only()
        .column(agent::Column::Name)
        .into_tuple()
        .one(db)
        .await
}

async fn number_label(
    db: &impl ConnectionTrait,
    call: &call::Model,
    id: PhoneNumberId,
) -> Result<Option<String>, DbErr> {
    phone_number::Entity::one_of(call.tenant_id, id)
        .select_only()
        .column(phone_number::Column::Label)
        .into_tuple()
        .one(db)
        .await
}

/// The call's first events besides turns, oldest first, with only the shown part of their bodies.
async fn events(db: &impl ConnectionTrait, call: &call::Model) -> Result<Vec<CallEvent>, DbErr> {
    let of_call = event::Entity::of(call.tenant_id)
        .filter(event::Column::CallId.eq(call.id))
        .filter(event::Column::Kind.ne(EventKind::CallTurn))
        .order_by_asc(event::Column::Id)
        .limit(EVENTS_BATCH);
    let mut events: Vec<CallEvent> = Vec::new();
    loop {
        let mut select = of_call.clone();
        if let Some(last) = events.last() {
            select = select.filter(event::Column::Id.gt(last.id));
        }
        let rows = select.all(db).await?;
        let is_last = u64::try_from(rows.len()).is_ok_and(|count| count < EVENTS_BATCH);
        events.extend(rows.into_iter().map(announced));
        if is_last || events.len() >= EVENTS_MAX {
            return Ok(events);
        }
    }
}

fn announced(event: event::Model) -> CallEvent {
    let function = match event.kind {
        EventKind::FunctionCalled => {
            let mut body: Value = serde_json::from_str(&event.body).unwrap_or_default();
            body.get_mut("data").map(Value::take).unwrap_or_default()
        }
        _ => Value::Null,
    };
    CallEvent {
        id: event.id,
        kind: event.kind,
        at: event.occurred_at,
        function,
    }
}

/// The events' first deliveries, one more than are shown.
async fn sent(
    db: &impl ConnectionTrait,
    call: &call::Model,
    events: impl Iterator<Item = EventId>,
) -> Result<Vec<delivery::Model>, DbErr> {
    delivery::Entity::of(call.tenant_id)
        .filter(delivery::Column::EventId.is_in(events))
        .order_by_asc(delivery::Column::Id)
        .limit(DELIVERIES_MAX as u64 + 1)
        .all(db)
        .await
}

async fn deliveries(
    db: &impl ConnectionTrait,
    call: &call::Model,
    rows: Vec<delivery::Model>,
) -> Result<HashMap<EventId, Vec<CallDelivery>>, DbErr> {
    let ids: BTreeSet<WebhookId> = rows.iter().map(|row| row.webhook_id).collect();
    let webhooks = webhook::Entity::of(call.tenant_id)
        .filter(webhook::Column::Id.is_in(ids))
        .all(db)
        .await?;
    let url = |id: WebhookId| {
        let webhook = webhooks.iter().find(|webhook| webhook.id == id);
        webhook.map(|webhook| webhook.url.as_str().to_owned())
    };
    let mut sent: HashMap<EventId, Vec<CallDelivery>> = HashMap::new();
    for row in rows {
        sent.entry(row.event_id).or_default().push(CallDelivery {
            id: row.id,
            status: row.status,
            attempts: row.attempts,
            next_attempt_at: row.next_attempt_at,
            url: url(row.webhook_id),
        });
    }
    Ok(sent)
}
