//! `dikala whatsapp …`: brings a business number's settings at Meta to what its trunk needs.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{CliError, output};
use crate::{
    config::{Layers, Settings, WhatsAppAccount, WhatsAppTrunk},
    whatsapp::{
        CallingSettings, Graph, GraphError, MetaServer, SERVERS, SettingChange, changes, others,
        server_of, token,
    },
};

#[derive(Debug, Subcommand)]
pub enum WhatsAppCommand {
    /// Have Meta's calls come to this trunk: switch SIP and SDES on, name this machine, and fetch the password for SIP. The token
    /// is taken from WHATSAPP_TOKEN.
    Setup(SetupOptions),
}

#[derive(Debug, Args)]
pub struct SetupOptions {
    /// The trunk, which has the preset whatsapp.
    #[arg(long, value_name = "NAME")]
    trunk: String,
    /// The id of the business number at Meta, which is not the telephone number.
    #[arg(long, value_name = "ID")]
    phone_number_id: String,
    /// The address of Meta's Graph API.
    #[arg(long, value_name = "URL", default_value = "https://graph.facebook.com")]
    graph_url: String,
    /// Replace the server of another program. Meta calls one server of an app, so that program gets no more calls.
    #[arg(long)]
    replace_server: bool,
}

impl From<GraphError> for CliError {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Usage(words) => Self::Usage(words),
            GraphError::NotFound(words) => Self::NotFound(words),
            GraphError::Refused(words) => Self::Refused(words),
            GraphError::Failed(words) => Self::Failed(words),
        }
    }
}

/// `dikala whatsapp …`
pub async fn run(command: WhatsAppCommand, layers: &Layers, as_json: bool) -> Result<(), CliError> {
    let WhatsAppCommand::Setup(options) = command;
    let settings = Settings::new(layers)?;
    let trunk = trunk(&settings, &options.trunk)?;
    let server = server_of(&settings.bridge_keys().sip).map_err(CliError::Refused)?;
    let token = token().ok_or_else(|| {
        CliError::Usage(
            "WHATSAPP_TOKEN is not set; give a token with whatsapp_business_messaging and whatsapp_business_management in it".to_owned(),
        )
    })?;
    let graph = Graph::new(
        &options.graph_url,
        &options.phone_number_id,
        token,
        settings.extra_ca_file(),
    )?;
    let mut done = Vec::new();
    match set_up(&trunk, &options, &graph, &server, &mut done).await {
        Ok(now) => told(&trunk, (&now, &server), &done, as_json),
        Err(error) => {
            shown(&done)?;
            Err(error)
        }
    }
}

/// Changes what has to be changed, and stores the password. Adds each change to `done`, also before an error. Returns the settings
/// as they are now.
async fn set_up(
    trunk: &WhatsAppTrunk,
    options: &SetupOptions,
    graph: &Graph,
    server: &MetaServer,
    done: &mut Vec<SettingChange>,
) -> Result<CallingSettings, CliError> {
    graph.check_number(&trunk.number).await?;
    // From the first change on, the number's webhooks for calls are off.
    let writable = WhatsAppAccount::try_write(&trunk.file);
    writable.map_err(|error| not_writable(trunk, &error))?;
    let now = settle(graph, server, options.replace_server, done).await?;
    done.extend(store(trunk, options, now.password(server))?);
    Ok(now)
}

fn not_writable(trunk: &WhatsAppTrunk, error: &std::io::Error) -> CliError {
    CliError::Failed(format!(
        "{:?} cannot be written ({error}); run this as a user who may write there, or set account_file of the trunk to another file",
        trunk.file
    ))
}

fn trunk(settings: &Settings, name: &str) -> Result<WhatsAppTrunk, CliError> {
    let trunks = settings.whatsapp();
    let names: Vec<&str> = trunks.iter().map(|trunk| trunk.name.as_str()).collect();
    let there = match names.as_slice() {
        [] => "there is none; add one to the configuration".to_owned(),
        names => format!("there is {}", names.join(", ")),
    };
    let missing = format!("no trunk {name:?} has the preset whatsapp; {there}");
    let found = trunks.iter().find(|trunk| trunk.name == name);
    found.cloned().ok_or(CliError::NotFound(missing))
}

/// Changes what has to be changed at Meta. Returns the settings as they are now.
///
/// Errors: another program takes the calls, and may not be replaced.
async fn settle(
    graph: &Graph,
    server: &MetaServer,
    may_replace: bool,
    done: &mut Vec<SettingChange>,
) -> Result<CallingSettings, CliError> {
    let before = graph.settings().await?;
    if !may_replace && !before.has(server) && !others(&before, server).is_empty() {
        return Err(CliError::Refused(format!(
            "Meta calls {} for this number, and calls one server only; with --replace-server it will call {server}, and the other \
             gets no more calls; nothing was changed",
            before.server_names()
        )));
    }
    let requests = changes(&before, server);
    if requests.is_empty() {
        return Ok(before);
    }
    for (body, changed) in requests {
        graph.change(&body).await?;
        done.extend(changed);
    }
    let after = graph.settings().await?;
    let servers = done.iter_mut().find(|change| change.setting == SERVERS);
    if let Some(servers) = servers {
        servers.after = after.server_names();
    }
    match changes(&after, server).first() {
        None => Ok(after),
        Some((_, left)) => {
            let left: Vec<&str> = left.iter().map(|left| left.setting).collect();
            Err(CliError::Failed(format!(
                "Meta took the settings and does not show them yet ({}); run this again in a minute",
                left.join(", ")
            )))
        }
    }
}

/// Stores the account, if something about it is new. Returns what changed about the password.
fn store(
    trunk: &WhatsAppTrunk,
    options: &SetupOptions,
    password: Option<&str>,
) -> Result<Option<SettingChange>, CliError> {
    let Some(password) = password else {
        return Err(CliError::Failed(
            "Meta shows no password for SIP yet; run this again in a minute".to_owned(),
        ));
    };
    if trunk
        .password
        .as_deref()
        .is_some_and(|ours| ours != password)
    {
        return Err(CliError::Refused(format!(
            "password of the trunk {} is not the one that Meta has, and wins over it; remove it from the configuration and run this again",
            trunk.name
        )));
    }
    let account = WhatsAppAccount {
        phone_number_id: options.phone_number_id.clone(),
        graph_url: options.graph_url.clone(),
        password: trunk.password.is_none().then(|| password.to_owned()),
    };
    if trunk.account.as_ref() == Some(&account) {
        return Ok(None);
    }
    let stored = account.write(&trunk.file);
    stored.map_err(|error| not_writable(trunk, &error))?;
    let had = trunk.effective_password();
    let before = match had {
        None => "none",
        Some(had) if had == password => return Ok(None),
        Some(_) => "another",
    };
    Ok(Some(SettingChange {
        setting: "password",
        before: before.to_owned(),
        after: format!("in {}", trunk.file.display()),
    }))
}

fn told(
    trunk: &WhatsAppTrunk,
    (now, server): (&CallingSettings, &MetaServer),
    done: &[SettingChange],
    as_json: bool,
) -> Result<(), CliError> {
    let is_enabled = now.is_enabled();
    let others = others(now, server).into_iter();
    let others: Vec<String> = others.map(ToString::to_string).collect();
    if as_json {
        let report = json!({
            "trunk": trunk.name, "callingEnabled": is_enabled, "changes": done, "otherServers": others,
        });
        return output::text(&report.to_string());
    }
    if done.is_empty() {
        output::text("everything is set up already; nothing was changed")?;
    }
    shown(done)?;
    if done.iter().any(|change| change.setting == "password") {
        output::text("start the bridge again, so that it reads the password")?;
    }
    if !others.is_empty() {
        output::text(&format!(
            "Meta calls {} too, which another app has set, and ends a call when any server hangs up: clear it with a token of that app",
            others.join(", ")
        ))?;
    }
    if !is_enabled {
        output::text(
            "calls are switched off at Meta: switch them on in WhatsApp Manager, under the number's call settings",
        )?;
    }
    Ok(())
}

fn shown(done: &[SettingChange]) -> Result<(), CliError> {
    for change in done {
        let SettingChange {
            setting,
            before,
            after,
        } = change;
        output::text(&format!("{setting}: {before} → {after}"))?;
    }
    Ok(())
}
