//! `dikala database` and `dikala functions`: read from the operators' listener what only a running process knows.

use clap::{Args, builder::PossibleValuesParser};
use dikala_entities::Ranking;
use serde_json::Value;

use super::{
    CliError,
    command_input::PageArgs,
    listener::{Listener, ListenerArgs},
    output,
};
use crate::config::{ConfigError, Layers};

/// Which functions, and in what order.
#[derive(Debug, Args)]
pub struct FunctionsOptions {
    #[command(flatten)]
    listener: ListenerArgs,
    /// Only this tenant's.
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// Only this agent's.
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Only those of this name.
    #[arg(long)]
    name: Option<String>,
    /// The order: by calls in the last minute, failures, or time.
    #[arg(long, default_value = "rate", value_parser = PossibleValuesParser::new(Ranking::WORDS))]
    sort: String,
    #[command(flatten)]
    page: PageArgs,
}

/// A path with its query.
fn path(of: &str, asked: &[(&str, Option<&str>)]) -> String {
    let given = asked
        .iter()
        .filter_map(|(name, value)| Some((*name, (*value)?)));
    let query = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(given)
        .finish();
    format!("{of}?{query}")
}

/// `dikala database`
pub async fn database(
    options: ListenerArgs,
    layers: impl FnOnce() -> Result<Layers, ConfigError>,
    as_json: bool,
) -> Result<(), CliError> {
    let found = Listener::new(options, layers)?.get("/database").await?;
    if as_json {
        return output::text(&found.to_string());
    }
    let facts = ["kind", "version", "sizeBytes", "migrations"];
    let facts = facts.map(|name| (name.to_owned(), output::cell(&found[name])));
    let commits = ["p50", "p99"].map(|part| {
        let name = format!("commitUs {part}");
        (name, output::cell(&found["commitUs"][part]))
    });
    output::pairs(facts.into_iter().chain(commits))?;
    if let Some(told) = found["unanswered"].as_str() {
        output::text(told)?;
    }
    output::text("")?;
    let pools = rows(&found["pools"], ["name", "inUse", "idle", "unopened"]);
    output::grid(["pool", "in use", "idle", "unopened"], pools)
}

/// `dikala functions`
pub async fn functions(
    options: FunctionsOptions,
    layers: impl FnOnce() -> Result<Layers, ConfigError>,
    as_json: bool,
) -> Result<(), CliError> {
    let listener = Listener::new(options.listener, layers)?;
    let (limit, offset) = (
        options.page.limit.to_string(),
        options.page.offset.to_string(),
    );
    let asked = [
        ("tenantId", options.tenant.as_deref()),
        ("agentId", options.agent.as_deref()),
        ("name", options.name.as_deref()),
        ("sort", Some(options.sort.as_str())),
        ("limit", Some(limit.as_str())),
        ("offset", Some(offset.as_str())),
    ];
    let found = listener.get(&path("/functions", &asked)).await?;
    if as_json {
        return output::text(&found.to_string());
    }
    called(&found["functions"])?;
    match found["hasMore"].as_bool() {
        Some(true) => output::text(&format!(
            "there are more, with --offset {}",
            options
                .page
                .offset
                .saturating_add(options.page.limit.into())
        )),
        _ => Ok(()),
    }
}

/// Prints functions as a table.
fn called(functions: &Value) -> Result<(), CliError> {
    let functions = functions.as_array().map(Vec::as_slice).unwrap_or_default();
    if functions.is_empty() {
        return output::text("no functions were called here lately");
    }
    let head = [
        "name",
        "lastMinute",
        "calls",
        "failed",
        "lastFault",
        "p50Us",
        "p99Us",
        "circuit",
        "origin",
        "tenantId",
    ];
    let cells = |of: &Value| {
        head.map(|name| {
            output::cell(match name {
                "p50Us" => &of["timesUs"]["p50"],
                "p99Us" => &of["timesUs"]["p99"],
                "circuit" => &of["circuit"]["state"],
                name => &of[name],
            })
        })
    };
    output::grid(head, functions.iter().map(cells).collect())
}

/// The named fields of each object in a list.
fn rows<const N: usize>(list: &Value, names: [&str; N]) -> Vec<[String; N]> {
    let list = list.as_array().into_iter().flatten();
    list.map(|of| names.map(|name| output::cell(&of[name])))
        .collect()
}
