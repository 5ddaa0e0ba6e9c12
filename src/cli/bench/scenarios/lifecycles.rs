//! Whole calls and single steps of many calls, beside a bare loop that writes the same rows.

use super::{SOCKETS, ScenarioResult, batch_since, run};
use crate::cli::bench::{
    Result,
    bridge::{BenchBridge, LifecycleStep},
    figure::{BenchFigure, Goal, per_second},
    ground::{BenchEnvironment, MeasuredStore, Tenants, thread::on_thread},
    limits::rows::Rows,
    progress::BenchProgress,
};

const AT_ONCE: [usize; 3] = [64, 512, 2_000];
/// Limit of the server's CPU time per call, in microseconds.
const CPU_SQLITE_US: f64 = 500.0;
const CPU_POSTGRES_US: f64 = 300.0;

/// Measures complete calls per second at growing concurrency. The rate must not fall.
pub async fn complete(
    ground: &BenchEnvironment,
    progress: &BenchProgress,
) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: None,
    };
    let mut cpu = None;
    let mut rates = Vec::new();
    for at_once in AT_ONCE {
        let place = ground.place(tenants).await?;
        let server = place.serve()?;
        let run = run(ground, &server, place.line(server.http), at_once).await?;
        drop(server);
        let limit = Rows::read(&place.setup.database, ground.sizes.rows).await?;
        let limit = limit.write(ground, run.batch).await?;
        let rate = per_second(run.tally.calls, run.took);
        let figure = BenchFigure::new(format!("lifecycles_{at_once}"), rate, "calls/s");
        let figure = figure
            .beside(limit.whole())
            .reaching(Goal::ShareOfLimit(0.5));
        found.add(figure.with(&run.tally.times), progress);
        found.faults.add(&run.tally.faults);
        if at_once == 512 {
            cpu = Some(run.cpu.as_secs_f64() * 1e6 / run.tally.calls.max(1) as f64);
        }
        rates.push(rate);
    }
    if let [_, many, most] = rates[..] {
        let level = BenchFigure::new("lifecycles_2000_to_512", most, "calls/s").beside(many);
        found.add(level.reaching(Goal::ShareOfLimit(1.0)), progress);
    }
    if let Some(cpu) = cpu {
        let most = match ground.kind() {
            MeasuredStore::Sqlite => CPU_SQLITE_US,
            MeasuredStore::Postgres => CPU_POSTGRES_US,
        };
        let figure = BenchFigure::new("cpu_per_call", cpu, "µs").reaching(Goal::Most(most));
        found.add(figure, progress);
    }
    Ok(found)
}

/// Pipelines rings, then answers, then hang-ups of the same calls, as fast as possible.
pub async fn pipelined(
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
    let line = place.line(server.http);
    let (burst, warm_up) = (ground.sizes.burst, ground.sizes.warm_up);
    let shared = server.gauge;
    let measured = on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, SOCKETS).await?;
        bridge.calls(64, warm_up).await?;
        let before = shared.batches()?;
        let (mut live, tally, took) = bridge.ring(burst, &[]).await?;
        let mut measured = vec![(
            LifecycleStep::Ring,
            tally,
            took,
            batch_since(shared, before)?,
        )];
        for step in [LifecycleStep::Answer, LifecycleStep::HangUp] {
            let before = shared.batches()?;
            let (tally, took) = bridge.step(step, &mut live, &[]).await?;
            measured.push((step, tally, took, batch_since(shared, before)?));
        }
        Ok(measured)
    })
    .await?;
    drop(server);
    let rows = Rows::read(&place.setup.database, ground.sizes.rows).await?;
    for (step, tally, took, batch) in measured {
        let limit = rows.write(ground, batch).await?.of(step);
        let name = match step {
            LifecycleStep::Ring => "rings",
            LifecycleStep::Answer => "answers",
            LifecycleStep::Transcript => "transcripts",
            LifecycleStep::HangUp => "hang_ups",
        };
        let mut figure =
            BenchFigure::new(name, per_second(tally.times.count(), took), "messages/s")
                .beside(limit);
        if step == LifecycleStep::Ring {
            figure = figure.reaching(Goal::Least(8_000.0));
        }
        found.add(figure, progress);
        found.faults.add(&tally.faults);
    }
    Ok(found)
}
