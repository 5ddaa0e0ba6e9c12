//! Nodes that die, pause and resume under load, at any moment.

use std::time::Instant;

use dikala_testkit::within;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::sleep;

use super::{
    check::check,
    fleet::{Fleet, FleetSettings},
    load::FaultLoad,
    sizes::FaultForm,
};
use crate::support::prelude::*;

/// Maximum time until a dead node's ownership is taken over.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

/// SQL for the running calls that a node owns.
fn owned_by(node: &str) -> String {
    format!("calls WHERE owner = '{node}' AND outcome IS NULL")
}

/// The time until a dead node owns nothing.
async fn taken_over(fleet: &Fleet, node: &str) -> Duration {
    let began = Instant::now();
    within(TAKEN_WITHIN, "calls to be owned again", async || {
        (fleet.count(&owned_by(node)).await == 0).then_some(())
    })
    .await;
    began.elapsed()
}

#[rstest]
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn kills_under_load_lose_nothing(#[values(Sqlite, Postgres)] store: StoreKind) {
    let form = FaultForm::asked();
    let nodes = if store == Postgres { 2 } else { 1 };
    let Some(mut fleet) = Fleet::start(store, FleetSettings::nodes(nodes)).await else {
        return;
    };
    let seed = form.size("SEED", 13, u64::from(rand::random::<u32>()));
    println!("kill -9 at random on {store:?}, DIKALA_FAULTS_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let load = FaultLoad::begin(&fleet, form.rate());
    let mut longest = Duration::ZERO;
    let mut met = 0;
    for _ in 0..form.size("KILLS", 3, 50) {
        sleep(Duration::from_millis(random.random_range(300..4_000))).await;
        let at = random.random_range(0..nodes);
        let node = fleet.id_of(at).await;
        fleet.kill(at);
        met += fleet.count(&owned_by(&node)).await;
        // Half of the nodes restart at once; the others only after the take-over.
        let comes_back = nodes == 1 || random.random_bool(0.5);
        if comes_back {
            fleet.restart(at).await;
        }
        longest = longest.max(taken_over(&fleet, &node).await);
        if !comes_back {
            fleet.restart(at).await;
        }
        load.goes_on_for(20).await;
    }
    let journal = load.end().await;
    println!("  {met} calls were open at the kills, owned again within {longest:.1?}");
    check(&fleet, &journal).await;
}

/// A node pauses for longer than its lease with calls and deliveries in flight, and resumes.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn a_node_that_stands_still_and_goes_on_harms_nothing() {
    let form = FaultForm::asked();
    let Some(fleet) = Fleet::start(Postgres, FleetSettings::nodes(2)).await else {
        return;
    };
    let load = FaultLoad::begin(&fleet, form.rate());
    load.goes_on_for(100).await;
    let before = fleet.id_of(0).await;
    let away = form.away(18);
    fleet.node(0).freeze();
    let open = fleet.count(&owned_by(&before)).await;
    let taken = taken_over(&fleet, &before).await;
    sleep(away.saturating_sub(taken)).await;
    fleet.node(0).thaw();
    fleet.is_ready(0).await;
    assert_ne!(fleet.id_of(0).await, before, "it comes back as a new node");
    assert_eq!(
        fleet.count(&owned_by(&before)).await,
        0,
        "it wrote as who it was"
    );
    load.goes_on_for(100).await;
    let journal = load.end().await;
    println!("frozen for {away:?}: {open} calls, owned again after {taken:.1?}");
    check(&fleet, &journal).await;
}
