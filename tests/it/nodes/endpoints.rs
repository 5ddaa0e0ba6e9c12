//! An endpoint has one lane, whichever nodes commit its deliveries.

use std::{sync::Arc, time::Duration};

use dikala_testkit::within;
use tokio::sync::Semaphore;

use super::Nodes;
use crate::support::{prelude::*, scrape::Scrape, visitor::Visitor, world::HOOK};

/// Several nodes together do not exceed an endpoint's concurrency.
#[actix_web::test]
async fn an_endpoints_concurrency_holds_over_all_nodes() {
    let setup = WorldSetup::new().set("webhooks.endpoint_concurrency", 2);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    let permits = Arc::new(Semaphore::new(0));
    receiver.answer(HOOK, [ServerAnswer::Status(200).when(&permits)]);
    let bridges = [
        tenant.bridge(Socket).await,
        nodes.bridge_at_b(tenant, Socket).await,
    ];
    for bridge in &bridges {
        for _ in 0..8 {
            bridge.ring(&tenant.did).await;
        }
    }
    receiver.wait_for(HOOK, 2).await;
    // Both nodes have polled several times by now.
    Moment::now().plus(3).passed().await;
    assert_eq!(receiver.received(HOOK).len(), 2);
    permits.add_permits(1_000);
    let received = receiver.wait_for(HOOK, 16).await;
    let deliveries: std::collections::HashSet<_> = received
        .iter()
        .filter_map(|request| request.delivery())
        .collect();
    assert_eq!((deliveries.len(), received.len()), (16, 16), "each once");
}

/// A call's events at one node come before its events at the next.
#[actix_web::test]
async fn events_of_a_call_that_moves_arrive_in_their_order() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let a = tenant.bridge(Http).await;
    let b = nodes.bridge_at_b(tenant, Http).await;
    let mut calls = Vec::new();
    for n in 0..24 {
        let (first, second) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let call = first.ring(&tenant.did).await;
        second.ok("call.answered", json!({"callId": call})).await;
        first.hang_up(&call).await;
        calls.push(call);
    }
    let order = ["call.started", "call.answered", "call.ended"];
    for call in &calls {
        assert_eq!(nodes.a.kinds(call, "call.ended").await, order);
        // It moved twice: to the other node, and back.
        assert_eq!(nodes.owner(call).await.1, "3");
    }
}

/// After one node has opened an endpoint's circuit, the other does not send everything to it.
#[actix_web::test]
async fn an_endpoint_that_is_down_is_left_alone_by_all_nodes() {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600");
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    receiver.answer(HOOK, [ServerAnswer::Status(500)]);
    let bridges = [
        tenant.bridge(Socket).await,
        nodes.bridge_at_b(tenant, Socket).await,
    ];
    for _ in 0..6 {
        bridges[0].ring(&tenant.did).await;
    }
    receiver.wait_for(HOOK, 5).await;
    let open = [("state", "open")];
    eventually("the endpoint to be known as down", async || {
        for server in [&*nodes.a.server, &nodes.b] {
            let scrape = Scrape::of(&server.operator).await;
            if scrape.value("dikala_webhook_lanes", &open) == 1.0 {
                return Some(());
            }
        }
        None
    })
    .await;
    let down = receiver.all().len();
    let since = Moment::now();
    for _ in 0..12 {
        bridges[1].ring(&tenant.did).await;
    }
    since.plus(3).passed().await;
    let probes = receiver.all().len() - down;
    assert!(probes <= 3, "{probes} attempts at an endpoint that is down");
}

/// The node that is asked makes the attempt if the node with the queue does not, because its circuit is open.
#[actix_web::test]
async fn what_is_sent_again_at_either_node_is_attempted_although_the_endpoint_fails() {
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", "3600");
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    receiver.answer(HOOK, [ServerAnswer::Status(500)]);
    let bridge = tenant.bridge(Socket).await;
    for _ in 0..6 {
        bridge.ring(&tenant.did).await;
    }
    receiver.wait_for(HOOK, 5).await;
    let webhooks = tenant.api.get("/webhooks").await.expect(200);
    let hook = webhooks["webhooks"][0]["id"].as_str().unwrap().to_owned();
    let list = format!("/webhooks/{hook}/deliveries?limit=100");
    let first = eventually("a delivery that failed", async || {
        let page = tenant.api.get(&list).await.expect(200);
        let rows = page["deliveries"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["attemptCount"] == 1)
    })
    .await;
    let id = first["id"].as_str().unwrap();
    let (page, again) = (
        format!("/webhooks/{hook}"),
        format!("/deliveries/{id}/resend"),
    );
    for server in [&nodes.a.server, &nodes.b] {
        let browser = Visitor::new(&server.operator);
        let form = browser.open(&page).await.form(&again);
        browser.submit(&form).await.assert_shows("Delivery resent.");
    }
    let sent = receiver.received(HOOK);
    let of_it = sent
        .iter()
        .filter(|sent| sent.header("x-service-delivery") == id);
    assert_eq!(of_it.count(), 3, "one attempt for each request");
}

/// When the node of an endpoint stops, another one delivers at once.
#[actix_web::test]
async fn an_endpoint_changes_its_node_when_that_stops() {
    let Some(a) = TestWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    let bridge = a.tenant.bridge(Socket).await;
    let call = bridge.talk(&a.tenant.did).await;
    a.event("call.answered", &call).await;
    let mut nodes = Nodes::beside(a).await;
    let b = super::id_of(&nodes.b).await;
    let cursors = "SELECT node FROM webhook_cursors";
    assert_ne!(nodes.rows::<1>(cursors).await, [[b.clone()]]);
    assert_eq!(nodes.a.server.terminate().await, 0);
    let bridge = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    bridge.hang_up(&call).await;
    let ended = nodes.a.event("call.ended", &call);
    assert!(
        tokio::time::timeout(Duration::from_secs(10), ended)
            .await
            .is_ok()
    );
    assert_eq!(nodes.rows::<1>(cursors).await, [[b]]);
}

/// An attempt in flight keeps its own endpoint at the stopping node, but none of the other endpoints.
#[actix_web::test]
async fn a_node_that_waits_for_an_endpoint_gives_back_the_rest_at_once() {
    let Some(a) = TestWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    let permits = Arc::new(Semaphore::new(0));
    a.receiver
        .answer("/slow", [ServerAnswer::Status(200).when(&permits)]);
    let url = a.receiver.url("/slow");
    a.tenant.subscribe(&url, &["call.started"], SECRET).await;
    let bridge = a.tenant.bridge(Socket).await;
    let call = bridge.talk(&a.tenant.did).await;
    a.event("call.answered", &call).await;
    a.receiver.wait_for("/slow", 1).await;
    let mut nodes = Nodes::beside(a).await;
    nodes.a.server.send_sigterm();
    let b = super::id_of(&nodes.b).await;
    within(Duration::from_secs(10), "B to have the call", async || {
        (nodes.owner(&call).await.0 == b).then_some(())
    })
    .await;
    let bridge = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    bridge.hang_up(&call).await;
    let ended = nodes.a.event("call.ended", &call);
    let arrived = tokio::time::timeout(Duration::from_secs(10), ended).await;
    assert!(arrived.is_ok(), "not delivered while A waits");
    let here = super::listed(&nodes.b).await.len();
    assert_eq!(here, 2, "A is over already, and nothing was shown");
    permits.add_permits(10);
    let status = nodes.a.server.exited().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(nodes.a.receiver.received("/slow").len(), 1);
}

/// However short the time for a stop, the node's ownership is released when it is over.
#[actix_web::test]
async fn a_node_that_does_not_end_in_time_is_gone_when_it_is_over() {
    let setup = WorldSetup::new().set("http.shutdown_seconds", 2);
    let Some(mut nodes) = Nodes::start(setup).await else {
        return;
    };
    nodes.a.receiver.answer(HOOK, [ServerAnswer::Hang]);
    let bridge = nodes.a.tenant.bridge(Socket).await;
    bridge.talk(&nodes.a.tenant.did).await;
    nodes.a.receiver.wait_for(HOOK, 1).await;
    assert_eq!(nodes.a.server.terminate().await, 0);
    let b = super::id_of(&nodes.b).await;
    assert_eq!(nodes.rows::<1>("SELECT id FROM nodes").await, [[b]]);
}

/// A call erased at one node is not sent by another, however long its delivery has waited there.
#[actix_web::test]
async fn what_is_erased_at_one_node_is_not_sent_by_another() {
    let setup = WorldSetup::new().set("webhooks.endpoint_concurrency", 1);
    let Some(a) = TestWorld::start(Postgres, setup).await else {
        return;
    };
    let permits = Arc::new(Semaphore::new(0));
    a.receiver
        .answer(HOOK, [ServerAnswer::Status(200).when(&permits)]);
    let bridge = a.tenant.bridge(Socket).await;
    let first = bridge.ring(&a.tenant.did).await;
    a.receiver.wait_for(HOOK, 1).await;
    let nodes = Nodes::beside(a).await;
    let tenant = &nodes.a.tenant;
    let erased = bridge.talk(&tenant.did).await;
    bridge.hang_up(&erased).await;
    // A has the delivery in memory; it waits for the endpoint.
    let api = Rest::new(&format!("{}/api/v1", nodes.b.http)).with("x-api-key", &tenant.key);
    Moment::now().plus(1).passed().await;
    api.delete(&format!("/calls/{erased}")).await.expect(204);
    permits.add_permits(1_000);
    bridge.hang_up(&first).await;
    nodes.a.event("call.ended", &first).await;
    let all = nodes.a.receiver.received(HOOK);
    let told = all.iter().filter(|request| {
        let body = String::from_utf8_lossy(&request.body);
        body.contains(&erased)
    });
    assert_eq!(told.count(), 0, "sent after it was erased");
}
