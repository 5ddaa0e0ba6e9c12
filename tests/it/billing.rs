//! Minutes: holds, grants, use and release; the balance never falls below zero.
//!
//! Long calls are reported with an old `at`: the service bills by the bridge's times, so no test has to wait.

use crate::support::{prelude::*, tenant::top_up};

/// Talk time in milliseconds, and its price in minutes.
const RULE: [(i64, i64); 12] = [
    (0, 1),
    (999, 1),
    (1_000, 1),
    (59_999, 1),
    (60_000, 1),
    (60_999, 1),
    (61_000, 2),
    (120_000, 2),
    (121_000, 3),
    (600_000, 10),
    (601_000, 11),
    (3_000_000, 50),
];

#[rstest]
#[actix_web::test]
async fn talk_costs_by_the_rule(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({"maxCallDurationMinutes": 240}))
        .await;
    let bridge = tenant.bridge(Socket).await;
    let mut balance = 1_000;
    for (talk_ms, minutes) in RULE {
        let answered = Moment::ago(3_100);
        let id = bridge.talk_since(&tenant.did, answered).await;
        bridge.hang_up_at(&id, answered.plus_ms(talk_ms)).await;
        balance -= minutes;
        let call = tenant.call(&id).await;
        assert_eq!(call["talkTimeSeconds"], talk_ms / 1_000);
        assert_eq!(tenant.billed(&id).await, Some(minutes), "{talk_ms} ms");
        assert_eq!(tenant.credits().await, (balance, 1_000, 1_000 - balance));
    }
    let running: Vec<_> = tenant.transactions().await;
    for pair in running.windows(2) {
        let figure = |i: usize, field: &str| pair[i][field].as_i64().unwrap();
        assert_eq!(
            figure(0, "balanceAfterMinutes"),
            figure(1, "balanceAfterMinutes") + figure(0, "minutes")
        );
    }
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn the_cost_of_the_ai_is_the_bridges_figure_or_the_rate() {
    let world = world!(
        Postgres,
        WorldSetup::new().set("billing.ai_cost_idr_per_minute", 350)
    );
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Http).await;
    for end in ["call.hangup", "call.failed"] {
        for (given, cost) in [(json!(null), 700), (json!(0), 0), (json!(123_456), 123_456)] {
            let answered = Moment::ago(90);
            let id = bridge.talk_since(&tenant.did, answered).await;
            let mut message = json!({"callId": id, "at": answered.plus(61).text()});
            if !given.is_null() {
                message["aiCostIdr"] = given;
            }
            bridge.ok(end, message).await;
            assert_eq!(tenant.call(&id).await["aiCostIdr"], cost, "{end}");
        }
    }
}

#[rstest]
#[actix_web::test]
async fn a_call_that_was_not_answered_is_free(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(1));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Http).await;
    // One minute is enough for any number of consecutive calls, because each hold is released.
    for kind in ["call.hangup", "call.failed", "call.hangup"] {
        let id = bridge.ring(&tenant.did).await;
        let second = bridge.incoming(&tenant.did, None).await;
        assert_eq!(
            second["reason"], "insufficient_credits",
            "the minute is held"
        );
        bridge.ok(kind, json!({"callId": id})).await;
    }
    assert_eq!(tenant.credits().await, (1, 1, 0));
    assert_eq!(tenant.transactions().await.len(), 1, "the purchase alone");
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn calls_at_the_same_time_share_what_is_there(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(5));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let waiting: Vec<_> = (0..20)
        .map(|i| {
            let incoming =
                json!({"bridgeCallId": format!("c{i}"), "did": tenant.did, "callerNumber": "+6281"});
            bridge.begin(&bridge.message("call.incoming", incoming))
        })
        .collect();
    let mut taken = Vec::new();
    for reply in waiting {
        let reply = reply.reply().await;
        match reply["action"].as_str().unwrap() {
            "answer" => taken.push(reply["callId"].as_str().unwrap().to_owned()),
            _ => assert_eq!(reply["reason"], "insufficient_credits"),
        }
    }
    assert_eq!(taken.len(), 5);
    for id in &taken {
        bridge.ok("call.answered", json!({"callId": id})).await;
    }
    for id in &taken {
        bridge.hang_up(id).await;
        assert_eq!(tenant.billed(id).await, Some(1));
    }
    assert_eq!(tenant.credits().await, (0, 5, 5));
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn the_limit_of_concurrent_calls_frees_its_slots(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store, WorldSetup::new().concurrent_calls(2));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    for _ in 0..2 {
        let (ringing, talking) = (
            bridge.ring(&tenant.did).await,
            bridge.talk(&tenant.did).await,
        );
        let third = bridge.incoming(&tenant.did, None).await;
        assert_eq!(third["reason"], "concurrency_limit");
        bridge.hang_up(&ringing).await;
        bridge.hang_up(&talking).await;
    }
    // Another tenant's calls do not count.
    let other = world.another_tenant(10).await;
    let held: Vec<_> = [
        bridge.ring(&tenant.did).await,
        bridge.ring(&tenant.did).await,
    ]
    .into();
    bridge.ring(&other.did).await;
    assert_eq!(held.len(), 2);
}

/// Time for a bridge to carry out a hang-up, in seconds.
const GRACE: &str = "calls.hangup_grace_seconds";

/// A call in its last minute, with this many seconds left.
async fn on_the_last_minute(
    world: &TestWorld,
    bridge: &TestBridge,
    left_s: i64,
) -> (String, Moment) {
    let answered = Moment::ago(60 - left_s);
    (
        bridge.talk_since(&world.tenant.did, answered).await,
        answered,
    )
}

#[rstest]
#[actix_web::test]
async fn a_call_without_credit_is_warned_told_and_ended_by_the_engine(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(1).set(GRACE, 2));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let (id, answered) = on_the_last_minute(&world, &bridge, 5).await;

    let warning = bridge.command("warn", &id).await;
    assert_eq!(warning["reason"], "credits_exhausted");
    let left = warning["secondsLeft"].as_i64().unwrap();
    assert!((0..=5).contains(&left), "{warning}");
    let command = bridge.command("hangup", &id).await;
    assert_eq!(command["reason"], "credits_exhausted");
    assert!(
        Moment::now() >= answered.plus(60),
        "the granted minute is talked to its end"
    );

    // The bridge does not obey. After the grace period the service ends the call, dated to the time when it was
    // due.
    let call = tenant.call_over(&id).await;
    let seen = ["status", "hangupReason", "hangupInitiator", "endedAt"].map(|f| call[f].clone());
    let due = answered.plus(60).text();
    assert_eq!(
        json!(seen),
        json!(["ended", "credits_exhausted", "system", due])
    );
    assert_eq!(
        (tenant.billed(&id).await, tenant.credits().await),
        (Some(1), (0, 1, 1))
    );
    bridge
        .ok(
            "call.hangup",
            json!({"callId": id, "reason": "credits_exhausted"}),
        )
        .await;
    assert_eq!(
        tenant.call(&id).await,
        call,
        "the late hang-up is a harmless repeat"
    );
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn a_bridge_that_obeys_ends_the_call_with_that_reason() {
    let world = shared_world!(Postgres, WorldSetup::new().minutes(1));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let (id, _) = on_the_last_minute(&world, &bridge, 3).await;
    let reason = bridge.command("hangup", &id).await["reason"].clone();
    bridge
        .ok(
            "call.hangup",
            json!({"callId": id, "reason": reason, "initiator": "bridge"}),
        )
        .await;
    let call = tenant.call(&id).await;
    assert_eq!(
        [&call["status"], &call["hangupReason"]],
        ["ended", "credits_exhausted"]
    );
    assert_eq!(
        (tenant.billed(&id).await, tenant.credits().await),
        (Some(1), (0, 1, 1))
    );
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn a_talk_that_is_reported_late_is_cut_where_its_credit_ended(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(3).set(GRACE, 2));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let answered = Moment::ago(500);
    let id = bridge.talk_since(&tenant.did, answered).await;
    bridge.command("hangup", &id).await;
    let call = tenant.call_over(&id).await;
    let seen = ["status", "hangupReason", "endedAt"].map(|f| call[f].clone());
    let cut = answered.plus(180).text();
    assert_eq!(json!(seen), json!(["ended", "credits_exhausted", cut]));
    assert_eq!(
        (tenant.billed(&id).await, tenant.credits().await),
        (Some(3), (0, 3, 3))
    );
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn a_top_up_in_between_saves_the_call(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(1));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let (id, answered) = on_the_last_minute(&world, &bridge, 8).await;
    bridge.command("warn", &id).await;
    top_up(&world.server, &tenant.id, 5, "saved");
    answered.plus(63).passed().await;
    let hangups = bridge
        .commands()
        .into_iter()
        .filter(|c| c["command"] == "hangup")
        .count();
    assert_eq!(
        (hangups, &tenant.call(&id).await["status"]),
        (0, &json!("answered"))
    );
    bridge.hang_up(&id).await;
    let call = tenant.call(&id).await;
    let talked = call["talkTimeSeconds"].as_i64().unwrap();
    let minutes = (talked + 59) / 60;
    assert_eq!(
        (tenant.billed(&id).await, call["hangupReason"].as_str()),
        (Some(minutes), Some("normal"))
    );
    assert_eq!(tenant.credits().await, (6 - minutes, 6, minutes));
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn the_agents_longest_call_is_kept() {
    let world = shared_world!(Postgres, WorldSetup::new().set(GRACE, 2));
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({"maxCallDurationMinutes": 1}))
        .await;
    let bridge = tenant.bridge(Socket).await;
    let (id, answered) = on_the_last_minute(&world, &bridge, 5).await;
    let warning = bridge.command("warn", &id).await;
    assert_eq!(warning["reason"], "max_duration");
    assert_eq!(
        bridge.command("hangup", &id).await["reason"],
        "max_duration"
    );
    let call = tenant.call_over(&id).await;
    let seen = ["status", "hangupReason", "hangupInitiator", "endedAt"].map(|f| call[f].clone());
    let due = answered.plus(60).text();
    assert_eq!(json!(seen), json!(["ended", "max_duration", "system", due]));
    assert_eq!(
        (tenant.billed(&id).await, tenant.credits().await.0),
        (Some(1), 999)
    );
    world.assert_ledger_is_exact();
}

#[rstest]
#[case::of_credit(2, 10, "credits_exhausted")]
#[case::of_the_agents_time(1_000, 2, "max_duration")]
#[actix_web::test]
async fn a_cut_that_is_obeyed_late_ends_the_call_when_it_was_due(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[case] credit: u32,
    #[case] longest: u32,
    #[case] reason: &str,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(credit));
    let tenant = &world.tenant;
    tenant
        .change_agent(json!({"maxCallDurationMinutes": longest}))
        .await;
    let bridge = tenant.bridge(Socket).await;
    let answered = Moment::ago(117);
    let id = bridge.talk_since(&tenant.did, answered).await;
    assert_eq!(bridge.command("hangup", &id).await["reason"], reason);
    answered.plus(126).passed().await;
    let obeyed = json!({"callId": id, "reason": reason, "initiator": "bridge"});
    bridge.ok("call.hangup", obeyed).await;
    let call = tenant.call(&id).await;
    let seen = ["hangupReason", "endedAt", "talkTimeSeconds"].map(|field| call[field].clone());
    assert_eq!(json!(seen), json!([reason, answered.plus(120).text(), 120]));
    assert_eq!(tenant.billed(&id).await, Some(2));
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn low_credit_is_announced_once_per_crossing(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().minutes(6).low_threshold(5));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    // Each call is answered now and hung up in its first minute. For a call answered long ago, minutes would be
    // used until the bridge reports the earlier end; the lower balance in between would be announced.
    let talk = async || {
        let id = bridge.talk(&tenant.did).await;
        bridge.hang_up(&id).await;
    };
    talk().await; // 5: at the threshold is not below it
    talk().await; // 4
    talk().await; // 3: still below
    top_up(&world.server, &tenant.id, 1, "too little"); // 4
    talk().await; // 3
    top_up(&world.server, &tenant.id, 2, "back"); // 5: armed again
    talk().await; // 4
    talk().await; // 3
    let lows = |events: &[ReceivedEvent]| events.iter().filter(|e| e.kind == "credits.low").count();
    let ends = |events: &[ReceivedEvent]| events.iter().filter(|e| e.kind == "call.ended").count();
    let events = world
        .receiver
        .wait_for_events("/hook", SECRET, "six calls and two warnings", |events| {
            lows(events) >= 2 && ends(events) == 6
        })
        .await;
    assert_eq!(lows(&events), 2);
    for event in events.iter().filter(|e| e.kind == "credits.low") {
        assert_eq!(event.data, json!({"balanceMinutes": 4, "threshold": 5}));
    }
    world.assert_ledger_is_exact();
}
