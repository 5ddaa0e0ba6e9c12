//! Cost of active calls: memory, and a tick every minute.

use std::time::{Duration, Instant};

use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::Millis;

use super::{SOCKETS, ScenarioResult, acks::RATE};
use crate::cli::bench::{
    Result,
    bridge::{BenchBridge, LifecycleStep},
    failed,
    figure::{BenchFigure, Goal},
    ground::{BenchEnvironment, Tenants, server::Gauge, thread::on_thread},
    limits::actors,
    progress::BenchProgress,
};

/// Limit of the memory per active call, in bytes.
const BYTES: f64 = 8_192.0;
/// Delay between the last answer and the reading of memory, for trailing work.
const SETTLE: Duration = Duration::from_secs(1);
/// Concurrent calls of the warm-up, which fills caches.
const WARM_UP_AT_ONCE: usize = 64;
/// Time limit and poll interval for the warm-up's calls to leave the server's memory.
const LEAVE_WITHIN: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(200);
const MINUTE_MS: i64 = 60_000;

/// Measures the resident memory per answered call.
pub async fn memory(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: None,
    };
    for &count in &ground.sizes.live {
        let place = ground.place(tenants).await?;
        let server = place.serve()?;
        let line = place.line(server.http);
        let (warm_up, shared) = (ground.sizes.warm_up, server.gauge);
        let (faults, bytes) = on_thread(move || async move {
            let mut bridge = BenchBridge::connect(&line, SOCKETS).await?;
            let (warm, _) = bridge.calls(WARM_UP_AT_ONCE, warm_up).await?;
            left(shared).await?;
            let before = shared.memory()?;
            let (mut live, tally, _) = bridge.ring(count, &[]).await?;
            let mut faults = warm.faults;
            faults.add(&tally.faults);
            faults.add(
                &bridge
                    .step(LifecycleStep::Answer, &mut live, &[])
                    .await?
                    .0
                    .faults,
            );
            tokio::time::sleep(SETTLE).await;
            let added = shared.memory()?.saturating_sub(before);
            Ok((faults, added / (live.count() as u64).max(1)))
        })
        .await?;
        let figure = BenchFigure::new(format!("memory_{count}"), bytes as f64, "bytes/call");
        let figure = figure
            .beside(actors::measure(count)?)
            .reaching(Goal::Most(BYTES));
        found.add(figure, progress);
        found.faults.add(&faults);
    }
    Ok(found)
}

/// Waits until the server holds no call in memory. Ended calls stay for a while, and the measured calls would reuse
/// their memory.
async fn left(server: Gauge) -> Result<()> {
    let until = Instant::now() + LEAVE_WITHIN;
    while server.calls()? > 0 {
        if Instant::now() > until {
            return Err(failed(
                "calls that are over do not leave the server's memory",
            ));
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
    Ok(())
}

/// Measures a steady rate of messages alone, then beside calls whose minutes begin evenly spread over each minute.
pub async fn ticks(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: None,
    };
    let place = ground.place(tenants).await?;
    let server = place.serve()?;
    let line = place.line(server.http);
    let (count, warm_up, time) = (
        ground.sizes.ticking,
        ground.sizes.warm_up,
        ground.sizes.rate,
    );
    let (alone, beside) = on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, SOCKETS).await?;
        bridge.paced(RATE, warm_up).await?;
        let (alone, _) = bridge.paced(RATE, time).await?;
        let at = moments(count)?;
        let (mut live, rings, _) = bridge.ring(count, &at).await?;
        let (answers, _) = bridge.step(LifecycleStep::Answer, &mut live, &at).await?;
        tokio::time::sleep(SETTLE).await;
        let (mut beside, _) = bridge.paced(RATE, time).await?;
        beside.faults.add(&rings.faults);
        beside.faults.add(&answers.faults);
        Ok((alone, beside))
    })
    .await?;
    let figure = BenchFigure::new(
        format!("ticks_{}_p99", ground.sizes.ticking),
        beside.times.at_ms(99.0),
        "ms",
    );
    let figure = figure
        .beside(alone.times.at_ms(99.0))
        .reaching(Goal::TimesLimit(2.0));
    found.add(figure.with(&beside.times), progress);
    found.faults.add(&alone.faults);
    found.faults.add(&beside.faults);
    Ok(found)
}

/// Times spread evenly over the last minute, as JSON.
fn moments(count: usize) -> Result<Vec<Millis>> {
    let now = SystemClock.now();
    let count = i64::try_from(count).map_err(failed)?;
    let moment = |n: i64| now.plus_ms(-n * MINUTE_MS / count);
    Ok((0..count).map(moment).collect())
}
