//! The live stream of events, read by a client of server-sent events.

use std::time::Duration;

use actix_web::{http::Method, rt::time::timeout};
use dikala_actors::{
    events::{
        followers::FOLLOWERS_PER_TENANT_MAX,
        outbox::{NewEvent, write_events},
        payload::Payload,
    },
    runtime::clock::Clock,
};
use dikala_entities::{ApiKeyId, TenantId, api_key};
use futures_util::StreamExt;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter,
};
use serde_json::{Value, json};

use super::prelude::*;
use super::world::assert_described;
use crate::{http::route::BASE, routes::ROUTES};

/// Longest time for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// An open stream.
struct FollowedStream {
    response: awc::ClientResponse,
    read: String,
}

/// An event as received: the lines of its fields.
type Frame = Vec<String>;

impl FollowedStream {
    /// The next event; none when the stream is over.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.read.split_once("\n\n") {
                let lines: Frame = frame.lines().map(str::to_owned).collect();
                self.read = rest.to_owned();
                if lines.iter().any(|line| line.starts_with("data:")) {
                    return Some(lines);
                }
                continue;
            }
            let chunk = timeout(PATIENCE, self.response.next()).await;
            let chunk = chunk.expect("something comes in time")?.ok()?;
            self.read
                .push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }

    async fn next_id(&mut self) -> String {
        id_of(&self.next().await.expect("an event"))
    }
}

fn id_of(frame: &Frame) -> String {
    frame[0].strip_prefix("id: ").expect("an id").to_owned()
}

impl ApiWorld {
    async fn follow(&self, key: &str, last: Option<&str>) -> FollowedStream {
        let url = format!("http://{}{BASE}/events/stream", self.address);
        let mut request = awc::Client::default()
            .get(url)
            .insert_header(("x-api-key", key));
        if let Some(last) = last {
            request = request.insert_header(("Last-Event-ID", last));
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let header = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
        assert_eq!(header("content-type"), Some("text/event-stream"));
        assert_eq!(header("cache-control"), Some("no-store"));
        assert!(header("x-ratelimit-remaining").is_some());
        self.seen.borrow_mut().insert("events.stream");
        let read = String::new();
        FollowedStream { response, read }
    }

    fn event(&self, tenant: TenantId, balance: i64) -> NewEvent {
        let now = self.clock.now();
        let data = Payload::CreditsLow {
            balance_minutes: balance,
            threshold: 30,
        };
        NewEvent::new(tenant, None, now, now, &data)
    }

    async fn commit(&self, event: &NewEvent) {
        let txn = self.store().begin().await.expect("begins");
        write_events(&txn, std::slice::from_ref(event))
            .await
            .expect("writes");
        txn.commit().await.expect("commits");
        self.services.feed.announce([event.tenant]);
    }

    async fn refused(&self, last: &str) -> Vec<String> {
        let headers = [
            ("x-api-key", self.ours.key.as_str()),
            ("last-event-id", last),
        ];
        let path = format!("{BASE}/events/stream");
        let reply = self.send(&Method::GET, &path, &headers, Vec::new()).await;
        assert_eq!(reply.status, 422, "{reply:?}");
        let route = ROUTES.iter().find(|r| r.id == "events.stream");
        assert_described(route.expect("a route"), &reply);
        reply.fields()
    }
}

#[rstest]
#[actix_web::test]
async fn a_follower_gets_his_tenants_events_and_samples_as_they_are_committed(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let before = world.event(world.ours.tenant, 1);
    world.commit(&before).await;
    let mut stream = world.follow(&world.ours.key, None).await;

    let kind = json!({"event": "call.ended"});
    let sample = world
        .done("events.sample", "/events/sample", Some(kind))
        .await;
    let sample = sample.json();
    let frame = stream.next().await.expect("the sample");
    assert_eq!(
        frame[0],
        format!("id: {}", sample["id"].as_str().expect("an id"))
    );
    assert_eq!(frame[1..3], ["event: call.ended", "test: true"]);
    let data = frame[3].strip_prefix("data: ").expect("data");
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(
        data,
        json!({"event": "call.ended", "timestamp": sample["timestamp"], "data": sample["data"]})
    );

    let (theirs, ours) = (
        world.event(world.theirs.tenant, 2),
        world.event(world.ours.tenant, 3),
    );
    world.commit(&theirs).await;
    world.commit(&ours).await;
    let expected = [
        format!("id: {}", ours.id),
        "event: credits.low".to_owned(),
        format!("data: {}", ours.body),
    ];
    assert_eq!(stream.next().await.expect("ours"), expected);
}

#[rstest]
#[actix_web::test]
async fn a_follower_goes_on_where_he_was_in_the_order_of_commits(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let [one, two, three] = [1, 2, 3].map(|n| world.event(world.ours.tenant, n));
    // Created before the second, committed after it.
    for event in [&two, &one, &three] {
        world.commit(event).await;
    }
    let mut ids = Vec::new();
    let mut stream = world
        .follow(&world.ours.key, Some(&two.id.to_string()))
        .await;
    for _ in 0..2 {
        ids.push(stream.next_id().await);
    }
    assert_eq!(ids, [one.id.to_string(), three.id.to_string()]);
    // More than one query reads.
    let last = ids.pop().expect("an id");
    let many: Vec<NewEvent> = (0..120)
        .map(|n| world.event(world.ours.tenant, n))
        .collect();
    for event in &many {
        world.commit(event).await;
    }
    let mut stream = world.follow(&world.ours.key, Some(&last)).await;
    for event in &many {
        assert_eq!(stream.next_id().await, event.id.to_string());
    }
    // A client whose tenant had no event yet got the id before all ids.
    let theirs = world.event(world.theirs.tenant, 1);
    let mut stream = world.follow(&world.theirs.key, None).await;
    while !stream.read.contains("\n\n") {
        let chunk = timeout(PATIENCE, stream.response.next())
            .await
            .expect("in time");
        let chunk = chunk.expect("more").expect("a chunk");
        stream
            .read
            .push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
    }
    let (_, id) = stream.read.split_once("id: ").expect("an id");
    let id = id.trim().to_owned();
    drop(stream);
    world.commit(&theirs).await;
    let mut stream = world.follow(&world.theirs.key, Some(&id)).await;
    assert_eq!(stream.next_id().await, theirs.id.to_string());
    // A client that has seen nothing begins now.
    let mut stream = world.follow(&world.ours.key, Some("")).await;
    let now = world.event(world.ours.tenant, 4);
    world.commit(&now).await;
    assert_eq!(stream.next_id().await, now.id.to_string());
}

#[rstest]
#[actix_web::test]
async fn what_cannot_be_gone_on_after_is_refused(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let theirs = world.event(world.theirs.tenant, 1);
    world.commit(&theirs).await;
    let unknown = world.event(world.ours.tenant, 1);
    for (last, fault) in [
        (theirs.id.to_string(), "Last-Event-ID not_found"),
        (unknown.id.to_string(), "Last-Event-ID not_found"),
        ("17".to_owned(), "Last-Event-ID invalid_format"),
        ("evt_".to_owned(), "Last-Event-ID invalid_format"),
    ] {
        assert_eq!(world.refused(&last).await, [fault], "{last}");
    }
    let reply = world.get("/events/stream?since=1").await;
    assert_eq!(reply.fields(), ["since unknown_field"]);
    let reply = world
        .post("/events/sample", json!({"event": "call.end"}))
        .await;
    assert_eq!(reply.fields(), ["event not_allowed"]);
    assert!(reply.text.contains("call.ended"), "{}", reply.text);
}

#[rstest]
#[actix_web::test]
async fn a_stream_ends_with_the_key_it_was_opened_with(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let mut stream = world.follow(&world.ours.key, None).await;
    world.commit(&world.event(world.ours.tenant, 1)).await;
    assert!(stream.next().await.is_some());
    let key: ApiKeyId = api_key::Entity::find()
        .filter(api_key::Column::TenantId.eq(world.ours.tenant))
        .one(world.store().reader())
        .await
        .expect("reads")
        .expect("a key")
        .id;
    let mut row = api_key::Entity::find_by_id(key)
        .one(world.store().reader())
        .await
        .expect("reads")
        .expect("a key")
        .into_active_model();
    row.revoked_at = Set(Some(world.clock.now()));
    row.update(world.store().writer()).await.expect("writes");
    world.clock.advance_ms(1_000);
    // A read that began before may still find this event; the next one checks the key.
    world.commit(&world.event(world.ours.tenant, 2)).await;
    if stream.next().await.is_some() {
        world.commit(&world.event(world.ours.tenant, 3)).await;
        assert_eq!(stream.next().await, None);
    }
}

#[rstest]
#[actix_web::test]
async fn places_are_bounded_and_given_back_and_stopping_ends_all(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let mut streams = Vec::new();
    for _ in 0..FOLLOWERS_PER_TENANT_MAX {
        streams.push(world.follow(&world.ours.key, None).await);
    }
    let full = world.get("/events/stream").await;
    assert_eq!((full.status, full.code()), (429, "rate_limited".into()));
    assert_eq!(full.header("retry-after"), "20");
    assert!(full.text.contains("10 streams"), "{}", full.text);
    let mut theirs = world.follow(&world.theirs.key, None).await;

    streams.pop();
    // A silent disconnect is noticed when the second heartbeat cannot be written.
    let deadline = std::time::Instant::now() + 4 * PATIENCE;
    // Not `get`, which would read the stream to its end.
    while world.services.feed.follow(world.ours.tenant).is_err() {
        assert!(
            std::time::Instant::now() < deadline,
            "no place was given back"
        );
        actix_web::rt::time::sleep(Duration::from_millis(10)).await;
    }

    world.services.feed.close();
    assert_eq!(theirs.next().await, None);
    for mut stream in streams {
        assert_eq!(stream.next().await, None);
    }
    let closed = world.get("/events/stream").await;
    assert_eq!((closed.status, closed.code()), (503, "unavailable".into()));
}
