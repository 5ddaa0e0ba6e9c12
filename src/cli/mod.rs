//! The command line: what can be said, and how each outcome becomes an exit code.
//!
//! 0 done · 1 failed · 2 wrong usage · 3 configuration invalid · 5 not found · 6 refused. Errors are one sentence on standard error.

mod backup;
mod bench;
mod check;
mod listen;
mod operators;
mod output;
mod secrets;
mod service;
pub mod simulate;
mod trigger;

use std::{path::PathBuf, sync::Arc};

use clap::{Args, Parser, Subcommand};
use dikala_actors::clock::SystemClock;
use serde_json::json;

use crate::{
    admin::AdminError,
    app::{App, StartError, vault, wait_for_signal},
    config::{ConfigError, Layers, Origin, Settings},
    dev,
    front::raise_open_files,
    openapi, telemetry,
};

pub use output::text as print;

/// A self-hosted voice-agent call service.
#[derive(Debug, Parser)]
#[command(name = "dikala", version, about, max_term_width = 100)]
pub struct Cli {
    /// A configuration file; its values win over the defaults, environment variables over it.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything with demo data on an embedded database that is kept.
    Dev(dev::Options),
    /// Run the service.
    Serve,
    /// Bring the database schema up to date.
    Migrate,
    /// Check configuration, store, schema, ports, open files, secrets and clock.
    Check,
    /// Show the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make and change tenants.
    #[command(subcommand)]
    Tenant(operators::TenantCommand),
    /// Make and revoke API keys.
    #[command(subcommand)]
    Key(operators::KeyCommand),
    /// Add and change phone numbers.
    #[command(subcommand)]
    Number(operators::NumberCommand),
    /// Make and revoke telephony bridges.
    #[command(subcommand)]
    Bridge(operators::BridgeCommand),
    /// Book credit.
    #[command(subcommand)]
    Credits(operators::CreditsCommand),
    /// Prove the books.
    #[command(subcommand)]
    Ledger(operators::LedgerCommand),
    /// Show or rotate the secret that signs a tenant's function requests.
    #[command(subcommand)]
    FunctionSecret(operators::FunctionSecretCommand),
    /// Copy the database while a server works on it.
    Backup(backup::Backup),
    /// Put a copy in the place of the database, while no server works on it.
    Restore(backup::Restore),
    /// Seal stored secrets again with a new secrets.key.
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    /// Measure what the service does on this machine, beside what the machine does without it.
    Bench(bench::Options),
    /// Play a telephony bridge that places calls.
    Simulate(simulate::Options),
    /// See a tenant's events live, and have them passed on to a server on this machine.
    Listen(listen::Options),
    /// Make a sample of an event, which `listen` shows.
    Trigger(trigger::Options),
    /// Print the description of the API.
    Openapi,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Every key with its effective value and where it came from; secrets are masked.
    Show,
}

/// Names a tenant.
#[derive(Debug, Args)]
struct OfTenant {
    /// The tenant's id.
    #[arg(long, value_name = "ID")]
    tenant: String,
}

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("{0}")]
    Failed(String),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Refused(String),
    /// What is wrong was printed already.
    #[error("")]
    Shown,
}

impl CliError {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Shown => 1,
            Self::Usage(_) => 2,
            Self::Config(_) => 3,
            Self::NotFound(_) => 5,
            Self::Refused(_) => 6,
        }
    }

    /// Says it on standard error: as a sentence, or as a document where documents are asked for.
    pub fn print(&self, as_json: bool) {
        if matches!(self, Self::Shown) {
            return;
        }
        if as_json {
            let error = json!({"error": {"code": self.word(), "message": self.to_string()}});
            eprintln!("{error}");
        } else {
            eprintln!("dikala: {self}");
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Failed(_) | Self::Shown => "failed",
            Self::Usage(_) => "usage",
            Self::Config(_) => "configuration_invalid",
            Self::NotFound(_) => "not_found",
            Self::Refused(_) => "refused",
        }
    }
}

/// Reads the command line. What is no command is told like any other error where documents are asked for; help is help.
pub fn parse() -> Result<Cli, CliError> {
    Cli::try_parse().map_err(|error| {
        let as_json = wants_json();
        if !as_json || !error.use_stderr() {
            error.exit();
        }
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let fault = text.split("\n\nUsage:").next().unwrap_or(text);
        CliError::Usage(fault.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

/// Whether documents are asked for, also where the rest of the command line cannot be read.
pub fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

impl From<AdminError> for CliError {
    fn from(error: AdminError) -> Self {
        let sentence = error.to_string();
        match error {
            AdminError::NotFound { .. } => Self::NotFound(sentence),
            AdminError::Refused(_) => Self::Refused(sentence),
            AdminError::Database(_) => Self::Failed(sentence),
        }
    }
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::WrongKey | StartError::MissingKey | StartError::Config(_) => {
                Self::Config(ConfigError(error.to_string()))
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Runs a command.
pub async fn run(cli: Cli) -> Result<(), CliError> {
    let layers = || Layers::load(cli.config.as_deref(), std::env::vars());
    match cli.command {
        Command::Bench(options) => bench::run(options, cli.json).await,
        Command::Simulate(options) => simulate::run(options, cli.json).await,
        Command::Listen(options) => listen::run(options, cli.json).await,
        Command::Trigger(options) => trigger::run(options, cli.json).await,
        Command::Openapi => output::text(openapi::json()),
        Command::Dev(options) => dev::run(options, layers()?).await,
        Command::Check => check::run(layers(), cli.json).await,
        Command::Config(ConfigCommand::Show) => {
            let layers = layers()?;
            output::config(&layers, cli.json)
        }
        Command::Serve => serve(&layers()?).await,
        Command::Migrate => {
            let settings = Settings::new(&layers()?)?;
            crate::app::open_store(&settings, true).await?.close().await;
            output::done("the schema is up to date", cli.json)
        }
        Command::Tenant(command) => operators::tenant(command, &layers()?, cli.json).await,
        Command::Key(command) => operators::key(command, &layers()?, cli.json).await,
        Command::Number(command) => operators::number(command, &layers()?, cli.json).await,
        Command::Bridge(command) => operators::bridge(command, &layers()?, cli.json).await,
        Command::Credits(command) => operators::credits(command, &layers()?, cli.json).await,
        Command::Ledger(command) => operators::ledger(command, &layers()?, cli.json).await,
        Command::Backup(options) => {
            backup::backup(options, &Settings::new(&layers()?)?, cli.json).await
        }
        Command::Restore(options) => {
            backup::restore(options, &Settings::new(&layers()?)?, cli.json).await
        }
        Command::Secrets(command) => secrets::run(command, &layers()?, cli.json).await,
        Command::FunctionSecret(command) => {
            operators::function_secret(command, &layers()?, cli.json).await
        }
    }
}

async fn serve(layers: &Layers) -> Result<(), CliError> {
    let settings = Settings::new(layers)?;
    let vault = vault(&settings).await?;
    telemetry::init(&settings.log);
    raise_open_files();
    let app = App::build(&settings, vault, Arc::new(SystemClock)).await?;
    let (http, operator) = (app.public_addr(), app.operator_addr());
    log_start(layers, &settings);
    // Whoever reads that it is ready may stop it.
    let stop = wait_for_signal();
    output::text(&format!(
        "ready http=http://{http} operator=http://{operator}"
    ))?;
    app.run_until(stop).await;
    Ok(())
}

/// What runs, on what, and what differs from the defaults.
fn log_start(layers: &Layers, settings: &Settings) {
    let version = env!("CARGO_PKG_VERSION");
    let store = match settings.database.url.starts_with("sqlite:") {
        true => "SQLite",
        false => "PostgreSQL",
    };
    let changed: Vec<String> = layers
        .entries()
        .filter(|entry| entry.origin != Origin::Default)
        .map(|entry| format!("{}={}", entry.key, entry.shown()))
        .collect();
    let configuration = changed.join(" ");
    tracing::info!(
        version,
        store,
        configuration,
        node = settings.node.name,
        "started"
    );
}
