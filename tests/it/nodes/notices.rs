//! Nodes find each other's writes at once, although they poll only once a second. A test that waits for its own
//! write always begins just after a poll, so without notices no round would be short.

use std::time::{Duration, Instant};

use super::Nodes;
use crate::support::{event_stream::EventStream, prelude::*, tenant::text, world::HOOK};

const ROUNDS: usize = 8;
/// Maximum of the shortest round. A busy machine may be late now and then; only the shortest time counts.
const TOLD_AT_ONCE: Duration = Duration::from_millis(500);

async fn nodes() -> Option<Nodes> {
    let nodes = Nodes::start(WorldSetup::new()).await?;
    eventually("both to listen", async || {
        let listening = "SELECT CAST(pid AS TEXT) FROM pg_stat_activity \
                         WHERE datname = current_database() AND application_name = 'dikala notices'";
        (nodes.rows::<1>(listening).await.len() == 2).then_some(())
    })
    .await;
    Some(nodes)
}

#[actix_web::test]
async fn events_of_another_node_come_at_once() {
    let Some(nodes) = nodes().await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let bridge = tenant.bridge(Socket).await;
    let mut at_b = EventStream::open(&nodes.b.http, &tenant.key, None).await;
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        bridge.ring(&tenant.did).await;
        at_b.ids(1).await;
        least = least.min(began.elapsed());
    }
    assert!(least <= TOLD_AT_ONCE, "{least:?}");
}

/// A owns the call; the bridge has moved to B.
#[actix_web::test]
async fn commands_reach_a_bridge_at_another_node_at_once() {
    let Some(nodes) = nodes().await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let old = tenant.bridge(Socket).await;
    let mut calls = Vec::new();
    for _ in 0..ROUNDS {
        calls.push(old.talk(&tenant.did).await);
    }
    let new = nodes.bridge_at_b(tenant, Socket).await;
    let mut least = Duration::MAX;
    for call in &calls {
        let path = format!("/calls/{call}/hangup");
        let began = Instant::now();
        tenant.api.post(&path, json!({})).await.expect(202);
        new.command("hangup", call).await;
        least = least.min(began.elapsed());
    }
    assert!(least <= TOLD_AT_ONCE, "{least:?}");
}

/// A delivers to the webhook, whichever node commits the event.
#[actix_web::test]
async fn deliveries_that_another_node_committed_are_made_at_once() {
    let Some(nodes) = nodes().await else {
        return;
    };
    let (world, tenant) = (&nodes.a, &nodes.a.tenant);
    let page = tenant.api.get("/webhooks").await.expect(200);
    nodes.deliver_at_a(&text(&page["webhooks"][0], "id")).await;
    let first = tenant.bridge(Socket).await.ring(&tenant.did).await;
    world.event("call.started", &first).await;
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let call = bridge.ring(&tenant.did).await;
        world.event("call.started", &call).await;
        least = least.min(began.elapsed());
    }
    assert!(least <= TOLD_AT_ONCE, "{least:?}");
    let received = world.receiver.received(HOOK);
    let at_a = "SELECT c.node FROM webhook_cursors c JOIN nodes n ON n.id = c.node";
    assert_eq!(
        nodes.rows::<1>(at_a).await,
        [[super::id_of(&world.server).await]]
    );
    assert_eq!(received.len(), ROUNDS + 1);
}
