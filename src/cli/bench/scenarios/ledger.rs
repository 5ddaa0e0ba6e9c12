//! Debits: hang-ups of answered calls, each of which posts one minute to an account.

use super::{SOCKETS, ScenarioResult, batch_since};
use crate::cli::bench::{
    Result,
    bridge::{BenchBridge, LifecycleStep},
    figure::{BenchFigure, Goal, per_second},
    ground::{BenchEnvironment, Tenants, thread::on_thread},
    limits::rows::Rows,
    progress::BenchProgress,
};

/// Measures debits on a single contended account and on many accounts.
pub async fn debits(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let mut rates = Vec::new();
    for (name, count) in [("ledger_hot", 1), ("ledger_spread", ground.sizes.spread)] {
        let place = ground
            .place(Tenants {
                count,
                webhooks: None,
            })
            .await?;
        let server = place.serve()?;
        let line = place.line(server.http);
        let (burst, shared) = (ground.sizes.burst, server.gauge);
        let (tally, took, batch) = on_thread(move || async move {
            let mut bridge = BenchBridge::connect(&line, SOCKETS).await?;
            let (mut live, mut tally, _) = bridge.ring(burst, &[]).await?;
            let (answers, _) = bridge.step(LifecycleStep::Answer, &mut live, &[]).await?;
            tally.faults.add(&answers.faults);
            let before = shared.batches()?;
            let (mut ends, took) = bridge.step(LifecycleStep::HangUp, &mut live, &[]).await?;
            ends.faults.add(&tally.faults);
            Ok((ends, took, batch_since(shared, before)?))
        })
        .await?;
        drop(server);
        let rows = Rows::read(&place.setup.database, ground.sizes.rows).await?;
        let limit = rows.write(ground, batch).await?.of(LifecycleStep::HangUp);
        let rate = per_second(tally.calls, took);
        let figure = BenchFigure::new(name, rate, "debits/s").beside(limit);
        found.add(figure.reaching(Goal::ShareOfLimit(0.7)), progress);
        found.faults.add(&tally.faults);
        rates.push(rate);
    }
    if let [hot, spread] = rates[..] {
        let figure = BenchFigure::new("ledger_hot_to_spread", hot, "debits/s").beside(spread);
        found.add(figure.reaching(Goal::ShareOfLimit(0.8)), progress);
    }
    Ok(found)
}
