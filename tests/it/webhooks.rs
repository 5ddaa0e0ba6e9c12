//! Deliveries to misbehaving receivers.

use std::collections::BTreeSet;

use dikala_testkit::free_port;

use crate::support::{prelude::*, world::HOOK};

fn attempts(received: &[ReceivedRequest]) -> Vec<u32> {
    received
        .iter()
        .map(|r| r.header("x-service-attempt").parse().unwrap())
        .collect()
}

#[rstest]
#[actix_web::test]
async fn what_fails_is_sent_again_with_the_same_bytes(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new()
        .set("webhooks.retry_schedule_seconds", "1,1,1")
        .set("webhooks.timeout_seconds", 5);
    let world = world!(store, setup);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let elsewhere = receiver.url("/elsewhere");
    let bad = [
        ("/s204-first-500", ServerAnswer::Status(500)),
        ("/s400", ServerAnswer::Status(400)),
        ("/s404", ServerAnswer::Status(404)),
        (
            "/s429",
            ServerAnswer::Full(429, "retry-after", "1".to_owned(), vec![]),
        ),
        (
            "/s503",
            ServerAnswer::Full(503, "retry-after", "nonsense".to_owned(), vec![]),
        ),
        (
            "/s301",
            ServerAnswer::Full(301, "location", elsewhere.clone(), vec![]),
        ),
        (
            "/s307",
            ServerAnswer::Full(307, "location", elsewhere.clone(), vec![]),
        ),
        ("/reset", ServerAnswer::Reset),
        ("/hang", ServerAnswer::Hang),
        ("/drip-head", ServerAnswer::DripHead),
        ("/drip-body", ServerAnswer::DripBody),
        ("/slow", ServerAnswer::Slow(Duration::from_secs(30))),
        (
            "/bad-header",
            ServerAnswer::Raw(b"HTTP/1.1 200 OK\r\nbad\0name: \xff\r\n\r\n"),
        ),
        ("/not-http", ServerAnswer::Raw(b"SSH-2.0-OpenSSH_9.6\r\n")),
        (
            "/not-utf8",
            ServerAnswer::Full(500, "x-a", "b".to_owned(), vec![0xff, 0, 0xfe]),
        ),
    ];
    for (path, answer) in bad.clone() {
        receiver.answer(path, [answer, ServerAnswer::Status(204)]);
        tenant
            .subscribe(&receiver.url(path), &["call.started"], SECRET)
            .await;
    }
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.ring(&tenant.did).await;
    bridge.hang_up(&id).await;
    for (path, _) in &bad {
        let received = receiver.wait_for(path, 2).await;
        let [first, second] = &received[..] else {
            panic!("{path}: {} requests", received.len())
        };
        assert_eq!(attempts(&received), [1, 2], "{path}");
        assert_eq!(first.event(SECRET), second.event(SECRET), "{path}");
        assert_eq!(first.body, second.body);
        assert_eq!(
            first.header("x-service-delivery"),
            second.header("x-service-delivery")
        );
    }
    assert!(
        receiver.received("/elsewhere").is_empty(),
        "redirects are not followed"
    );
    world.event("call.ended", &id).await;
}

#[rstest]
#[actix_web::test]
async fn a_receiver_that_was_down_gets_what_it_missed(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.retry_schedule_seconds", vec_of("1", 60))
    );
    let tenant = &world.tenant;
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/later");
    tenant
        .subscribe(&url, &["call.started", "call.ended"], SECRET)
        .await;
    let bridge = tenant.bridge(Http).await;
    for _ in 0..5 {
        let id = bridge.ring(&tenant.did).await;
        bridge.hang_up(&id).await;
        world.event("call.ended", &id).await;
    }
    let receiver = TenantServer::start_on(port);
    receiver
        .wait_for_events("/later", SECRET, "ten events", |events| events.len() == 10)
        .await;
}

fn vec_of(item: &str, count: usize) -> String {
    vec![item; count].join(",")
}

#[rstest]
#[actix_web::test]
async fn hanging_deliveries_delay_nobody_else(#[values(Sqlite, Postgres)] store: StoreKind) {
    // No attempt at the bad endpoint ends before the test's timeout.
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.timeout_seconds", 120)
    );
    let (bad, receiver) = (&world.tenant, &world.receiver);
    receiver.answer("/hang", [ServerAnswer::Hang]);
    let url = receiver.url("/hang");
    bad.subscribe(&url, &["call.started", "call.ended"], SECRET)
        .await;
    let good = world.another_tenant(100).await;
    good.subscribe(
        &receiver.url("/good"),
        &["call.started", "call.ended"],
        SECRET,
    )
    .await;
    let bridge = bad.bridge(Socket).await;
    for _ in 0..100 {
        let id = bridge.ring(&bad.did).await;
        bridge.hang_up(&id).await;
    }
    receiver.wait_for("/hang", 1).await;
    for _ in 0..10 {
        let id = bridge.ring(&good.did).await;
        bridge.hang_up(&id).await;
        receiver
            .wait_for_event("/good", SECRET, "call.ended", &id)
            .await;
    }
    // The bad tenant's other endpoint is served, too.
    receiver
        .wait_for_events(HOOK, SECRET, "200 events", |events| events.len() == 200)
        .await;
    let hanging = receiver.received("/hang").len();
    assert!(
        hanging <= 8,
        "an endpoint has at most eight attempts at once: {hanging}"
    );
}

#[rstest]
#[actix_web::test]
async fn first_attempts_keep_the_order_of_a_call(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.retry_schedule_seconds", vec_of("1", 20))
    );
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    let mut answers = vec![
        ServerAnswer::Status(500),
        ServerAnswer::Slow(Duration::from_millis(300)),
    ];
    answers.extend(vec![ServerAnswer::Status(503); 10]);
    answers.push(ServerAnswer::Status(200));
    receiver.answer(HOOK, answers);
    let bridge = tenant.bridge(Socket).await;
    let mut calls = Vec::new();
    for _ in 0..20 {
        let id = bridge.talk(&tenant.did).await;
        bridge.begin(&bridge.message("call.transcript", json!({"callId": id, "summary": "s"})));
        bridge.begin(&bridge.message("call.hangup", json!({"callId": id})));
        calls.push(id);
    }
    let events = receiver
        .wait_for_events(HOOK, SECRET, "every event", |events| events.len() == 80)
        .await;
    for id in calls {
        let kinds: Vec<_> = events
            .iter()
            .filter(|e| e.data["callId"] == id)
            .map(|e| e.kind.as_str())
            .collect();
        let order = [
            "call.started",
            "call.answered",
            "call.transcript",
            "call.ended",
        ];
        assert_eq!(kinds, order);
    }
}

#[rstest]
#[actix_web::test]
async fn gone_means_gone(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.retry_schedule_seconds", vec_of("1", 10))
    );
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    receiver.answer("/gone", [ServerAnswer::Status(410)]);
    receiver.answer("/clock", [ServerAnswer::Status(500)]);
    receiver.answer("/deleted", [ServerAnswer::Status(500)]);
    let subscribe = async |path: &str| {
        tenant
            .subscribe(&receiver.url(path), &["call.started"], SECRET)
            .await
    };
    let gone = subscribe("/gone").await;
    let deleted = subscribe("/deleted").await;
    let bridge = tenant.bridge(Socket).await;
    bridge.ring(&tenant.did).await;
    let record = eventually("the webhook to be disabled", async || {
        let webhooks = tenant.api.get("/webhooks").await.expect(200);
        let of_gone = |webhook: &&Value| webhook["id"] == gone;
        let record = webhooks["webhooks"]
            .as_array()
            .unwrap()
            .iter()
            .find(of_gone)
            .unwrap()
            .clone();
        (record["isActive"] == false).then_some(record)
    })
    .await;
    assert!(record["disabledReason"].is_string(), "{record}");
    receiver.wait_for("/deleted", 1).await;
    tenant
        .api
        .delete(&format!("/webhooks/{deleted}"))
        .await
        .expect(204);
    let before = receiver.received("/deleted").len();

    // When another failing endpoint has had its third retry, these would have had one, too.
    subscribe("/clock").await;
    let second = bridge.ring(&tenant.did).await;
    receiver.wait_for("/clock", 4).await;
    world.event("call.started", &second).await;
    assert_eq!(receiver.received("/gone").len(), 1);
    // One attempt may have been in flight when the webhook was deleted.
    assert!(receiver.received("/deleted").len() <= before + 1);
}

#[rstest]
#[actix_web::test]
async fn a_webhook_gets_what_it_asked_for_and_no_other_tenants(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    tenant
        .subscribe(&receiver.url("/ended"), &["call.ended"], "another-secret")
        .await;
    let other = world.another_tenant(10).await;
    other
        .subscribe(
            &receiver.url("/other"),
            &["call.ended", "call.started"],
            SECRET,
        )
        .await;
    let bridge = tenant.bridge(Http).await;
    let mine = bridge.talk(&tenant.did).await;
    let theirs = bridge.talk(&other.did).await;
    bridge.hang_up(&mine).await;
    bridge.hang_up(&theirs).await;
    receiver
        .wait_for_event("/ended", "another-secret", "call.ended", &mine)
        .await;
    receiver
        .wait_for_event("/other", SECRET, "call.ended", &theirs)
        .await;
    world.event("call.ended", &mine).await;
    assert_eq!(receiver.events("/ended", "another-secret").len(), 1);
    let others = receiver.events("/other", SECRET);
    assert!(others.len() == 2 && others.iter().all(|event| event.data["callId"] == theirs));
    assert!(
        receiver
            .events(HOOK, SECRET)
            .iter()
            .all(|event| event.data["callId"] == mine)
    );
}

#[rstest]
#[actix_web::test]
async fn retries_end_with_the_schedule(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(
        store,
        WorldSetup::new().set("webhooks.retry_schedule_seconds", "1,1")
    );
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    receiver.answer("/never", [ServerAnswer::Status(500)]);
    tenant
        .subscribe(&receiver.url("/never"), &["call.started"], SECRET)
        .await;
    let bridge = tenant.bridge(Http).await;
    bridge.ring(&tenant.did).await;
    receiver.wait_for("/never", 3).await;
    // A second call's delivery passes the whole schedule, which is long enough for a fourth attempt of the first.
    bridge.ring(&tenant.did).await;
    let received = receiver.wait_for("/never", 6).await;
    let mut all = attempts(&received);
    all.sort_unstable();
    assert_eq!(all, [1, 1, 2, 2, 3, 3]);
}

/// Inserts permanently failed deliveries of a webhook, made at these seconds after the epoch, as copies of an
/// existing one; returns their ids.
async fn fail(world: &TestWorld, webhook: &str, at_seconds: &[u64]) -> BTreeSet<String> {
    let rows: Vec<(String, u64)> = at_seconds
        .iter()
        .enumerate()
        .map(|(n, at)| (format!("dlv_{:026}", n + 1), at * 1_000))
        .collect();
    let values: Vec<_> = rows
        .iter()
        .map(|(id, at_ms)| format!("('{id}', {at_ms})"))
        .collect();
    let sql = format!(
        "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, \
            next_attempt_at, is_test, created_at, completed_at) \
        SELECT v.column1, d.tenant_id, '{webhook}', d.event_id, d.call_id, d.kind, 'failed', 11, \
            NULL, false, v.column2, v.column2 \
        FROM (VALUES {}) AS v, (SELECT * FROM deliveries LIMIT 1) AS d",
        values.join(", ")
    );
    world.server.installation.store.execute(&sql).await;
    rows.into_iter().map(|(id, _)| id).collect()
}

#[rstest]
#[actix_web::test]
async fn a_recovery_survives_a_kill(#[values(Sqlite, Postgres)] store: StoreKind) {
    const SINCE: u64 = 1_768_000_000;
    const UNTIL: u64 = 1_768_003_600;
    let mut world = world!(store);
    let bridge = world.tenant.bridge(Http).await;
    let id = bridge.ring(&world.tenant.did).await;
    world.event("call.started", &id).await;
    let url = world.receiver.url("/missed");
    let webhook = world.tenant.subscribe(&url, &["credits.low"], SECRET).await;
    // Every tenth is outside of the time range.
    let at = |n: u64| match n % 20 {
        0 => SINCE - 1,
        10 => UNTIL,
        _ => SINCE + n % (UNTIL - SINCE),
    };
    let at_seconds: Vec<u64> = (0..12_000).map(at).collect();
    let all = fail(&world, &webhook, &at_seconds).await;
    let wanted: BTreeSet<String> = all
        .into_iter()
        .zip(&at_seconds)
        .filter(|(_, at)| (SINCE..UNTIL).contains(at))
        .map(|(id, _)| id)
        .collect();
    let asked = world
        .tenant
        .api
        .post(
            &format!("/webhooks/{webhook}/recover"),
            json!({"since": "2026-01-09T23:06:40Z", "until": "2026-01-10T00:06:40Z"}),
        )
        .await
        .expect(202);
    assert_eq!(asked, json!({"deliveries": wanted.len()}));
    world.receiver.wait_for("/missed", 1).await;
    world.server.kill9();
    let open = world.server.installation.store.count("recoveries").await;
    assert_eq!(open, 1, "it was killed in the middle");
    world.server.restart();

    let arrived = |world: &TestWorld| -> BTreeSet<String> {
        let received = world.receiver.received("/missed").into_iter();
        let id = |request: ReceivedRequest| request.header("x-service-delivery").to_owned();
        received.map(id).collect()
    };
    eventually("all that failed in the time", async || {
        (arrived(&world).len() >= wanted.len()).then_some(())
    })
    .await;
    let api = &world.tenant.api;
    eventually("nothing to be left to do", async || {
        let path = format!("/webhooks/{webhook}/deliveries?status=pending");
        let pending = api.get(&path).await.expect(200);
        (pending["deliveries"] == json!([])).then_some(())
    })
    .await;
    let left = world.server.installation.store.count("recoveries").await;
    assert_eq!(left, 0);
    assert!(arrived(&world) == wanted, "others than those arrived");
}
