//! Operators' commands on the store. They need no running server and work beside one.

use clap::{Args, Subcommand};
use dikala_actors::{
    ledger, nodes,
    runtime::clock::{Clock, SystemClock},
};
use dikala_entities::{Millis, Plan, Store, TenantId};
use serde_json::json;

use super::{CliError, OfTenant, output};
use crate::{
    admin::{self, AdminError, bridges, find_tenant, keys, numbers, parse_id, tenants},
    app::{open_store, vault},
    audit::ChangeOrigin,
    config::{Layers, Settings},
    operator_api::bridges::stored_bridges,
};

#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Make a tenant.
    Create {
        /// 1 to 120 characters.
        #[arg(long)]
        name: String,
        #[command(flatten)]
        limits: TenantLimits,
    },
    /// All tenants, or those that are searched for.
    List {
        /// A part of the name, or the whole id.
        #[arg(long, value_name = "TEXT")]
        search: Option<String>,
    },
    /// One tenant.
    Show { id: String },
    /// Change a tenant.
    Update {
        id: String,
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        limits: TenantLimits,
    },
    /// Refuse the tenant's requests and calls.
    Suspend { id: String },
    /// Lift a suspension.
    Resume { id: String },
}

#[derive(Debug, Args)]
pub struct TenantLimits {
    /// starter, business or enterprise.
    #[arg(long)]
    plan: Option<Plan>,
    /// Requests a minute, instead of the plan's; 0 goes back to the plan's.
    #[arg(long, value_name = "N")]
    rate_limit: Option<i64>,
    /// Minutes below which credits.low is announced.
    #[arg(long, value_name = "MIN")]
    low_credit_threshold: Option<i64>,
    /// Calls at the same time, instead of the plan's; 0 goes back to the plan's.
    #[arg(long, value_name = "N")]
    max_concurrent_calls: Option<i64>,
}

impl TenantLimits {
    fn with_name(self, name: Option<String>) -> tenants::TenantChanges {
        tenants::TenantChanges {
            name,
            plan: self.plan,
            rate_limit: self.rate_limit,
            low_credit_threshold: self.low_credit_threshold,
            max_concurrent_calls: self.max_concurrent_calls,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key; it is shown this once.
    Create {
        #[command(flatten)]
        of: OfTenant,
        #[arg(long)]
        name: String,
    },
    /// The keys of a tenant.
    List {
        #[command(flatten)]
        of: OfTenant,
    },
    /// Refuse a key from now on.
    Revoke { id: String },
}

#[derive(Debug, Subcommand)]
pub enum NumberCommand {
    /// Add a number to a tenant.
    Add {
        #[command(flatten)]
        of: OfTenant,
        /// The number in international format: + and 7 to 15 digits.
        #[arg(long)]
        did: String,
        #[arg(long)]
        label: String,
    },
    /// All numbers, or those of a tenant.
    List {
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
    },
    /// Change a number.
    Update {
        id: String,
        #[arg(long)]
        label: Option<String>,
        /// Take or refuse calls to it.
        #[arg(long)]
        active: Option<bool>,
        /// Move it to this tenant; the agent that answered it stays behind.
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
    },
    /// Remove a number; its calls stay.
    Remove { id: String },
}

#[derive(Debug, Subcommand)]
pub enum BridgeCommand {
    /// Make a bridge; its token is shown this once.
    Create {
        #[arg(long)]
        name: String,
    },
    /// All bridges.
    List,
    /// Refuse a bridge from now on.
    Revoke { id: String },
}

#[derive(Debug, Subcommand)]
pub enum LedgerCommand {
    /// Compute every balance again from its transactions and holds.
    Verify {
        #[arg(long, value_name = "ID")]
        tenant: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum FunctionSecretCommand {
    /// Show the secret.
    Show {
        #[command(flatten)]
        of: OfTenant,
    },
    /// Make a new one; the old one signs nothing more.
    Rotate {
        #[command(flatten)]
        of: OfTenant,
    },
}

pub(super) struct CommandContext {
    pub(super) settings: Settings,
    pub(super) store: Store,
    pub(super) by: ChangeOrigin,
    pub(super) now: Millis,
}

/// The clock of the nodes that share this store; it may differ from this machine's.
pub(super) async fn clock_of(store: &Store) -> Result<SystemClock, CliError> {
    if store.lease().is_some() {
        let time = nodes::time_of(store).await.map_err(AdminError::from)?;
        SystemClock.begin_at(time);
    }
    Ok(SystemClock)
}

/// Opens the configured store; fails if the schema is missing.
pub(super) async fn open(layers: &Layers) -> Result<CommandContext, CliError> {
    let settings = Settings::new(layers)?;
    let store = open_store(&settings, false).await?;
    let clock = clock_of(&store).await?;
    Ok(CommandContext {
        by: ChangeOrigin::cli(&settings.node.name),
        settings,
        store,
        now: clock.now(),
    })
}

/// `dikala tenant …`
pub async fn tenant(command: TenantCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let CommandContext {
        settings,
        store,
        by,
        now,
    } = open(layers).await?;
    let id = |id: &str| parse_id::<TenantId>("tenant", id);
    let tenant = match command {
        TenantCommand::Create { name, limits } => {
            tenants::create(
                &store,
                &vault(&settings).await?,
                limits.with_name(Some(name)),
                &by,
                now,
            )
            .await?
        }
        TenantCommand::List { search } => {
            let search = search.as_deref().map(str::trim);
            let found = tenants::list(&store, search.filter(|text| !text.is_empty())).await?;
            return output::list("tenants", &found, json);
        }
        TenantCommand::Show { id: given } => tenants::show(store.reader(), id(&given)?).await?,
        TenantCommand::Update {
            id: given,
            name,
            limits,
        } => tenants::update(&store, id(&given)?, limits.with_name(name), &by, now).await?,
        TenantCommand::Suspend { id: given } => {
            tenants::set_suspended(&store, id(&given)?, true, &by, now).await?
        }
        TenantCommand::Resume { id: given } => {
            tenants::set_suspended(&store, id(&given)?, false, &by, now).await?
        }
    };
    output::one(&tenant, json)
}

/// `dikala key …`
pub async fn key(command: KeyCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let CommandContext { store, by, now, .. } = open(layers).await?;
    match command {
        KeyCommand::Create { of, name } => {
            let tenant = parse_id("tenant", &of.tenant)?;
            let key = keys::create(&store, tenant, &name, &by, now).await?;
            output::one(&key, json)
        }
        KeyCommand::List { of } => output::list(
            "keys",
            &keys::list(&store, parse_id("tenant", &of.tenant)?).await?,
            json,
        ),
        KeyCommand::Revoke { id } => output::one(
            &keys::revoke(&store, parse_id("key", &id)?, &by, now).await?,
            json,
        ),
    }
}

/// `dikala number …`
pub async fn number(command: NumberCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let CommandContext { store, by, now, .. } = open(layers).await?;
    let number = match command {
        NumberCommand::Add { of, did, label } => {
            numbers::add(
                &store,
                parse_id("tenant", &of.tenant)?,
                &did,
                &label,
                &by,
                now,
            )
            .await?
        }
        NumberCommand::List { tenant } => {
            let tenant = tenant
                .map(|tenant| parse_id("tenant", &tenant))
                .transpose()?;
            return output::list("numbers", &numbers::list(&store, tenant).await?, json);
        }
        NumberCommand::Update {
            id,
            label,
            active,
            tenant,
        } => {
            let tenant = tenant
                .map(|tenant| parse_id("tenant", &tenant))
                .transpose()?;
            let changes = numbers::NumberChanges {
                tenant,
                label,
                is_active: active,
            };
            numbers::update(&store, parse_id("number", &id)?, changes, &by, now).await?
        }
        NumberCommand::Remove { id } => {
            numbers::remove(&store, parse_id("number", &id)?, &by, now).await?
        }
    };
    output::one(&number, json)
}

/// `dikala bridge …`
pub async fn bridge(command: BridgeCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let CommandContext { store, by, now, .. } = open(layers).await?;
    match command {
        BridgeCommand::Create { name } => {
            output::one(&bridges::create(&store, &name, &by, now).await?, json)
        }
        BridgeCommand::List => {
            let found = stored_bridges(store.reader()).await;
            output::list("bridges", &found.map_err(admin::AdminError::from)?, json)
        }
        BridgeCommand::Revoke { id } => output::one(
            &bridges::revoke(&store, parse_id("bridge", &id)?, &by, now).await?,
            json,
        ),
    }
}

/// `dikala ledger verify`
pub async fn ledger(command: LedgerCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let LedgerCommand::Verify { tenant } = command;
    let CommandContext { store, .. } = open(layers).await?;
    let tenant: Option<TenantId> = tenant
        .map(|tenant| parse_id("tenant", &tenant))
        .transpose()?;
    if let Some(tenant) = tenant {
        find_tenant(store.reader(), tenant).await?;
    }
    let report = ledger::verify(&store, tenant)
        .await
        .map_err(admin::AdminError::from)?;
    if json {
        output::text(&json!(report).to_string())?;
    } else {
        for difference in &report.differences {
            output::text(difference)?;
        }
        output::text(&format!(
            "{} tenants, {} transactions, {} holds: {} differences",
            report.tenants,
            report.transactions,
            report.holds,
            report.differences.len()
        ))?;
    }
    if report.differences.is_empty() {
        Ok(())
    } else {
        Err(CliError::Shown)
    }
}

/// `dikala function-secret …`
pub async fn function_secret(
    command: FunctionSecretCommand,
    layers: &Layers,
    json: bool,
) -> Result<(), CliError> {
    let CommandContext {
        settings,
        store,
        by,
        now,
    } = open(layers).await?;
    let secret = match command {
        FunctionSecretCommand::Show { of } => {
            let vault = vault(&settings).await?;
            tenants::function_secret(&store, &vault, parse_id("tenant", &of.tenant)?, &by, now)
                .await?
        }
        FunctionSecretCommand::Rotate { of } => {
            tenants::rotate_function_secret(
                &store,
                &vault(&settings).await?,
                parse_id("tenant", &of.tenant)?,
                &by,
                now,
            )
            .await?
        }
    };
    output::one(&json!({"secret": secret.expose()}), json)
}
