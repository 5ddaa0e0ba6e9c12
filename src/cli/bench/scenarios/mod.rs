//! The scenarios, each measured beside its limit.

mod acks;
mod api;
mod distance;
mod ledger;
mod lifecycles;
mod live;
mod nodes;
mod pages;
mod start;
mod webhooks;

use std::{pin::Pin, time::Duration};

use super::{
    Result,
    bridge::{BenchBridge, CallTarget, FailureCounts, Tally},
    figure::BenchFigure,
    ground::{
        BenchEnvironment, MeasuredStore,
        server::{Batches, Gauge, MeasuredServer},
        thread::on_thread,
    },
    progress::BenchProgress,
};

/// Sockets of the measuring bridge.
const SOCKETS: usize = 4;

/// Results of a scenario.
#[derive(Debug, Default)]
pub struct ScenarioResult {
    pub figures: Vec<BenchFigure>,
    pub faults: FailureCounts,
}

impl ScenarioResult {
    /// Adds a figure and shows it.
    fn add(&mut self, figure: BenchFigure, progress: &BenchProgress) {
        let [name, value, unit, limit, ratio, goal, reached, times] = figure.row();
        progress.say(&format!("{name}: {value} {unit}, limit {limit}, ratio {ratio}, to reach {goal} {reached}, {times}"));
        self.figures.push(figure);
    }
}

type ScenarioFuture<'a> = Pin<Box<dyn Future<Output = Result<ScenarioResult>> + 'a>>;

pub struct BenchScenario {
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    pub measure: for<'a> fn(&'a BenchEnvironment, &'a BenchProgress) -> ScenarioFuture<'a>,
}

macro_rules! scenario {
    ($name:literal, $about:literal, $measure:path) => {
        BenchScenario {
            name: $name,
            about: $about,
            measure: |ground, progress| Box::pin($measure(ground, progress)),
        }
    };
}

/// All scenarios in the order in which they run.
pub const SCENARIOS: &[BenchScenario] = &[
    scenario!(
        "lifecycles",
        "complete calls a second, 64, 512 and 2,000 at once; the server's CPU per call",
        lifecycles::complete
    ),
    scenario!(
        "pipelined",
        "rings, answers and hang-ups a second, pipelined",
        lifecycles::pipelined
    ),
    scenario!(
        "webhooks",
        "complete calls a second with three webhooks each",
        webhooks::calls
    ),
    scenario!(
        "delivery",
        "webhooks at 100 events a second, from acknowledgement to receipt",
        webhooks::delivery
    ),
    scenario!(
        "acks",
        "acknowledgements, one call at a time and at 200 messages a second",
        acks::acknowledgements
    ),
    scenario!(
        "ledger",
        "debits a second, on one tenant and on many",
        ledger::debits
    ),
    scenario!("distance", "PostgreSQL 1 ms away", distance::away),
    scenario!(
        "nodes",
        "complete calls a second of several nodes over one PostgreSQL, beside one",
        nodes::several
    ),
    scenario!("memory", "memory per live call", live::memory),
    scenario!(
        "ticks",
        "200 messages a second beside live calls with their minute ticks",
        live::ticks
    ),
    scenario!(
        "start",
        "from start to ready with unfinished calls",
        start::ready
    ),
    scenario!("api", "reads of the API over growing tables", api::reads),
    scenario!(
        "pages",
        "pages of the dashboard of a tenant with a long past",
        pages::times
    ),
];

impl BenchScenario {
    /// True if the scenario can run on this store.
    pub fn is_for(&self, kind: MeasuredStore) -> bool {
        !["distance", "nodes"].contains(&self.name) || kind == MeasuredStore::Postgres
    }
}

/// Result of running whole calls on a server, after a warm-up.
struct Run {
    tally: Tally,
    took: Duration,
    /// The server's processor time.
    cpu: Duration,
    /// Mean number of calls or messages per transaction of the server.
    batch: usize,
}

/// Places whole calls from a dedicated thread, `at_once` at a time.
async fn run(
    ground: &BenchEnvironment,
    server: &MeasuredServer,
    line: CallTarget,
    at_once: usize,
) -> Result<Run> {
    let (warm_up, time) = (ground.sizes.warm_up, ground.sizes.load);
    let server = server.gauge;
    on_thread(move || async move {
        let mut bridge = BenchBridge::connect(&line, SOCKETS.min(at_once)).await?;
        let (warm, _) = bridge.calls(at_once, warm_up).await?;
        let (batches, cpu) = (server.batches()?, server.cpu()?);
        let (mut tally, took) = bridge.calls(at_once, time).await?;
        tally.faults.add(&warm.faults);
        let (cpu, batch) = (server.cpu()? - cpu, server.batches()?.mean_since(batches));
        Ok(Run {
            tally,
            took,
            cpu,
            batch,
        })
    })
    .await
}

/// Mean number of items per transaction since `before`.
fn batch_since(server: Gauge, before: Batches) -> Result<usize> {
    Ok(server.batches()?.mean_since(before))
}
