//! Several nodes over one PostgreSQL, beside one.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::{SOCKETS, ScenarioResult};
use crate::cli::bench::{
    Result,
    bridge::{BenchBridge, CallTarget, FailureCounts},
    figure::{BenchFigure, Goal, per_second},
    ground::{BenchDatabase, BenchEnvironment, Tenants, server::MeasuredServer, thread::on_thread},
    progress::BenchProgress,
};

/// Active calls, over all nodes.
const AT_ONCE: usize = 96;
const TENANTS: usize = 64;
/// Calls per second of several nodes over those of one.
const MANY_TENANTS: f64 = 1.8;
const ONE_TENANT: f64 = 1.0;

/// The nodes at which a tenant calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    All,
    One,
}

/// Measures complete calls per second of many tenants, and of one alone.
pub async fn several(
    ground: &BenchEnvironment,
    progress: &BenchProgress,
) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    for (name, count, spread, goal) in [
        ("nodes", TENANTS, Spread::All, MANY_TENANTS),
        ("nodes_apart", TENANTS, Spread::One, MANY_TENANTS),
        ("nodes_one_tenant", 1, Spread::All, ONE_TENANT),
    ] {
        let tenants = Tenants {
            count,
            webhooks: None,
        };
        let mut one = None;
        for nodes in [1, ground.nodes] {
            let place = ground.place(tenants).await?;
            let rate = rate(ground, &place, nodes, spread, &mut found.faults).await?;
            let mut figure = BenchFigure::new(format!("{name}_{nodes}"), rate, "calls/s");
            if let Some(one) = one.replace(rate) {
                figure = figure.beside(one).reaching(Goal::ShareOfLimit(goal));
            }
            found.add(figure, progress);
        }
    }
    Ok(found)
}

/// Complete calls per second over all nodes. Each has a bridge's sockets on a thread of its own.
async fn rate(
    ground: &BenchEnvironment,
    place: &BenchDatabase,
    nodes: usize,
    spread: Spread,
    faults: &mut FailureCounts,
) -> Result<f64> {
    let servers: Vec<MeasuredServer> = (0..nodes).map(|_| place.serve()).collect::<Result<_>>()?;
    let (warm_up, time) = (ground.sizes.warm_up, ground.sizes.load);
    let share = (AT_ONCE / nodes).max(1);
    let runs = servers.iter().enumerate().map(|(node, server)| {
        let mut line = place.line(server.http);
        if spread == Spread::One {
            line.dids = line.dids.into_iter().skip(node).step_by(nodes).collect();
        }
        of_node(line, share, warm_up, time)
    });
    let mut rate = 0.0;
    for (of_one, failed) in try_join_all(runs).await? {
        rate += of_one;
        faults.add(&failed);
    }
    Ok(rate)
}

async fn of_node(
    line: CallTarget,
    at_once: usize,
    warm_up: Duration,
    time: Duration,
) -> Result<(f64, FailureCounts)> {
    on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, SOCKETS.min(at_once)).await?;
        let (warm, _) = bridge.calls(at_once, warm_up).await?;
        let (mut tally, took) = bridge.calls(at_once, time).await?;
        tally.faults.add(&warm.faults);
        let rate = per_second(tally.calls, took);
        Ok((rate, tally.faults))
    })
    .await
}
