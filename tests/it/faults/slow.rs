//! Slowness: of commits, of answers to bridges, and of deliveries.

use super::{Alert, FaultSigns, IS_COUNTED, WatchedWorld};
use crate::support::prelude::*;

/// Blocks writes of calls for two seconds. That is less than the lock timeout, so nothing fails.
const HOLDS_UP: &str = "BEGIN; LOCK TABLE calls IN EXCLUSIVE MODE; SELECT pg_sleep(2); COMMIT";

#[actix_web::test]
async fn a_database_that_is_slow_shows() {
    let Some(watched) = WatchedWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    let tenant = &watched.world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let store = &watched.world.server.installation.store;
    let locks = async {
        loop {
            store.execute(HOLDS_UP).await;
        }
    };
    let calls = async {
        loop {
            // Whichever message arrives while the lock is held waits; all are of the measured type.
            bridge.ring(&tenant.did).await;
        }
    };
    let commits = watched.shows(FaultSigns {
        problem: ("commits_slow", None, "Commits of the ledger take"),
        metric: (
            "dikala_batch_commit_seconds_sum",
            &[("writer", "credit_ledger")],
            |seconds| seconds > 1.0,
        ),
        alert: (Alert::CommitsSlow, "writer", "credit_ledger"),
        unready: None,
    });
    let answers = watched.shows(FaultSigns {
        problem: ("acknowledgements_slow", None, "Bridges wait"),
        metric: (
            "dikala_bridge_ack_seconds_sum",
            &[("type", "call.incoming")],
            |seconds| seconds > 1.0,
        ),
        alert: (Alert::AcknowledgementsSlow, "type", "call.incoming"),
        unready: None,
    });
    tokio::select! {
        () = locks => {}
        () = calls => {}
        _ = async { tokio::join!(commits, answers) } => {}
    }
}

/// A secret that cannot be opened is a fault of the service: nothing is sent, and the endpoint is not blamed.
#[actix_web::test]
async fn a_delivery_that_is_late_shows() {
    let Some(watched) = WatchedWorld::start(Sqlite, WorldSetup::new()).await else {
        return;
    };
    let world = &watched.world;
    let store = &world.server.installation.store;
    store.execute("UPDATE webhooks SET secret = 'AAAA'").await;
    let bridge = world.tenant.bridge(Socket).await;
    bridge.ring(&world.tenant.did).await;
    eventually("a row of the delivery", async || {
        let rows = store.rows::<1>("SELECT id FROM deliveries").await;
        (!rows.is_empty()).then_some(())
    })
    .await;
    let due = "UPDATE deliveries SET next_attempt_at = next_attempt_at - 300000";
    store.execute(due).await;
    watched
        .shows(FaultSigns {
            problem: ("deliveries_late", None, "its endpoint is not failing"),
            metric: ("dikala_webhook_lanes", &[("state", "sealed")], IS_COUNTED),
            alert: (Alert::DeliveriesLate, "instance", &watched.instance()),
            unready: None,
        })
        .await;
}
