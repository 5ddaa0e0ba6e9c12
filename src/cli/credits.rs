//! `dikala credits …`: shows a tenant's balance and transactions, and books minutes.

use std::sync::Arc;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use dikala_actors::{commit, ledger, runtime::clock::SystemClock};
use dikala_entities::{TenantId, TransactionType};

use super::{
    CliError, OfTenant,
    admin::{CommandContext, open},
    command_input::PageArgs,
    note::note,
    output,
};
use crate::{
    audit::AuditChange,
    config::Layers,
    http::error::{ApiError, Missing},
    operations::credits::{self as of_tenant, TransactionView},
};

#[derive(Debug, Subcommand)]
pub enum CreditsCommand {
    /// A tenant's minutes.
    Show {
        #[command(flatten)]
        of: OfTenant,
    },
    /// The balance's movements, newest first.
    Transactions {
        #[command(flatten)]
        of: OfTenant,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Book minutes. A repeat with the same reference books nothing, and says so.
    Add(BookingArgs),
}

/// Minutes that are booked.
#[derive(Debug, Args)]
pub struct BookingArgs {
    #[command(flatten)]
    of: OfTenant,
    /// Negative for an adjustment that takes minutes away.
    #[arg(long, allow_negative_numbers = true, value_parser = whole_minutes)]
    minutes: i64,
    /// The type of the booking.
    #[arg(long = "type", default_value = "purchase", value_name = "TYPE", value_parser = booked_as())]
    kind: TransactionType,
    /// Identifies the booking, so that a repeat books nothing; generated and printed if omitted.
    #[arg(long)]
    reference: Option<String>,
    #[arg(long)]
    description: Option<String>,
}

fn whole_minutes(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| "minutes are booked whole; give a number such as 500".to_owned())
}

/// The types that people may book; `usage` is booked by calls only.
fn booked_as() -> impl TypedValueParser<Value = TransactionType> {
    PossibleValuesParser::new(["purchase", "bonus", "adjustment", "refund"])
        .try_map(|word| word.parse())
}

/// `dikala credits …`
pub async fn credits(command: CreditsCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let process = open(layers).await?;
    match command {
        CreditsCommand::Show { of } => {
            let input = of.input();
            let credits = of_tenant::show(process.operation(), input.id()?).await;
            output::one(&input.outcome(credits)?, json)
        }
        CreditsCommand::Transactions { of, page } => {
            let input = of.input().page(page);
            let context = process.operation();
            let listed = of_tenant::transactions(context, input.id()?, input.query()).await;
            output::page(&input.outcome(listed)?, json)
        }
        CreditsCommand::Add(booking) => add(booking, process, json).await,
    }
}

/// `dikala credits add`
async fn add(booking: BookingArgs, process: CommandContext, json: bool) -> Result<(), CliError> {
    let BookingArgs {
        of,
        minutes,
        kind,
        reference,
        description,
    } = booking;
    let CommandContext { store, by, now, .. } = process;
    let input = of.input();
    let tenant: TenantId = input.id()?.0;
    let trimmed = |text: String| text.trim().to_owned();
    let reference = reference.map_or_else(chosen_reference, trimmed);
    let description = description.map(trimmed).filter(|text| !text.is_empty());
    let credit = ledger::Credit {
        tenant,
        minutes,
        kind,
        reference: Some(reference.clone()),
        description,
    };
    let change = AuditChange::booking(&credit);
    let audit = by.entry(Some(tenant), change, now);
    let clock = Arc::new(SystemClock);
    match commit::credit(&store, clock, credit, Some(audit)).await {
        Ok(booked) => {
            let transaction = TransactionView::from(booked.transaction);
            output::one(&transaction, json)?;
            if !booked.is_new {
                let id = transaction.id;
                note(format_args!(
                    "nothing was booked now: reference {reference} was booked before, as {id}"
                ));
            }
            Ok(())
        }
        Err(commit::CreditError::NoTenant) => {
            Err(input.refused(ApiError::NotFound(Missing::Tenant)))
        }
        Err(commit::CreditError::Refused(sentence)) => Err(CliError::Refused(sentence)),
        Err(commit::CreditError::Database(error)) => {
            Err(CliError::Failed(perhaps_booked(&error, &reference)))
        }
    }
}

/// Generates a reference and prints it before the booking, so that a command with an unknown outcome can be
/// repeated.
fn chosen_reference() -> String {
    let reference = format!("cli-{:032x}", rand::random::<u128>());
    note(format_args!("--reference {reference}"));
    reference
}

/// The error for a lost connection: the commit may have succeeded.
fn perhaps_booked(error: &sea_orm::DbErr, reference: &str) -> String {
    format!(
        "the database does not answer: {error}; the minutes may have been booked: run the same command again with \
         --reference {reference}, which is booked once"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_booking_of_unknown_outcome_says_how_to_go_on() {
        let (one, other) = (chosen_reference(), chosen_reference());
        assert_ne!(one, other);
        let error = sea_orm::DbErr::Custom("connection reset".to_owned());
        let told = perhaps_booked(&error, &one);
        assert!(
            told.contains(&format!("again with --reference {one},")),
            "{told}"
        );
    }
}
