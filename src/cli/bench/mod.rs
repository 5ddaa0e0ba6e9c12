//! `dikala bench`: measures the service on this machine, each figure beside what the machine does without the
//! service.
//!
//! [`ground`] starts the environment in a temporary folder: the service as a child process, PostgreSQL and a
//! webhook receiver. [`bridge`] is a bridge with low overhead, [`scenarios`] are the measurements, [`limits`] the
//! bare loops beside them.

#![expect(
    clippy::float_arithmetic,
    reason = "figures of a measurement; neither money nor a time that is stored"
)]

mod bridge;
mod figure;
mod ground;
mod limits;
mod machine;
mod progress;
mod scenarios;
mod sizes;

use std::fmt;

use clap::Args;
use dikala_actors::runtime::clock::{Clock, SystemClock};
use serde_json::json;

use self::{
    figure::HEAD,
    ground::{BenchEnvironment, MeasuredStore},
    machine::{DEBUG_BUILD, MeasuredMachine},
    progress::BenchProgress,
    scenarios::{BenchScenario, SCENARIOS, ScenarioResult},
    sizes::Sizes,
};
use super::{CliError, note::note, output};
use crate::app::wait_for_signal;

type Result<T> = std::result::Result<T, CliError>;

fn failed(error: impl fmt::Display) -> CliError {
    CliError::Failed(error.to_string())
}

/// Options of `dikala bench`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct BenchOptions {
    /// The store to measure; PostgreSQL is started from its programs.
    #[arg(long, value_enum, default_value_t = MeasuredStore::Sqlite)]
    store: MeasuredStore,
    /// A look in under two minutes: shorter, fewer, smaller.
    #[arg(long)]
    quick: bool,
    /// Only these scenarios, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = known)]
    only: Vec<&'static str>,
    /// The number of nodes in the scenario `nodes`.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=16))]
    nodes: u8,
    /// Let PostgreSQL wait this long before each flush, as a slower disk would.
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    commit_delay: u8,
    /// As little as shows that everything works.
    #[arg(long, hide = true)]
    smallest: bool,
    /// Print the bytes that an empty actor takes in this process, and nothing else.
    #[arg(long, hide = true, value_name = "N")]
    empty_actors: Option<usize>,
}

fn known(name: &str) -> std::result::Result<&'static str, String> {
    let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
    found.map(|scenario| scenario.name).ok_or_else(|| {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        format!("is none of {}", names.join(", "))
    })
}

fn after_help() -> String {
    let lines: Vec<String> = SCENARIOS
        .iter()
        .map(|scenario| format!("  {:<11} {}", scenario.name, scenario.about))
        .collect();
    format!("Scenarios:\n{}", lines.join("\n"))
}

/// Measures and prints a table or JSON. Fails if something did not work; a missed goal is no failure. Ctrl-C stops
/// and removes everything that was started.
pub async fn run(options: BenchOptions, as_json: bool) -> Result<()> {
    if let Some(count) = options.empty_actors {
        let bytes = limits::actors::measure_here(count).await?;
        return output::text(&bytes.to_string());
    }
    let sizes = match (options.smallest, options.quick) {
        (true, _) => Sizes::smallest(),
        (_, true) => Sizes::quick(),
        _ => Sizes::full(),
    };
    let chosen = |scenario: &&BenchScenario| {
        scenario.is_for(options.store)
            && (options.only.is_empty() || options.only.contains(&scenario.name))
    };
    let scenarios: Vec<&BenchScenario> = SCENARIOS.iter().filter(chosen).collect();
    if scenarios.is_empty() {
        return Err(CliError::Usage(
            "distance and nodes are measured with --store postgres".to_owned(),
        ));
    }
    if cfg!(debug_assertions) {
        note(DEBUG_BUILD);
    }
    let delay = std::time::Duration::from_millis(options.commit_delay.into());
    let ground = BenchEnvironment::new(options.store, sizes, options.nodes.into(), delay)?;
    let found = tokio::select! {
        found = measure(&ground, &scenarios) => found?,
        () = wait_for_signal() => return Err(failed("interrupted; what was started is stopped and removed")),
    };
    print(&found, options.store, options.quick, as_json)?;
    if found.faults.none() {
        return Ok(());
    }
    let faults = &found.faults;
    Err(failed(format!(
        "{} messages or calls were refused and {} acknowledgements or webhooks are missing; the first: {}",
        faults.refused,
        faults.missing,
        faults.first.as_deref().unwrap_or("no answer")
    )))
}

async fn measure(
    ground: &BenchEnvironment,
    scenarios: &[&BenchScenario],
) -> Result<ScenarioResult> {
    let progress = BenchProgress::new(scenarios.len());
    let mut all = ScenarioResult::default();
    for scenario in scenarios {
        progress.begin(scenario.name);
        let found = (scenario.measure)(ground, &progress).await?;
        all.figures.extend(found.figures);
        all.faults.add(&found.faults);
        progress.end();
    }
    Ok(all)
}

fn print(found: &ScenarioResult, store: MeasuredStore, quick: bool, as_json: bool) -> Result<()> {
    let machine = MeasuredMachine::this();
    if as_json {
        let document = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "date": SystemClock.now(),
            "store": store,
            "quick": quick,
            "machine": machine,
            "scenarios": found.figures,
            "faults": found.faults,
        });
        return output::text(&document.to_string());
    }
    let rows: Vec<[String; 8]> = found.figures.iter().map(figure::BenchFigure::row).collect();
    output::grid(HEAD, rows)?;
    output::text(&machine.words())?;
    let told = found.faults.busy;
    if told > 0 {
        let times = output::count(told, "message");
        output::text(&format!(
            "{times} had to be sent again because the server was busy"
        ))?;
    }
    Ok(())
}
