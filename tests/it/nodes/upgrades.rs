//! Two releases over one database: the program of this build, and the same one configured with the steps of a next release.

use std::time::{Duration, Instant};

use actix_web::rt::task::spawn_blocking;
use futures_util::future::join_all;

use super::Nodes;
use crate::support::prelude::*;

/// The next release of an installation, beside it, with additional `additive` or `breaking` steps.
fn next_release(of: &Installation, steps: &str) -> Installation {
    let mut next = of.beside();
    next.settings
        .push(("FAIL_POINT_STEPS".to_owned(), steps.to_owned()));
    next
}

/// This many calls at once, from ring to hang-up. A bridge panics if one of its messages is refused.
async fn calls(bridge: &TestBridge, did: &str) {
    let whole = async || {
        let call = bridge.talk(did).await;
        bridge.hang_up(&call).await;
    };
    join_all((0..8).map(|_| whole())).await;
}

#[actix_web::test]
async fn additive_steps_are_made_under_load_beside_an_older_node_and_it_may_come_back() {
    let Some(a) = TestWorld::start(Postgres, WorldSetup::new().minutes(100_000)).await else {
        return;
    };
    let next = next_release(&a.server.installation, "additive");
    let before = a.server.cli(&["credits", "show", "--tenant", &a.tenant.id]);
    let bridge = a.tenant.bridge(Socket).await;
    calls(&bridge, &a.tenant.did).await;
    let migrating = spawn_blocking(move || {
        // On a busy machine a transaction may take 2 s, to which a step gives way. It asks to be tried again then.
        let mut runs = (0..20).map(|_| next.run(&["migrate"]));
        let migrated = runs.find(|run| !run.stderr.contains("the step changed nothing"));
        let migrated = migrated.expect("no transaction takes that long");
        (next, migrated)
    });
    let mut rounds = 1;
    while !migrating.is_finished() {
        calls(&bridge, &a.tenant.did).await;
        rounds += 1;
    }
    let (next, migrated) = migrating.await.unwrap();
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let index = "SELECT CAST(i.indisvalid AS TEXT) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                 WHERE c.relname = 'calls_of_the_next_release'";
    let store = a.server.installation.store.shared();
    assert_eq!(store.rows::<1>(index).await, [["true".to_owned()]]);
    calls(&bridge, &a.tenant.did).await;

    // Both serve, and so does the older one after a restart: a downgrade needs no undo.
    let mut nodes = Nodes {
        b: Server::start(next),
        a,
    };
    nodes.know_each_other().await;
    let at_b = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    calls(&at_b, &nodes.a.tenant.did).await;
    assert_eq!(nodes.a.server.terminate().await, 0);
    nodes.a.server.restart();
    assert_eq!(nodes.b.terminate().await, 0);
    let again = nodes.a.tenant.bridge(Socket).await;
    calls(&again, &nodes.a.tenant.did).await;
    let used = 8 * (rounds + 3);
    let after = nodes
        .a
        .server
        .cli(&["credits", "show", "--tenant", &nodes.a.tenant.id]);
    let minutes = |credits: &Value| credits["lifetimeUsedMinutes"].as_i64().unwrap();
    assert_eq!(minutes(&after) - minutes(&before), used, "{after}");
    nodes.a.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn a_breaking_step_waits_for_older_nodes_to_stop_and_names_them(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut a = world!(store, WorldSetup::new().set("node.name", "the-older"));
    let next = next_release(&a.server.installation, "breaking");
    let refused = next.run(&["migrate"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let version = env!("CARGO_PKG_VERSION");
    for named in ["the-older", version, &a.server.http, "breaking"] {
        assert!(refused.stderr.contains(named), "{named}: {refused:?}");
    }
    // Nothing changed for the serving nodes.
    let bridge = a.tenant.bridge(Socket).await;
    calls(&bridge, &a.tenant.did).await;
    assert_eq!(a.server.terminate().await, 0);
    let migrated = next.run(&["migrate"]);
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let too_old = a.server.installation.run(&["serve"]);
    assert_eq!(too_old.code, Some(1), "{too_old:?}");
    assert!(too_old.stderr.contains("newer version"), "{too_old:?}");
}

#[actix_web::test]
async fn a_node_that_is_too_old_for_the_schema_gives_its_calls_to_a_newer_one() {
    let setup = WorldSetup::new().set("bridge.lost_after_seconds", 60);
    let Some(a) = TestWorld::start(Postgres, setup).await else {
        return;
    };
    let next = next_release(&a.server.installation, "additive");
    let mut nodes = Nodes {
        b: Server::start(next),
        a,
    };
    nodes.know_each_other().await;
    let bridge = nodes.a.tenant.bridge(Socket).await;
    let call = bridge.talk(&nodes.a.tenant.did).await;
    // The schema after a breaking step of that release, which happened during a node's pause.
    let store = nodes.a.server.installation.store.shared();
    let newer = "UPDATE schema_compatibility SET serves_from = (SELECT MAX(CAST(split_part(version, '_', 2) AS BIGINT)) \
                 FROM seaql_migrations)";
    store.execute(newer).await;
    let exited = nodes.a.server.exited().await;
    assert_eq!(exited.code(), Some(1));
    let log = nodes.a.server.log();
    assert!(log.contains("hands over its calls"), "{log}");
    nodes.taken_by_b(&call).await;
    let at_b = nodes.bridge_at_b(&nodes.a.tenant, Socket).await;
    at_b.hang_up(&call).await;
    nodes.a.event("call.ended", &call).await;
    assert_eq!(nodes.b.terminate().await, 0);
}

/// A schema step that needs a table which a dump reads fails with an error: waiting would block every later use of
/// the table.
#[actix_web::test]
async fn a_step_of_the_schema_does_not_wait_for_a_dump() {
    let Some(installation) = Installation::migrated(Postgres) else {
        return;
    };
    let next = next_release(&installation, "additive");
    let store = &installation.store;
    let dumping = store.shared();
    let dump = actix_web::rt::spawn(async move {
        dumping
            .execute("LOCK TABLE calls IN ACCESS SHARE MODE; SELECT pg_sleep(60)")
            .await;
    });
    eventually("the dump to begin", async || {
        // The view shows all databases, and in each of them the table has the same number.
        let has = "SELECT mode FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE relation = 'calls'::regclass \
                   AND mode = 'AccessShareLock' AND datname = current_database()";
        (!store.rows::<1>(has).await.is_empty()).then_some(())
    })
    .await;
    let began = Instant::now();
    let refused = next.run(&["migrate"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("pg_dump"), "{refused:?}");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    let end = "SELECT CAST(pg_terminate_backend(pid) AS TEXT) FROM pg_stat_activity \
               WHERE datname = current_database() AND wait_event = 'PgSleep'";
    assert_eq!(store.rows::<1>(end).await, [["true".to_owned()]]);
    dump.await.expect_err("the dump was ended");
    let done = next.run(&["migrate"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}
