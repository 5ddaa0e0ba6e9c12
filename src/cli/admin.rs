//! Operators' commands on the store. They need no running server and work beside one.

use clap::{Args, Subcommand};
use dikala_actors::{
    ledger, nodes,
    runtime::clock::{Clock, SystemClock},
};
use dikala_entities::{Millis, Plan, Store, TenantId};
use serde::Serialize;
use serde_json::json;

use super::{CliError, OfTenant, command_input::CommandInput, output};
use crate::{
    app::{open_store, vault},
    audit::ChangeOrigin,
    config::{Layers, Settings},
    http::extract::Id,
    operations::{
        OperationContext,
        bridges::{self, BridgeView},
        keys, numbers, tenants,
    },
    telemetry,
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
    /// Adds the options to the input of an operation. 0 removes a limit of the tenant's own.
    fn with(self, name: Option<String>, input: CommandInput) -> CommandInput {
        let own = |limit: Option<i64>| limit.map(|limit| Some(limit).filter(|limit| *limit != 0));
        input
            .with("--name", "name", name)
            .with("--plan", "plan", self.plan.map(Plan::as_str))
            .with("--rate-limit", "rateLimit", own(self.rate_limit))
            .with(
                "--low-credit-threshold",
                "lowCreditThreshold",
                self.low_credit_threshold,
            )
            .with(
                "--max-concurrent-calls",
                "maxConcurrentCalls",
                own(self.max_concurrent_calls),
            )
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
        /// It may report calls from browsers.
        #[arg(long)]
        web: bool,
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

impl CommandContext {
    pub(super) fn operation(&self) -> OperationContext {
        OperationContext::of_command(&self.store, None, &self.settings.node.name)
    }

    /// For an operation that seals or opens secrets.
    async fn operation_with_vault(&self) -> Result<OperationContext, CliError> {
        let vault = vault(&self.settings).await?;
        let node = &self.settings.node.name;
        Ok(OperationContext::of_command(
            &self.store,
            Some(&vault),
            node,
        ))
    }
}

/// The clock of the nodes that share this store; it may differ from this machine's.
pub(super) async fn clock_of(store: &Store) -> Result<SystemClock, CliError> {
    if store.lease().is_some() {
        let time = nodes::time_of(store).await?;
        SystemClock.begin_at(time);
    }
    Ok(SystemClock)
}

/// Opens the configured store; fails if the schema is missing.
pub(super) async fn open(layers: &Layers) -> Result<CommandContext, CliError> {
    let settings = Settings::new(layers)?;
    let store = open_store(&settings, false).await?;
    telemetry::init_for_command();
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
    let opened = open(layers).await?;
    let context = opened.operation();
    let of = |id: &str| CommandInput::of("tenant", id);
    let (input, outcome) = match command {
        TenantCommand::Create { name, limits } => {
            let input = limits.with(Some(name), CommandInput::default());
            let context = opened.operation_with_vault().await?;
            let created = tenants::create(context, input.body()).await;
            (input, created.map(|created| created.value))
        }
        TenantCommand::List { search } => {
            let search = search.as_deref().map(str::trim);
            let search = search.filter(|text| !text.is_empty());
            return output::list("tenants", &tenants::all(context, search).await?, json);
        }
        TenantCommand::Show { id } => {
            let input = of(&id);
            let shown = tenants::show(context, input.id()?).await;
            (input, shown)
        }
        TenantCommand::Update { id, name, limits } => {
            let input = limits.with(name, of(&id));
            let updated = tenants::update(context, input.id()?, input.body()).await;
            (input, updated)
        }
        TenantCommand::Suspend { id } => {
            let input = of(&id);
            let suspended = tenants::suspend(context, input.id()?, input.body()).await;
            (input, suspended)
        }
        TenantCommand::Resume { id } => {
            let input = of(&id);
            let resumed = tenants::resume(context, input.id()?, input.body()).await;
            (input, resumed)
        }
    };
    output::one(&input.outcome(outcome)?, json)
}

/// `dikala key …`
pub async fn key(command: KeyCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let context = open(layers).await?.operation();
    match command {
        KeyCommand::Create { of, name } => {
            let input = of.input().with("--name", "name", Some(name));
            let created = keys::create(context, input.id()?, input.body()).await;
            output::one(&input.outcome(created)?.value, json)
        }
        KeyCommand::List { of } => {
            let input = of.input();
            let listed = keys::all(context, input.id()?).await;
            output::list("keys", &input.outcome(listed)?, json)
        }
        KeyCommand::Revoke { id } => {
            let input = CommandInput::of("key", &id);
            let revoked = keys::revoke(context, input.id()?).await;
            output::one(&input.outcome(revoked)?, json)
        }
    }
}

/// `dikala number …`
pub async fn number(command: NumberCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let context = open(layers).await?.operation();
    let (input, outcome) = match command {
        NumberCommand::Add { of, did, label } => {
            let input = of
                .input()
                .with("--tenant", "tenantId", Some(of.tenant))
                .with("--did", "did", Some(did))
                .with("--label", "label", Some(label));
            let tenant = input.id::<TenantId>()?;
            input.outcome(context.require_tenant(tenant.0).await)?;
            let created = numbers::create(context, input.body()).await;
            (input, created.map(|created| created.value))
        }
        NumberCommand::List { tenant } => {
            let input = tenant.map(|tenant| CommandInput::of("tenant", &tenant));
            let input = input.unwrap_or_default();
            let listed = numbers::all(context, input.optional_id()?).await;
            return output::list("numbers", &input.outcome(listed)?, json);
        }
        NumberCommand::Update {
            id,
            label,
            active,
            tenant,
        } => {
            if let Some(tenant) = &tenant {
                CommandInput::of("tenant", tenant).id::<TenantId>()?;
            }
            let input = CommandInput::of("number", &id)
                .with("--label", "label", label)
                .with("--active", "isActive", active)
                .with("--tenant", "tenantId", tenant);
            let updated = numbers::update(context, input.id()?, input.body()).await;
            (input, updated)
        }
        NumberCommand::Remove { id } => {
            let input = CommandInput::of("number", &id);
            let deleted = numbers::delete(context, input.id()?).await;
            (input, deleted.map(|deleted| deleted.0))
        }
    };
    output::one(&input.outcome(outcome)?, json)
}

/// A new bridge, which has neither a connection nor calls.
#[derive(Serialize)]
struct BridgeWithToken<'a> {
    token: &'a str,
    #[serde(flatten)]
    view: &'a BridgeView,
}

/// `dikala bridge …`
pub async fn bridge(command: BridgeCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let context = open(layers).await?.operation();
    match command {
        BridgeCommand::Create { name, web } => {
            let input = CommandInput::default()
                .with("--name", "name", Some(name))
                .with("--web", "web", Some(web));
            let created = bridges::create(context, input.body()).await;
            let created = input.outcome(created)?.value;
            let token = created.secret();
            let bridge = BridgeWithToken {
                token: token.expose(),
                view: &created.bridge.view,
            };
            output::one(&bridge, json)
        }
        BridgeCommand::List => {
            let listed = bridges::all(context).await;
            output::list("bridges", &listed?, json)
        }
        BridgeCommand::Revoke { id } => {
            let input = CommandInput::of("bridge", &id);
            let revoked = bridges::revoke(context, input.id()?).await;
            output::one(&input.outcome(revoked)?, json)
        }
    }
}

/// `dikala ledger verify`
pub async fn ledger(command: LedgerCommand, layers: &Layers, json: bool) -> Result<(), CliError> {
    let LedgerCommand::Verify { tenant } = command;
    let opened = open(layers).await?;
    let input = tenant.map(|tenant| CommandInput::of("tenant", &tenant));
    let input = input.unwrap_or_default();
    let tenant = input.optional_id()?.map(|tenant: Id<TenantId>| tenant.0);
    if let Some(tenant) = tenant {
        let found = opened.operation().require_tenant(tenant).await;
        input.outcome(found)?;
    }
    let report = ledger::verify(&opened.store, tenant).await?;
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
    let context = open(layers).await?.operation_with_vault().await?;
    let (input, outcome) = match command {
        FunctionSecretCommand::Show { of } => {
            let input = of.input();
            let shown = tenants::function_secret(context, input.id()?).await;
            (input, shown)
        }
        FunctionSecretCommand::Rotate { of } => {
            let input = of.input();
            let rotated = tenants::rotate_function_secret(context, input.id()?).await;
            (input, rotated)
        }
    };
    output::one(&input.outcome(outcome)?, json)
}
