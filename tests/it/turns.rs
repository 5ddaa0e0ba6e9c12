//! Turns of a call that goes on: whoever looks at the call or follows the tenant's events hears them as they are spoken.

use std::time::Instant;

use crate::support::{event_stream::EventStream, prelude::*, tenant::text};

fn turn(n: u64, role: &str, words: &str) -> Value {
    json!({"n": n, "role": role, "text": words, "at": "2026-01-15T03:30:05.000Z"})
}

async fn said(world: &TestWorld, call: &str) -> Vec<String> {
    let path = format!("/calls/{call}/transcript");
    let transcript = world.tenant.api.get(&path).await.expect(200);
    let turns = transcript["turns"].as_array().unwrap().iter();
    turns.map(|turn| text(turn, "text")).collect()
}

#[rstest]
#[actix_web::test]
async fn turns_are_followed_and_kept_until_the_transcript_replaces_them(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = shared_world!(store, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let call = bridge.talk(&tenant.did).await;
    let mut stream = EventStream::open(&world.server.http, &tenant.key, None).await;
    for (n, role, words) in [
        (2, "caller", "Ada"),
        (1, "agent", "Halo"),
        (2, "caller", "Ada oat?"),
    ] {
        let turn = turn(n, role, words);
        bridge
            .ok("call.turn", json!({"callId": call, "turn": turn}))
            .await;
        let (_, event) = stream.next().await;
        assert_eq!(event["event"], "call.turn");
        assert_eq!(event["data"], json!({"callId": call, "turn": turn}));
    }
    assert_eq!(said(&world, &call).await, ["Halo", "Ada oat?"]);
    // The list of a call's events is of those that webhooks get.
    let events = tenant
        .api
        .get(&format!("/calls/{call}/events"))
        .await
        .expect(200);
    let kinds: Vec<String> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| text(it, "event"))
        .collect();
    assert_eq!(kinds, ["call.started", "call.answered"]);

    let turns = json!([{"role": "agent", "text": "Halo semua"}]);
    bridge
        .ok(
            "call.transcript",
            json!({"callId": call, "summary": "Oat.", "turns": turns}),
        )
        .await;
    bridge
        .ok(
            "call.turn",
            json!({"callId": call, "turn": turn(3, "caller", "Late")}),
        )
        .await;
    assert_eq!(said(&world, &call).await, ["Halo semua"]);
    bridge.hang_up(&call).await;
    let kinds = world.kinds(&call, "call.ended").await;
    assert!(!kinds.contains(&"call.turn".to_owned()), "{kinds:?}");
}

#[actix_web::test]
async fn a_turn_that_cannot_be_is_refused_in_words() {
    let world = shared_world!(Sqlite, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    let good = turn(1, "agent", "Halo");
    for (field, value, words) in [
        ("n", json!(0), "turn needs an n from 1 to 2000."),
        ("n", json!("1"), "turn needs an n from 1 to 2000."),
        ("at", Value::Null, "turn needs an at."),
        (
            "role",
            json!("nobody"),
            "turn has a role that is none of caller, agent, tool.",
        ),
        (
            "latencyMs",
            json!(-1),
            "turn has a latencyMs that is no whole number from 0 to 600000.",
        ),
    ] {
        let mut turn = good.clone();
        turn[field] = value;
        let error = bridge
            .refused("call.turn", json!({"callId": call, "turn": turn}))
            .await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!("invalid_message"), &json!(words))
        );
    }
    let error = bridge.refused("call.turn", json!({"callId": call})).await;
    assert_eq!(error["message"], "turn is missing.");

    let webhook = json!({"url": world.receiver.url("/turns"), "events": ["call.turn"]});
    let refused = tenant.api.post("/webhooks", webhook).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(!refused.text.contains("call.turn, "), "{}", refused.text);
    bridge.hang_up(&call).await;
}

/// A call makes one commit a second for its turns, and none of its other messages waits for that.
#[actix_web::test]
async fn turns_of_a_second_are_committed_together_and_delay_nothing() {
    let world = shared_world!(Sqlite, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    let tell = async |n: u64| {
        let turn = turn(n, "agent", &format!("{n}"));
        bridge
            .ok("call.turn", json!({"callId": call, "turn": turn}))
            .await;
    };
    tell(1).await;
    let began = Instant::now();
    let many = futures_util::future::join_all((2..=10).map(tell));
    let hung_up = async {
        bridge.hang_up(&call).await;
        began.elapsed()
    };
    let (_, hung_up) = futures_util::join!(many, hung_up);
    assert!(
        hung_up < began.elapsed(),
        "the end of the call did not wait"
    );
    let words: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
    assert_eq!(said(&world, &call).await, words);
}

#[actix_web::test]
async fn turns_of_an_erased_call_are_gone() {
    let world = shared_world!(Sqlite, WorldSetup::new().minutes(10));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let mut stream = EventStream::open(&world.server.http, &tenant.key, None).await;
    let call = bridge.talk(&tenant.did).await;
    let secret = turn(1, "caller", "Nomor kartu saya 4321");
    bridge
        .ok("call.turn", json!({"callId": call, "turn": secret}))
        .await;
    bridge.hang_up(&call).await;
    let (first, _) = stream.next().await;
    let erased = tenant.api.delete(&format!("/calls/{call}")).await;
    assert_eq!(erased.status, 204, "{}", erased.text);
    assert!(said(&world, &call).await.is_empty());
    // Whoever begins again finds the turn without its words.
    let mut again = EventStream::open(&world.server.http, &tenant.key, Some(&first)).await;
    let turn = loop {
        let (_, event) = again.next().await;
        if event["event"] == "call.turn" {
            break event;
        }
    };
    assert_eq!(turn["data"], json!({"callId": call, "turn": null}));
}
