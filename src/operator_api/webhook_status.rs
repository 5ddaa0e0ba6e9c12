//! `GET /webhooks`: webhooks with their delivery status: due deliveries, queues, and last answers.

use dikala_actors::webhooks::webhook_status::{self, LastAnswer};
use dikala_entities::{Millis, WebhookId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    http::{
        error::ApiError,
        extract::{Id, OperatorQuery},
    },
    operations::{
        OperationContext, PageRange,
        list::lists,
        webhooks::{
            backlog::due,
            health::{self, WebhookView},
        },
    },
};

/// A webhook as it stands.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookStanding, example = json!({
    "id": "wh_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "url": "https://example.com/hooks/dikala", "events": ["call.ended"], "isActive": true, "disabledReason": null,
    "pausedAt": null, "failingSince": "2026-01-15T03:30:00.000Z", "failedInRow": 2,
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z",
    "due": 3, "oldestDueAt": "2026-01-15T03:31:00.000Z",
    "lane": {"state": "open", "waiting": 1, "inFlight": 0, "probeAt": "2026-01-15T03:32:00.000Z"},
    "lastAnswer": {"at": "2026-01-15T03:31:00.000Z", "statusCode": 503, "error": null, "durationMs": 84}
}))]
pub struct WebhookStanding {
    #[serde(flatten)]
    #[schema(inline)]
    pub view: WebhookView,
    /// Deliveries whose next attempt is due and has not succeeded; 1,000 are counted at most.
    pub due: i64,
    pub oldest_due_at: Option<Millis>,
    /// Its queue in this node's memory. Null where there was nothing to do for a minute, or the dispatcher does not answer.
    pub lane: Option<EndpointQueueStatus>,
    /// The result of this node's last attempt since its start.
    pub last_answer: Option<WebhookAnswer>,
}

/// An endpoint's queue in memory.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookLane)]
pub struct EndpointQueueStatus {
    /// `closed`: it gets what is meant for it; `open`: it keeps failing and is only probed; `disabled`: it is switched off;
    /// `paused`: an operator has it wait; `sealed`: its secret does not open; `unread`: it is being read.
    pub state: &'static str,
    /// Deliveries whose next attempt has not begun.
    pub waiting: usize,
    /// Attempts under way.
    pub in_flight: usize,
    /// When one attempt is let through; null while everything is.
    pub probe_at: Option<Millis>,
}

/// The result of an attempt.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookAnswer)]
pub struct WebhookAnswer {
    pub at: Millis,
    /// Null where no answer came.
    pub status_code: Option<u16>,
    /// Null for an answer of any status.
    pub error: Option<&'static str>,
    pub duration_ms: i64,
}

lists! {
    /// A page of webhooks, oldest first.
    StandingList { webhooks: WebhookStanding, "webhooks" }
}

impl From<webhook_status::QueueReading> for EndpointQueueStatus {
    fn from(lane: webhook_status::QueueReading) -> Self {
        Self {
            state: lane.state.as_str(),
            waiting: lane.waiting,
            in_flight: lane.in_flight,
            probe_at: lane.probe_at,
        }
    }
}

impl From<LastAnswer> for WebhookAnswer {
    fn from(answer: LastAnswer) -> Self {
        Self {
            at: answer.at,
            status_code: answer.status,
            error: answer.error.map(|kind| kind.as_str()),
            duration_ms: answer.duration_ms,
        }
    }
}

/// A page of webhooks with their status.
pub async fn list(
    context: OperationContext,
    query: OperatorQuery,
) -> Result<StandingList, ApiError> {
    let found = health::list(context.clone(), query).await?;
    let page = PageRange {
        limit: found.limit,
        offset: found.offset,
    };
    let statuses = of(&context, found.webhooks).await?;
    Ok(StandingList::new(page, statuses, found.has_more))
}

/// The status of one webhook.
pub async fn one(
    context: OperationContext,
    id: Id<WebhookId>,
) -> Result<WebhookStanding, ApiError> {
    let webhook = health::show(context.clone(), id).await?;
    let mut statuses = of(&context, vec![webhook]).await?;
    statuses.pop().ok_or(ApiError::Internal)
}

async fn of(
    context: &OperationContext,
    views: Vec<WebhookView>,
) -> Result<Vec<WebhookStanding>, ApiError> {
    let ids: Vec<WebhookId> = views.iter().map(|view| view.id).collect();
    let due = due(context.store().api_reader(), &ids, context.now).await?;
    let dispatcher = &context.serving()?.node.webhooks;
    let statuses = dispatcher.statuses(ids).await.unwrap_or_default();
    let standing = |view: WebhookView| {
        let (due, oldest_due_at) = due.get(&view.id).copied().unwrap_or_default();
        let status = statuses.get(&view.id).copied().unwrap_or_default();
        WebhookStanding {
            due,
            oldest_due_at,
            lane: status.queue.map(EndpointQueueStatus::from),
            last_answer: status.last_answer.map(WebhookAnswer::from),
            view,
        }
    };
    Ok(views.into_iter().map(standing).collect())
}
