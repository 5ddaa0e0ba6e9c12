//! `dikala node …`: lists the nodes of the service.

use clap::Subcommand;

use super::{
    CliError,
    admin::{CommandContext, open},
    output,
};
use crate::{config::Layers, operator_api::system::stored_nodes};

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// The processes that serve this database, with what is left of their leases.
    List,
}

/// `dikala node list`
pub async fn node(command: NodeCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let NodeCommand::List = command;
    let CommandContext { store, .. } = open(layers).await?;
    let found = stored_nodes(store.api_reader()).await;
    output::list("nodes", &found?.nodes, json)
}
