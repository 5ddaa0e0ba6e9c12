//! A dead node may leave any number of deliveries. Neither take-over nor start writes them, so their number delays
//! neither. A start that is slow for other reasons keeps its lease.

use std::{thread, time::Instant};

use sea_orm::{ConnectionTrait, Database, TransactionTrait};

use super::{Nodes, id_of, ready};
use crate::support::{prelude::*, scrape::Scrape, world::HOOK};

/// Maximum time of a start, whatever was left behind.
const STARTS_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time of a take-over after a kill.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);

/// Inserts deliveries of an hour ago, for the first delivery's endpoint.
async fn left_behind(world: &TestWorld, deliveries: u32) {
    let fill = format!(
        "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, next_attempt_at, \
         is_test, created_at) SELECT 'dlv_' || lpad(n::text, 26, '0'), d.tenant_id, d.webhook_id, d.event_id, \
         d.call_id, d.kind, 'pending', 0, d.created_at - 3600000 + n, false, d.created_at - 3600000 + n \
         FROM (SELECT * FROM deliveries ORDER BY id LIMIT 1) d, generate_series(1, {deliveries}) n"
    );
    world.server.installation.store.execute(&fill).await;
}

async fn has_a_row(world: &TestWorld) {
    eventually("a row of a delivery", async || {
        let rows = "SELECT id FROM deliveries";
        let rows = world.server.installation.store.rows::<1>(rows).await;
        (!rows.is_empty()).then_some(())
    })
    .await;
}

/// Checks that the metrics report the backlog's age, or the endpoint's failure, and that calls are accepted.
async fn tells_the_truth(server: &Server) {
    assert_eq!(ready(server).await["status"], "ready");
    eventually("the backlog to be told", async || {
        let scrape = Scrape::of(&server.operator).await;
        let due = scrape.value("dikala_webhook_oldest_due_seconds", &[]);
        let down = scrape.value("dikala_webhook_lanes", &[("state", "open")]);
        (due > 1_800.0 || down == 1.0).then_some(())
    })
    .await;
}

fn starts(server: &mut Server) {
    let began = Instant::now();
    server.restart();
    let took = began.elapsed();
    assert!(took < STARTS_WITHIN, "a start took {took:?}");
}

async fn owner(world: &TestWorld, call: &str) -> String {
    let sql = format!("SELECT owner FROM calls WHERE id = '{call}'");
    let rows = world.server.installation.store.rows::<1>(&sql).await;
    rows[0][0].clone()
}

/// A row lock on one delivery would block a write, and the start would fail.
#[actix_web::test]
async fn a_start_writes_nothing_of_what_was_left_behind() {
    let Some(mut world) = TestWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    world.receiver.answer(HOOK, [ServerAnswer::Status(503)]);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    has_a_row(&world).await;
    world.server.kill9();
    left_behind(&world, 1_000).await;
    let url = &world.server.installation.store.url;
    let connection = Database::connect(url).await.unwrap();
    let busy = connection.begin().await.unwrap();
    let lock = "SELECT id FROM deliveries WHERE id LIKE 'dlv_%1' FOR UPDATE";
    busy.execute_unprepared(lock).await.unwrap();
    world.server.restart();
    assert_eq!(owner(&world, &call).await, id_of(&world.server).await);
    tells_the_truth(&world.server).await;
    busy.rollback().await.unwrap();
    connection.close().await.unwrap();
}

#[actix_web::test]
#[ignore = "fills a table for a minute; .ci/slow runs it"]
async fn a_million_deliveries_left_behind_slow_no_start_and_no_take_over() {
    let setup = WorldSetup::new()
        .set("webhooks.retry_schedule_seconds", "3600")
        .set("bridge.lost_after_seconds", 600);
    let Some(mut nodes) = Nodes::start(setup).await else {
        return;
    };
    nodes.a.receiver.answer(HOOK, [ServerAnswer::Status(503)]);
    let bridge = nodes.a.tenant.bridge(Socket).await;
    let call = bridge.talk(&nodes.a.tenant.did).await;
    nodes.a.receiver.wait_for(HOOK, 2).await;
    has_a_row(&nodes.a).await;
    left_behind(&nodes.a, 1_000_000).await;
    nodes.a.server.kill9();
    let killed = Instant::now();
    nodes.taken_by_b(&call).await;
    let took = killed.elapsed();
    assert!(took < TAKEN_WITHIN, "a take-over took {took:?}");
    tells_the_truth(&nodes.b).await;
    starts(&mut nodes.a.server);
    tells_the_truth(&nodes.b).await;
    // No node is left.
    nodes.b.kill9();
    nodes.a.server.kill9();
    starts(&mut nodes.a.server);
    assert_eq!(owner(&nodes.a, &call).await, id_of(&nodes.a.server).await);
    tells_the_truth(&nodes.a.server).await;
    // The endpoint is back and receives the backlog.
    nodes.a.receiver.answer(HOOK, [ServerAnswer::Status(200)]);
    let before = nodes.a.receiver.received(HOOK).len();
    nodes.a.receiver.wait_for(HOOK, before + 200).await;
    nodes.a.assert_ledger_is_exact();
}

/// Otherwise other nodes would take over while it starts, and it would lose what it has taken over.
#[actix_web::test]
async fn a_start_that_takes_long_renews_its_lease_meanwhile() {
    let Some(mut world) = TestWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    world.server.kill9();
    let store = world.server.installation.store.shared();
    // A lease is renewed every five seconds. The take-over consists of two statements, each with a timeout of six.
    store
        .execute(
            "CREATE FUNCTION dawdle() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(4); RETURN NULL; END $$ LANGUAGE plpgsql; \
             CREATE TRIGGER dawdle AFTER UPDATE ON calls FOR EACH STATEMENT EXECUTE FUNCTION dawdle(); \
             CREATE TRIGGER dawdle AFTER UPDATE ON credit_holds FOR EACH STATEMENT EXECUTE FUNCTION dawdle()",
        )
        .await;
    let beside = world.server.installation.beside();
    let starting = thread::spawn(|| Server::start(beside));
    let renewed = "SELECT id FROM nodes WHERE lease_until > started_at + 15000 AND EXISTS \
                   (SELECT 1 FROM calls WHERE owner NOT IN (SELECT id FROM nodes))";
    eventually(
        "a lease that is renewed while calls are taken up",
        async || {
            let is_over = starting.is_finished();
            let renewed = !store.rows::<1>(renewed).await.is_empty();
            assert!(
                renewed || !is_over,
                "it was not renewed before it was ready"
            );
            renewed.then_some(())
        },
    )
    .await;
    let b = starting.join().unwrap();
    assert_eq!(owner(&world, &call).await, id_of(&b).await);
}
