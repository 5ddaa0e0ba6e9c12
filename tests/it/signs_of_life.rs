//! Bridges that fall silent, come back, or hold two sockets at once.

use std::time::Instant;

use awc::ws::CloseCode;

use crate::support::{bridge::BridgeSocketEnd, prelude::*, tenant::text};

#[rstest]
#[actix_web::test]
async fn a_heartbeat_tells_each_side_what_is_over(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = world!(store);
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let (over, live) = (
        bridge.talk(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    );
    let forgotten = bridge.talk(&tenant.did).await;
    bridge.hang_up(&over).await;
    let reply = bridge
        .ok("heartbeat", json!({"activeCalls": [over, live]}))
        .await;
    assert_eq!(reply["ended"], json!([over]));
    // The bridge no longer has calls that are missing in its complete list.
    let call = tenant.call_over(&forgotten).await;
    let seen = [
        &call["status"],
        &call["hangupReason"],
        &call["hangupInitiator"],
    ];
    assert_eq!(seen, ["dropped", "bridge_lost", "system"]);
    assert_eq!(tenant.call(&live).await["status"], "answered");
    assert_eq!(bridge.ok("heartbeat", json!({})).await["ended"], json!([]));
    bridge.hang_up(&live).await;
}

#[rstest]
#[actix_web::test]
async fn a_lost_bridge_loses_its_calls_as_of_its_last_sign(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    let world = world!(store, WorldSetup::new().set("bridge.lost_after_seconds", 5));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let (ringing, talking) = (
        bridge.ring(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    );
    // Pongs, or heartbeats, keep the calls for longer than that.
    let until = Moment::now().plus(12);
    while Moment::now() < until {
        if transport == Http {
            bridge
                .ok("heartbeat", json!({"activeCalls": [ringing, talking]}))
                .await;
        }
        Moment::now().plus_ms(300).passed().await;
    }
    assert_eq!(tenant.call(&talking).await["status"], "answered");

    let last_sign = Moment::now();
    bridge.cut();
    for (id, billed) in [(&talking, Some(1)), (&ringing, None)] {
        let call = tenant.call_over(id).await;
        let noticed = Moment::now();
        let seen = [
            &call["status"],
            &call["hangupReason"],
            &call["hangupInitiator"],
        ];
        assert_eq!(seen, ["dropped", "bridge_lost", "system"]);
        let ended = Moment::parse(&call["endedAt"]);
        assert!(
            ended.plus(10) <= noticed,
            "{ended:?} is the last sign, not {noticed:?}"
        );
        assert!(
            ended >= last_sign.plus(-6),
            "{ended:?} is about {last_sign:?}"
        );
        assert_eq!(tenant.billed(id).await, billed);
        world.event("call.ended", id).await;
    }
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn a_bridge_that_comes_back_in_time_keeps_its_calls(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(
        store,
        WorldSetup::new().set("bridge.lost_after_seconds", 20)
    );
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let (kept, lost) = (
        bridge.talk(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    );
    bridge.cut();
    let bridge = tenant.bridge(Socket).await;
    let reply = bridge.ok("heartbeat", json!({"activeCalls": [kept]})).await;
    assert_eq!(reply["ended"], json!([]));
    assert_eq!(tenant.call_over(&lost).await["hangupReason"], "bridge_lost");
    tenant
        .api
        .post(&format!("/calls/{kept}/hangup"), json!({}))
        .await
        .expect(202);
    bridge.command("hangup", &kept).await;
    bridge
        .ok(
            "call.hangup",
            json!({"callId": kept, "reason": "requested"}),
        )
        .await;
    assert_eq!(tenant.call(&kept).await["hangupReason"], "requested");
}

/// The bridge returns before it is lost, and does not list the call.
#[rstest]
#[actix_web::test]
async fn a_call_that_went_with_a_half_open_socket_is_billed_to_its_last_sign(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let tenant = &world.tenant;
    let half_open = tenant.bridge(Socket).await;
    let lost = half_open.talk(&tenant.did).await;
    half_open.fall_silent();
    let last_sign = Moment::now();
    last_sign.plus(3).passed().await;
    let bridge = tenant.bridge(Socket).await;
    bridge.ok("heartbeat", json!({"activeCalls": []})).await;
    let call = tenant.call_over(&lost).await;
    assert_eq!(call["hangupReason"], "bridge_lost");
    let ended = Moment::parse(&call["endedAt"]);
    assert!(ended <= last_sign, "{ended:?} is not {last_sign:?}");
    drop(half_open);
}

/// An open socket is no sign of life: a frame is, be it a pong. The outcome does not depend on the store.
#[actix_web::test]
async fn a_socket_that_answers_no_ping_loses_its_calls_as_of_its_last_frame() {
    let world = world!(
        Sqlite,
        WorldSetup::new().set("bridge.lost_after_seconds", 5)
    );
    let another = world.another_tenant(10).await;
    let (idle, half_open) = (
        another.bridge(Socket).await,
        world.tenant.bridge(Socket).await,
    );
    let kept = idle.talk(&another.did).await;
    let lost = half_open.talk(&world.tenant.did).await;
    half_open.fall_silent();
    let last_sign = Moment::now();
    let call = world.tenant.call_over(&lost).await;
    assert_eq!(call["hangupReason"], "bridge_lost");
    let early = last_sign.ms_since(Moment::parse(&call["endedAt"]));
    assert!(
        (0..=6_000).contains(&early),
        "{early} ms before {last_sign:?}"
    );
    assert!(half_open.is_open());
    assert_eq!(another.call(&kept).await["status"], "answered");
    idle.hang_up(&kept).await;
}

#[rstest]
#[actix_web::test]
async fn nobody_rings_for_ever(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(
        store,
        WorldSetup::new().set("calls.ring_timeout_seconds", 1)
    );
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let id = bridge.ring(&tenant.did).await;
    let call = tenant.call_over(&id).await;
    let seen = [
        &call["status"],
        &call["hangupReason"],
        &call["hangupInitiator"],
    ];
    assert_eq!(seen, ["failed", "answer_timeout", "system"]);
    let started = Moment::parse(&call["startedAt"]);
    assert_eq!(Moment::parse(&call["endedAt"]), started.plus(1));
    let error = bridge.refused("call.answered", json!({"callId": id})).await;
    assert_eq!(
        (text(&error, "code"), text(&error, "status")),
        ("invalid_transition".into(), "failed".into())
    );
    assert_eq!(tenant.billed(&id).await, None);
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn commands_go_to_the_newest_socket(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, WorldSetup::new().set("bridge.lost_after_seconds", 5));
    let tenant = &world.tenant;
    let old = tenant.bridge(Socket).await;
    let (first, second) = (old.talk(&tenant.did).await, old.talk(&tenant.did).await);
    let new = tenant.bridge(Socket).await;
    new.ok("heartbeat", json!({})).await;
    let hang_up = async |call: &str| {
        tenant
            .api
            .post(&format!("/calls/{call}/hangup"), json!({}))
            .await
            .expect(202);
    };
    hang_up(&first).await;
    new.command("hangup", &first).await;
    // Either socket may carry a call's messages.
    old.ok(
        "call.hangup",
        json!({"callId": first, "reason": "requested"}),
    )
    .await;
    assert_eq!(old.commands(), Vec::<Value>::new());

    // The old socket is still open: the end of the new one loses nothing.
    new.cut();
    Moment::now().plus(12).passed().await;
    assert_eq!(tenant.call(&second).await["status"], "answered");
    hang_up(&second).await;
    old.command("hangup", &second).await;
    old.hang_up(&second).await;
}

/// It takes 45 s but little work, and does not depend on the store.
#[actix_web::test]
async fn a_silent_socket_is_pinged_and_then_closed() {
    let world = world!(Sqlite);
    let (alive, silent) = (
        world.tenant.bridge(Socket).await,
        world.tenant.bridge(Socket).await,
    );
    silent.fall_silent();
    let opened = Instant::now();
    assert_eq!(
        silent.closed().await,
        BridgeSocketEnd(Some(CloseCode::Policy))
    );
    let after = opened.elapsed().as_secs();
    assert!((44..65).contains(&after), "closed after {after} s");
    // Pings come every five seconds; the ninth may coincide with the end.
    assert!((7..=9).contains(&silent.pings()), "{}", silent.pings());
    assert!(alive.pings() >= 7, "{}", alive.pings());
    alive.ok("heartbeat", json!({})).await;
}

/// A call whose id its bridge never used waits for a reply in transit, however often the bridge reports that it has
/// no calls.
#[actix_web::test]
async fn a_call_that_no_list_has_ends_however_many_lists_come() {
    let world = world!(Sqlite);
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.ring(&world.tenant.did).await;
    let over = eventually("the call to be dropped", async || {
        bridge.ok("heartbeat", json!({"activeCalls": []})).await;
        let call = world.tenant.call(&call).await;
        (!call["endedAt"].is_null()).then_some(call)
    })
    .await;
    assert_eq!(over["hangupReason"], "bridge_lost");
}

/// The bridge's messages of that time wait in buffers: it was present just before, and nobody knows until when.
#[rstest]
#[case(Sqlite, Socket)]
#[case(Sqlite, Http)]
#[case(Postgres, Socket)]
#[actix_web::test]
async fn a_bridge_that_went_while_the_service_stood_still_is_billed_to_that_moment(
    #[case] store: StoreKind,
    #[case] transport: BridgeTransport,
) {
    // A lease lasts longer: at least seven seconds of it are left.
    went_while_frozen(store, transport, 6).await;
}

/// Long enough for a socket to count as silent.
#[rstest]
#[actix_web::test]
#[ignore = "stands still for 50 seconds; .ci/slow runs it"]
async fn a_bridge_that_went_while_the_service_stood_still_for_long_is_billed_to_that_moment(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(Socket, Http)] transport: BridgeTransport,
) {
    went_while_frozen(store, transport, 50).await;
}

async fn went_while_frozen(store: StoreKind, transport: BridgeTransport, seconds: i64) {
    let world = world!(store, WorldSetup::new().set("bridge.lost_after_seconds", 5));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(transport).await;
    let [call, held] = [
        bridge.talk(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    ];
    world.server.freeze();
    let stood_still = Moment::now();
    bridge.begin(&bridge.message("heartbeat", json!({"activeCalls": [call, held]})));
    let fields =
        json!({"callId": held, "invocationId": "one", "name": "nothing", "parameters": {}});
    bridge.begin(&bridge.message("call.function", fields));
    stood_still.plus(1).passed().await;
    bridge.cut();
    stood_still.plus(seconds).passed().await;
    world.server.thaw();
    let goes_on = Moment::now();
    for call in [&call, &held] {
        let over = tenant.call_over(call).await;
        assert_eq!(over["hangupReason"], "bridge_lost");
        let off = Moment::parse(&over["endedAt"]).ms_since(stood_still).abs();
        assert!(off <= 3_000, "billed {off} ms from the last sign of life");
        // A bridge that could not be heard gets time to return.
        assert!(Moment::now() >= goes_on.plus(5), "over too soon");
    }
    world.assert_ledger_is_exact();
}
