//! `dikala call …`: lists and shows calls of all tenants, and ends one.

use clap::{Args, Subcommand};

use super::{
    CliError,
    admin::{CommandContext, open},
    asked::{ApiParameters, PageArgs},
    output,
};
use crate::{
    admin::{calls::ask_hang_up, parse_id},
    config::Layers,
    operator_api::calls::{CallDetail, OperatorCall, detail, page},
};

#[derive(Debug, Subcommand)]
pub enum CallCommand {
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

impl From<CallFilterArgs> for ApiParameters {
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
pub async fn call(command: CallCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let CommandContext { store, by, now, .. } = open(layers).await?;
    let db = store.api_reader();
    match command {
        CallCommand::List(filter) => {
            let asked = ApiParameters::from(filter);
            let listed = page(db, &asked.form(), now).await;
            output::page(&listed.map_err(|error| asked.refused(error))?, json)
        }
        CallCommand::Show { id } => {
            let found = detail(db, parse_id("call", &id)?).await;
            let found = found.map_err(|error| ApiParameters::of("call", &id).refused(error))?;
            show(&found, json)
        }
        CallCommand::Hangup { id } => {
            let call = ask_hang_up(&store, parse_id("call", &id)?, &by, now).await?;
            output::one(&OperatorCall::from(call), json)
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
