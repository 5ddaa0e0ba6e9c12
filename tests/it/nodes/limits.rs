//! A tenant's limits hold over all nodes: rate limit, concurrent calls, idempotency keys.

use std::collections::BTreeSet;

use awc::http::Method;
use dikala_testkit::within;
use futures_util::future::{join, join_all};

use super::{Nodes, TAKEN_WITHIN};
use crate::support::{
    prelude::*,
    tenant::{Tenant, text},
};

const PER_MINUTE: i64 = 60;
/// A twentieth of the limit.
const BEYOND: i64 = 3;

/// The tenant's API at B.
fn at_b(nodes: &Nodes, tenant: &Tenant) -> Rest {
    Rest::new(&format!("{}/api/v1", nodes.b.http)).with("x-api-key", &tenant.key)
}

/// The API of a new tenant with the smallest plan, at A and at B.
fn of_a_starter(nodes: &Nodes) -> [Rest; 2] {
    let server = &nodes.a.server;
    let tenant = server.cli(&["tenant", "create", "--name", "Toko", "--plan", "starter"]);
    let id = text(&tenant, "id");
    let key = server.cli(&["key", "create", "--tenant", &id, "--name", "test"]);
    [&server.http, &nodes.b.http]
        .map(|http| Rest::new(&format!("{http}/api/v1")).with("x-api-key", &text(&key, "key")))
}

#[actix_web::test]
async fn requests_a_minute_are_counted_over_all_nodes() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let [a, b] = of_a_starter(&nodes);
    let mut allowed = 0;
    for _ in 0..45 {
        let (one, other) = join(a.get("/phone-numbers"), b.get("/phone-numbers")).await;
        for answer in [one, other] {
            assert!([200, 429].contains(&answer.status), "{}", answer.text);
            allowed += i64::from(answer.status == 200);
        }
    }
    let expected = PER_MINUTE..=PER_MINUTE + BEYOND;
    assert!(expected.contains(&allowed), "{allowed} of {PER_MINUTE}");
    for api in [&a, &b] {
        let refused = api.get("/phone-numbers").await;
        assert_eq!((refused.status, left(&refused)), (429, 0));
        let wait: i64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
    }
    // A client of one node is not refused below the limit because another node has requests left.
    let [a, b] = of_a_starter(&nodes);
    b.get("/phone-numbers").await.expect(200);
    for _ in 1..PER_MINUTE {
        a.get("/phone-numbers").await.expect(200);
    }
}

fn left(answer: &crate::support::rest::RestResponse) -> i64 {
    answer
        .header("x-ratelimit-remaining")
        .unwrap()
        .parse()
        .unwrap()
}

/// A single node does not ask the database, and its headers are exact.
#[actix_web::test]
async fn a_node_alone_counts_exactly_and_without_the_database() {
    let Some(world) = TestWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    let first = left(&world.tenant.api.get("/phone-numbers").await);
    for n in 1..30 {
        let answer = world.tenant.api.get("/phone-numbers").await;
        assert_eq!(left(&answer), first - n);
    }
    let store = &world.server.installation.store;
    assert_eq!(store.count("rate_windows").await, 0);
}

/// If the shared windows cannot be reached, each node counts alone, and no request is refused for that.
#[actix_web::test]
async fn where_no_block_is_to_be_had_a_node_counts_alone() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let [_, b] = of_a_starter(&nodes);
    let store = &nodes.a.server.installation.store;
    store
        .execute("ALTER TABLE rate_windows RENAME TO elsewhere")
        .await;
    let mut allowed = 0;
    for _ in 0..70 {
        allowed += i64::from(b.get("/phone-numbers").await.status == 200);
    }
    store
        .execute("ALTER TABLE elsewhere RENAME TO rate_windows")
        .await;
    assert_eq!(allowed, 60);
}

/// Under a storm at both nodes, exactly the tenant's maximum of calls is accepted.
#[actix_web::test]
async fn calls_at_the_same_time_are_exact_over_all_nodes() {
    const MOST: usize = 7;
    let setup = WorldSetup::new().concurrent_calls(7);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let bridges = [
        tenant.bridge(Socket).await,
        nodes.bridge_at_b(tenant, Socket).await,
    ];
    let mut asked = Vec::new();
    for n in 0..20 {
        for (at, bridge) in bridges.iter().enumerate() {
            let fields = json!({
                "bridgeCallId": format!("storm-{at}-{n}"), "did": tenant.did, "callerNumber": "+6281234567890",
            });
            asked.push(bridge.begin(&bridge.message("call.incoming", fields)));
        }
    }
    let replies = join_all(asked.into_iter().map(|pending| pending.reply())).await;
    let taken = replies.iter().filter(|reply| reply["action"] == "answer");
    assert_eq!(taken.count(), MOST, "{replies:?}");
    let open = "SELECT id FROM calls WHERE status = 'ringing'";
    assert_eq!(nodes.rows::<1>(open).await.len(), MOST);
}

/// The same key at both nodes at once has one effect.
#[actix_web::test]
async fn an_idempotency_key_has_one_effect_over_all_nodes() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    for n in 0..10 {
        let key = format!("order-{n}");
        let apis = [tenant.api.clone(), at_b(&nodes, tenant)];
        let [a, b] = apis.map(|api| api.with("idempotency-key", &key));
        let agent = json!({"name": format!("Agent {n}"), "systemPrompt": "Answer kindly."});
        let both = join(
            a.post("/agents", agent.clone()),
            b.post("/agents", agent.clone()),
        );
        let (one, other) = both.await;
        let mut made = BTreeSet::new();
        for answer in [one, other] {
            // A repetition during the first request is asked to retry.
            let answer = match answer.status {
                409 => {
                    eventually("the answer of the first", async || {
                        let again = b.post("/agents", agent.clone()).await;
                        (again.status == 201).then_some(again)
                    })
                    .await
                }
                _ => answer,
            };
            made.insert(text(&answer.expect(201), "id"));
        }
        assert_eq!(made.len(), 1, "{made:?}");
        let rows = format!("SELECT id FROM agents WHERE name = 'Agent {n}'");
        assert_eq!(nodes.rows::<1>(&rows).await.len(), 1);
    }
}

/// A request that its node did not finish is carried out by the next node that is asked, once the first node's
/// lease is over.
#[actix_web::test]
async fn a_key_whose_node_is_killed_is_free_within_its_lease() {
    let Some(mut nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let store = nodes.a.server.installation.store.shared();
    let path = format!("/agents/{}/functions", tenant.agent);
    let function = json!({
        "name": "look_up", "description": "Looks an order up.", "endpoint": nodes.a.receiver.url("/orders"), "method": "POST",
        "parameters": {"type": "object", "properties": {}},
    });
    let [a, b] =
        [tenant.api.clone(), at_b(&nodes, tenant)].map(|api| api.with("idempotency-key", "one"));
    // Something else has locked the agent's row, which the request has to change.
    let held = store.shared();
    let lock = format!(
        "BEGIN; SELECT 1 FROM agents WHERE id = '{}' FOR UPDATE; SELECT pg_sleep(60); COMMIT",
        tenant.agent
    );
    let holding = actix_web::rt::spawn(async move { held.execute(&lock).await });
    let waiting = async |of: &str| {
        let sql = format!(
            "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND {of}"
        );
        eventually("a session in the database", async || {
            (store.rows::<1>(&sql).await.len() == 1).then_some(())
        })
        .await;
    };
    waiting("wait_event = 'PgSleep'").await;
    let (first, sent) = (path.clone(), function.clone());
    let asked =
        actix_web::rt::spawn(async move { a.try_send(Method::POST, &first, Some(sent)).await });
    waiting("wait_event_type = 'Lock'").await;
    nodes.a.server.kill9();
    let killed = Moment::now();
    assert!(asked.await.unwrap().is_err(), "nobody answered");
    let refused = b.post(&path, function.clone()).await;
    assert_eq!(
        refused.expect(409)["error"]["code"],
        "idempotency_in_progress"
    );
    let end = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity \
               WHERE datname = current_database() AND wait_event = 'PgSleep'";
    assert_eq!(store.rows::<1>(end).await, [["true".to_owned()]]);
    holding.await.expect_err("it was ended");
    let made = within(TAKEN_WITHIN, "the key to be free", async || {
        let again = b.post(&path, function.clone()).await;
        assert!([201, 409].contains(&again.status), "{}", again.text);
        (again.status == 201).then_some(again)
    })
    .await;
    let waited = Moment::now().ms_since(killed);
    assert!(waited < 35_000, "{waited} ms");
    assert_eq!(made.header("idempotent-replayed"), None);
    let rows = "SELECT name FROM functions WHERE name = 'look_up'";
    assert_eq!(nodes.rows::<1>(rows).await.len(), 1);
}
