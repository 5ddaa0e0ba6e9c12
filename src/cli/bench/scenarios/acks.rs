//! Latency of acknowledgements, beside one bare commit answered over the same kind of socket.

use super::ScenarioResult;
use crate::cli::bench::{
    Result,
    bridge::{BenchBridge, CallTarget, Tally},
    figure::{BenchFigure, Goal},
    ground::{BenchEnvironment, Tenants, thread::on_thread},
    limits::commit,
    progress::BenchProgress,
};

/// Messages per second of the steady load.
pub const RATE: u32 = 200;

/// Measures one call at a time, then a steady rate.
pub async fn acknowledgements(
    ground: &BenchEnvironment,
    progress: &BenchProgress,
) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: None,
    };
    let place = ground.place(tenants).await?;
    let server = place.serve()?;
    let service = place.line(server.http);
    let (_, url) = ground.database().await?;
    let bare = CallTarget {
        address: commit::serve(url).await?,
        ..service.clone()
    };
    let limit = alone(ground, bare.clone()).await?;
    let tally = alone(ground, service.clone()).await?;
    compare(&mut found, "ack_alone", &tally, &limit, progress);
    let limit = steady(ground, bare).await?;
    let tally = steady(ground, service).await?;
    compare(&mut found, "ack_200", &tally, &limit, progress);
    Ok(found)
}

/// One call at a time on one socket.
pub async fn alone(ground: &BenchEnvironment, line: CallTarget) -> Result<Tally> {
    let (warm_up, time) = (ground.sizes.warm_up, ground.sizes.load);
    on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, 1).await?;
        bridge.calls(1, warm_up).await?;
        Ok(bridge.calls(1, time).await?.0)
    })
    .await
}

/// Messages at the steady rate on one socket.
async fn steady(ground: &BenchEnvironment, line: CallTarget) -> Result<Tally> {
    let (warm_up, time) = (ground.sizes.warm_up, ground.sizes.rate);
    on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, 1).await?;
        bridge.paced(RATE, warm_up).await?;
        Ok(bridge.paced(RATE, time).await?.0)
    })
    .await
}

fn compare(
    found: &mut ScenarioResult,
    name: &str,
    tally: &Tally,
    limit: &Tally,
    progress: &BenchProgress,
) {
    for (percentile, percent, most) in [("p50", 50.0, 2.0), ("p99", 99.0, 4.0)] {
        let (value, limit) = (tally.times.at_ms(percent), limit.times.at_ms(percent));
        let figure = BenchFigure::new(format!("{name}_{percentile}"), value, "ms").beside(limit);
        let figure = figure.reaching(Goal::TimesLimit(most));
        found.add(figure.with(&tally.times), progress);
    }
    found.faults.add(&tally.faults);
    found.faults.add(&limit.faults);
}
