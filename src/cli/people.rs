//! `dikala user …`: manages the people who sign in to the dashboard.

use clap::Subcommand;
use dikala_entities::Role;

use super::{
    CliError, OfTenant,
    admin::{CommandContext, open},
    output,
};
use crate::{
    admin::{
        parse_id,
        users::{self, LinkOptions},
    },
    config::Layers,
};

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
    let CommandContext {
        settings,
        store,
        by,
        now,
    } = open(layers).await?;
    let base = settings.http.base(settings.http.listen);
    let linking = LinkOptions {
        good_for_ms: users::LINK_MS,
        mail: None,
        by: &by,
        now,
    };
    match command {
        UserCommand::Create {
            of,
            email,
            name,
            role,
        } => {
            let draft = users::MemberDraft::parse(&email, name.as_deref(), role)?;
            let tenant = parse_id("tenant", &of.tenant)?;
            let made = users::create(&store, tenant, draft, linking).await?;
            output::one(&made.at(&base), json)
        }
        UserCommand::List { of } => {
            let people = users::list(&store, parse_id("tenant", &of.tenant)?).await?;
            output::list("users", &people, json)
        }
        UserCommand::LoginLink { id } => {
            let linked = users::link(&store, parse_id("user", &id)?, linking).await?;
            output::one(&linked.at(&base), json)
        }
        UserCommand::Remove { id } => {
            let removed = users::remove(&store, parse_id("user", &id)?, &by, now).await?;
            output::one(&removed, json)
        }
    }
}
