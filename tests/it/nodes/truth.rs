//! A change at one node takes effect at every other within a second, and each effect happens once.

use std::time::Duration;

use dikala_testkit::within;

use super::Nodes;
use crate::support::{event_stream::EventStream, prelude::*, tenant::text, world::HOOK};

/// Maximum time until a change is in force everywhere: a second, and more on a busy machine.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(5);

/// Waits for the effect of a recent change, at most [`IN_FORCE_WITHIN`].
async fn in_force<T>(what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    within(IN_FORCE_WITHIN, what, probe).await
}

fn at_b(nodes: &Nodes, key: &str) -> Rest {
    Rest::new(&format!("{}/api/v1", nodes.b.http)).with("x-api-key", key)
}

#[actix_web::test]
async fn keys_tenants_and_plans_are_the_same_everywhere() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let (tenant, server) = (&nodes.a.tenant, &nodes.a.server);
    let operator = Rest::new(&server.operator);
    let made = server.cli(&["key", "create", "--tenant", &tenant.id, "--name", "other"]);
    let other = at_b(&nodes, &text(&made, "key"));
    other.get("/agents").await.expect(200);
    let revoked = format!("/operator/v1/keys/{}", text(&made, "id"));
    operator.delete(&revoked).await;
    in_force("the key to be refused", async || {
        (other.get("/agents").await.status == 401).then_some(())
    })
    .await;

    let b = at_b(&nodes, &tenant.key);
    let change = json!({"rateLimit": 77});
    let path = format!("/operator/v1/tenants/{}", tenant.id);
    operator.patch(&path, change).await.expect(200);
    in_force("the new limit", async || {
        let answer = b.get("/agents").await;
        (answer.header("x-ratelimit-limit") == Some("77")).then_some(())
    })
    .await;

    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    let call = bridge.talk(&tenant.did).await;
    operator
        .post(&format!("{path}/suspend"), json!({}))
        .await
        .expect(200);
    in_force("the tenant to be suspended", async || {
        let refused = b.get("/agents").await.status == 403;
        let rejected = bridge.incoming(&tenant.did, None).await["action"] == "reject";
        (refused && rejected).then_some(())
    })
    .await;
    operator
        .post(&format!("{path}/resume"), json!({}))
        .await
        .expect(200);
    in_force("the tenant to be back", async || {
        (b.get("/agents").await.status == 200).then_some(())
    })
    .await;
    bridge.hang_up(&call).await;
}

#[actix_web::test]
async fn agents_numbers_functions_and_webhooks_are_the_same_everywhere() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    // B has it all in memory.
    let call = bridge.talk(&tenant.did).await;
    nodes.a.event("call.answered", &call).await;
    tenant
        .change_agent(json!({"systemPrompt": "Answer in rhymes."}))
        .await;
    receiver.answer("/stock", [ServerAnswer::Json(json!({"days": 2}))]);
    tenant
        .create_function("checkStock", "POST", &receiver.url("/stock"))
        .await;
    in_force("the agent's new words and function", async || {
        let agent = bridge.incoming(&tenant.did, None).await["agent"].clone();
        let has = agent.to_string();
        (has.contains("in rhymes") && has.contains("checkStock")).then_some(())
    })
    .await;

    let other = tenant
        .create_agent(json!({"systemPrompt": "Answer for the other shop."}))
        .await;
    tenant.assign(&other).await;
    in_force("the number's new agent", async || {
        let reply = bridge.incoming(&tenant.did, None).await;
        reply["agent"]
            .to_string()
            .contains("other shop")
            .then_some(())
    })
    .await;

    // Whichever node delivers, a webhook's latest address is used.
    let page = tenant.api.get("/webhooks").await.expect(200);
    let webhook = text(&page["webhooks"][0], "id");
    let change = json!({"url": receiver.url("/moved")});
    let path = format!("/webhooks/{webhook}");
    at_b(&nodes, &tenant.key)
        .patch(&path, change)
        .await
        .expect(200);
    tokio::time::sleep(IN_FORCE_WITHIN).await;
    let before = receiver.received(HOOK).len();
    let at_a = tenant.bridge(Socket).await;
    for bridge in [&bridge, &at_a] {
        let call = bridge.ring(&tenant.did).await;
        receiver
            .wait_for_event("/moved", SECRET, "call.started", &call)
            .await;
    }
    assert_eq!(receiver.received(HOOK).len(), before);
}

/// A follower of events continues at another node where it was, whichever node announced them.
#[actix_web::test]
async fn a_stream_of_events_goes_on_at_another_node() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let bridges = [
        tenant.bridge(Socket).await,
        nodes.bridge_at_b(tenant, Socket).await,
    ];
    let mut at_a = EventStream::open(&nodes.a.server.http, &tenant.key, None).await;
    bridges[0].ring(&tenant.did).await;
    bridges[1].ring(&tenant.did).await;
    let first = at_a.ids(2).await;
    for bridge in bridges.iter().cycle().take(10) {
        let call = bridge.talk(&tenant.did).await;
        bridge.hang_up(&call).await;
    }
    let mut at_b = EventStream::open(&nodes.b.http, &tenant.key, Some(&first[1])).await;
    let (seen, resumed) = (at_a.ids(30).await, at_b.ids(30).await);
    assert_eq!(seen, resumed);
    let all = "SELECT id FROM events WHERE NOT is_test ORDER BY position";
    let all: Vec<String> = nodes.rows::<1>(all).await.into_iter().flatten().collect();
    assert_eq!([first, resumed].concat(), all);
}

/// Three nodes that start at once on an empty database create its schema once, and all serve.
#[actix_web::test]
async fn nodes_that_start_together_make_the_schema_once() {
    let Some(installation) = Installation::new(Postgres) else {
        return;
    };
    let three = [
        installation.beside(),
        installation.beside(),
        installation.beside(),
    ];
    let starting: Vec<_> = three
        .into_iter()
        .map(|installation| std::thread::spawn(|| Server::start(installation)))
        .collect();
    let servers: Vec<Server> = starting
        .into_iter()
        .map(|starting| starting.join().unwrap())
        .collect();
    for server in &servers {
        eventually("readiness", async || {
            let ready = server.rest().get("/health/ready").await;
            (ready.status == 200).then_some(())
        })
        .await;
    }
    eventually("all to know of each other", async || {
        (super::listed(&servers[0]).await.len() == 3).then_some(())
    })
    .await;
    let steps = "SELECT version, CAST(COUNT(*) AS TEXT) FROM seaql_migrations GROUP BY version HAVING COUNT(*) > 1";
    assert!(installation.store.rows::<2>(steps).await.is_empty());
}
