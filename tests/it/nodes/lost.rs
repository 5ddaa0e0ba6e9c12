//! Interrupted work: calls that were taken over and cannot be read, sockets of an isolated node, and sockets that
//! were never closed.

use awc::ws::CloseCode;
use dikala_testkit::within;
use sea_orm::{ConnectionTrait, Database, TransactionTrait};

use super::{Nodes, id_of, is_back, listed, ready};
use crate::support::{bridge::BridgeSocketEnd, link::linked, prelude::*, scrape::Scrape};

#[actix_web::test]
async fn calls_that_could_not_be_read_when_they_were_taken_are_read_as_soon_as_they_can_be() {
    let Some(mut nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    // Only the loading of a taken-over call fails; the take-over itself succeeds.
    let rename = |from: &str, to: &str| format!("ALTER TABLE {from} RENAME TO {to}");
    let store = nodes.a.server.installation.store.shared();
    store.execute(&rename("agent_versions", "elsewhere")).await;
    nodes.a.server.kill9();
    nodes.taken_by_b(&call).await;
    let answered = async || {
        let scrape = Scrape::of(&nodes.b.operator).await;
        scrape.value("dikala_calls_active", &[("status", "answered")])
    };
    // It has retried meanwhile.
    Moment::now().plus(2).passed().await;
    assert_eq!(answered().await, 0.0, "it cannot be read");
    store.execute(&rename("elsewhere", "agent_versions")).await;
    within(Duration::from_secs(10), "the call to run", async || {
        (answered().await == 1.0).then_some(())
    })
    .await;
    let bridge = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    bridge.hang_up(&call).await;
}

#[actix_web::test]
async fn a_node_that_is_cut_off_when_it_was_left_alone_sends_its_bridges_away() {
    let Some((a, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let mut nodes = Nodes::beside(a).await;
    let bridge = nodes.a.tenant.bridge(Socket).await;
    bridge.talk(&nodes.a.tenant.did).await;
    assert_eq!(nodes.b.terminate().await, 0);
    eventually("A to be alone", async || {
        (listed(&nodes.a.server).await.len() == 1).then_some(())
    })
    .await;
    // It has polled since, also when it renewed its lease.
    Moment::now().plus(6).passed().await;
    link.go_dark();
    assert_eq!(
        bridge.closed().await,
        BridgeSocketEnd(Some(CloseCode::Away))
    );
}

#[actix_web::test]
async fn calls_of_a_half_open_socket_are_billed_to_its_last_sign_by_whichever_node() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 5);
    let Some(nodes) = Nodes::start(setup).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let bridge = tenant.bridge(Socket).await;
    let (stays, moves) = (
        bridge.talk(&tenant.did).await,
        bridge.talk(&tenant.did).await,
    );
    // A bridge's message at a node moves the call there.
    let at_b = nodes.bridge_at_b(tenant, Http).await;
    at_b.ok(
        "call.transcript",
        json!({"callId": moves, "summary": "so far"}),
    )
    .await;
    nodes.taken_by_b(&moves).await;
    bridge.fall_silent();
    let last_sign = Moment::now();
    let over = Duration::from_secs(120);
    for call in [&stays, &moves] {
        let call = within(over, "the call to end", async || {
            let call = tenant.call(call).await;
            (!call["endedAt"].is_null()).then_some(call)
        })
        .await;
        assert_eq!(call["hangupReason"], "bridge_lost");
        let early = last_sign.ms_since(Moment::parse(&call["endedAt"]));
        assert!(
            (0..=6_000).contains(&early),
            "{early} ms before {last_sign:?}"
        );
    }
    assert!(bridge.is_open());
    nodes.a.assert_ledger_is_exact();
}

/// A node that never met another keeps its sockets during an outage of the database until another node could have
/// given up its bridges. Then it closes them, because others may have come.
#[actix_web::test]
async fn a_node_that_never_met_another_lets_go_before_another_gives_its_bridges_up() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 30);
    let Some((a, link)) = linked(setup).await else {
        return;
    };
    let (tenant, before) = (&a.tenant, id_of(&a.server).await);
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    link.go_dark();
    let dark = Moment::now();
    let beside = a.server.installation.beside();
    let starting = std::thread::spawn(|| Server::start(beside));
    assert_eq!(
        bridge.closed().await,
        BridgeSocketEnd(Some(CloseCode::Away))
    );
    let kept_ms = Moment::now().ms_since(dark);
    let b = starting.join().unwrap();
    let nodes = Nodes { b, a };
    // The lease is twelve seconds, counted from its last renewal.
    assert!((13_500..28_000).contains(&kept_ms), "{kept_ms} ms");
    assert_ne!(ready(&nodes.a.server).await["status"], "ready");
    nodes.taken_by_b(&call).await;
    let bridge = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    bridge.hang_up(&call).await;
    let order = ["call.started", "call.answered", "call.ended"];
    assert_eq!(nodes.a.kinds(&call, "call.ended").await, order);
    link.light_up();
    is_back(&nodes.a.server, &before).await;
    nodes.a.assert_ledger_is_exact();
}

/// A node that starts after an outage does not know how long it lasted: other nodes that could not renew their
/// leases get time to do so.
#[actix_web::test]
async fn a_node_that_starts_after_an_outage_ends_nobody_who_lives() {
    let Some((a, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let before = id_of(&a.server).await;
    link.go_dark();
    let over = format!(
        "SELECT id FROM nodes WHERE id = '{before}' AND lease_until < EXTRACT(EPOCH FROM clock_timestamp()) * 1000"
    );
    within(
        Duration::from_secs(30),
        "the lease to be over",
        async || {
            let rows = a.server.installation.store.rows::<1>(&over).await;
            (!rows.is_empty()).then_some(())
        },
    )
    .await;
    let b = Server::start(a.server.installation.beside());
    link.light_up();
    let nodes = Nodes { b, a };
    eventually("both to be ready", async || {
        let [a, b] = [&*nodes.a.server, &nodes.b].map(Server::rest);
        let asked = (a.get("/health/ready").await, b.get("/health/ready").await);
        (asked.0.status == 200 && asked.1.status == 200).then_some(())
    })
    .await;
    assert_eq!(id_of(&nodes.a.server).await, before);
}

/// An operator who leaves a transaction open delays neither what others write nor the take-over of their calls. A take-over
/// changes no account.
#[rstest]
#[case::account("credit_accounts", false)]
#[case::holds("credit_holds", true)]
#[case::calls("calls", true)]
#[actix_web::test]
async fn locked_rows_of_one_tenant_keep_no_other_tenants_calls_waiting(
    #[case] table: &str,
    #[case] keeps_its_calls: bool,
) {
    let Some(mut nodes) = Nodes::start(WorldSetup::new()).await else {
        return;
    };
    let other = nodes.a.another_tenant(100).await;
    let bridge = nodes.a.tenant.bridge(Socket).await;
    let others_bridge = other.bridge(Socket).await;
    let [ended, taken] = [
        bridge.talk(&nodes.a.tenant.did).await,
        bridge.talk(&nodes.a.tenant.did).await,
    ];
    let others = others_bridge.talk(&other.did).await;
    let url = &nodes.a.server.installation.store.url;
    let connection = Database::connect(url).await.unwrap();
    let locked = async || {
        let holder = connection.begin().await.unwrap();
        let tenant = &nodes.a.tenant.id;
        let sql = format!("SELECT 1 FROM {table} WHERE tenant_id = '{tenant}' FOR UPDATE");
        holder.execute_unprepared(&sql).await.unwrap();
        holder
    };
    let holder = locked().await;
    let (_, ()) = tokio::join!(bridge.hang_up(&ended), async {
        let call = others_bridge.talk(&other.did).await;
        others_bridge.hang_up(&call).await;
        holder.rollback().await.unwrap();
    });
    let holder = locked().await;
    let died = nodes.owner(&taken).await;
    nodes.a.server.kill9();
    nodes.taken_by_b(&others).await;
    let others_bridge = nodes.bridge_at_b(&other, Socket).await;
    others_bridge.hang_up(&others).await;
    if keeps_its_calls {
        assert_eq!(nodes.owner(&taken).await, died);
    } else {
        nodes.taken_by_b(&taken).await;
    }
    holder.rollback().await.unwrap();
    nodes.taken_by_b(&taken).await;
    let bridge = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    bridge.hang_up(&taken).await;
    connection.close().await.unwrap();
    nodes.a.assert_ledger_is_exact();
}
