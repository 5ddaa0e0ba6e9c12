//! Start-up time of a server that was killed with active calls.

use std::time::Instant;

use dikala_entities::{Store, call};
use sea_orm::{EntityTrait, QueryFilter};

use super::{SOCKETS, ScenarioResult};
use crate::cli::bench::{
    Result,
    bridge::{BenchBridge, LifecycleStep},
    failed,
    figure::{BenchFigure, Goal, median},
    ground::{BenchEnvironment, Tenants, thread::on_thread},
    progress::BenchProgress,
};

/// Number of starts; their median counts.
const STARTS: usize = 3;

/// Time from the process's start to its line `ready`, beside a bare read of the active calls' rows.
pub async fn ready(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let mut found = ScenarioResult::default();
    let tenants = Tenants {
        count: ground.sizes.tenants,
        webhooks: None,
    };
    let place = ground.place(tenants).await?;
    let server = place.serve()?;
    let empty = server.start.as_secs_f64() * 1e3;
    let (line, count) = (place.line(server.http), ground.sizes.unfinished);
    let faults = on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, SOCKETS).await?;
        let (mut live, rings, _) = bridge.ring(count, &[]).await?;
        let (mut answers, _) = bridge.step(LifecycleStep::Answer, &mut live, &[]).await?;
        answers.faults.add(&rings.faults);
        Ok(answers.faults)
    })
    .await?;
    drop(server);
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        starts.push(place.serve()?.start.as_secs_f64() * 1e3);
    }
    let store = Store::connect(&place.setup.database)
        .await
        .map_err(failed)?;
    let mut reads = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let rows = call::Entity::find()
            .filter(call::unfinished())
            .all(store.reader())
            .await;
        let rows = rows.map_err(failed)?.len();
        reads.push(began.elapsed().as_secs_f64() * 1e3);
        if rows != count {
            return Err(failed(format!(
                "{rows} of {count} calls are unfinished after the start"
            )));
        }
    }
    store.close().await;
    let figure = BenchFigure::new(format!("start_{count}"), median(starts), "ms");
    let figure = figure.beside(median(reads)).reaching(Goal::TimesLimit(3.0));
    found.add(figure, progress);
    found.add(BenchFigure::new("start_empty", empty, "ms"), progress);
    found.faults.add(&faults);
    Ok(found)
}
