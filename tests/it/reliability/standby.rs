//! A synchronous standby goes away while its primary lives. Nothing is acknowledged that only the primary has, even
//! if the wait is interrupted. Reads continue, and writes resume when the standby returns.

use dikala_testkit::{OwnPostgres, Stop};
use futures_util::future::{join_all, join3};
use tokio::task::spawn_blocking;

use super::fleet::{Fleet, FleetSettings};
use crate::support::{prelude::*, tenant::Tenant};

/// Maximum connections with which a node writes; its lease has another one.
const WRITING_MAX: usize = 8 + 6;
/// Concurrent writes, and the number of rounds.
const CROWD: usize = 20;
const CROWDS: usize = 3;
/// Maximum time until some node accepts a bridge.
const REACHED_WITHIN: Duration = Duration::from_secs(5);

/// Nodes, their PostgreSQL, and a synchronous standby; `None` if PostgreSQL is not installed.
async fn pair(nodes: usize) -> Option<(Fleet, OwnPostgres, OwnPostgres)> {
    let primary = OwnPostgres::start()?;
    let standby = primary.standby();
    let installation = Installation::at(primary.place(primary.port));
    primary.waits_for_its_standby();
    // A node that never met others keeps its sockets when its lease expires.
    let wanted = FleetSettings::nodes(nodes).set("bridge.lost_after_seconds", 600);
    let fleet = Fleet::on(installation, wanted).await;
    Some((fleet, primary, standby))
}

/// Runs a counting statement on a server without blocking.
async fn says(server: &OwnPostgres, statement: impl Into<String>) -> usize {
    let (server, statement) = (server.clone(), statement.into());
    let said = spawn_blocking(move || server.sql(&statement)).await;
    said.unwrap().parse().unwrap()
}

/// Counts transactions that wait for the standby in their commit.
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";

/// Counts the tables out of agents and calls whose commit waits for the standby: it keeps its locks until then.
const BOTH_WAITING: &str = "SELECT count(DISTINCT relation) FROM pg_locks JOIN pg_stat_activity USING (pid) \
    WHERE wait_event = 'SyncRep' AND query = 'COMMIT' AND mode = 'RowExclusiveLock' \
    AND relation IN ('agents'::regclass, 'calls'::regclass)";

/// Counts nodes whose registration waits for the standby.
const ENTERING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO _nodes_ %'";
/// Number of registration attempts before connections are counted.
const TRIES: usize = 20;

fn agents(name: &str) -> String {
    format!("SELECT count(*) FROM agents WHERE name = '{name}'")
}

fn agent(name: &str) -> Value {
    json!({"name": name, "systemPrompt": "Answer kindly."})
}

/// Independent writes that all wait for the standby; none is acknowledged.
async fn crowds(tenant: &Tenant) {
    for crowd in 0..CROWDS {
        let answers = join_all((0..CROWD).map(async |number| {
            let key = format!("{crowd}-{number}");
            let api = tenant.api.clone().with("idempotency-key", &key);
            api.post("/agents", agent("In a crowd")).await
        }));
        for answer in answers.await {
            assert_eq!(answer.status, 503, "{}", answer.text);
        }
    }
}

#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn without_its_standby_a_primary_acknowledges_nothing() {
    let Some((fleet, primary, standby)) = pair(1).await else {
        return;
    };
    let tenant = &fleet.tenants[0];
    let keyed = tenant.api.clone().with("idempotency-key", "before");
    let before = keyed.post("/agents", agent("Before")).await.expect(201);
    let bridge = tenant.bridge(Socket).await;
    let ring = |name: &str| {
        let fields = json!({
            "bridgeCallId": name, "did": tenant.did, "callerNumber": "+6281234567890",
        });
        bridge.message("call.incoming", fields)
    };
    let away = standby.clone();
    spawn_blocking(move || away.stop(Stop::Immediate))
        .await
        .unwrap();
    // The wait is interrupted from outside: the primary shows the commit that only it has.
    let broken_off = ring("broken-off");
    let breaking = async {
        eventually("both commits to wait", async || {
            (says(&primary, BOTH_WAITING).await == 2).then_some(())
        })
        .await;
        let killed = primary.clone();
        spawn_blocking(move || killed.kill_backends())
            .await
            .unwrap();
        says(&primary, agents("Broken off")).await
    };
    let (answer, reply, shown) = join3(
        tenant.api.post("/agents", agent("Broken off")),
        bridge.begin(&broken_off).reply(),
        breaking,
    )
    .await;
    assert_eq!(shown, 1, "the primary has it");
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert_ne!(reply["ok"], true, "{reply}");
    let again = keyed.post("/agents", agent("Before")).await;
    assert_eq!(again.status, 503, "{}", again.text);

    // Without an interruption the service itself stops waiting.
    let left_alone = ring("left-alone");
    let (answer, reply, ()) = join3(
        tenant.api.post("/agents", agent("Left alone")),
        bridge.begin(&left_alone).reply(),
        crowds(tenant),
    )
    .await;
    assert_eq!(answer.status, 503, "{}", answer.text);
    assert_ne!(reply["ok"], true, "{reply}");
    assert_eq!(says(&primary, agents("Left alone")).await, 0);
    let waiting = says(&primary, WAITING).await;
    assert!((2..=WRITING_MAX).contains(&waiting), "{waiting} wait");
    let listed = tenant.api.get("/agents").await.expect(200);
    assert!(listed.to_string().contains("Before"), "{listed}");

    let back = standby.clone();
    spawn_blocking(move || back.start_again()).await.unwrap();
    eventually("a write to be acknowledged", async || {
        let made = tenant.api.post("/agents", agent("Afterwards")).await;
        (made.status == 201).then_some(())
    })
    .await;
    // A connection that is newer than the reading proves nothing, and then the answer is 503.
    let again = eventually("the stored answer", async || {
        let again = keyed.post("/agents", agent("Before")).await;
        (again.status == 201).then(|| again.expect(201))
    })
    .await;
    assert_eq!(again, before);
    for message in [&broken_off, &left_alone] {
        eventually("a call to be taken", async || {
            let address = &fleet.node(0).http;
            let socket = TestBridge::reach(address, &tenant.token, REACHED_WITHIN).await?;
            let reply = socket.begin(message).reply_if_any().await?;
            (reply["ok"] == true).then_some(())
        })
        .await;
    }
    // Everything acknowledged exists after a failover.
    let failing = primary.clone();
    let promoted = standby.clone();
    spawn_blocking(move || {
        failing.stop(Stop::Immediate);
        promoted.promote();
    })
    .await
    .unwrap();
    for name in ["Before", "Afterwards", "Broken off"] {
        assert!(says(&standby, agents(name)).await >= 1, "{name}");
    }
    let calls = "SELECT count(*) FROM calls WHERE bridge_call_id IN ('broken-off', 'left-alone')";
    assert_eq!(says(&standby, calls).await, 2);
}

/// A bridge repeats its message at another node, which knows the call from the store only.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn what_the_primary_alone_has_is_not_acknowledged_to_who_asks_again() {
    let Some((fleet, primary, standby)) = pair(2).await else {
        return;
    };
    let tenant = &fleet.tenants[0];
    let reach = async |at: usize| {
        let address = &fleet.node(at).http;
        TestBridge::reach(address, &tenant.token, REACHED_WITHIN).await
    };
    let (one, other) = (reach(0).await.unwrap(), reach(1).await.unwrap());
    let call = one.ring(&tenant.did).await;
    let hangup = one.message("call.hangup", json!({"callId": call}));
    let away = standby.clone();
    spawn_blocking(move || away.stop(Stop::Immediate))
        .await
        .unwrap();
    let _unanswered = one.begin(&hangup);
    // Interrupts the wait, so that the primary shows the end of the call.
    let over = format!("SELECT count(*) FROM calls WHERE id = '{call}' AND ended_at IS NOT NULL");
    eventually("the end on the primary", async || {
        let killed = primary.clone();
        spawn_blocking(move || killed.kill_backends())
            .await
            .unwrap();
        (says(&primary, &over).await == 1).then_some(())
    })
    .await;
    // If its lease expires meanwhile, the node closes the socket.
    let again = other.begin(&hangup).reply_if_any().await;
    assert!(
        again.as_ref().is_none_or(|reply| reply["ok"] != true),
        "{again:?}"
    );
    // A list of calls is answered with those that are over. The bridge forgets them.
    if let Some(socket) = reach(1).await {
        let list = socket.message("heartbeat", json!({"activeCalls": [call]}));
        let listed = socket.begin(&list).reply_if_any().await;
        assert!(
            listed.as_ref().is_none_or(|reply| reply["ok"] != true),
            "{listed:?}"
        );
    }
    let back = standby.clone();
    spawn_blocking(move || back.start_again()).await.unwrap();
    eventually("the end to be acknowledged", async || {
        let reply = reach(1).await?.begin(&hangup).reply_if_any().await?;
        (reply["ok"] == true).then_some(())
    })
    .await;
}

/// A node whose lease expired wants to rejoin, which is impossible before the standby is back.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn a_node_that_was_ended_asks_once_for_what_waits_for_the_standby() {
    let Some((fleet, primary, standby)) = pair(1).await else {
        return;
    };
    let node = fleet.node(0);
    node.freeze();
    let (ended_at, away) = (primary.clone(), standby.clone());
    spawn_blocking(move || {
        away.stop(Stop::Immediate);
        ended_at.sql("SET synchronous_commit = local; DELETE FROM nodes");
    })
    .await
    .unwrap();
    node.thaw();
    eventually("the node to try again and again", async || {
        let tries = node.log().matches("could not rejoin as a new node").count();
        (tries >= TRIES).then_some(())
    })
    .await;
    assert_eq!(says(&primary, ENTERING).await, 1);
    // A node that starts meanwhile reports the reason for its failure.
    let other = node.installation.beside();
    let started = spawn_blocking(move || other.run(&["serve"])).await.unwrap();
    assert!(
        started.stderr.contains("waits for its synchronous standby"),
        "{started:?}"
    );
    assert_eq!(says(&primary, ENTERING).await, 1);

    let back = standby.clone();
    spawn_blocking(move || back.start_again()).await.unwrap();
    fleet.is_ready(0).await;
    let made = fleet.tenants[0].api.post("/agents", agent("Afterwards"));
    made.await.expect(201);
}
