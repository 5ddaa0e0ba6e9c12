//! `dikala call …`: lists and shows calls of all tenants, and ends one.

use clap::{Args, Subcommand};

use super::{
    CliError,
    admin::open,
    command_input::{CommandInput, PageArgs},
    output,
    trace::{self, TraceOptions},
};
use crate::{
    config::{ConfigError, Layers},
    operations::calls::{
        all_tenants::{self, CallDetail, OperatorCall},
        hang_up,
    },
};

#[derive(Debug, Subcommand)]
pub enum CallCommand {
    #[command(flatten)]
    Stored(StoredCallCommand),
    /// Show the SIP messages of a call, which the service that runs the telephony bridge keeps in memory.
    Trace(TraceOptions),
}

/// The commands on the store.
#[derive(Debug, Subcommand)]
pub enum StoredCallCommand {
    /// Calls: those that are not over, then the others, each newest first.
    List(CallFilterArgs),
    /// One call with its holds, events and deliveries.
    Show { id: String },
    /// End a running call.
    Hangup { id: String },
}

/// Which calls are listed.
#[derive(Debug, Args)]
pub struct CallFilterArgs {
    /// ringing, answered, ended, dropped or failed.
    #[arg(long)]
    status: Option<String>,
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    #[arg(long, value_name = "ID")]
    bridge: Option<String>,
    /// The number that was called.
    #[arg(long, value_name = "+62…")]
    did: Option<String>,
    /// The number that called, or anonymous.
    #[arg(long, value_name = "+62…")]
    caller: Option<String>,
    /// That began then or later: a date or a time such as 2026-01-15T03:30:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// That began before then.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

impl From<CallFilterArgs> for CommandInput {
    fn from(filter: CallFilterArgs) -> Self {
        Self::default()
            .with("--status", "status", filter.status)
            .with("--tenant", "tenantId", filter.tenant)
            .with("--bridge", "bridgeId", filter.bridge)
            .with("--did", "did", filter.did)
            .with("--caller", "callerNumber", filter.caller)
            .with("--from", "from", filter.from)
            .with("--to", "to", filter.to)
            .page(filter.page)
    }
}

/// `dikala call …`
pub async fn call(
    command: CallCommand,
    layers: impl FnOnce() -> Result<Layers, ConfigError>,
    json: bool,
) -> Result<(), CliError> {
    match command {
        CallCommand::Stored(command) => stored(command, &layers()?, json).await,
        CallCommand::Trace(options) => trace::run(options, layers, json).await,
    }
}

async fn stored(command: StoredCallCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let context = open(layers).await?.operation();
    match command {
        StoredCallCommand::List(filter) => {
            let input = CommandInput::from(filter);
            let listed = all_tenants::list(context, input.query()).await;
            output::page(&input.outcome(listed)?, json)
        }
        StoredCallCommand::Show { id } => {
            let input = CommandInput::of("call", &id);
            let found = all_tenants::show(context, input.id()?).await;
            show(&input.outcome(found)?, json)
        }
        StoredCallCommand::Hangup { id } => {
            let input = CommandInput::of("call", &id);
            let ended = hang_up::<OperatorCall>(context, input.id()?, input.body()).await;
            output::one(&input.outcome(ended)?.1.0, json)
        }
    }
}

fn show(found: &CallDetail, json: bool) -> Result<(), CliError> {
    if json {
        return output::one(found, json);
    }
    output::one(&found.call, json)?;
    output::text("")?;
    output::list("holds", &found.holds, json)?;
    output::text("")?;
    output::list("events", &found.events, json)?;
    output::text("")?;
    output::list("deliveries", &found.deliveries, json)
}
