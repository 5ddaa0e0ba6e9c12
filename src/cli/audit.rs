//! `dikala audit …`: who changed what.

use clap::Subcommand;

use super::{
    CliError,
    admin::open,
    command_input::{CommandInput, PageArgs},
    output,
};
use crate::{config::Layers, operations::audit::list};

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List changes, newest first.
    List {
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        /// operator, cli, or the id of a user or a key.
        #[arg(long)]
        actor: Option<String>,
        /// Such as tenant.suspend.
        #[arg(long)]
        action: Option<String>,
        /// Then or later: a date or a time such as 2026-01-15T03:30:00Z.
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Before then.
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
}

/// `dikala audit list`
pub async fn audit(command: AuditCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let AuditCommand::List {
        tenant,
        actor,
        action,
        from,
        to,
        page,
    } = command;
    let context = open(layers).await?.operation();
    let input = CommandInput::default()
        .with("--tenant", "tenantId", tenant)
        .with("--actor", "actor", actor)
        .with("--action", "action", action)
        .with("--from", "from", from)
        .with("--to", "to", to)
        .page(page);
    let listed = list(context, input.query()).await;
    output::page(&input.outcome(listed)?, json)
}
