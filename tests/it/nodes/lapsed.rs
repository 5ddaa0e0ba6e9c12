//! A node that paused cannot say when bridges were present meanwhile. A node with a dead socket cannot either,
//! unlike one that receives the bridge's heartbeats.

use dikala_testkit::within;

use super::{Nodes, id_of, is_back};
use crate::support::prelude::*;

/// The stored time counts: the paused node finds the socket open when it resumes, and reads only then that it was
/// closed.
#[actix_web::test]
async fn a_bridge_that_went_while_its_node_stood_still_is_billed_to_that_moment() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let before = id_of(&nodes.a.server).await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk_since(&tenant.did, Moment::ago(50)).await;
    bridge.ok("heartbeat", json!({})).await;
    // After a second the store knows of that.
    Moment::now().plus(2).passed().await;
    nodes.a.server.freeze();
    let stood_still = Moment::now();
    bridge.begin(&bridge.message("heartbeat", json!({})));
    stood_still.plus(1).passed().await;
    bridge.cut();
    nodes.taken_by_b(&call).await;
    nodes.a.server.thaw();
    is_back(&nodes.a.server, &before).await;
    let ended =
        format!("SELECT hangup_reason FROM calls WHERE id = '{call}' AND ended_at IS NOT NULL");
    assert!(nodes.rows::<1>(&ended).await.is_empty(), "over too soon");
    let over = Duration::from_secs(60);
    let call = within(over, "the call to end", async || {
        let call = tenant.call(&call).await;
        (!call["endedAt"].is_null()).then_some(call)
    })
    .await;
    assert_eq!(call["hangupReason"], "bridge_lost");
    let off = Moment::parse(&call["endedAt"]).ms_since(stood_still).abs();
    assert!(off <= 5_000, "billed {off} ms from the last sign of life");
    nodes.a.assert_ledger_is_exact();
}

/// They answer no pings of the one node; their heartbeats go to the other. Which node writes first is random, so there are
/// several bridges.
#[actix_web::test]
async fn bridges_that_are_half_open_at_one_node_live_by_their_beats_at_the_other() {
    const BRIDGES: usize = 4;
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 5);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let mut all = Vec::new();
    for _ in 0..BRIDGES {
        let tenant = nodes.a.another_tenant(10).await;
        let half_open = tenant.bridge(Socket).await;
        let call = half_open.talk(&tenant.did).await;
        half_open.fall_silent();
        let beats = nodes.bridge_at_b(&tenant, Http).await;
        all.push((tenant, half_open, call, beats));
    }
    let (mut last, until) = (Moment::now(), Moment::now().plus(20));
    // For as long as would make a bridge lost that only the first node had heard.
    while Moment::now() < until {
        last = Moment::now();
        for (tenant, _, call, beats) in &all {
            beats.ok("heartbeat", json!({})).await;
            assert_eq!(tenant.call(call).await["status"], "answered");
            Moment::now().plus_ms(100).passed().await;
        }
        last.plus(4).passed().await;
    }
    assert!(all.iter().all(|(_, half_open, ..)| half_open.is_open()));
    for (tenant, _, call, _) in &all {
        let over = within(Duration::from_secs(60), "the call to end", async || {
            let call = tenant.call(call).await;
            (!call["endedAt"].is_null()).then_some(call)
        })
        .await;
        assert_eq!(over["hangupReason"], "bridge_lost");
        let off = Moment::parse(&over["endedAt"]).ms_since(last).abs();
        assert!(
            off <= 3_000,
            "billed {off} ms from when the last beats began"
        );
    }
    nodes.a.assert_ledger_is_exact();
}

/// The same holds for a node that paused for less than its lease, and has lost nothing.
#[actix_web::test]
async fn a_node_that_keeps_its_lease_does_not_know_either_what_happened_while_it_stood_still() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 5);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let before = id_of(&nodes.a.server).await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    nodes.a.server.freeze();
    let stood_still = Moment::now();
    bridge.begin(&bridge.message("heartbeat", json!({})));
    stood_still.plus(1).passed().await;
    bridge.cut();
    stood_still.plus(6).passed().await;
    nodes.a.server.thaw();
    let over = tenant.call_over(&call).await;
    assert_eq!(over["hangupReason"], "bridge_lost");
    let off = Moment::parse(&over["endedAt"]).ms_since(stood_still).abs();
    assert!(off <= 2_000, "billed {off} ms from the last sign of life");
    assert_eq!(id_of(&nodes.a.server).await, before);
    nodes.a.assert_ledger_is_exact();
}

/// Other nodes rely on the reported times: a message that may have waited says nothing about now, and the bridge
/// repeats it.
#[actix_web::test]
async fn a_heartbeat_that_waited_for_a_node_that_stood_still_is_not_taken() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let bridge = nodes.a.tenant.bridge(Http).await;
    bridge.ok("heartbeat", json!({})).await;
    nodes.a.server.freeze();
    let waits = bridge.begin(&bridge.message("heartbeat", json!({})));
    Moment::now().plus(4).passed().await;
    nodes.a.server.thaw();
    let reply = waits.reply().await;
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    eventually("the next to be taken", async || {
        let next = bridge.ask("heartbeat", json!({})).await;
        (next["ok"] == true).then_some(())
    })
    .await;
}
