//! Calls whose events are delivered to a tenant's server.

use std::time::Duration;

use dikala_entities::EventKind;
use tokio::time::Instant;

use super::{SOCKETS, ScenarioResult};
use crate::cli::bench::{
    Result,
    bridge::{Acknowledgement, BenchBridge},
    failed,
    figure::{BenchFigure, Durations, Goal, per_second},
    ground::{
        BenchEnvironment, Tenants,
        receiver::{WebhookSink, post, post_paced},
        thread::on_thread,
        wal,
    },
    limits::{self, rows::Rows},
    progress::BenchProgress,
};

const AT_ONCE: usize = 512;
/// Connections of the bare client; more do not raise its rate.
const POSTERS: usize = 64;
/// The three events of a call without a transcript.
const THREE: &[EventKind] = &[
    EventKind::CallStarted,
    EventKind::CallAnswered,
    EventKind::CallEnded,
];
const ALL: &[EventKind] = &[
    EventKind::CallStarted,
    EventKind::CallAnswered,
    EventKind::CallTranscript,
    EventKind::CallEnded,
];
/// Limit of the log of a call on PostgreSQL, in bytes.
const WAL_PER_CALL: f64 = 8_192.0;
/// Events per second of the steady load.
const RATE: u32 = 100;
/// Longest gap between arrivals before the scenario stops waiting.
const PATIENCE: Duration = Duration::from_secs(15);

/// Complete calls with three webhooks each, from the first ring to the last arrival.
pub async fn calls(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let receiver = WebhookSink::start().await?;
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: Some((receiver.address, THREE)),
    };
    let place = ground.place(tenants).await?;
    let server = place.serve()?;
    let line = place.line(server.http);
    let (warm_up, time) = (ground.sizes.warm_up, ground.sizes.load);
    let (watching, watched) = (receiver.clone(), server.gauge);
    let database = place.setup.database.clone();
    let (mut tally, took, batch, came, log) = on_thread(move || async move {
        let database = limits::connection(&database).await.map_err(failed)?;
        let mut bridge = BenchBridge::connect(&line, SOCKETS).await?;
        let (warm, _) = bridge.calls(AT_ONCE, warm_up).await?;
        watching
            .wait(warm.calls * THREE.len() as u64, PATIENCE)
            .await;
        watching.forget();
        let log = wal::written(&database).await.map_err(failed)?;
        let (before, began) = (watched.batches()?, Instant::now());
        let (tally, _) = bridge.calls(AT_ONCE, time).await?;
        let batch = watched.batches()?.mean_since(before);
        let (came, last) = watching
            .wait(tally.calls * THREE.len() as u64, PATIENCE)
            .await;
        let took = last.unwrap_or_else(Instant::now) - began;
        let written = wal::written(&database).await.map_err(failed)?;
        let log = written.zip(log).map(|(after, before)| after - before);
        database.close().await.map_err(failed)?;
        Ok((tally, took, batch, came, log))
    })
    .await?;
    tally.faults.missing += (tally.calls * THREE.len() as u64).saturating_sub(came);
    drop(server);
    let rows = Rows::read(&place.setup.database, ground.sizes.rows).await?;
    let rows = rows.write(ground, batch).await?.whole();
    let posted = post(receiver.address, receiver.body(), POSTERS, time).await?;
    let posts = per_second(posted, time);
    let rate = per_second(tally.calls, took);
    let figure = BenchFigure::new("lifecycles_webhooks", rate, "calls/s");
    let figure = figure
        .beside(rows.min(posts / THREE.len() as f64))
        .reaching(Goal::ShareOfLimit(0.5));
    found.add(figure.with(&tally.times), progress);
    let delivered = BenchFigure::new("deliveries", rate * THREE.len() as f64, "webhooks/s");
    found.add(delivered.beside(posts), progress);
    if let Some(log) = log {
        let per_call = log as f64 / tally.calls.max(1) as f64;
        let figure = BenchFigure::new("wal_per_call", per_call, "bytes");
        found.add(figure.reaching(Goal::Most(WAL_PER_CALL)), progress);
    }
    found.faults.add(&tally.faults);
    Ok(found)
}

/// Latency from an acknowledgement, which follows the commit, to the arrival of the same step's webhook.
pub async fn delivery(
    ground: &BenchEnvironment,
    progress: &BenchProgress,
) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let receiver = WebhookSink::start().await?;
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: Some((receiver.address, ALL)),
    };
    let place = ground.place(tenants).await?;
    let server = place.serve()?;
    let line = place.line(server.http);
    let (warm_up, time) = (ground.sizes.warm_up, ground.sizes.rate);
    let watching = receiver.clone();
    let (mut tally, acknowledged) = on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, 1).await?;
        let (_, warm) = bridge.paced(RATE, warm_up).await?;
        watching.wait(warm.len() as u64, PATIENCE).await;
        watching.forget();
        let (tally, acknowledged) = bridge.paced(RATE, time).await?;
        watching.wait(acknowledged.len() as u64, PATIENCE).await;
        Ok((tally, acknowledged))
    })
    .await?;
    let (mut times, mut whole, mut alone) = (
        Durations::default(),
        Durations::default(),
        Durations::default(),
    );
    for Acknowledgement {
        call,
        step,
        sent,
        at,
    } in acknowledged
    {
        alone.record(at - sent);
        match receiver.arrival(&(call, step.event().to_owned())) {
            Some(came) => {
                times.record(came.saturating_duration_since(at));
                whole.record(came.saturating_duration_since(sent));
            }
            None => tally.faults.missing += 1,
        }
    }
    drop(server);
    let mut bare = Durations::default();
    for time in post_paced(receiver, RATE, time).await? {
        bare.record(time);
    }
    let figure =
        BenchFigure::new("webhook_delivery_p50", times.at_ms(50.0), "ms").beside(bare.at_ms(50.0));
    let figure = figure.reaching(Goal::AboveLimit(1.5));
    found.add(figure.with(&times), progress);
    let figure = BenchFigure::new("webhook_from_message_p50", whole.at_ms(50.0), "ms");
    let figure = figure.beside(alone.at_ms(50.0) + bare.at_ms(50.0));
    found.add(figure.with(&whole), progress);
    found.faults.add(&tally.faults);
    Ok(found)
}
