//! `dikala user …`: manages the people who sign in to the dashboard.

use clap::Subcommand;
use dikala_entities::Role;

use super::{CliError, OfTenant, admin::open, command_input::CommandInput, output};
use crate::{config::Layers, operations::members};

#[derive(Debug, Subcommand)]
pub enum UserCommand {
    /// Make somebody, with a one-time link that is good for 30 minutes.
    Create {
        #[command(flatten)]
        of: OfTenant,
        /// Unique in the service; large and small letters are the same.
        #[arg(long)]
        email: String,
        /// 1 to 120 characters; the part before the @ where none is given.
        #[arg(long)]
        name: Option<String>,
        /// owner or viewer.
        #[arg(long, default_value = "owner")]
        role: Role,
    },
    /// The people of a tenant.
    List {
        #[command(flatten)]
        of: OfTenant,
    },
    /// Make somebody another one-time link.
    LoginLink { id: String },
    /// Remove somebody, and end all sessions.
    Remove { id: String },
}

/// `dikala user …`
pub async fn user(command: UserCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let opened = open(layers).await?;
    let http = &opened.settings.http;
    let context = opened.operation().with_base(&http.base(http.listen));
    match command {
        UserCommand::Create {
            of,
            email,
            name,
            role,
        } => {
            let input = of
                .input()
                .with("--email", "email", Some(email))
                .with("--name", "name", name)
                .with("--role", "role", Some(role.as_str()));
            let created = members::create(context, input.id()?, input.body()).await;
            output::one(&input.outcome(created)?.value, json)
        }
        UserCommand::List { of } => {
            let input = of.input();
            let listed = members::all(context, input.id()?).await;
            output::list("users", &input.outcome(listed)?, json)
        }
        UserCommand::LoginLink { id } => {
            let input = CommandInput::of("user", &id);
            let created = members::link(context, input.id()?, input.body()).await;
            output::one(&input.outcome(created)?.value, json)
        }
        UserCommand::Remove { id } => {
            let input = CommandInput::of("user", &id);
            let deleted = members::delete(context, input.id()?).await;
            output::one(&input.outcome(deleted)?.0, json)
        }
    }
}
