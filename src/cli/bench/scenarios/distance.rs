//! PostgreSQL behind a network with a latency of half a millisecond each way.

use std::time::Duration;

use super::{ScenarioResult, acks::alone, run};
use crate::cli::bench::{
    Result,
    bridge::CallTarget,
    failed,
    figure::{BenchFigure, Goal, per_second},
    ground::{BenchEnvironment, Tenants, proxy},
    limits::commit,
    progress::BenchProgress,
};

const ONE_WAY: Duration = Duration::from_micros(500);
const AT_ONCE: usize = 512;

/// Measures acknowledgements and throughput at this latency.
pub async fn away(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let postgres = ground
        .postgres()
        .ok_or_else(|| failed("only PostgreSQL can be away"))?;
    let proxy = proxy::start(postgres, ONE_WAY)?;
    let far = |url: &str| url.replace(&postgres.to_string(), &proxy.to_string());
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: None,
    };
    let near = ground.place(tenants).await?;
    let server = near.serve()?;
    let of_near = run(ground, &server, near.line(server.http), AT_ONCE).await?;
    drop(server);

    let mut place = ground.place(tenants).await?;
    place.setup.database = far(&place.setup.database);
    let server = place.serve()?;
    let service = place.line(server.http);
    let (_, url) = ground.database().await?;
    let bare = CallTarget {
        address: commit::serve(far(&url)).await?,
        ..service.clone()
    };
    let limit = alone(ground, bare).await?;
    let tally = alone(ground, service.clone()).await?;
    let figure = BenchFigure::new("away_ack_p50", tally.times.at_ms(50.0), "ms");
    let figure = figure
        .beside(limit.times.at_ms(50.0))
        .reaching(Goal::Most(10.0));
    found.add(figure.with(&tally.times), progress);
    let of_far = run(ground, &server, service, AT_ONCE).await?;
    let rate = per_second(of_far.tally.calls, of_far.took);
    let figure = BenchFigure::new("away_lifecycles_512", rate, "calls/s");
    let figure = figure.beside(per_second(of_near.tally.calls, of_near.took));
    let figure = figure.reaching(Goal::ShareOfLimit(0.7));
    found.add(figure.with(&of_far.tally.times), progress);
    for tally in [&tally, &limit, &of_near.tally, &of_far.tally] {
        found.faults.add(&tally.faults);
    }
    Ok(found)
}
