//! Compares two nodes with one, on the same machine and the same PostgreSQL, which waits for its disk: the benefit
//! of a second process with the same processors.

use std::{fs, time::Instant};

use dikala_testkit::OwnPostgres;
use futures_util::future::join_all;

use super::{
    fleet::{Fleet, FleetSettings},
    sizes::FaultForm::Long,
};
use crate::support::prelude::*;

const TENANTS: usize = 8;
/// Units per second of Linux's processor time.
const TICKS: u64 = 100;

/// Calls per second, and processor time of the nodes and of the machine.
async fn measure(nodes: usize) -> Option<(u64, u64, u64)> {
    let postgres = OwnPostgres::start()?;
    let installation = Installation::at(postgres.place(postgres.port));
    let wanted = FleetSettings::nodes(nodes)
        .tenants(TENANTS, 10_000_000)
        .set("log.level", "warn");
    let mut fleet = Fleet::on(installation, wanted).await;
    fleet.postgres = Some(postgres);
    let calls = Long.size("CALLS", 0, 8_000) / u64::try_from(TENANTS).unwrap();
    let (nodes_before, machine_before) = (nodes_ticks(&fleet), machine_ticks());
    let began = Instant::now();
    let simulated = (0..TENANTS).map(|number| simulate(&fleet, number, calls));
    join_all(simulated).await;
    let took = began.elapsed();
    let all = calls * u64::try_from(TENANTS).unwrap();
    let per_call = |ticks: u64| ticks * 1_000_000 / TICKS / all;
    Some((
        all * 1_000 / u64::try_from(took.as_millis()).unwrap(),
        per_call(nodes_ticks(&fleet) - nodes_before),
        per_call(machine_ticks() - machine_before),
    ))
}

/// A tenant's bridge at one of the nodes.
async fn simulate(fleet: &Fleet, number: usize, calls: u64) {
    let (tenant, node) = (
        &fleet.tenants[number],
        &fleet.addresses[number % fleet.addresses.len()],
    );
    let calls = calls.to_string();
    let arguments = [
        "simulate",
        "--url",
        node,
        "--token",
        &tenant.token,
        "--did",
        &tenant.did,
        "--calls",
        &calls,
        "--concurrency",
        "64",
        "--talk-seconds",
        "0",
        "--abandon",
        "0",
    ];
    let said = fleet.cli(&arguments).await;
    assert_eq!(said["ended"], said["calls"], "{said}");
}

fn ticks_of(stat: &str, fields: std::ops::Range<usize>) -> u64 {
    let fields = stat
        .split_whitespace()
        .skip(fields.start)
        .take(fields.len());
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}

fn nodes_ticks(fleet: &Fleet) -> u64 {
    let nodes = fleet.running().map(|node| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", node.pid())).unwrap();
        // After the name, which may contain spaces: user and system time.
        ticks_of(stat.rsplit_once(") ").unwrap().1, 11..13)
    });
    nodes.sum()
}

/// All processor time that was not idle.
fn machine_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let all = stat.lines().next().unwrap();
    ticks_of(all, 1..4) + ticks_of(all, 6..8)
}

#[actix_web::test]
#[ignore = "a measurement"]
async fn two_nodes_beside_one() {
    for nodes in [1, 2, 1, 2] {
        let Some((calls, of_nodes, of_machine)) = measure(nodes).await else {
            return;
        };
        println!(
            "{nodes} nodes: {calls} calls/s; a call takes {of_nodes} µs of a processor in the nodes, {of_machine} µs in the whole machine"
        );
    }
}
