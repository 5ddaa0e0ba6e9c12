//! Nodes use the database's clock, whatever their machines' clocks show.

use std::{fs, time::Duration};

use super::{Nodes, listed};
use crate::support::{clock, prelude::*, tenant::text};

const HOUR_MS: i64 = 3_600_000;

/// Two nodes; the clock of B's machine is off, and can be set.
async fn with_b_off(ms: i64) -> Option<(Nodes, std::path::PathBuf)> {
    let a = TestWorld::start(Postgres, WorldSetup::new()).await?;
    let mut beside = a.server.installation.beside();
    let clock = beside.folder.path().join("clock");
    fs::write(&clock, ms.to_string()).unwrap();
    let variable = ("FAIL_POINT_CLOCK".to_owned(), clock.display().to_string());
    beside.settings.push(variable);
    let b = Server::start(beside);
    let nodes = Nodes { b, a };
    nodes.know_each_other().await;
    Some((nodes, clock))
}

#[rstest]
#[actix_web::test]
async fn a_call_that_moves_between_clocks_is_billed_for_its_time(
    #[values(HOUR_MS, -HOUR_MS)] off: i64,
) {
    let Some((nodes, clock)) = with_b_off(off).await else {
        return;
    };
    let tenant = &nodes.a.tenant;
    let a = tenant.bridge(Http).await;
    let b = nodes.bridge_at_b(tenant, Http).await;
    let began = Moment::now();
    let (there, back) = (a.talk(&tenant.did).await, b.talk(&tenant.did).await);
    // Calls whose bridge sends times by a correct clock.
    let answered = Moment::ago(70);
    let (dated, dated_back) = (
        a.talk_since(&tenant.did, answered).await,
        b.talk_since(&tenant.did, answered).await,
    );
    // B's clock is corrected in between, then wrong again.
    fs::write(&clock, "0").unwrap();
    began.plus(2).passed().await;
    fs::write(&clock, off.to_string()).unwrap();
    b.hang_up(&there).await;
    a.hang_up(&back).await;
    for call in [&there, &back] {
        let call = tenant.call(call).await;
        let talked = call["durationSeconds"].as_i64().unwrap();
        let most = Moment::now().ms_since(began) / 1_000 + 2;
        assert!((0..=most).contains(&talked), "{call}");
        let ended = Moment::parse(&call["endedAt"]).ms_since(Moment::now());
        assert!(ended.abs() < 10_000, "ended {ended} ms from now");
    }
    b.hang_up_at(&dated, answered.plus(70)).await;
    a.hang_up_at(&dated_back, answered.plus(70)).await;
    for (call, minutes) in [(&there, 1), (&back, 1), (&dated, 2), (&dated_back, 2)] {
        assert_eq!(tenant.billed(call).await, Some(minutes), "{call}");
        // The delivery is due now, whichever node makes it.
        let ended = nodes.a.event("call.ended", call);
        let arrived = tokio::time::timeout(Duration::from_secs(10), ended).await;
        assert!(arrived.is_ok(), "not delivered in time");
    }
    // Neither node ended the other.
    assert_eq!(listed(&nodes.b).await.len(), 2);
    nodes.a.assert_ledger_is_exact();
}

/// The database's clock is set while A runs, then B starts: both use the time that A began with.
#[rstest]
#[actix_web::test]
async fn a_node_that_starts_goes_by_the_clock_of_those_that_live(
    #[values(HOUR_MS, -HOUR_MS)] off: i64,
) {
    let Some(installation) = Installation::migrated(Postgres) else {
        return;
    };
    clock::can_be_set(&installation.store).await;
    let a = TestWorld::on(installation, WorldSetup::new()).await;
    let bridge = a.tenant.bridge(Http).await;
    let began = Moment::now();
    let there = bridge.talk(&a.tenant.did).await;
    let store = &a.server.installation.store;
    clock::set(store, off).await;
    let noticed = format!("SELECT id FROM nodes WHERE ABS(ahead_ms + {off}) < 60000");
    eventually("A to tell how far it is off", async || {
        (store.rows::<1>(&noticed).await.len() == 1).then_some(())
    })
    .await;
    let b = Server::start(a.server.installation.beside());
    let nodes = Nodes { b, a };
    let tenant = &nodes.a.tenant;
    let b = nodes.bridge_at_b(tenant, Http).await;
    let back = b.talk(&tenant.did).await;
    b.hang_up(&there).await;
    bridge.hang_up(&back).await;
    for call in [&there, &back] {
        let shown = tenant.call(call).await;
        let talked = shown["durationSeconds"].as_i64().unwrap();
        let most = Moment::now().ms_since(began) / 1_000 + 2;
        assert!((0..=most).contains(&talked), "{shown}");
        let ended = Moment::parse(&shown["endedAt"]).ms_since(Moment::now());
        assert!(ended.abs() < 10_000, "ended {ended} ms from now");
        assert_eq!(tenant.billed(call).await, Some(1), "{shown}");
    }
    assert_eq!(nodes.rows::<1>(&noticed).await.len(), 2, "B is off, too");
    // A command beside them uses the same time.
    let booking = ["credits", "add", "--tenant", &tenant.id, "--minutes", "5"];
    let booked = nodes.b.cli(&booking);
    let at = Moment::parse(&booked["createdAt"]).ms_since(Moment::now());
    assert!(at.abs() < 10_000, "booked {at} ms from now");
    let told = eventually("the overview to tell", async || {
        let page = Rest::new(&nodes.a.server.operator)
            .get("/operator/v1/overview")
            .await;
        let problems = page.expect(200)["problems"].as_array().unwrap().clone();
        problems
            .into_iter()
            .find(|problem| problem["code"] == "database_clock_off")
    })
    .await;
    let way = if off > 0 { "ahead of" } else { "behind" };
    assert!(text(&told, "summary").contains(way), "{told}");
    nodes.a.assert_ledger_is_exact();
}

/// A wrong clock of a machine is reported, and its deliveries carry the right time for receivers to compare.
#[actix_web::test]
async fn a_clock_that_is_off_is_told_of() {
    let Some((nodes, _)) = with_b_off(HOUR_MS).await else {
        return;
    };
    let overview = |server: &Server| Rest::new(&server.operator);
    let told = eventually("the overview to tell", async || {
        let page = overview(&nodes.b).get("/operator/v1/overview").await;
        let problems = page.expect(200)["problems"].as_array().unwrap().clone();
        problems
            .into_iter()
            .find(|problem| problem["code"] == "clock_off")
    })
    .await;
    assert!(text(&told, "summary").contains("min ahead"), "{told}");
    let page = overview(&nodes.a.server).get("/operator/v1/overview").await;
    assert!(!page.text.contains("clock_off"), "{}", page.text);
}

/// A step of the clock costs no node its lease.
#[actix_web::test]
async fn a_node_whose_clock_is_set_stays_who_it_is() {
    let Some((nodes, clock)) = with_b_off(0).await else {
        return;
    };
    let before = super::id_of(&nodes.b).await;
    for off in [HOUR_MS, -HOUR_MS] {
        fs::write(&clock, off.to_string()).unwrap();
        // Longer than a lease.
        Moment::now().plus(9).passed().await;
        assert_eq!(super::ready(&nodes.b).await["checks"]["lease"], true);
    }
    assert_eq!(super::id_of(&nodes.b).await, before);
    let tenant = &nodes.a.tenant;
    let bridge = nodes.bridge_at_b(tenant, Socket).await;
    let call = bridge.talk(&tenant.did).await;
    bridge.hang_up(&call).await;
    assert_eq!(tenant.billed(&call).await, Some(1));
}

/// A command beside a server writes the database's time, whatever its machine's clock shows.
#[rstest]
#[actix_web::test]
async fn a_command_goes_by_the_same_clock(#[values(HOUR_MS, -HOUR_MS)] off: i64) {
    let Some((nodes, _)) = with_b_off(off).await else {
        return;
    };
    let id = nodes.a.tenant.id.as_str();
    let booking = ["credits", "add", "--tenant", id, "--minutes", "5"];
    let booked = nodes.b.cli(&booking);
    let at = Moment::parse(&booked["createdAt"]).ms_since(Moment::now());
    assert!(at.abs() < 10_000, "booked {at} ms from now");
}
