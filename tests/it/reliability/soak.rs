//! A soak: calls for any length of time, over two nodes and a slow disk. PostgreSQL crashes every half minute, and one node is
//! killed every minute.

use dikala_testkit::Stop;
use rand::RngExt;
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    check::check,
    load::{ANSWERED_WITHIN, FaultLoad, LoadRate},
    power_cuts::on_a_slow_disk,
    sizes::FaultForm::Long,
};
use crate::support::prelude::*;

const CRASH_EVERY: Duration = Duration::from_secs(30);

#[actix_web::test]
#[ignore = "half an hour"]
async fn crashes_of_postgres_and_of_nodes_for_half_an_hour_lose_nothing() {
    let Some((mut fleet, postgres)) = on_a_slow_disk(2).await else {
        return;
    };
    let minutes = Long.size("SOAK_MINUTES", 25, 25);
    let load = FaultLoad::begin(
        &fleet,
        LoadRate {
            calls_per_second: Long.size("SOAK_CALLS_PER_SECOND", 40, 40),
            writes_per_second: 4,
            lives: Duration::from_secs(4),
            answered_within: ANSWERED_WITHIN,
        },
    );
    for crash in 1..=2 * minutes {
        sleep(CRASH_EVERY).await;
        let crashing = postgres.clone();
        let crashed = spawn_blocking(move || {
            crashing.stop(Stop::Immediate);
            crashing.start_again();
        });
        crashed.await.unwrap();
        if crash % 2 == 0 {
            let at = rand::rng().random_range(0..2);
            fleet.kill(at);
            fleet.restart(at).await;
        }
        load.goes_on_for(100).await;
    }
    let journal = load.end().await;
    println!(
        "{minutes} minutes, {} crashes of PostgreSQL, {minutes} kills:",
        2 * minutes
    );
    check(&fleet, &journal).await;
}
