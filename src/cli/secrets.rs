//! `dikala secrets rotate`: reseals with the current `secrets.key` everything that an older key sealed.

use clap::Subcommand;
use dikala_actors::runtime::clock::Clock;

use super::{CliError, admin::clock_of, output};
use crate::{
    app::{open_store, vault},
    audit::ChangeOrigin,
    config::{Layers, Settings},
    operations::secrets,
};

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Seal everything that is stored again with secrets.key. Before it: give the new key as secrets.key and the old one in
    /// secrets.old_keys, and start the server again, so that it reads both. After it: take the old one out.
    Rotate,
}

/// `dikala secrets …`
pub async fn run(command: SecretsCommand, layers: &Layers, as_json: bool) -> Result<(), CliError> {
    let SecretsCommand::Rotate = command;
    let settings = Settings::new(layers)?;
    let vault = vault(&settings).await?;
    let store = open_store(&settings, false).await?;
    let by = ChangeOrigin::cli(&settings.node.name);
    let now = clock_of(&store).await?.now();
    let rotation = secrets::rotate(&store, &vault, &by, now).await;
    store.close().await;
    let rotation = rotation?;
    if as_json {
        output::text(&serde_json::json!(rotation).to_string())?;
    } else {
        output::text(&format!(
            "sealed again with the present key: {}; so already: {}",
            rotation.sealed, rotation.current
        ))?;
    }
    if rotation.unreadable > 0 {
        return Err(CliError::Failed(format!(
            "{} open with none of the keys ({}{}); put the key that they were made with into secrets.old_keys and run this again, or, \
             where there is none, make new ones (`dikala function-secret rotate --tenant ID` for a tenant, a new secret for a webhook)",
            output::count(rotation.unreadable, "secret"),
            rotation.named.join(", "),
            if rotation.unreadable > rotation.named.len() as u64 {
                ", …"
            } else {
                ""
            }
        )));
    }
    if !as_json && settings.has_old_keys() {
        output::text(
            "nothing needs secrets.old_keys any more: take it out of the configuration and start the server again",
        )?;
    } else if !as_json && rotation.sealed == 0 {
        output::text(
            "to change the key: make a new one (openssl rand -base64 32), set it as secrets.key and the present one as \
             secrets.old_keys, start the server again, run this again, then take secrets.old_keys out",
        )?;
    }
    Ok(())
}
