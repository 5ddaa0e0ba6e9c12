//! Losses: of a bridge, of the process, and of the database for longer than a lease.

use super::{Alert, FaultSigns, IS_DOWN, WatchedWorld};
use crate::support::{
    prelude::*,
    prometheus::{Prometheus, is_at_hand},
    scrape::Scrape,
};

#[actix_web::test]
async fn bridges_that_are_gone_and_a_process_that_died_show() {
    let Some(mut watched) = WatchedWorld::start(Sqlite, WorldSetup::new()).await else {
        return;
    };
    let Some(prometheus) = &watched.prometheus else {
        return;
    };
    let instance = watched.instance();
    let bridge = watched.world.tenant.bridge(Socket).await;
    eventually("Prometheus to see the socket", async || {
        let found = prometheus.query("dikala_bridge_sessions > 0").await?;
        (!found.is_empty()).then_some(())
    })
    .await;
    assert!(
        !prometheus
            .fires(Alert::BridgesGone, "instance", &instance)
            .await
    );
    bridge.cut();
    watched
        .fires(Alert::BridgesGone, "instance", &instance)
        .await;
    watched.world.server.kill9();
    watched.fires(Alert::Down, "instance", &instance).await;
}

/// The lease's rule looks back a minute: Prometheus must have been scraping before the lease is lost.
#[actix_web::test]
async fn a_lease_that_is_lost_and_requests_that_fail_show() {
    let Some(mut watched) = WatchedWorld::start(Postgres, WorldSetup::new()).await else {
        return;
    };
    watched.prometheus = None;
    let server = &watched.world.server;
    let database = server.installation.store.database().unwrap();
    database.go_away();
    eventually("the lease to be lost", async || {
        let scrape = Scrape::of(&server.operator).await;
        (scrape.value("dikala_node_lease_seconds", &[]) <= 3.0).then_some(())
    })
    .await;
    if is_at_hand() {
        watched.prometheus = Some(Prometheus::firing_at_once(&watched.world.server).await);
    }
    let instance = watched.instance();
    let lease = watched.shows(FaultSigns {
        problem: ("not_ready", Some("lease"), "lease"),
        metric: ("dikala_check_up", &[("check", "lease")], IS_DOWN),
        alert: (Alert::LeaseLost, "instance", &instance),
        unready: Some("lease"),
    });
    let requests = watched.shows(FaultSigns {
        problem: ("requests_fail", None, "of all requests fail"),
        metric: (
            "dikala_http_requests_total",
            &[("route", "/api/v1/agents"), ("status", "503")],
            |failed| failed > 10.0,
        ),
        alert: (Alert::RequestsFail, "instance", &instance),
        unready: Some("store"),
    });
    let asking = async {
        loop {
            watched.world.tenant.api.get("/agents").await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = asking => {}
        _ = async { tokio::join!(lease, requests) } => {}
    }
    let store = &watched.world.server.installation.store;
    store.database().unwrap().come_back();
}
