//! Events: the live stream, and sample events.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::header::HeaderMap, rt, web::Data};
use bytes::Bytes;
use dikala_actors::events::{
    followers::{self, FOLLOWERS_PER_TENANT_MAX, Follower, NoSeat},
    outbox::{NewEvent, write_events},
};
use dikala_entities::{EventId, EventKind, Millis, TenantId, event};
use futures_util::{StreamExt, stream};
use sea_orm::DbErr;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use crate::{
    api::context::Services,
    http::{
        answer::Accepted,
        error::ApiError,
        extract::{RequestBody, word},
        field::{FieldCode, FieldError},
        middleware::{StreamKey, while_connected},
    },
    openapi::StreamedEvents,
    operations::{OperationContext, stored::Json},
};

/// The events of the stream.
pub const STREAMED: StreamedEvents = StreamedEvents {
    about: "The data of an event is the body that webhooks get. Turns, which no webhook gets, are `call.turn` with a body of the schema \
            `CallTurnEvent`.",
    example: "id: evt_01k9zv3m8rj2q4w6y8a0c2e4g6\nevent: credits.low\ndata: {\"event\":\"credits.low\",\
              \"timestamp\":\"2026-01-15T03:30:04.000Z\",\"data\":{\"balanceMinutes\":29,\"threshold\":30}}\n\n",
};
pub const LAST_EVENT_ID: &str = "Last-Event-ID";

/// Interval of the stream's heartbeat. A follower that missed a wake-up learns of new events within this time.
const BEAT: Duration = Duration::from_secs(10);
/// Interval of checks of the follower's key, so that a revoked key ends the stream at once, even without events.
const KEY_EVERY: Duration = Duration::from_millis(500);
/// Longest time that a follower may leave a chunk unread.
const UNREAD: Duration = Duration::from_secs(30);
/// Events per query.
const BATCH: u64 = 50;
/// Sets the client's reconnect delay, in milliseconds.
const OPENING: &str = "retry: 2000\n";
const STILL_HERE: &str = ": nothing new\n\n";

/// An event.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Event, example = json!({
    "id": "evt_01k9zv3m8rj2q4w6y8a0c2e4g6", "event": "credits.low", "timestamp": "2026-01-15T03:30:04.000Z",
    "data": {"balanceMinutes": 29, "threshold": 30}
}))]
pub struct EventView {
    id: EventId,
    event: EventKind,
    timestamp: Millis,
    data: Json,
}

/// The kind of the sample event.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = Sample, example = json!({"event": "call.ended"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct SampleInput {
    pub event: EventKind,
}

impl From<event::Model> for EventView {
    fn from(event: event::Model) -> Self {
        Self {
            id: event.id,
            event: event.kind,
            timestamp: event.occurred_at,
            data: data_of(&event.body),
        }
    }
}

impl From<&NewEvent> for EventView {
    fn from(event: &NewEvent) -> Self {
        Self {
            id: event.id,
            event: event.kind,
            timestamp: event.at,
            data: data_of(&event.body),
        }
    }
}

/// The payload inside an event's body.
fn data_of(body: &str) -> Json {
    #[derive(Deserialize)]
    struct Payload {
        data: Box<RawValue>,
    }
    serde_json::from_str(body).map_or_else(
        |_| Json::object(String::new()),
        |payload: Payload| payload.data.into(),
    )
}

/// Makes a sample, which goes to followers of the stream, and to no webhook.
pub async fn make_sample(
    context: OperationContext,
    services: Data<Services>,
    body: RequestBody,
) -> Result<Accepted<EventView>, ApiError> {
    let tenant = context.tenant()?;
    let kind = body
        .form()?
        .read(&[], |form| form.required("event", None, word("an event")))?;
    let event = NewEvent::sample(kind, tenant, context.now);
    let shown = EventView::from(&event);
    let write = context.begin().await?;
    write_events(&write, &[event]).await?;
    let made = write.commit(Accepted(shown)).await?;
    services.feed.announce([tenant]);
    Ok(made)
}

/// `GET /events/stream`: server-sent events as the HTML standard describes them
/// (<https://html.spec.whatwg.org/multipage/server-sent-events.html>). `id` is the event's id, `event` its kind,
/// `data` the exact body of its deliveries. Samples have an extra field `test`, which clients ignore by the standard.
pub async fn stream(
    context: OperationContext,
    services: Data<Services>,
    req: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let tenant = context.tenant()?;
    let last = last_event_id(req.headers())?;
    let pass = StreamKey::of(&req)?;
    while_connected(&req)?;
    // Subscribes before it reads the position: an event committed between the two is read and also wakes the stream.
    let follower = services.feed.follow(tenant).map_err(no_seat)?;
    let last = begin_after(&services, tenant, last).await?;
    let (to, mut chunks) = mpsc::channel(1);
    let following = EventStream {
        services,
        pass,
        follower,
        tenant,
        last,
        to,
    };
    rt::spawn(following.run(opening(last.0)));
    let chunks = stream::poll_fn(move |context| chunks.poll_recv(context));
    Ok(HttpResponse::Ok()
        .content_type("text/event-stream")
        // Without it, proxies such as nginx buffer the answer.
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(chunks.map(Ok::<Bytes, ApiError>)))
}

/// The API error for a follower that finds no free place.
pub fn no_seat(reason: NoSeat) -> ApiError {
    match reason {
        NoSeat::Tenant => ApiError::TooManyStreams(FOLLOWERS_PER_TENANT_MAX),
        NoSeat::Service => ApiError::Unavailable,
    }
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, ApiError> {
    let wrong = |code, predicate| ApiError::field(FieldError::new(LAST_EVENT_ID, code, predicate));
    let mut sent = headers.get_all(LAST_EVENT_ID);
    let Some(value) = sent.next() else {
        return Ok(None);
    };
    if sent.next().is_some() {
        return Err(wrong(FieldCode::Duplicate, "must be sent once"));
    }
    match value.to_str().map(str::trim) {
        // Clients that have received no event yet send an empty id.
        Ok("") => Ok(None),
        Ok(id) => id.parse().map(Some).map_err(drop),
        Err(_) => Err(()),
    }
    .map_err(|()| wrong(FieldCode::InvalidFormat, "must be the id of an event"))
}

/// The event after which the stream begins, and its position.
async fn begin_after(
    services: &Services,
    tenant: TenantId,
    last: Option<EventId>,
) -> Result<(EventId, i64), ApiError> {
    let before_all = (EventId::first_at(Millis::MIN), 0);
    let Some(last) = last else {
        let newest = followers::newest(&services.store, tenant).await?;
        return Ok(newest.unwrap_or(before_all));
    };
    if last == before_all.0 {
        return Ok(before_all);
    }
    let position = followers::position(&services.store, tenant, last).await?;
    let position = position.ok_or_else(|| {
        let predicate = "names no event that is still kept; leave it out to follow from now on";
        let code = FieldCode::NotFound;
        ApiError::field(FieldError::new(LAST_EVENT_ID, code, predicate))
    })?;
    Ok((last, position))
}

/// Sends the start position before any event, so that a client that reconnects misses nothing. If there is no event
/// yet, the id precedes all ids.
fn opening(last: EventId) -> String {
    format!("{OPENING}id: {last}\n\n")
}

struct EventStream {
    services: Data<Services>,
    pass: StreamKey,
    follower: Follower,
    tenant: TenantId,
    /// The last event that was sent, and its position.
    last: (EventId, i64),
    to: mpsc::Sender<Bytes>,
}

/// The stream has ended.
struct StreamEnd;

impl From<DbErr> for StreamEnd {
    fn from(error: DbErr) -> Self {
        tracing::warn!(%error, "a stream of events ends: the table cannot be read");
        Self
    }
}

impl EventStream {
    /// Ends if the follower disconnects, reads too slowly or loses its key, or if the service stops. A client
    /// reconnects with the last id that it received, so nothing is lost.
    async fn run(mut self, opening: String) {
        let (services, pass) = (self.services.clone(), self.pass.clone());
        tokio::select! {
            // The reason makes no difference.
            _ = self.follow(opening) => {}
            () = pass.lost(&services.http, KEY_EVERY) => {}
        }
    }

    async fn follow(&mut self, opening: String) -> Result<(), StreamEnd> {
        self.send(opening.into()).await?;
        // One timer for the whole stream: a timer that restarts with each event would never fire among frequent
        // events.
        let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT, BEAT);
        loop {
            while self.pass_on().await? {}
            tokio::select! {
                open = self.follower.woken() => if !open { return Err(StreamEnd) },
                _ = beat.tick() => self.send(STILL_HERE.into()).await?,
                () = self.to.closed() => return Err(StreamEnd),
            }
        }
    }

    /// Sends the next events. Returns true if there may be more.
    async fn pass_on(&mut self) -> Result<bool, StreamEnd> {
        self.pass
            .holds(&self.services.http)
            .await
            .map_err(|_| StreamEnd)?;
        let events = followers::after(&self.services.store, self.tenant, self.last, BATCH).await?;
        let Some(events) = events else {
            tracing::warn!(tenant = %self.tenant, "a stream of events ends: the database has lost what was sent last");
            return Err(StreamEnd);
        };
        let more = u64::try_from(events.len()).is_ok_and(|count| count == BATCH);
        for event in events {
            self.last = (event.id, event.position.unwrap_or(self.last.1));
            self.send(frame(&event).into()).await?;
        }
        Ok(more)
    }

    async fn send(&self, chunk: Bytes) -> Result<(), StreamEnd> {
        match tokio::time::timeout(UNREAD, self.to.send(chunk)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(StreamEnd),
        }
    }
}

fn frame(event: &event::Model) -> String {
    let test = if event.is_test { "test: true\n" } else { "" };
    // A line break ends a field; the format repeats the field for each further line.
    let data = event.body.replace('\n', "\ndata: ");
    format!(
        "id: {}\nevent: {}\n{test}data: {data}\n\n",
        event.id, event.kind
    )
}
