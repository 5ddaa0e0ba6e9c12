//! Orderly stops of nodes with running calls, requests and deliveries.

use std::{rc::Rc, time::Instant};

use futures_util::{StreamExt, future::join_all, stream};
use tokio::time::sleep;

use super::{
    check::check,
    fleet::{Fleet, FleetSettings, hook},
    journal::Journal,
    load::{FaultLoad, LoadBridge, OpenCall},
    sizes::FaultForm::{self, Short},
};
use crate::support::prelude::*;

/// Sockets of each tenant's bridge.
const SOCKETS: usize = 2;

/// Running calls of all tenants, over several sockets.
struct RunningCalls {
    calls: Vec<(Rc<LoadBridge>, OpenCall)>,
}

impl RunningCalls {
    async fn begin(fleet: &Fleet, journal: &Rc<Journal>, calls: u64) -> Self {
        let tenants = fleet.tenants.len();
        let lines = (0..tenants * SOCKETS).map(|n| LoadBridge::new(fleet, n % tenants, n, journal));
        let lines: Vec<_> = lines.collect();
        let opened = (0..usize::try_from(calls).unwrap()).map(|number| {
            let line = lines[number % lines.len()].clone();
            async move {
                let call = line.open(i64::try_from(number % 200).unwrap() + 1).await;
                (line, call)
            }
        });
        let calls = stream::iter(opened).buffer_unordered(50).collect().await;
        Self { calls }
    }

    async fn end(self) {
        join_all(self.calls.iter().map(|(line, call)| line.close(call))).await;
    }
}

/// A rolling restart of all nodes behind haproxy.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn a_rolling_restart_loses_no_call_and_breaks_no_request() {
    let form = FaultForm::asked();
    let nodes = 3;
    let Some(fleet) = Fleet::start(Postgres, FleetSettings::nodes(nodes)).await else {
        return;
    };
    let Some(mut fleet) = fleet.balanced() else {
        return;
    };
    let journal = Journal::new();
    let live = RunningCalls::begin(&fleet, &journal, form.size("CALLS", 40, 500)).await;
    let mut rate = form.rate();
    rate.calls_per_second /= 4;
    if form == Short {
        // Three nodes and their load start on a machine that other tests use as well.
        rate.answered_within = Duration::from_secs(20);
    }
    let load = FaultLoad::beside(&fleet, rate, &journal);
    load.goes_on_for(40).await;
    let began = Instant::now();
    for at in 0..nodes {
        assert_eq!(fleet.terminate(at).await, 0);
        fleet.restart(at).await;
        fleet.is_ready(at).await;
        // The balancer must notice the node, too, before the next one stops.
        sleep(Duration::from_secs(2)).await;
        load.goes_on_for(40).await;
    }
    let took = began.elapsed();
    load.end().await;
    let count = live.calls.len();
    live.end().await;
    println!("three nodes restarted in turn in {took:.0?} with {count} live calls:");
    check(&fleet, &journal).await;
    assert_eq!(*journal.broken_requests.borrow(), [""; 0]);
    let unanswered = [&journal.slow_requests, &journal.nobody_there].map(|count| count.get());
    assert_eq!(
        unanswered,
        [0, 0],
        "requests that took too long, and that nobody took"
    );
}

/// SIGTERM with running calls, incoming requests, and deliveries in flight.
#[rstest]
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn a_stop_loses_nothing_that_it_took(#[values(Sqlite, Postgres)] store: StoreKind) {
    let form = FaultForm::asked();
    let Some(mut fleet) = Fleet::start(store, FleetSettings::nodes(1)).await else {
        return;
    };
    for tenant in 0..fleet.tenants.len() {
        let slow = ServerAnswer::Slow(Duration::from_millis(500));
        fleet.receiver.answer(&hook(tenant), [slow]);
    }
    let journal = Journal::new();
    let live = RunningCalls::begin(&fleet, &journal, form.size("CALLS", 50, 200)).await;
    let mut rate = form.rate();
    rate.writes_per_second *= 5;
    let load = FaultLoad::beside(&fleet, rate, &journal);
    let rounds = 3;
    for _ in 0..rounds {
        load.goes_on_for(100).await;
        assert_eq!(fleet.terminate(0).await, 0);
        fleet.restart(0).await;
    }
    load.end().await;
    let count = live.calls.len();
    live.end().await;
    println!(
        "SIGTERM on {store:?}, {rounds} times, with {count} live calls and deliveries under way:"
    );
    check(&fleet, &journal).await;
    assert_eq!(*journal.broken_requests.borrow(), [""; 0]);
}
