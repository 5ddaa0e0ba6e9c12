//! `dikala webhook …` and `dikala delivery …`: list webhooks and deliveries of all tenants, pause webhooks, and
//! send deliveries again.

use clap::Subcommand;

use super::{
    CliError,
    admin::open,
    command_input::{CommandInput, PageArgs},
    output,
};
use crate::{
    config::Layers,
    http::answer::Accepted,
    operations::{
        deliveries::{self, OperatorDelivery},
        webhooks::health as webhooks,
    },
};

#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Webhooks of all tenants, oldest first.
    List {
        /// failing, disabled or paused.
        #[arg(long)]
        state: Option<String>,
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Have a webhook's deliveries wait; none is lost.
    Pause { id: String },
    /// Let a paused webhook's deliveries go on.
    Resume { id: String },
    /// Send again all that failed in a time, in the background.
    Recover {
        id: String,
        /// From then on: a date or a time such as 2026-01-15T03:30:00Z.
        #[arg(long, value_name = "TIME")]
        since: String,
        /// Before then; now where none is given.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum DeliveryCommand {
    /// Deliveries of all tenants, newest first.
    List {
        /// pending, succeeded or failed.
        #[arg(long)]
        status: Option<String>,
        /// To this webhook.
        #[arg(long, value_name = "ID")]
        webhook: Option<String>,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Send a delivery again now, whatever became of it before.
    Resend { id: String },
}

/// `dikala webhook …`
pub async fn webhook(command: WebhookCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let context = open(layers).await?.operation();
    match command {
        WebhookCommand::List {
            state,
            tenant,
            page,
        } => {
            let input = CommandInput::default()
                .with("--state", "state", state)
                .with("--tenant", "tenantId", tenant)
                .page(page);
            let listed = webhooks::list(context, input.query()).await;
            output::page(&input.outcome(listed)?, json)
        }
        WebhookCommand::Pause { id } => {
            let input = CommandInput::of("webhook", &id);
            let paused = webhooks::pause(context, input.id()?, input.body()).await;
            output::one(&input.outcome(paused)?, json)
        }
        WebhookCommand::Resume { id } => {
            let input = CommandInput::of("webhook", &id);
            let resumed = webhooks::resume(context, input.id()?, input.body()).await;
            output::one(&input.outcome(resumed)?, json)
        }
        WebhookCommand::Recover { id, since, until } => {
            let input = CommandInput::of("webhook", &id)
                .with("--since", "since", Some(since))
                .with("--until", "until", until);
            let recovered = deliveries::recover(context, input.id()?, input.body()).await;
            output::one(&input.outcome(recovered)?.0, json)
        }
    }
}

/// `dikala delivery …`
pub async fn delivery(
    command: DeliveryCommand,
    layers: &Layers,
    json: bool,
) -> Result<(), CliError> {
    let context = open(layers).await?.operation();
    match command {
        DeliveryCommand::List {
            status,
            webhook,
            page,
        } => {
            let input = CommandInput::default()
                .with("--status", "status", status)
                .with("--webhook", "webhookId", webhook)
                .page(page);
            let listed = deliveries::list(context, input.query()).await;
            output::page(&input.outcome(listed)?, json)
        }
        DeliveryCommand::Resend { id } => {
            let input = CommandInput::of("delivery", &id);
            let sent = deliveries::resend(context, input.id()?, input.body()).await;
            let sent: Accepted<OperatorDelivery> = input.outcome(sent)?;
            output::one(&sent.0, json)
        }
    }
}
