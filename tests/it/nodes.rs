//! Two nodes on one PostgreSQL: each owns its calls and webhooks, and the other takes over after a node's death.

use std::{collections::BTreeMap, process::Stdio, time::Instant};

use dikala_testkit::{PATIENCE, within};

mod backlog;
mod clocks;
mod commands;
mod connecting;
mod endpoints;
mod frozen;
mod keys;
mod lapsed;
mod limits;
mod lost;
mod moving;
mod notices;
mod sweeps;
mod transcripts;
mod truth;
mod upgrades;

use crate::support::{link::linked, prelude::*, tenant::Tenant, tenant::text, world::HOOK};

/// Maximum time until a dead node's ownership is taken over: twenty seconds, and more on a busy machine.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// Maximum time for commands to reach their bridge at any node.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Two nodes, and a tenant with a webhook.
struct Nodes {
    // Dropped first: the store goes with the world.
    b: Server,
    a: TestWorld,
}

impl Nodes {
    /// `None` if PostgreSQL is not installed.
    async fn start(setup: WorldSetup) -> Option<Self> {
        let a = TestWorld::start(Postgres, setup).await?;
        Some(Self::beside(a).await)
    }

    async fn beside(a: TestWorld) -> Self {
        let b = Server::start(a.server.installation.beside());
        let nodes = Self { b, a };
        nodes.know_each_other().await;
        nodes
    }

    async fn know_each_other(&self) {
        // Each node polls once a second, and announces itself when it renews its lease.
        let both = "SELECT id FROM nodes WHERE lease_until > started_at + 15000";
        eventually("two nodes that renewed their leases", async || {
            (self.rows::<1>(both).await.len() == 2).then_some(())
        })
        .await;
    }

    async fn rows<const N: usize>(&self, sql: &str) -> Vec<[String; N]> {
        self.a.server.installation.store.rows(sql).await
    }

    /// Owner and epoch of a call and of its hold, which must be equal.
    async fn owner(&self, call: &str) -> (String, String) {
        let sql = format!(
            "SELECT c.owner, CAST(c.epoch AS TEXT), h.owner, CAST(h.epoch AS TEXT) FROM calls c \
             JOIN credit_holds h ON h.call_id = c.id WHERE c.id = '{call}'"
        );
        let [[owner, epoch, of_hold, hold_epoch]] = &self.rows::<4>(&sql).await[..] else {
            panic!("no call {call}");
        };
        assert_eq!(
            (owner, epoch),
            (of_hold, hold_epoch),
            "the call's and its hold's"
        );
        (owner.clone(), epoch.clone())
    }

    /// Gives node A the cursor of a webhook that has no deliveries yet, however slow A is.
    async fn deliver_at_a(&self, webhook: &str) {
        let a = id_of(&self.a.server).await;
        let take = format!(
            "UPDATE webhook_cursors SET node = '{a}' WHERE webhook_id = '{webhook}' RETURNING node"
        );
        assert_eq!(self.rows::<1>(&take).await, [[a]]);
    }

    /// Waits until B owns a call.
    async fn taken_by_b(&self, call: &str) {
        let b = id_of(&self.b).await;
        within(TAKEN_WITHIN, "B to own the call", async || {
            (self.owner(call).await.0 == b).then_some(())
        })
        .await;
    }

    async fn bridge_at_b(&self, tenant: &Tenant, transport: BridgeTransport) -> TestBridge {
        TestBridge::open(&self.b.http, &tenant.token, transport).await
    }
}

/// The nodes that this one lists.
async fn listed(server: &Server) -> Vec<Value> {
    let nodes = Rest::new(&server.operator).get("/operator/v1/nodes").await;
    nodes.expect(200)["nodes"].as_array().unwrap().clone()
}

/// The node's current id.
async fn id_of(server: &Server) -> String {
    let listed = listed(server).await;
    let this: Vec<_> = listed
        .iter()
        .filter(|node| node["isThis"] == true)
        .collect();
    assert_eq!(this.len(), 1, "{listed:?}");
    text(this[0], "id")
}

async fn ready(server: &Server) -> Value {
    server.rest().get("/health/ready").await.body
}

/// Waits until the node has a new id and accepts calls again.
async fn is_back(server: &Server, before: &str) {
    eventually("the node to be back", async || {
        let answer = server.rest().get("/health/ready").await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_ne!(id_of(server).await, before);
}

#[actix_web::test]
async fn a_node_takes_nothing_of_one_that_lives_whatever_its_name() {
    let setup = WorldSetup::new().set("node.name", "the-same");
    let Some(a) = TestWorld::start(Postgres, setup).await else {
        return;
    };
    let bridge = a.tenant.bridge(Socket).await;
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(bridge.talk(&a.tenant.did).await);
    }
    let ringing = bridge.ring(&a.tenant.did).await;
    let nodes = Nodes::beside(a).await;
    let (a, b) = (id_of(&nodes.a.server).await, id_of(&nodes.b).await);
    assert_ne!(a, b);
    for server in [&*nodes.a.server, &nodes.b] {
        let listed = listed(server).await;
        let names: Vec<_> = listed.iter().map(|node| &node["name"]).collect();
        assert_eq!(names, ["the-same", "the-same"]);
        let left = |node: &Value| node["leaseSeconds"].as_i64().unwrap();
        assert!(
            listed.iter().all(|node| (1..=15).contains(&left(node))),
            "{listed:?}"
        );
    }
    // B has polled several times by now.
    for call in calls.iter().chain([&ringing]) {
        assert_eq!(nodes.owner(call).await, (a.clone(), "1".to_owned()));
    }
    bridge.ok("call.answered", json!({"callId": ringing})).await;
    for call in calls.iter().chain([&ringing]) {
        assert_eq!(nodes.a.tenant.call(call).await["status"], "answered");
        bridge.hang_up(call).await;
        assert_eq!(nodes.a.tenant.call(call).await["hangupReason"], "normal");
        assert_eq!(nodes.a.tenant.billed(call).await, Some(1));
    }
    nodes.a.assert_ledger_is_exact();
}

#[actix_web::test]
async fn calls_of_a_node_that_is_killed_go_on_at_another() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 60);
    let Some(mut nodes) = Nodes::start(setup).await else {
        return;
    };
    let stays_away = nodes.a.another_tenant(10).await;
    let bridge = nodes.a.tenant.bridge(Socket).await;
    let lost_bridge = stays_away.bridge(Socket).await;
    let answered = Moment::ago(50);
    let call = bridge.talk_since(&nodes.a.tenant.did, answered).await;
    let ringing = bridge.ring(&nodes.a.tenant.did).await;
    let lost = lost_bridge.talk_since(&stays_away.did, answered).await;
    // After a second the store knows the connected bridges.
    Moment::now().plus(2).passed().await;
    let killed = Moment::now();
    nodes.a.server.kill9();
    for call in [&call, &ringing, &lost] {
        nodes.taken_by_b(call).await;
    }
    assert_eq!(listed(&nodes.b).await.len(), 1);

    let bridge = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    bridge.ok("call.answered", json!({"callId": ringing})).await;
    bridge.hang_up(&ringing).await;
    bridge.hang_up_at(&call, answered.plus(70)).await;
    let order = ["call.started", "call.answered", "call.ended"];
    for call in [&call, &ringing] {
        assert_eq!(nodes.a.kinds(call, "call.ended").await, order);
    }
    // Calls are billed by the bridges' times, or else up to the last sign of life.
    let api = |tenant: &Tenant| {
        Rest::new(&format!("{}/api/v1", nodes.b.http)).with("x-api-key", &tenant.key)
    };
    let over = within(
        Duration::from_secs(150),
        "the lost call to end",
        async || {
            let call = api(&stays_away)
                .get(&format!("/calls/{lost}"))
                .await
                .expect(200);
            (!call["endedAt"].is_null()).then_some(call)
        },
    )
    .await;
    assert_eq!(
        [&over["status"], &over["hangupReason"]],
        ["dropped", "bridge_lost"]
    );
    let ended = Moment::parse(&over["endedAt"]);
    let off = ended.ms_since(killed).abs();
    assert!(
        off <= 5_000,
        "billed to {off} ms from the last sign of life"
    );
    let page = api(&nodes.a.tenant).get("/credits").await.expect(200);
    assert_eq!(page["lifetimeUsedMinutes"], 3);
    let verdict = nodes.b.cli(&["ledger", "verify"]);
    assert_eq!(verdict["differences"], json!([]), "{verdict}");
}

#[actix_web::test]
async fn a_node_that_stood_still_writes_nothing_of_what_others_have_taken() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 600);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let before = id_of(&nodes.a.server).await;
    let tenant = &nodes.a.tenant;
    let old = tenant.bridge(Socket).await;
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(old.talk(&tenant.did).await);
    }
    // The owner's next deadline falls into its pause.
    let due = old.talk_since(&tenant.did, Moment::ago(20)).await;
    for call in calls.iter().chain([&due]) {
        nodes.a.event("call.answered", call).await;
    }
    nodes.a.server.freeze();
    // Messages that arrive meanwhile are read when it resumes.
    let late = old.begin(&old.message("call.hangup", json!({"callId": calls[0]})));
    nodes.taken_by_b(&due).await;
    for call in &calls {
        nodes.taken_by_b(call).await;
    }
    let b = id_of(&nodes.b).await;
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    bridge.hang_up(&calls[1]).await;
    nodes.a.server.thaw();
    is_back(&nodes.a.server, &before).await;
    let owned = format!("SELECT id FROM calls WHERE owner = '{before}'");
    assert!(
        nodes.rows::<1>(&owned).await.is_empty(),
        "A wrote as who it was"
    );
    for call in &calls[2..] {
        assert_eq!(nodes.owner(call).await, (b.clone(), "2".to_owned()));
    }
    // A message sent to A takes effect there, or is refused and retried; it is never lost, nor applied twice.
    let answered = late.reply_if_any().await;
    if answered.is_none_or(|reply| reply["ok"] != true) {
        bridge.hang_up(&calls[0]).await;
    }
    for call in calls[2..].iter().chain([&due]) {
        bridge.hang_up(call).await;
    }
    let order = ["call.started", "call.answered", "call.ended"];
    for call in calls.iter().chain([&due]) {
        assert_eq!(nodes.a.kinds(call, "call.ended").await, order);
        assert_eq!(tenant.billed(call).await, Some(1));
    }
    nodes.a.assert_ledger_is_exact();
}

#[actix_web::test]
async fn a_node_that_is_cut_from_the_database_stops_before_others_begin() {
    let Some((a, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let nodes = Nodes::beside(a).await;
    let tenant = &nodes.a.tenant;
    let before = id_of(&nodes.a.server).await;
    let old = tenant.bridge(Socket).await;
    let call = old.talk(&tenant.did).await;
    link.go_dark();
    let b = id_of(&nodes.b).await;
    let stopped = within(TAKEN_WITHIN, "A to stop", async || {
        // While A may act, no other node owns its call.
        let acts = ready(&nodes.a.server).await["checks"]["lease"] == true;
        let owner = nodes.owner(&call).await.0;
        assert!(!acts || owner != b, "two owners");
        (!acts).then_some(ready(&nodes.a.server).await)
    })
    .await;
    let problems = stopped["problems"].to_string();
    assert!(problems.contains("lease is lost"), "{stopped}");
    nodes.taken_by_b(&call).await;
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    bridge.hang_up(&call).await;
    link.light_up();
    is_back(&nodes.a.server, &before).await;
    let again = tenant.bridge(Socket).await;
    let call = again.talk(&tenant.did).await;
    again.hang_up(&call).await;
    nodes.a.assert_ledger_is_exact();
}

#[actix_web::test]
async fn a_node_that_stops_gives_back_what_it_has_at_once() {
    let Some(mut nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let bridge = nodes.a.tenant.bridge(Socket).await;
    let call = bridge.talk(&nodes.a.tenant.did).await;
    assert_eq!(nodes.a.server.terminate().await, 0);
    let b = id_of(&nodes.b).await;
    within(Duration::from_secs(10), "B to have the call", async || {
        (nodes.owner(&call).await.0 == b).then_some(())
    })
    .await;
    let bridge = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    bridge.hang_up(&call).await;
    let order = ["call.started", "call.answered", "call.ended"];
    assert_eq!(nodes.a.kinds(&call, "call.ended").await, order);
}

/// After an outage of the database each node still owns its calls.
#[actix_web::test]
async fn after_an_outage_of_the_database_everybody_has_what_he_had() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 600);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let bridge = nodes.a.tenant.bridge(Socket).await;
    let at_b = nodes.bridge_at_b(&nodes.a.tenant, Http).await;
    let calls = [
        bridge.talk(&nodes.a.tenant.did).await,
        at_b.talk(&nodes.a.tenant.did).await,
    ];
    let owners = [nodes.owner(&calls[0]).await, nodes.owner(&calls[1]).await];
    assert_ne!(owners[0], owners[1]);
    let database = nodes.a.server.installation.store.database().unwrap();
    database.go_away();
    for server in [&*nodes.a.server, &nodes.b] {
        eventually("the lease to be lost", async || {
            (ready(server).await["checks"]["lease"] == false).then_some(())
        })
        .await;
    }
    // Longer than a lease.
    Moment::now().plus(5).passed().await;
    database.come_back();
    for server in [&*nodes.a.server, &nodes.b] {
        eventually("to be ready", async || {
            (server.rest().get("/health/ready").await.status == 200).then_some(())
        })
        .await;
    }
    assert_eq!(
        [nodes.owner(&calls[0]).await, nodes.owner(&calls[1]).await],
        owners
    );
    // A node that cannot work closes its sockets, so that bridges go to another one; there was none.
    bridge.closed().await;
    let bridge = nodes.a.tenant.bridge(Socket).await;
    bridge.hang_up(&calls[0]).await;
    at_b.hang_up(&calls[1]).await;
    nodes.a.assert_ledger_is_exact();
}

#[actix_web::test]
async fn commands_reach_the_bridge_wherever_it_is() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    // A has learned by now where the bridge is.
    Moment::now().plus_ms(2_500).passed().await;
    let operator = Rest::new(&nodes.a.server.operator);
    let asked = [
        (&tenant.api, "", "requested"),
        (&operator, "/operator/v1", "operator"),
    ];
    let mut calls = Vec::new();
    for (api, prefix, reason) in asked {
        // A busy machine may be late now and then; only the shortest time counts.
        let mut least = PATIENCE;
        for _ in 0..5 {
            let call = bridge.talk(&tenant.did).await;
            let began = Instant::now();
            let path = format!("{prefix}/calls/{call}/hangup");
            api.post(&path, json!({})).await.expect(202);
            let command = bridge.command("hangup", &call).await;
            least = least.min(began.elapsed());
            assert_eq!(command["reason"], reason);
            bridge
                .ok("call.hangup", json!({"callId": call, "reason": reason}))
                .await;
            assert_eq!(tenant.call(&call).await["hangupReason"], reason);
            calls.push(call);
        }
        assert!(least <= TOLD_WITHIN, "{reason}: {least:?}");
    }
    for call in &calls {
        let commands = bridge.commands();
        let times = commands.iter().filter(|c| c["callId"] == **call).count();
        assert_eq!(times, 1, "{call}");
    }
    eventually("nothing to be left in the table", async || {
        let left = nodes.rows::<1>("SELECT id FROM bridge_commands").await;
        left.is_empty().then_some(())
    })
    .await;
}

/// A command for an absent bridge waits for it, at whichever node it returns.
#[actix_web::test]
async fn commands_wait_for_a_bridge_that_is_nowhere() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 600);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    for transport in [Socket, Http] {
        let bridge = tenant.bridge(transport).await;
        let call = bridge.talk(&tenant.did).await;
        bridge.cut();
        Moment::now().plus_ms(2_500).passed().await;
        let to = json!({"to": "+622150009999"});
        tenant
            .api
            .post(&format!("/calls/{call}/transfer"), to)
            .await
            .expect(202);
        let bridge = nodes.bridge_at_b(tenant, transport).await;
        let command = bridge.command("transfer", &call).await;
        assert_eq!(command["to"], "+622150009999");
        bridge
            .ok(
                "call.hangup",
                json!({"callId": call, "reason": "transferred"}),
            )
            .await;
        assert_eq!(tenant.call(&call).await["hangupReason"], "transferred");
    }
}

/// An invocation that runs at the bridge's old node is not repeated at the new one.
#[actix_web::test]
async fn a_bridge_that_moves_takes_its_calls_along() {
    let setup = WorldSetup::new().set("functions.timeout_seconds", 30);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    receiver.answer(
        "/slow",
        [ServerAnswer::Json(json!({"days": 2})).after(Duration::from_secs(4))],
    );
    tenant
        .create_function("checkOrder", "POST", &receiver.url("/slow"))
        .await;
    let old = tenant.bridge(Socket).await;
    let (call, other) = (old.talk(&tenant.did).await, old.talk(&tenant.did).await);
    let invoke = |bridge: &TestBridge| {
        let fields = json!({"callId": call, "invocationId": "one", "name": "checkOrder", "parameters": {"orderId": "1"}});
        bridge.begin(&bridge.message("call.function", fields))
    };
    let at_a = invoke(&old);
    receiver.wait_for("/slow", 1).await;
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    let b = id_of(&nodes.b).await;
    let at_b = invoke(&bridge);
    nodes.taken_by_b(&call).await;
    for reply in [at_a.reply().await, at_b.reply().await] {
        assert_eq!(
            reply["outcome"],
            json!({"status": "ok", "result": {"days": 2}}),
            "{reply}"
        );
    }
    assert_eq!(receiver.received("/slow").len(), 1);
    // It moved once.
    assert_eq!(nodes.owner(&call).await, (b, "2".to_owned()));
    assert_eq!(nodes.owner(&other).await.1, "1");
    bridge.hang_up(&call).await;
    // Messages on the old socket are about the same call.
    old.hang_up(&call).await;
    old.hang_up(&other).await;
    let kinds = nodes.a.kinds(&call, "call.ended").await;
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    assert_eq!(tenant.billed(&call).await, Some(1));
    eventually("claims to be forgotten", async || {
        let left = nodes.rows::<1>("SELECT node FROM invocation_claims").await;
        left.is_empty().then_some(())
    })
    .await;
}

/// Heartbeats count at any node, and a list shows the calls of all nodes.
#[actix_web::test]
async fn heartbeats_count_at_any_node() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 8);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let (at_a, at_b) = (
        tenant.bridge(Http).await,
        nodes.bridge_at_b(tenant, Http).await,
    );
    let (call, forgotten) = (at_a.talk(&tenant.did).await, at_a.talk(&tenant.did).await);
    let until = Moment::now().plus(25);
    while Moment::now() < until {
        at_b.ok("heartbeat", json!({})).await;
        Moment::now().plus_ms(500).passed().await;
    }
    assert_eq!(tenant.call(&call).await["status"], "answered");
    let reply = at_b.ok("heartbeat", json!({"activeCalls": [call]})).await;
    let last = Moment::now();
    assert_eq!(reply["ended"], json!([]));
    assert_eq!(
        tenant.call_over(&forgotten).await["hangupReason"],
        "bridge_lost"
    );
    let over = tenant.call_over(&call).await;
    assert!(Moment::now() >= last.plus(5), "the list has it: {over}");
    let ended = Moment::parse(&over["endedAt"]);
    let off = ended.ms_since(last).abs();
    assert!(
        off <= 5_000,
        "billed to {off} ms from the last sign of life"
    );
}

/// Two nodes deliver to one endpoint: each delivery is made once, and a dead node's deliveries are taken over.
#[actix_web::test]
async fn deliveries_are_made_once_while_both_live_and_go_on_when_one_dies() {
    let schedule = vec!["1"; 60].join(",");
    let setup = WorldSetup::new().set("webhooks.retry_schedule_seconds", schedule);
    let Some(mut nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let (at_a, at_b) = (
        tenant.bridge(Socket).await,
        nodes.bridge_at_b(tenant, Socket).await,
    );
    for bridge in [&at_a, &at_b] {
        for _ in 0..20 {
            let call = bridge.talk(&tenant.did).await;
            bridge.hang_up(&call).await;
        }
    }
    let received = nodes.a.receiver.wait_for(HOOK, 120).await;
    let mut times = BTreeMap::new();
    for delivery in received.iter().filter_map(|request| request.delivery()) {
        *times.entry(delivery.to_owned()).or_insert(0) += 1;
    }
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    // Deliveries in flight at A when it dies are repeated; those that it had not begun are made.
    nodes.a.receiver.answer(HOOK, [ServerAnswer::Hang]);
    let before = nodes.a.receiver.received(HOOK).len();
    for _ in 0..10 {
        at_a.ring(&tenant.did).await;
    }
    nodes.a.receiver.wait_for(HOOK, before + 8).await;
    nodes.a.server.kill9();
    nodes.a.receiver.answer(HOOK, [ServerAnswer::Status(200)]);
    let pending = "SELECT id FROM deliveries WHERE status = 'pending'";
    within(
        TAKEN_WITHIN + Duration::from_secs(5),
        "B to deliver what A left",
        async || nodes.rows::<1>(pending).await.is_empty().then_some(()),
    )
    .await;
}

/// A follower of events at one node receives those of another.
#[actix_web::test]
async fn events_are_followed_at_any_node() {
    let Some(nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let (tenant, receiver) = (&nodes.a.tenant, &nodes.a.receiver);
    let installation = &nodes.a.server.installation;
    let arguments = [
        "listen",
        "--url",
        &nodes.a.server.http,
        "--key",
        &tenant.key,
        "--forward-to",
        &receiver.url("/local"),
    ];
    let quiet = Stdio::null;
    let listening = installation
        .command(&arguments)
        .stdout(quiet())
        .stderr(quiet())
        .spawn();
    let mut listening = listening.unwrap();
    eventually("the listener to follow", async || {
        let sample = json!({"event": "call.started"});
        tenant.api.post("/events/sample", sample).await;
        (!receiver.received("/local").is_empty()).then_some(())
    })
    .await;
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    let mut least = PATIENCE;
    for _ in 0..5 {
        let before = receiver.received("/local").len();
        let began = Instant::now();
        bridge.ring(&tenant.did).await;
        receiver.wait_for("/local", before + 1).await;
        least = least.min(began.elapsed());
    }
    assert!(least <= TOLD_WITHIN, "{least:?}");
    listening.kill().unwrap();
    listening.wait().unwrap();
}
