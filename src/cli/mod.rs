//! The command line: its commands, and their exit codes.
//!
//! 0 done · 1 failed · 2 wrong usage · 3 configuration invalid · 5 not found · 6 refused. Errors are one sentence
//! on standard error.

mod admin;
mod audit;
mod backup;
mod bench;
mod calls;
mod check;
mod client;
mod command_input;
mod completions;
mod credits;
pub mod dev;
mod error;
mod escapes;
mod init;
mod listen;
mod listener;
mod nodes;
mod note;
mod output;
mod pcap;
mod people;
mod running;
mod secrets;
mod simulate;
mod telephony;
mod top;
mod trace;
mod trigger;
mod webhooks;
mod whatsapp;

use std::{io::IsTerminal, path::PathBuf, sync::Arc};

use clap::{
    Args, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use clap_complete::Shell;
use dikala_actors::runtime::clock::SystemClock;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    app::{App, ServiceStartError, vault, wait_for_signal},
    config::{ConfigOrigin, Layers, Settings},
    front::raise_open_files,
    routes, telemetry,
};

use self::command_input::CommandInput;
pub use error::CliError;
pub use output::text as print;

/// A self-hosted voice-agent call service.
#[derive(Debug, Parser)]
#[command(
    name = "dikala",
    version,
    about,
    max_term_width = 100,
    after_long_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 configuration invalid, 5 not found, 6 refused."
)]
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
    Dev(dev::DevOptions),
    /// Write a configuration with secrets, asking on a terminal what cannot be known.
    Init(init::InitOptions),
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
    Tenant(admin::TenantCommand),
    /// Make and remove people who use a tenant's dashboard.
    #[command(subcommand)]
    User(people::UserCommand),
    /// Make and revoke API keys.
    #[command(subcommand)]
    Key(admin::KeyCommand),
    /// Add and change phone numbers.
    #[command(subcommand)]
    Number(admin::NumberCommand),
    /// Make and revoke telephony bridges.
    #[command(subcommand)]
    Bridge(admin::BridgeCommand),
    /// See and book credit.
    #[command(subcommand)]
    Credits(credits::CreditsCommand),
    /// See calls of all tenants, and end one.
    #[command(subcommand)]
    Call(calls::CallCommand),
    /// See how webhooks fare, have their deliveries wait, and send again.
    #[command(subcommand)]
    Webhook(webhooks::WebhookCommand),
    /// See deliveries, and send one again.
    #[command(subcommand)]
    Delivery(webhooks::DeliveryCommand),
    /// See which processes serve the database.
    #[command(subcommand)]
    Node(nodes::NodeCommand),
    /// See how a running service's database does: size, pools, commits.
    Database(listener::ListenerArgs),
    /// See the functions that a running service called lately.
    Functions(running::FunctionsOptions),
    /// See who changed what.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Prove the books.
    #[command(subcommand)]
    Ledger(admin::LedgerCommand),
    /// Show or rotate the secret that signs a tenant's function requests.
    #[command(subcommand)]
    FunctionSecret(admin::FunctionSecretCommand),
    /// Copy the database while a server works on it.
    Backup(backup::Backup),
    /// Put a copy in the place of the database, while no server works on it.
    Restore(backup::Restore),
    /// Seal stored secrets again with a new secrets.key.
    #[command(subcommand)]
    Secrets(secrets::SecretsCommand),
    /// Measure what the service does on this machine, beside what the machine does without it.
    Bench(bench::BenchOptions),
    /// Watch a running service: what is wrong, figures, actors.
    Top(top::TopOptions),
    /// Play a telephony bridge that places calls.
    Simulate(simulate::SimulateOptions),
    /// Run the telephony bridge alone: SIP phones and trunks on one side, an AI's voice on the other.
    Telephony(telephony::TelephonyOptions),
    /// Have calls from WhatsApp come to a trunk.
    #[command(subcommand, name = "whatsapp")]
    WhatsApp(whatsapp::WhatsAppCommand),
    /// See a tenant's events live, and have them passed on to a server on this machine.
    Listen(listen::ListenOptions),
    /// Make a sample of an event, which `listen` shows.
    Trigger(trigger::TriggerOptions),
    /// Print the description of the API.
    Openapi,
    /// Print what completes commands in a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write manual pages, one for each command.
    Man {
        /// The folder that they go to.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
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

impl OfTenant {
    /// The input of an operation that concerns the tenant.
    fn input(&self) -> CommandInput {
        CommandInput::of("tenant", &self.tenant)
    }
}

/// Parses the command line. With `--json` usage errors are printed as JSON; help stays text.
pub fn parse() -> Result<Cli, CliError> {
    Cli::try_parse().map_err(|error| {
        let error = closest_first(error);
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

/// Suggests the most similar command first; clap has it last.
fn closest_first(mut error: clap::Error) -> clap::Error {
    let kind = ContextKind::SuggestedSubcommand;
    if let Some(ContextValue::Strings(names)) = error.get(kind) {
        let names = names.iter().rev().cloned().collect();
        error.insert(kind, ContextValue::Strings(names));
    }
    error
}

/// True if `--json` is given, even if the rest of the command line cannot be parsed.
pub fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

pub async fn run(cli: Cli) -> Result<(), CliError> {
    let layers = || Layers::load(cli.config.as_deref(), std::env::vars());
    match cli.command {
        Command::Bench(options) => bench::run(options, cli.json).await,
        Command::Top(options) => top::run(options, layers, cli.json).await,
        Command::Simulate(options) => simulate::run(options, cli.json).await,
        Command::Listen(options) => listen::run(options, cli.json).await,
        Command::Trigger(options) => trigger::run(options, cli.json).await,
        Command::Openapi => output::text(routes::description()),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man { out } => completions::man(&out, cli.json),
        Command::Init(options) => init::run(options, cli.config, cli.json),
        Command::Dev(options) => dev::run(options, layers()?).await,
        Command::Check => check::run(layers(), cli.json).await,
        Command::Config(ConfigCommand::Show) => {
            let layers = layers()?;
            output::config(&layers, cli.json)?;
            // Values that the service would refuse are shown too, and then named.
            Settings::new(&layers).map(drop).map_err(CliError::from)
        }
        Command::Telephony(options) => telephony::run(options, &layers()?).await,
        Command::WhatsApp(command) => whatsapp::run(command, &layers()?, cli.json).await,
        Command::Serve => serve(&layers()?).await,
        Command::Migrate => {
            let settings = Settings::new(&layers()?)?;
            // Before anything is changed.
            settings.has_key().then(|| settings.vault()).transpose()?;
            crate::app::open_store(&settings, true).await?.close().await;
            output::done("the schema is up to date", cli.json)
        }
        Command::Tenant(command) => admin::tenant(command, &layers()?, cli.json).await,
        Command::User(command) => people::user(command, &layers()?, cli.json).await,
        Command::Key(command) => admin::key(command, &layers()?, cli.json).await,
        Command::Number(command) => admin::number(command, &layers()?, cli.json).await,
        Command::Bridge(command) => admin::bridge(command, &layers()?, cli.json).await,
        Command::Credits(command) => credits::credits(command, &layers()?, cli.json).await,
        Command::Call(command) => calls::call(command, layers, cli.json).await,
        Command::Webhook(command) => webhooks::webhook(command, &layers()?, cli.json).await,
        Command::Delivery(command) => webhooks::delivery(command, &layers()?, cli.json).await,
        Command::Node(command) => nodes::node(command, &layers()?, cli.json).await,
        Command::Database(options) => running::database(options, layers, cli.json).await,
        Command::Functions(options) => running::functions(options, layers, cli.json).await,
        Command::Audit(command) => audit::audit(command, &layers()?, cli.json).await,
        Command::Ledger(command) => admin::ledger(command, &layers()?, cli.json).await,
        Command::Backup(options) => {
            backup::backup(options, &Settings::new(&layers()?)?, cli.json).await
        }
        Command::Restore(options) => {
            backup::restore(options, &Settings::new(&layers()?)?, cli.json).await
        }
        Command::Secrets(command) => secrets::run(command, &layers()?, cli.json).await,
        Command::FunctionSecret(command) => {
            admin::function_secret(command, &layers()?, cli.json).await
        }
    }
}

async fn serve(layers: &Layers) -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        // Once it is listened to, SIGHUP does not end the process. The built-in telephony reloads its certificate.
        let _ = signal(SignalKind::hangup());
    }
    let settings = Settings::new(layers)?;
    let vault = vault(&settings).await?;
    telemetry::init(&settings.log);
    raise_open_files();
    let app = App::build(&settings, vault, Arc::new(SystemClock)).await?;
    let (http, operator) = (app.public_addr(), app.operator_addr());
    log_start(layers, &settings);
    // Installed before `ready` is printed: a reader of it may send the signal at once.
    let stop = wait_for_signal();
    output::text(&format!(
        "ready http=http://{http} operator=http://{operator}"
    ))?;
    if let Some(telephony) = app.telephony() {
        output::text(&telephony::line(telephony))?;
    }
    let member = app.member().clone();
    let terms = member.clone();
    app.run_until(async move {
        tokio::select! {
            () = stop => {}
            () = terms.terms().outdated() => {}
        }
    })
    .await;
    match member.terms().is_outdated() {
        true => Err(ServiceStartError::Outdated.into()),
        false => Ok(()),
    }
}

/// Logs version, store and settings that differ from the defaults.
fn log_start(layers: &Layers, settings: &Settings) {
    let version = env!("CARGO_PKG_VERSION");
    let store = match settings.database.url.starts_with("sqlite:") {
        true => "SQLite",
        false => "PostgreSQL",
    };
    let changed: Vec<String> = layers
        .entries()
        .filter(|entry| entry.origin != ConfigOrigin::Default)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_command_is_suggested_first() {
        let error = Cli::try_parse_from(["dikala", "sevre"]).expect_err("it is no command");
        let told = closest_first(error).to_string();
        let (serve, restore) = (told.find("'serve'"), told.find("'restore'"));
        assert!(serve.is_some() && serve < restore, "{told}");
    }
}
