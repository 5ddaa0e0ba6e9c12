//! The dispatcher with a real store and real receivers.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use actix_rt::Arbiter;
use dikala_entities::{
    CallId, DeliveryId, DeliveryStatus, EventKind, Millis, OutboundUrl, PhoneNumberId, Secret,
    Store, TenantId, Vault, WebhookId, attempt, delivery, event,
    webhook::{self, NewWebhook},
};
use dikala_testkit::{PATIENCE, ReceivedRequest, ServerAnswer, StoreGuard, TenantServer, rows};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder,
};

use super::{
    TestError, WebhookDeps, WebhooksConfig, WebhooksHandle, retry,
    scheduler::{Refill, effects::RefillMark},
    signature::Signer,
    start,
    store::{
        cursors::NO_NODE,
        log::{self, UnwrittenDelivery},
        pending,
    },
};
use crate::{
    events::{
        outbox::{self, Deliver, NewEvent},
        payload::Payload,
        sequences::LogPlace,
    },
    nodes::Membership,
    outbound::{
        Outbound,
        testing::{SlowNames, local_outbound},
    },
    runtime::clock::{Clock, ManualClock, SharedClock, SystemClock},
    traces::Traces,
};

const NODE: &str = "node-a";
const SECRET: &str = "whsecret-for-tests";

mod backlog;
mod changes;
mod cursors;
mod failing;
mod lasting;
mod locking;
mod recording;
mod recovering;
mod resending;
mod thawed;

struct World {
    _keep: StoreGuard,
    store: Store,
    vault: Vault,
    clock: SharedClock,
    tenant: TenantId,
}

impl World {
    async fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock)).await
    }

    async fn with_manual_clock() -> (Self, ManualClock) {
        let clock = ManualClock::new(SystemClock.now());
        (Self::with_clock(Arc::new(clock.clone())).await, clock)
    }

    async fn with_clock(clock: SharedClock) -> Self {
        let (keep, store) = dikala_testkit::sqlite().await;
        Self {
            clock,
            ..Self::with_store(keep, store)
        }
    }

    fn with_store(keep: StoreGuard, store: Store) -> Self {
        Self {
            _keep: keep,
            store,
            vault: Vault::from_base64(&Vault::generate_key()).expect("a key"),
            tenant: TenantId::new(SystemClock.now()),
            clock: Arc::new(SystemClock),
        }
    }

    fn start(&self, config: WebhooksConfig) -> WebhooksHandle {
        self.start_with(config, local_outbound())
    }

    fn start_with(&self, config: WebhooksConfig, outbound: Outbound) -> WebhooksHandle {
        self.start_as(Membership::outside(NODE), config, outbound)
    }

    fn start_as(
        &self,
        node: Membership,
        config: WebhooksConfig,
        outbound: Outbound,
    ) -> WebhooksHandle {
        let deps = WebhookDeps {
            store: self.store.clone(),
            clock: Arc::clone(&self.clock),
            vault: self.vault.clone(),
            outbound,
            node,
            traces: Traces::default(),
        };
        start(&Arbiter::current(), deps, config)
    }

    async fn webhook(&self, tenant: TenantId, url: OutboundUrl) -> webhook::Model {
        let now = self.clock.now();
        let new = NewWebhook {
            id: WebhookId::new(now),
            tenant,
            url,
            events: EventKind::OF_WEBHOOKS,
            secret: &Secret::new(SECRET),
        };
        let row = webhook::Model::new(new, &self.vault, now);
        rows::insert(self.store.writer(), row.clone()).await;
        row
    }

    async fn commit(&self, tenant: TenantId, calls: &[CallId]) -> Vec<outbox::Dispatch> {
        self.commit_as(tenant, calls, NODE).await
    }

    /// Writes one event for each call, with its index as the caller's number.
    async fn commit_as(
        &self,
        tenant: TenantId,
        calls: &[CallId],
        node: &str,
    ) -> Vec<outbox::Dispatch> {
        let now = self.clock.now();
        let events: Vec<NewEvent> = calls
            .iter()
            .enumerate()
            .map(|(n, call)| {
                let data = Payload::CallStarted {
                    call_id: *call,
                    phone_number_id: Some(PhoneNumberId::new(now)),
                    caller_number: &n.to_string(),
                    did: "",
                };
                NewEvent::new(tenant, Some(*call), now, now, &data)
            })
            .collect();
        let txn = self.store.begin().await.expect("a transaction");
        let announced = outbox::write(&txn, &events, node, now)
            .await
            .expect("written");
        txn.commit().await.expect("committed");
        announced.dispatches
    }

    /// Writes the rows of deliveries.
    async fn write_rows(&self, dispatches: &[outbox::Dispatch]) {
        let unwritten = |it: &outbox::Dispatch| UnwrittenDelivery {
            tenant: it.tenant,
            webhook: it.webhook,
            event: it.event,
            call: it.call,
            kind: it.kind,
            announced_at: it.delivery.time(),
            sequence: it.place.expect("a place").sequence,
        };
        let unwritten: Vec<UnwrittenDelivery> = dispatches.iter().map(unwritten).collect();
        let txn = self.store.begin().await.expect("begins");
        log::insert_rows(&txn, &unwritten, log::ExistingRows::Left)
            .await
            .expect("written");
        txn.commit().await.expect("committed");
    }

    /// Commits and announces.
    async fn announce(
        &self,
        handle: &WebhooksHandle,
        tenant: TenantId,
        calls: &[CallId],
    ) -> Vec<DeliveryId> {
        let dispatches = self.commit(tenant, calls).await;
        let ids = dispatches.iter().map(|d| d.delivery).collect();
        assert!(handle.recipient().try_send(Deliver(dispatches)).is_ok());
        ids
    }

    fn calls(&self, count: usize) -> Vec<CallId> {
        (0..count).map(|_| CallId::new(self.clock.now())).collect()
    }

    /// The due deliveries that `node` reads, if it has the cursor.
    async fn refills(&self, node: &str, webhook: WebhookId) -> Vec<DeliveryId> {
        let all = Refill {
            webhook,
            tenant: self.tenant,
            most: NonZeroUsize::new(64),
            known: Vec::new(),
            from: LogPlace::default(),
            mark: RefillMark::default(),
        };
        let refill = pending::refill(&self.store, &all, node, self.clock.now()).await;
        let items = refill.expect("asks").map(|refill| refill.refilled.items);
        let items = items.unwrap_or_default().into_iter();
        items.map(|item| item.dispatch.delivery).collect()
    }

    async fn delivery(&self, id: DeliveryId) -> delivery::Model {
        let found = delivery::Entity::find_by_id(id)
            .one(self.store.reader())
            .await;
        found.expect("read").expect("there")
    }

    async fn attempts(&self, id: DeliveryId) -> Vec<attempt::Model> {
        attempt::Entity::find()
            .filter(attempt::Column::DeliveryId.eq(id))
            .order_by_asc(attempt::Column::Number)
            .all(self.store.reader())
            .await
            .expect("read")
    }

    async fn webhook_row(&self, id: WebhookId) -> webhook::Model {
        let found = webhook::Entity::find_by_id(id)
            .one(self.store.reader())
            .await;
        found.expect("read").expect("there")
    }

    /// Waits until a delivery is as wanted.
    async fn until(
        &self,
        id: DeliveryId,
        what: &str,
        wanted: impl Fn(&delivery::Model) -> bool,
    ) -> delivery::Model {
        let began = Instant::now();
        loop {
            let row = delivery::Entity::find_by_id(id).one(self.store.reader());
            let row = row.await.expect("read");
            if let Some(row) = row.as_ref().filter(|row| wanted(row)) {
                return row.clone();
            }
            assert!(began.elapsed() < PATIENCE, "{what}: {row:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn succeeded(&self, id: DeliveryId) -> delivery::Model {
        self.until(id, "succeeds", |row| {
            row.status == DeliveryStatus::Succeeded
        })
        .await
    }

    async fn attempted(&self, id: DeliveryId) -> delivery::Model {
        self.until(id, "is attempted", |row| row.attempts > 0).await
    }
}

/// Waits for a condition outside the store.
async fn condition(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "no {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// With a timeout longer than any attempt takes: an attempt that times out would be retried and counted.
fn patient() -> WebhooksConfig {
    WebhooksConfig {
        timeout: Duration::from_secs(60),
        ..WebhooksConfig::default()
    }
}

fn retrying(seconds: &[i64]) -> WebhooksConfig {
    WebhooksConfig {
        retry_schedule_seconds: seconds.to_vec(),
        ..patient()
    }
}

fn ok() -> ServerAnswer {
    ServerAnswer::with(200, "", b"thanks")
}

fn delivery_of(seen: &ReceivedRequest) -> String {
    seen.headers["x-service-delivery"].clone()
}

/// A clock that started an hour before the wall clock was set forward by one.
#[derive(Debug)]
struct Stepped;

const STEPPED_MS: i64 = 3_600_000;

impl Clock for Stepped {
    fn now(&self) -> Millis {
        SystemClock.now()
    }

    fn sleep_until(&self, at: Millis) -> futures_util::future::BoxFuture<'static, ()> {
        SystemClock.sleep_until(at)
    }

    fn stepped_ms(&self) -> i64 {
        STEPPED_MS
    }
}

/// Receivers compare the time with their clocks and refuse one that is five minutes off.
#[actix::test]
async fn a_signature_shows_the_wall_clock_after_that_was_set() {
    let world = World::with_clock(Arc::new(Stepped)).await;
    let receiver = TenantServer::scripted(|_| ok());
    world
        .webhook(world.tenant, receiver.outbound_url("/hook"))
        .await;
    let handle = world.start(patient());
    let began = world.clock.now();
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    world.succeeded(ids[0]).await;
    let ended = world.clock.now();
    let signed: i64 = receiver.all()[0].headers["webhook-timestamp"]
        .parse()
        .expect("seconds");
    let on_the_wall = |at: Millis| at.plus_ms(STEPPED_MS).as_i64() / 1_000;
    assert!((on_the_wall(began)..=on_the_wall(ended)).contains(&signed));
    let attempt = &world.attempts(ids[0]).await[0];
    assert!((began..=ended).contains(&attempt.started_at));
}

#[actix::test]
async fn a_committed_event_arrives_signed_and_is_recorded() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ok());
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/hook"))
        .await;
    let handle = world.start(patient());
    let ids = world.announce(&handle, world.tenant, &world.calls(1)).await;
    let row = world.succeeded(ids[0]).await;
    assert_eq!((row.attempts, row.next_attempt_at), (1, None));
    assert!(row.completed_at.is_some());
    let attempts = world.attempts(ids[0]).await;
    assert_eq!(attempts.len(), 1);
    assert_eq!(
        (attempts[0].number, attempts[0].status_code),
        (1, Some(200))
    );
    assert_eq!(
        (
            attempts[0].error_kind.as_deref(),
            attempts[0].response.as_slice()
        ),
        (None, &b"thanks"[..])
    );

    let seen = receiver.all().remove(0);
    let signer = Signer::new(&Secret::new(SECRET));
    assert_eq!(
        (seen.method.as_str(), seen.target().as_str()),
        ("POST", "/hook")
    );
    assert_eq!(seen.headers["content-type"], "application/json");
    assert_eq!(
        seen.headers["x-service-signature"],
        signer.service_signature(&seen.body)
    );
    assert_eq!(seen.headers["x-service-event"], "call.started");
    assert_eq!(seen.headers["x-service-delivery"], ids[0].to_string());
    assert_eq!(seen.headers["x-service-attempt"], "1");
    assert_eq!(seen.headers["webhook-id"], row.event_id.to_string());
    let at = Millis::from_i64(
        seen.headers["webhook-timestamp"]
            .parse::<i64>()
            .expect("seconds")
            * 1_000,
    );
    let standard = signer.standard_signature(row.event_id, at, &seen.body);
    assert_eq!(seen.headers["webhook-signature"], standard);
    assert!(!seen.headers.contains_key("x-service-test"));
    let stored = event::Entity::find_by_id(row.event_id)
        .one(world.store.reader())
        .await
        .expect("read")
        .expect("there");
    assert_eq!(seen.body, stored.body.as_bytes());
    assert_eq!(handle.stats().succeeded, 1);
    assert_eq!(world.webhook_row(hook.id).await, hook);
}

/// An answer and its result: the delivery's status, and the attempt's code, error and response.
type Leaves = (
    ServerAnswer,
    DeliveryStatus,
    Option<i64>,
    Option<&'static str>,
    &'static [u8],
);

async fn each_leaves<const N: usize>(config: WebhooksConfig, answers: [Leaves; N]) {
    let world = World::new().await;
    let handle = world.start(config);
    for (play, status, code, kind, response) in answers {
        let shown = format!("{play:?}").chars().take(50).collect::<String>();
        let tenant = TenantId::new(world.clock.now());
        let receiver = TenantServer::scripted(move |_| play.clone());
        world.webhook(tenant, receiver.outbound_url("/")).await;
        let ids = world.announce(&handle, tenant, &world.calls(1)).await;
        let row = world.attempted(ids[0]).await;
        assert_eq!((row.status, row.attempts), (status, 1), "{shown}");
        let pending = status == DeliveryStatus::Pending;
        assert_eq!(
            (row.next_attempt_at.is_some(), row.completed_at.is_none()),
            (pending, pending),
            "{shown}"
        );
        let attempt = world.attempts(ids[0]).await.remove(0);
        assert_eq!(
            (attempt.status_code, attempt.error_kind.as_deref()),
            (code, kind),
            "{shown}"
        );
        assert_eq!(attempt.response, response, "{shown}");
        if let Some(next) = row.next_attempt_at {
            let wait_ms = next.since(attempt.started_at.plus_ms(attempt.duration_ms));
            assert!((4_900..=6_200).contains(&wait_ms), "{shown}: {wait_ms} ms");
        }
    }
}

#[actix::test]
async fn each_answer_leaves_the_right_row() {
    const CUT: &[u8] = &[b'x'; 16 * 1024];
    const BINARY: &[u8] = b"\xff\xfe\x00bytes";
    let garbage = ServerAnswer::Bytes(b"garbage\r\n\r\n".to_vec());
    let elsewhere = ServerAnswer::with(302, "location: /x\r\n", b"");
    let (succeeded, failed, pending) = (
        DeliveryStatus::Succeeded,
        DeliveryStatus::Failed,
        DeliveryStatus::Pending,
    );
    let answers = [
        (
            ServerAnswer::with(204, "", b""),
            succeeded,
            Some(204),
            None,
            &b""[..],
        ),
        (elsewhere, pending, Some(302), None, b""),
        (
            ServerAnswer::with(400, "", b"no"),
            pending,
            Some(400),
            None,
            b"no",
        ),
        (
            ServerAnswer::with(410, "", b""),
            failed,
            Some(410),
            None,
            b"",
        ),
        (
            ServerAnswer::with(500, "", BINARY),
            pending,
            Some(500),
            None,
            BINARY,
        ),
        (ServerAnswer::Reset, pending, None, Some("reset"), b""),
        (garbage, pending, None, Some("invalid_response"), b""),
        (ServerAnswer::TenGigabytes, succeeded, Some(200), None, CUT),
    ];
    each_leaves(patient(), answers).await;
}

#[actix::test]
async fn an_answer_that_does_not_come_to_its_end_leaves_what_came() {
    let config = WebhooksConfig {
        timeout: Duration::from_millis(500),
        ..patient()
    };
    let beginning = b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nthe beginning";
    let beginning = ServerAnswer::Bytes(beginning.to_vec());
    let pending = DeliveryStatus::Pending;
    let answers = [
        (ServerAnswer::Hang, pending, None, Some("timeout"), &b""[..]),
        (
            beginning,
            pending,
            Some(200),
            Some("timeout"),
            b"the beginning",
        ),
    ];
    each_leaves(config, answers).await;
}

#[actix::test]
async fn a_test_is_a_signed_sample_with_one_attempt() {
    let world = World::new().await;
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(503, "", b"later"));
    let hook = world
        .webhook(world.tenant, receiver.outbound_url("/"))
        .await;
    let handle = world.start(patient());
    let id = handle.test(hook.clone(), None).await.expect("made");
    let row = world.delivery(id).await;
    assert!(row.is_test);
    assert_eq!((row.status, row.attempts), (DeliveryStatus::Failed, 1));
    let attempt = world.attempts(id).await.remove(0);
    assert_eq!(
        (attempt.status_code, attempt.response),
        (Some(503), b"later".to_vec())
    );
    let seen = receiver.all();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].headers["x-service-test"], "true");
    assert_eq!(seen[0].headers["x-service-event"], "call.started");
    let signature = Signer::new(&Secret::new(SECRET)).service_signature(&seen[0].body);
    assert_eq!(seen[0].headers["x-service-signature"], signature);
    assert_eq!(world.webhook_row(hook.id).await.failed_in_row, 0);
}
