//! `dikala webhook …` and `dikala delivery …`: list webhooks and deliveries of all tenants, pause webhooks, and
//! send deliveries again.

use clap::Subcommand;

use super::{
    CliError,
    admin::{CommandContext, open},
    asked::{ApiParameters, PageArgs},
    output,
};
use crate::{
    admin::{parse_id, webhooks::set_paused},
    config::Layers,
    http::error::ApiError,
    operator_api::webhooks::{RequestedRecovery, deliveries_page, find, page, send_again},
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
    let CommandContext { store, by, now, .. } = open(layers).await?;
    let db = store.api_reader();
    match command {
        WebhookCommand::List {
            state,
            tenant,
            page: piece,
        } => {
            let asked = ApiParameters::default()
                .with("--state", "state", state)
                .with("--tenant", "tenantId", tenant)
                .page(piece);
            let listed = page(db, &asked.form()).await;
            output::page(&listed.map_err(|error| asked.refused(error))?, json)
        }
        WebhookCommand::Pause { id } => {
            let changed = set_paused(&store, parse_id("webhook", &id)?, true, &by, now).await?;
            output::one(&changed, json)
        }
        WebhookCommand::Resume { id } => {
            let changed = set_paused(&store, parse_id("webhook", &id)?, false, &by, now).await?;
            output::one(&changed, json)
        }
        WebhookCommand::Recover { id, since, until } => {
            let asked = ApiParameters::of("webhook", &id)
                .with("--since", "since", Some(since))
                .with("--until", "until", until);
            let webhook = parse_id("webhook", &id)?;
            let recovered = async {
                let webhook = find(db, webhook).await?;
                let wanted = RequestedRecovery::read(db, &webhook, &asked.form(), now).await?;
                let txn = store.begin().await?;
                let begun = wanted.begin(&txn, &by).await?;
                txn.commit().await?;
                Ok::<_, ApiError>(begun)
            };
            let recovered = recovered.await;
            output::one(&recovered.map_err(|error| asked.refused(error))?, json)
        }
    }
}

/// `dikala delivery …`
pub async fn delivery(
    command: DeliveryCommand,
    layers: &Layers,
    json: bool,
) -> Result<(), CliError> {
    let CommandContext { store, by, now, .. } = open(layers).await?;
    match command {
        DeliveryCommand::List {
            status,
            webhook,
            page,
        } => {
            let asked = ApiParameters::default()
                .with("--status", "status", status)
                .with("--webhook", "webhookId", webhook)
                .page(page);
            let listed = deliveries_page(store.api_reader(), &asked.form(), now).await;
            output::page(&listed.map_err(|error| asked.refused(error))?, json)
        }
        DeliveryCommand::Resend { id } => {
            let delivery = parse_id("delivery", &id)?;
            let sent = async {
                let txn = store.begin().await?;
                let sent = send_again(&txn, delivery, &by, now).await?;
                txn.commit().await?;
                Ok::<_, ApiError>(sent)
            };
            let sent = sent.await;
            let sent = sent.map_err(|error| ApiParameters::of("delivery", &id).refused(error))?;
            output::one(&sent, json)
        }
    }
}
