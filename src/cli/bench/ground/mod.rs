//! The environment of scenarios: a temporary folder, databases, tenants and a server.

pub mod filling;
pub mod postgres;
pub mod proxy;
pub mod receiver;
pub mod server;
pub mod thread;
pub mod wal;

use std::{cell::Cell, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::ValueEnum;
use dikala_actors::{
    commit,
    ledger::Credit,
    runtime::clock::{Clock, SystemClock},
};
use dikala_entities::{
    AgentId, EventKind, Language, PhoneNumber, PhoneNumberId, Plan, Secret, Store, TenantId,
    TransactionType, Vault, agent, phone_number, webhook,
};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;

use self::{
    postgres::Postgres,
    server::{MeasuredServer, ServerSetup},
};
use super::{Result, bridge::CallTarget, failed, sizes::Sizes};
use crate::{
    cli::dev::demo::{demo_agent, demo_webhook},
    http::extract::{Id, RequestBody},
    operations::{OperationContext, bridges, keys, numbers, tenants},
};

/// Enough for all calls of a run.
const MINUTES: i64 = 100_000_000;
/// High enough that no request is refused.
const RATE_LIMIT: i64 = 1_000_000_000;

/// The kind of store that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasuredStore {
    Sqlite,
    Postgres,
}

/// The environment of one run.
#[derive(Debug)]
pub struct BenchEnvironment {
    pub sizes: Sizes,
    /// Nodes that are measured beside one.
    pub nodes: usize,
    folder: TempDir,
    /// `None` on SQLite.
    postgres: Option<Postgres>,
    databases: Cell<u32>,
}

/// The tenants to create.
#[derive(Clone, Copy, Debug)]
pub struct Tenants<'a> {
    pub count: usize,
    /// The receiver of their webhooks, and the events that each subscribes to.
    pub webhooks: Option<(SocketAddr, &'a [EventKind])>,
}

/// A database with tenants and a bridge; no server runs on it yet.
#[derive(Debug)]
pub struct BenchDatabase {
    pub setup: ServerSetup,
    pub token: Secret,
    pub dids: Vec<PhoneNumber>,
    /// The first tenant; the number, agent and key below are its own.
    pub tenant: TenantId,
    pub number: PhoneNumberId,
    pub agent: AgentId,
    pub key: String,
}

impl BenchEnvironment {
    /// Blocks while PostgreSQL starts. It waits for `commit_delay` before each flush.
    pub fn new(
        kind: MeasuredStore,
        sizes: Sizes,
        nodes: usize,
        commit_delay: Duration,
    ) -> Result<Self> {
        let postgres = match kind {
            MeasuredStore::Sqlite => None,
            MeasuredStore::Postgres => Some(Postgres::start(commit_delay)?),
        };
        let folder = tempfile::Builder::new().prefix("dikala-bench.").tempdir();
        Ok(Self {
            sizes,
            nodes,
            folder: folder.map_err(failed)?,
            postgres,
            databases: Cell::new(0),
        })
    }

    /// The kind of store that is measured.
    pub fn kind(&self) -> MeasuredStore {
        match self.postgres {
            None => MeasuredStore::Sqlite,
            Some(_) => MeasuredStore::Postgres,
        }
    }

    /// PostgreSQL's address, if PostgreSQL is measured.
    pub fn postgres(&self) -> Option<SocketAddr> {
        let postgres = self.postgres.as_ref()?;
        Some(([127, 0, 0, 1], postgres.port).into())
    }

    /// Creates an empty database of the measured kind with the schema. Returns its folder and URL.
    pub async fn database(&self) -> Result<(PathBuf, String)> {
        let number = self.databases.get();
        self.databases.set(number + 1);
        let folder = self.folder.path().join(format!("b{number}"));
        std::fs::create_dir(&folder).map_err(failed)?;
        let url = match &self.postgres {
            None => format!("sqlite://{}", folder.join("bench.db").display()),
            Some(postgres) => postgres.database(&format!("b{number}"))?,
        };
        let store = Store::connect(&url).await.map_err(failed)?;
        let schema = store.for_schema().await.map_err(failed)?;
        dikala_migration::migrate(&schema).await.map_err(failed)?;
        schema.close().await.map_err(failed)?;
        store.close().await;
        Ok((folder, url))
    }

    /// Creates a database with tenants, each with a number, an agent and ample credit.
    pub async fn place(&self, tenants: Tenants<'_>) -> Result<BenchDatabase> {
        let (folder, database) = self.database().await?;
        let key = Vault::generate_key();
        let vault = Vault::from_base64(&key).map_err(failed)?;
        let store = Store::connect(&database).await.map_err(failed)?;
        let context = OperationContext::of_command(&store, Some(&vault), NODE);
        let named = RequestBody::of(json!({"name": "bench"}));
        let bridge = bridges::create(context.clone(), named.clone()).await;
        let bridge = bridge.map_err(failed)?.value;
        let mut made = Vec::new();
        let mut dids = Vec::new();
        for n in 0..tenants.count {
            let did: PhoneNumber = format!("+62215{n:07}").parse().map_err(failed)?;
            made.push(tenant(&store, &vault, &did, tenants.webhooks).await?);
            dids.push(did);
        }
        let (tenant, number, agent) = made[0];
        let api_key = keys::create(context, Id(tenant), named).await;
        let api_key = api_key.map_err(failed)?.value;
        store.close().await;
        Ok(BenchDatabase {
            setup: ServerSetup {
                folder,
                database,
                key,
            },
            token: bridge.secret(),
            dids,
            tenant,
            number,
            agent,
            key: api_key.secret().expose().to_owned(),
        })
    }
}

impl BenchDatabase {
    pub fn serve(&self) -> Result<MeasuredServer> {
        self.setup.start()
    }

    /// The line on which a bridge calls these tenants.
    pub fn line(&self, address: SocketAddr) -> CallTarget {
        CallTarget {
            address,
            token: self.token.clone(),
            dids: self.dids.clone(),
        }
    }
}

/// The node of the changes in the audit log.
const NODE: &str = "bench";

async fn tenant(
    store: &Store,
    vault: &Vault,
    did: &PhoneNumber,
    webhooks: Option<(SocketAddr, &[EventKind])>,
) -> Result<(TenantId, PhoneNumberId, AgentId)> {
    let now = SystemClock.now();
    let context = OperationContext::of_command(store, Some(vault), NODE);
    let draft =
        json!({"name": "Bench", "plan": Plan::Enterprise.as_str(), "rateLimit": RATE_LIMIT});
    let created = tenants::create(context.clone(), RequestBody::of(draft)).await;
    let tenant = created.map_err(failed)?.value.id;
    let draft = json!({"tenantId": tenant, "did": did, "label": "Bench"});
    let created = numbers::create(context, RequestBody::of(draft)).await;
    let number = created.map_err(failed)?.value.id;
    let purchase = Credit {
        tenant,
        minutes: MINUTES,
        kind: TransactionType::Purchase,
        reference: None,
        description: None,
    };
    let booked = commit::credit(store, Arc::new(SystemClock), purchase, None).await;
    booked.map_err(failed)?;
    let agent = demo_agent(tenant, Language::default(), now);
    let agent_id = agent.id;
    let assigned = phone_number::ActiveModel {
        id: Set(number),
        agent_id: Set(Some(agent.id)),
        ..Default::default()
    };
    let webhook = webhooks.map(|(receiver, events)| {
        let secret = Secret::new(Vault::generate_key());
        webhook::Model {
            events: json!(events).to_string(),
            ..demo_webhook(vault, tenant, &secret, receiver, now)
        }
    });
    configure(store, agent, assigned, webhook)
        .await
        .map_err(failed)?;
    Ok((tenant, number, agent_id))
}

async fn configure(
    store: &Store,
    agent: agent::Model,
    number: phone_number::ActiveModel,
    webhook: Option<webhook::Model>,
) -> std::result::Result<(), sea_orm::DbErr> {
    let txn = store.begin().await?;
    let agent = agent::Entity::insert(agent.into_active_model());
    agent.exec_without_returning(&txn).await?;
    number.update(&txn).await?;
    if let Some(webhook) = webhook {
        let webhook = webhook::Entity::insert(webhook.into_active_model());
        webhook.exec_without_returning(&txn).await?;
    }
    txn.commit().await
}
