//! `kill -9` at bad moments and SIGTERM at any time: acknowledged changes stay, and begun work continues.

use std::{
    collections::{HashMap, HashSet},
    process::Stdio,
};

use dikala_testkit::free_port;

use crate::support::{
    prelude::*,
    server::{self, CommandResult},
    tenant::{text, top_up},
    world::HOOK,
};

#[rstest]
#[actix_web::test]
async fn calls_holds_and_deliveries_survive_a_kill(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let schedule = vec!["1"; 60].join(",");
    let setup = WorldSetup::new()
        .minutes(10)
        .set("webhooks.retry_schedule_seconds", schedule);
    let mut world = world!(store, setup);
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/later");
    world
        .tenant
        .subscribe(&url, &["call.started"], SECRET)
        .await;
    let bridge = world.tenant.bridge(transport).await;
    let did = world.tenant.did.clone();
    let answered = Moment::ago(100);
    let (talking, ringing) = (
        bridge.talk_since(&did, answered).await,
        bridge.ring(&did).await,
    );
    let over = bridge.talk(&did).await;
    bridge.hang_up(&over).await;

    world.server.kill9();
    bridge.cut();
    world.server.restart();

    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let reply = bridge
        .ok(
            "heartbeat",
            json!({"activeCalls": [talking, ringing, over]}),
        )
        .await;
    assert_eq!(reply["ended"], json!([over]));
    assert_eq!(tenant.call(&talking).await["answeredAt"], answered.text());
    bridge.ok("call.answered", json!({"callId": ringing})).await;
    bridge.hang_up(&ringing).await;
    bridge.hang_up_at(&talking, answered.plus(90)).await;
    for (id, minutes) in [(&talking, 2), (&ringing, 1), (&over, 1)] {
        assert_eq!(tenant.call(id).await["hangupReason"], "normal");
        assert_eq!(tenant.billed(id).await, Some(minutes));
        let order = ["call.started", "call.answered", "call.ended"];
        assert_eq!(world.kinds(id, "call.ended").await, order);
    }
    assert_eq!(tenant.credits().await, (6, 10, 4));
    let later = TenantServer::start_on(port);
    later
        .wait_for_events("/later", SECRET, "three events", |events| events.len() == 3)
        .await;
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn deadlines_are_kept_over_a_kill(#[values(Sqlite, Postgres)] store: StoreKind) {
    let setup = WorldSetup::new()
        .minutes(1)
        .set("bridge.lost_after_seconds", 600);
    let mut world = world!(store, setup);
    let bridge = world.tenant.bridge(Socket).await;
    let answered = Moment::ago(55);
    let id = bridge.talk_since(&world.tenant.did, answered).await;
    world.server.kill9();
    // Beyond the granted minute, while no process could end the call.
    answered.plus(61).passed().await;
    world.server.restart();
    let call = world.tenant.call_over(&id).await;
    let seen = ["status", "hangupReason", "endedAt"].map(|field| call[field].clone());
    let due = answered.plus(60).text();
    assert_eq!(json!(seen), json!(["ended", "credits_exhausted", due]));
    assert_eq!(world.tenant.billed(&id).await, Some(1));
    world.assert_ledger_is_exact();
}

/// The service is already ending the call when the tenant asks for it: the acknowledged reason survives a crash,
/// even if there is credit again.
#[rstest]
#[actix_web::test]
async fn a_hang_up_that_was_acknowledged_is_kept_over_a_kill(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new()
        .minutes(1)
        .set("calls.hangup_grace_seconds", 15)
        .set("bridge.lost_after_seconds", 600);
    let mut world = world!(store, setup);
    let bridge = world.tenant.bridge(Socket).await;
    let answered = Moment::ago(61);
    let id = bridge.talk_since(&world.tenant.did, answered).await;
    bridge.command("hangup", &id).await;
    let path = format!("/calls/{id}/hangup");
    world.tenant.api.post(&path, json!({})).await.expect(202);
    world.server.kill9();
    bridge.cut();
    top_up(&world.server, &world.tenant.id, 10, "again");
    world.server.restart();
    let call = world.tenant.call_over(&id).await;
    let seen = ["hangupReason", "endedAt"].map(|field| call[field].clone());
    let cut = answered.plus(60).text();
    assert_eq!(json!(seen), json!(["credits_exhausted", cut]));
    assert_eq!(world.tenant.billed(&id).await, Some(1));
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn a_bridge_that_never_returns_is_lost_after_a_restart_too(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut world = world!(store, WorldSetup::new().set("bridge.lost_after_seconds", 2));
    let bridge = world.tenant.bridge(Socket).await;
    let id = bridge.talk(&world.tenant.did).await;
    let killed = Moment::now();
    world.server.kill9();
    world.server.restart();
    let call = world.tenant.call_over(&id).await;
    assert_eq!(
        [&call["status"], &call["hangupReason"]],
        ["dropped", "bridge_lost"]
    );
    let ended = Moment::parse(&call["endedAt"]);
    assert!(
        ended <= killed.plus(1),
        "{ended:?} is before the kill at {killed:?}"
    );
    world.event("call.ended", &id).await;
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn what_was_acknowledged_is_there_after_a_kill(#[values(Sqlite, Postgres)] store: StoreKind) {
    const CALLS: usize = 60;
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 600);
    let mut world = world!(store, setup);
    let mut known: HashMap<usize, String> = HashMap::new();
    let incoming = |bridge: &TestBridge, did: &str, number: usize| {
        let fields =
            json!({"bridgeCallId": number.to_string(), "did": did, "callerNumber": "+6281"});
        bridge.message("call.incoming", fields)
    };
    for round in 1..=3 {
        let bridge = world.tenant.bridge(Socket).await;
        let waiting: Vec<_> = (0..CALLS * round)
            .map(|number| {
                (
                    number,
                    bridge.begin(&incoming(&bridge, &world.tenant.did, number)),
                )
            })
            .collect();
        let wanted = CALLS * (round - 1) + CALLS / 4;
        eventually("some replies", async || {
            (bridge.reply_order().len() >= wanted).then_some(())
        })
        .await;
        world.server.kill9();
        for (number, reply) in waiting {
            if let Some(reply) = reply.reply_if_any().await {
                let id = text(&reply, "callId");
                let first = known.entry(number).or_insert_with(|| id.clone());
                assert_eq!(*first, id, "a repeat is the same call");
            }
        }
        world.server.restart();
        for id in known.values() {
            assert_eq!(world.tenant.call(id).await["status"], "ringing");
        }
    }
    let bridge = world.tenant.bridge(Http).await;
    for number in 0..CALLS * 3 {
        let reply = bridge
            .send(&incoming(&bridge, &world.tenant.did, number))
            .await;
        let id = text(&reply, "callId");
        assert_eq!(*known.entry(number).or_insert_with(|| id.clone()), id);
        bridge.hang_up(&id).await;
    }
    assert_eq!(world.tenant.calls().await.len(), CALLS * 3);
    assert_eq!(world.tenant.credits().await, (1_000, 1_000, 0));
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn sigterm_finishes_what_is_in_flight(#[values(Sqlite, Postgres)] store: StoreKind) {
    let mut world = world!(store);
    world.receiver.answer(
        HOOK,
        [
            ServerAnswer::Slow(Duration::from_secs(3)),
            ServerAnswer::Status(200),
        ],
    );
    let bridge = world.tenant.bridge(Socket).await;
    let id = bridge.talk(&world.tenant.did).await;
    world.receiver.wait_for(HOOK, 1).await;
    // A hook for renewed certificates sends it to every service.
    world.server.send_sighup();
    assert_eq!(world.server.terminate().await, 0);
    assert_eq!(
        bridge.commands(),
        Vec::<Value>::new(),
        "calls are not hung up"
    );

    world.server.restart();
    let bridge = world.tenant.bridge(Socket).await;
    assert_eq!(world.tenant.call(&id).await["status"], "answered");
    bridge.hang_up(&id).await;
    let order = ["call.started", "call.answered", "call.ended"];
    assert_eq!(world.kinds(&id, "call.ended").await, order);
    let received = world.receiver.received(HOOK);
    assert_eq!(
        received.len(),
        3,
        "the attempt in flight was finished, not repeated"
    );
    assert_eq!(world.server.terminate().await, 0);
}

#[rstest]
#[actix_web::test]
async fn a_second_signal_stops_at_once(#[values(Sqlite, Postgres)] store: StoreKind) {
    let setup = WorldSetup::new()
        .set("webhooks.timeout_seconds", 300)
        .set("http.shutdown_seconds", 300);
    let mut world = world!(store, setup);
    world.receiver.answer(HOOK, [ServerAnswer::Hang]);
    let bridge = world.tenant.bridge(Http).await;
    let id = bridge.ring(&world.tenant.did).await;
    world.receiver.wait_for(HOOK, 1).await;
    world.server.send_sigterm();
    let ready = Rest::new(&world.server.http);
    eventually("the server to stop taking calls", async || {
        let get = awc::http::Method::GET;
        let answer = ready.try_send(get, "/health/ready", None).await;
        (!matches!(answer, Ok(answer) if answer.status == 200)).then_some(())
    })
    .await;
    world.server.send_sigterm();
    world.server.exited().await;
    world.server.restart();
    assert_eq!(world.tenant.call(&id).await["status"], "ringing");
}

#[rstest]
#[actix_web::test]
async fn the_simulator_goes_on_over_three_kills(#[values(Sqlite, Postgres)] store: StoreKind) {
    const CALLS: usize = 200;
    const PATIENCE: Duration = Duration::from_secs(400);
    let schedule = vec!["1"; 60].join(",");
    let setup = WorldSetup::new()
        .minutes(5_000)
        .set("webhooks.retry_schedule_seconds", schedule);
    let mut world = world!(store, setup);
    let receiver = &world.receiver;
    receiver.answer("/function", [ServerAnswer::Json(json!({"stock": 3}))]);
    let endpoint = receiver.url("/function");
    world
        .tenant
        .create_function("checkStock", "POST", &endpoint)
        .await;

    let simulate = world
        .server
        .installation
        .command(&[
            "simulate",
            "--url",
            &world.server.http,
            "--token",
            &world.tenant.token,
            "--did",
            &world.tenant.did,
            "--calls",
            &CALLS.to_string(),
            "--concurrency",
            "50",
            "--functions",
            "0.2",
            "--json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let simulate = actix_web::rt::spawn(server::finished(simulate, PATIENCE));
    for events in [100, 250, 400] {
        let what = format!("{events} deliveries before a kill");
        receiver
            .wait_long(PATIENCE, HOOK, &what, |received| received.len() >= events)
            .await;
        world.server.kill9();
        world.server.restart();
    }
    let finished: CommandResult = simulate.await.unwrap();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.json();

    let calls = world.tenant.calls().await;
    assert_eq!(calls.len(), CALLS);
    let mut announced = HashSet::new();
    for call in &calls {
        let id = text(call, "id");
        world.tenant.call_over(&id).await;
        let events = world
            .tenant
            .api
            .get(&format!("/calls/{id}/events"))
            .await
            .expect(200);
        let events = events["events"].as_array().unwrap();
        let has = |kind: &str| events.iter().any(|event| event["event"] == kind);
        let answered = !call["answeredAt"].is_null();
        assert!(has("call.started") && has("call.ended"), "{id}");
        assert_eq!(has("call.answered"), answered, "{id}");
        assert_eq!(
            has("call.transcript"),
            !call["transcriptSummary"].is_null(),
            "{id}"
        );
        announced.extend(events.iter().map(|event| text(event, "id")));
    }
    assert!(announced.len() > 2 * CALLS, "{} events", announced.len());
    // The receiver verifies each signature as it counts.
    world
        .receiver
        .wait_long(PATIENCE, HOOK, "every event of every call", |received| {
            let came: HashSet<_> = received.iter().map(|r| r.header("webhook-id")).collect();
            announced.iter().all(|id| came.contains(id.as_str()))
        })
        .await;
    world.receiver.events(HOOK, SECRET);
    assert!(!world.receiver.received("/function").is_empty());
    world.assert_ledger_is_exact();
}

/// Database connections are not taken away before the last delivery is recorded.
#[rstest]
#[actix_web::test]
async fn sigterm_under_load_ends_soon_and_records_every_attempt(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    const ROUNDS: usize = 2;
    /// Usual work in flight needs far less.
    const EXITS_WITHIN: Duration = Duration::from_secs(30);
    let mut world = world!(store, WorldSetup::new().minutes(10_000));
    // Answers arrive while the listeners close, and after.
    let slow = ServerAnswer::Slow(Duration::from_millis(1_500));
    world.receiver.answer(HOOK, [slow]);
    for _ in 0..ROUNDS {
        let bridge = std::rc::Rc::new(world.tenant.bridge(Socket).await);
        for _ in 0..8 {
            actix_web::rt::spawn(ring_and_hang_up(bridge.clone(), world.tenant.did.clone()));
            actix_web::rt::spawn(read_again_and_again(world.tenant.api.clone()));
        }
        let wanted = world.receiver.total() + 30;
        eventually("deliveries under way", async || {
            (world.receiver.total() >= wanted).then_some(())
        })
        .await;
        world.server.send_sigterm();
        let exit = tokio::time::timeout(EXITS_WITHIN, world.server.exited()).await;
        assert_eq!(exit.expect("ends in time").code(), Some(0));
        let log = world.server.log();
        for bad in ["being shutdown", "panicked", "did not finish in time"] {
            assert!(!log.contains(bad), "{bad:?} is in\n{log}");
        }
        let attempts = "SELECT delivery_id FROM delivery_attempts";
        let recorded: HashSet<String> = world
            .server
            .installation
            .store
            .rows::<1>(attempts)
            .await
            .into_iter()
            .map(|[id]| id)
            .collect();
        let answered = world.receiver.settled().await;
        let answered = answered.iter().filter(|request| request.answered.is_some());
        for delivery in answered.filter_map(|request| request.delivery()) {
            assert!(recorded.contains(delivery), "{delivery} was answered");
        }
        world.server.restart();
    }
}

async fn ring_and_hang_up(bridge: std::rc::Rc<TestBridge>, did: String) {
    for number in 0.. {
        let id = format!("{:p}-{number}-{}", bridge, did);
        let mut incoming = bridge.message(
            "call.incoming",
            json!({"did": did, "callerNumber": "+6281"}),
        );
        incoming["bridgeCallId"] = json!(format!("{id}-{}", incoming["id"]));
        let Some(reply) = bridge.begin(&incoming).reply_if_any().await else {
            return;
        };
        if reply["ok"] != true {
            return;
        }
        let over = bridge.message("call.hangup", json!({"callId": reply["callId"]}));
        if !bridge.is_open() || bridge.begin(&over).reply_if_any().await.is_none() {
            return;
        }
    }
}

async fn read_again_and_again(api: Rest) {
    let get = awc::http::Method::GET;
    while let Ok(answer) = api.try_send(get.clone(), "/calls?limit=5", None).await {
        if answer.status != 200 {
            return;
        }
    }
}

/// Number of points in time at which a migration is killed.
const PARTS: u32 = 10;

/// Whenever a migration is killed, the next one succeeds.
#[rstest]
#[actix_web::test]
async fn a_migration_that_is_killed_leaves_what_was_there(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let Some(undisturbed) = Installation::new(store) else {
        return;
    };
    let began = std::time::Instant::now();
    assert_eq!(undisturbed.run(&["migrate"]).code, Some(0));
    let mut whole = began.elapsed();
    let mut killed = 0;
    for part in 0..PARTS {
        let installation = Installation::new(store).expect("there was one before");
        let mut migrating = installation
            .command(&["migrate"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(whole * part / PARTS);
        if migrating.try_wait().unwrap().is_some() {
            // The measured migration was slower than this one.
            whole /= 2;
            continue;
        }
        migrating.kill().unwrap();
        migrating.wait().unwrap();
        killed += 1;
        let migrated = installation.run(&["migrate"]);
        assert_eq!(
            migrated.code,
            Some(0),
            "after {part} of {PARTS} parts of {whole:?}: {migrated:?}"
        );
        assert_eq!(installation.store.count("tenants").await, 0);
    }
    assert!(killed > 3, "only {killed} were killed");
}
