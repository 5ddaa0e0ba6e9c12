//! `dikala simulate`: a telephony bridge that places calls and reports their outcomes.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use dikala_entities::{PhoneNumber, Secret};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::{CliError, output};
use crate::simulator::{
    BridgeUrl, CallScenario, DecimalArgument, Peer, SimulatedBridge, Summary, Totals, figures,
};

/// Ringing time in milliseconds: long enough to be a state, short enough not to dominate the measurement.
const RING_MS: (u64, u64) = (20, 200);

/// Options of `dikala simulate`.
#[derive(Clone, Debug, Args)]
pub struct SimulateOptions {
    /// The public address of the service: http(s)://HOST:PORT or ws(s)://HOST:PORT.
    #[arg(long, env = "DIKALA_URL", default_value = "http://127.0.0.1:8080")]
    url: BridgeUrl,
    /// The bridge's token.
    #[arg(long, env = "DIKALA_BRIDGE_TOKEN", hide_env_values = true, value_parser = |text: &str| Ok::<_, String>(Secret::new(text)), value_name = "dkb_…")]
    token: Secret,
    /// A PEM file of certificate authorities to trust besides the public ones.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The number that is called; several, separated by commas, are called in turn.
    #[arg(long, required = true, value_delimiter = ',', value_name = "+62…")]
    did: Vec<PhoneNumber>,
    /// Calls in all.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    calls: u64,
    /// Calls at the same time.
    #[arg(long, value_name = "C", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,
    /// Calls begun per second at most, such as 2.5; without it a call begins as soon as another is over.
    #[arg(long, value_name = "R", value_parser = figures::rate)]
    rate: Option<DecimalArgument>,
    /// How long an answered call talks, in seconds.
    #[arg(long, value_name = "S", value_parser = figures::decimal, default_value = "1")]
    talk_seconds: DecimalArgument,
    /// The share of calls in which the AI calls one of the agent's functions, from 0 to 1.
    #[arg(long, value_name = "P", value_parser = figures::share, default_value = "0")]
    functions: DecimalArgument,
    /// The share of calls whose caller hangs up while it rings, from 0 to 1.
    #[arg(long, value_name = "P", value_parser = figures::share, default_value = "0.1")]
    abandon: DecimalArgument,
    /// How long a lost connection is tried for again, in seconds.
    #[arg(long, value_name = "S", default_value_t = 60)]
    reconnect_seconds: u32,
}

impl SimulateOptions {
    fn connection(&self) -> Peer {
        Peer {
            url: self.url.clone(),
            token: self.token.clone(),
            ca_file: self.ca_file.clone(),
            reconnect_within: Duration::from_secs(self.reconnect_seconds.into()),
        }
    }

    fn scenario(&self) -> CallScenario {
        // A rate is in thousandths of a call per second; 10^9 of them are one call per microsecond.
        let interval_us = self.rate.map_or(0, |rate| 1_000_000_000 / rate.0);
        CallScenario {
            dids: self.did.clone(),
            calls: Some(self.calls),
            concurrency: usize::try_from(self.concurrency).unwrap_or(usize::MAX),
            interval: Duration::from_micros(interval_us),
            ring_ms: RING_MS,
            talk_ms: (self.talk_seconds.0, self.talk_seconds.0),
            functions_per_mille: self.functions.0,
            abandon_per_mille: self.abandon.0,
            shows_first: false,
            forgets_earlier_calls: false,
        }
    }
}

/// Places the calls and prints a summary. Fails if a call did not reach its end or all were refused. Ctrl-C hangs
/// up active calls.
pub async fn run(options: SimulateOptions, as_json: bool) -> Result<(), CliError> {
    let bar = progress_bar(options.calls);
    let bridge = SimulatedBridge::new(options.connection(), options.scenario(), rand::random());
    let stop = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let result = bridge.run(stop, |totals| show_progress(&bar, totals)).await;
    bar.finish_and_clear();
    let summary = result.map_err(|error| CliError::Failed(error.to_string()))?;
    print(&summary, as_json)?;
    match complaint(&summary) {
        None => Ok(()),
        Some(complaint) => Err(CliError::Failed(complaint)),
    }
}

/// A progress bar, visible on a terminal only.
fn progress_bar(calls: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} calls  {msg}  {elapsed}")
        .expect("the template is a constant");
    ProgressBar::new(calls).with_style(style)
}

fn show_progress(bar: &ProgressBar, totals: &Totals) {
    let over = totals.ended + totals.failed;
    if over > bar.position() {
        bar.set_position(over);
        bar.set_message(format!(
            "{} answered, {} refused, {} reconnects",
            totals.answered, totals.refused, totals.reconnects
        ));
    }
}

fn print(summary: &Summary, as_json: bool) -> Result<(), CliError> {
    let document =
        serde_json::to_value(summary).map_err(|error| CliError::Failed(error.to_string()))?;
    if as_json {
        return output::text(&document.to_string());
    }
    let shown = output::fields(summary)?
        .into_iter()
        .filter(|(name, value)| name != "fault" && !is_nothing(value))
        .map(|(name, value)| (name, readable(&value)));
    output::pairs(shown)
}

/// True for values that a person's summary omits: zero counts, and the fault, which the error states.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_nothing),
        other => other.as_f64() == Some(0.0),
    }
}

fn readable(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            fields.join(", ")
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The error for an unsuccessful run, if it was one.
fn complaint(summary: &Summary) -> Option<String> {
    let totals = &summary.totals;
    if let Some(fault) = &summary.fault {
        return Some(format!(
            "{} of {} calls did not reach their end: {fault}",
            totals.unfinished, totals.calls
        ));
    }
    let reasons: Vec<String> = totals
        .reasons
        .iter()
        .map(|(reason, count)| format!("{reason} ({count}{})", remedy(reason)))
        .collect();
    let reasons = reasons.join(", ");
    if !summary.is_clean() {
        return Some(format!(
            "{} of {} calls failed: the service answered {reasons}",
            totals.failed + totals.unfinished,
            totals.calls,
        ));
    }
    (totals.calls > 0 && totals.refused == totals.calls)
        .then(|| format!("every call was refused: {reasons}"))
}

/// The remedy for a refusal, if it is a single step.
fn remedy(reason: &str) -> &'static str {
    match reason {
        "no_agent" => ": give the number an agent with POST /api/v1/phone-numbers/:id/assign-agent",
        "agent_inactive" => ": make the agent active with PATCH /api/v1/agents/:id",
        "number_inactive" => ": make the number active with `dikala number update`",
        "insufficient_credits" => ": book minutes with `dikala credits add`",
        "concurrency_limit" => ": use a smaller --concurrency",
        "tenant_suspended" => ": lift it with `dikala tenant resume`",
        "unknown_number" => ": add the number with `dikala number add`",
        _ => "",
    }
}
