//! Commands go to the newest socket of their bridge at any node. A command that may not have arrived is sent again
//! to the next one.

use std::{
    iter,
    time::{Duration, Instant},
};

use dikala_testkit::{PATIENCE, within};

use super::{Nodes, TOLD_WITHIN};
use crate::support::{prelude::*, tenant::Tenant};

async fn transfer(tenant: &Tenant, call: &str) {
    let to = json!({"to": "+622150009999"});
    let path = format!("/calls/{call}/transfer");
    tenant.api.post(&path, to).await.expect(202);
}

/// Number of commands about this call that the bridge received.
fn told(bridge: &TestBridge, call: &str) -> usize {
    let commands = bridge.commands();
    commands.iter().filter(|c| c["callId"] == call).count()
}

#[rstest]
#[actix_web::test]
async fn what_a_half_open_socket_swallowed_goes_to_the_next(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 600);
    let world = world!(store, setup);
    let tenant = &world.tenant;
    let old = tenant.bridge(Socket).await;
    let (has, has_not) = (old.talk(&tenant.did).await, old.talk(&tenant.did).await);
    transfer(tenant, &has).await;
    old.command("transfer", &has).await;
    // The ping after the command came before the first answer, so its pong came before the second message.
    for _ in 0..2 {
        old.ok("heartbeat", json!({})).await;
    }
    // From here on, nothing written to it is known to have arrived.
    old.fall_silent();
    transfer(tenant, &has_not).await;
    old.command("transfer", &has_not).await;
    let new = tenant.bridge(Socket).await;
    new.command("transfer", &has_not).await;
    new.ok("heartbeat", json!({})).await;
    assert_eq!(told(&new, &has), 0, "that was confirmed");
    assert_eq!(told(&new, &has_not), 1);
}

#[actix_web::test]
async fn what_a_half_open_socket_swallowed_goes_to_the_next_at_another_node() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 600);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let old = tenant.bridge(Socket).await;
    let call = old.talk(&tenant.did).await;
    old.fall_silent();
    transfer(tenant, &call).await;
    old.command("transfer", &call).await;
    let new = nodes.bridge_at_b(tenant, Socket).await;
    let again = new.command("transfer", &call);
    assert!(
        tokio::time::timeout(Duration::from_secs(10), again)
            .await
            .is_ok()
    );
    eventually("nothing to be left in the table", async || {
        let left = nodes.rows::<1>("SELECT id FROM bridge_commands").await;
        left.is_empty().then_some(())
    })
    .await;
    assert_eq!(told(&new, &call), 1);
}

/// The last opened of two sockets at two nodes is the newest at once, whichever node checks.
#[actix_web::test]
async fn commands_go_to_the_socket_that_was_opened_last() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let mut older = tenant.bridge(Socket).await;
    // A busy machine may be late now and then; only the shortest time counts.
    let mut least = [PATIENCE; 2];
    for round in 0..10 {
        let call = older.talk(&tenant.did).await;
        let newest = match round % 2 {
            0 => nodes.bridge_at_b(tenant, Socket).await,
            _ => tenant.bridge(Socket).await,
        };
        let began = Instant::now();
        transfer(tenant, &call).await;
        newest.command("transfer", &call).await;
        least[round % 2] = least[round % 2].min(began.elapsed());
        assert_eq!(told(&older, &call), 0, "round {round}: the older one");
        newest.ok("heartbeat", json!({})).await;
        older = newest;
    }
    assert!(least.iter().all(|least| *least <= TOLD_WITHIN), "{least:?}");
}

/// The commands in the answer to a request.
async fn poll(http: &str, token: &str, id: &str) -> Vec<Value> {
    let rest =
        Rest::new(&format!("{http}/bridge/v1")).with("authorization", &format!("Bearer {token}"));
    let messages = json!({"messages": [{"id": id, "type": "heartbeat"}]});
    let answer = rest.post("/messages", messages).await.expect(200);
    answer["commands"].as_array().unwrap().clone()
}

#[rstest]
#[actix_web::test]
async fn a_command_whose_answer_was_lost_comes_again_with_it(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, WorldSetup::new());
    let (tenant, http) = (&world.tenant, &world.server.http);
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    transfer(tenant, &call).await;
    let first = poll(http, &tenant.token, "lost").await;
    assert_eq!(first.len(), 1);
    // The repeated request of a bridge that got no answer.
    assert_eq!(poll(http, &tenant.token, "lost").await, first);
    assert_eq!(poll(http, &tenant.token, "next").await, [] as [Value; 0]);
}

/// The process that answered may be gone together with its answer.
#[rstest]
#[actix_web::test]
async fn a_command_whose_answer_a_crash_swallowed_comes_again(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut world = world!(store, WorldSetup::new());
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.talk(&world.tenant.did).await;
    transfer(&world.tenant, &call).await;
    let (http, token) = (world.server.http.clone(), world.tenant.token.clone());
    let first = poll(&http, &token, "lost").await;
    assert_eq!(first.len(), 1);
    world.server.kill9();
    world.server.restart();
    // Like a bridge: repeats the request without an answer, then sends others.
    let mut ids = iter::once("lost".to_owned()).chain((0..).map(|number| format!("next{number}")));
    let again = eventually("the command to come again", async || {
        let id = ids.next().unwrap();
        let again = poll(&world.server.http, &token, &id).await;
        (!again.is_empty()).then_some(again)
    })
    .await;
    assert_eq!(again, first);
}

/// The lost answer may have come from another node than the repeated one. Of two concurrent requests, one gets the
/// command.
#[actix_web::test]
async fn a_command_is_given_once_and_again_over_two_nodes() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let (tenant, a, b) = (&nodes.a.tenant, &nodes.a.server.http, &nodes.b.http);
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    for round in 0..5 {
        let [one, other, next] = ["a", "b", "c"].map(|side| format!("{side}{round}"));
        transfer(tenant, &call).await;
        eventually("the command to be in the table", async || {
            let rows = nodes.rows::<1>("SELECT id FROM bridge_commands WHERE given_with IS NULL");
            (rows.await.len() == 1).then_some(())
        })
        .await;
        let (at_a, at_b) =
            tokio::join!(poll(a, &tenant.token, &one), poll(b, &tenant.token, &other));
        assert_eq!(at_a.len() + at_b.len(), 1, "round {round}");
        let again = if at_a.is_empty() {
            (a, other)
        } else {
            (b, one)
        };
        let given = [at_a, at_b].concat();
        assert_eq!(poll(again.0, &tenant.token, &again.1).await, given);
        assert_eq!(poll(b, &tenant.token, &next).await, [] as [Value; 0]);
    }
}

/// A command moved into the table for other nodes is also delivered after those are gone.
#[actix_web::test]
async fn a_command_waits_in_the_table_also_for_a_node_that_was_left_alone() {
    let Some(mut nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let bridge = nodes.a.tenant.bridge(Http).await;
    let call = bridge.talk(&nodes.a.tenant.did).await;
    transfer(&nodes.a.tenant, &call).await;
    eventually("the command to be in the table", async || {
        let rows = nodes.rows::<1>("SELECT id FROM bridge_commands").await;
        (rows.len() == 1).then_some(())
    })
    .await;
    assert_eq!(nodes.b.terminate().await, 0);
    eventually("A to be alone", async || {
        (super::listed(&nodes.a.server).await.len() == 1).then_some(())
    })
    .await;
    Moment::now().plus(2).passed().await;
    let (http, token) = (&nodes.a.server.http, &nodes.a.tenant.token);
    assert_eq!(poll(http, token, "alone").await.len(), 1);
}

/// A call moves while the service is about to end it: it is ended once and warned of once. A repeated command has
/// the same id.
#[actix_web::test]
async fn what_the_service_commands_has_one_id_wherever_the_call_is() {
    let setup = WorldSetup::new().minutes(1);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let a = tenant.bridge(Http).await;
    let b = nodes.bridge_at_b(tenant, Http).await;
    // Its only minute is over in twenty seconds.
    let call = a.talk_since(&tenant.did, Moment::ago(40)).await;
    let mut ids = std::collections::BTreeMap::<String, std::collections::BTreeSet<String>>::new();
    let (mut moves, mut since) = (0, 0);
    within(Duration::from_secs(80), "the call to be cut", async || {
        let bridge = [&a, &b][moves % 2];
        moves += 1;
        let summary = json!({"callId": call, "summary": format!("so far {moves}")});
        bridge.ok("call.transcript", summary).await;
        for command in a.commands().iter().chain(&b.commands()) {
            let name = command["command"].as_str().unwrap().to_owned();
            let id = command["id"].as_str().unwrap().to_owned();
            ids.entry(name).or_default().insert(id);
        }
        (ids.contains_key("hangup") && {
            since += 1;
            since > 4
        })
        .then_some(())
    })
    .await;
    let counts: Vec<_> = ids
        .iter()
        .map(|(name, ids)| (name.as_str(), ids.len()))
        .collect();
    assert_eq!(counts, [("hangup", 1), ("warn", 1)]);
}
