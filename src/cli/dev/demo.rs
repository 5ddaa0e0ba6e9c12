//! The demo's data: a tenant with ample credit, one whose credit runs low, an agent, numbers, a function and a
//! webhook.

use std::{env, fs, net::SocketAddr, path::Path, sync::Arc};

use dikala_actors::{calls::versions, commit, ledger, runtime::clock::SystemClock};
use dikala_entities::{
    API_KEY_SCHEME, AgentId, EventKind, FunctionId, FunctionMethod, Language, Millis, OutboundUrl,
    PhoneNumber, PhoneNumberId, Plan, Secret, Store, TenantId, TransactionType, UrlPolicy, Vault,
    VoiceId, WebhookId, agent, api_key, function, phone_number, user,
    webhook::{self, NewWebhook},
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{receiver, write_private};
use crate::{
    cli::CliError,
    http::extract::{Id, RequestBody},
    operations::{
        OperationContext, bridges, keys,
        members::{self, SignInLink},
        numbers, tenants,
    },
};

/// The demo tenant's number.
pub(super) const DID: &str = "+622150001000";
const DID_LOW: &str = "+622150002000";
const OWNER: (&str, &str) = ("owner@example.com", "Dewi");
const OWNER_LOW: (&str, &str) = ("owner.low@example.com", "Budi");
const ENGLISH: &str = "en";
/// The node of the demo's changes in the audit log.
const NODE: &str = "main";
/// About three calls above the threshold of 30.
const LOW_START_MINUTES: i64 = 33;

/// The secrets and ids that later starts need, kept in a file that only its owner may read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Demo {
    pub key: String,
    pub bridge_token: String,
    /// The numbers that the simulated bridge calls in turn.
    pub dids: Vec<PhoneNumber>,
    webhook_secret: String,
    webhooks: Vec<WebhookId>,
    functions: Vec<FunctionId>,
}

impl Demo {
    /// The secret that signs the demo's webhooks.
    pub fn webhook_secret(&self) -> Secret {
        Secret::new(self.webhook_secret.clone())
    }

    /// Creates the data at the first start. Later starts only update the receiver's address.
    pub async fn prepare(
        store: &Store,
        vault: &Vault,
        file: &Path,
        receiver: SocketAddr,
        now: Millis,
    ) -> Result<Self, CliError> {
        let demo = match fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).map_err(|_| {
                CliError::Failed(format!(
                    "{} cannot be read; remove the data folder to start anew",
                    file.display()
                ))
            })?,
            Err(_) => {
                let demo = create(store, vault, receiver, now).await?;
                let text = json!(demo).to_string();
                write_private(file, &text).map_err(|error| super::unwritable(file, &error))?;
                demo
            }
        };
        demo.point_at(store, receiver, now)
            .await
            .map_err(database)?;
        Ok(demo)
    }

    /// Sign-in links for the owners of the demo tenants. The second link is for the tenant with low
    /// credit, if it exists. Removed owners are created again.
    pub async fn links(
        &self,
        store: &Store,
        base: &str,
    ) -> Result<(SignInLink, Option<SignInLink>), CliError> {
        let context = OperationContext::of_command(store, None, NODE).with_base(base);
        let low = phone_number::Entity::find()
            .filter(phone_number::Column::Did.eq(DID_LOW))
            .one(store.reader())
            .await
            .map_err(database)?;
        let first = self.tenant_id(store).await?;
        let first = link(context.clone(), first, OWNER).await?;
        let second = match low {
            Some(low) => Some(link(context, low.tenant_id, OWNER_LOW).await?),
            None => None,
        };
        Ok((first, second))
    }

    /// The tenant of the API key, and the secret that signs the requests to its functions.
    pub async fn function_secret(
        &self,
        store: &Store,
        vault: &Vault,
    ) -> Result<(TenantId, Secret), CliError> {
        let tenant = self.tenant_id(store).await?;
        let context = OperationContext::of_command(store, Some(vault), NODE);
        let shown = tenants::function_secret(context, Id(tenant)).await?;
        Ok((tenant, shown.secret))
    }

    async fn tenant_id(&self, store: &Store) -> Result<TenantId, CliError> {
        let key = API_KEY_SCHEME
            .parse(&self.key)
            .ok_or_else(|| CliError::Failed("the demo's key is none".to_owned()))?;
        let key = api_key::Entity::find()
            .filter(api_key::Column::Hash.eq(key.hash()))
            .one(store.reader())
            .await
            .map_err(database)?;
        key.map(|key| key.tenant_id)
            .ok_or_else(|| CliError::Failed("the demo's key is not there".to_owned()))
    }

    async fn point_at(
        &self,
        store: &Store,
        receiver: SocketAddr,
        now: Millis,
    ) -> Result<(), sea_orm::DbErr> {
        let txn = store.begin().await?;
        for id in &self.webhooks {
            if let Some(webhook) = webhook::Entity::find_by_id(*id).one(&txn).await? {
                let moved = moved(&webhook.url, receiver);
                let mut webhook = webhook.into_active_model();
                webhook.url = Set(moved);
                webhook.update(&txn).await?;
            }
        }
        for id in &self.functions {
            if let Some(function) = function::Entity::find_by_id(*id).one(&txn).await? {
                let agent = function.agent_id;
                let moved = moved(&function.endpoint, receiver);
                let mut function = function.into_active_model();
                function.endpoint = Set(moved);
                function.update(&txn).await?;
                // Calls read their agent's recorded version.
                if let Some(agent) = agent::Entity::find_by_id(agent).one(&txn).await? {
                    versions::record(&txn, &agent, now).await?;
                }
            }
        }
        txn.commit().await
    }
}

fn database(error: sea_orm::DbErr) -> CliError {
    CliError::Failed(error.to_string())
}

async fn link(
    context: OperationContext,
    tenant: TenantId,
    (email, name): (&str, &str),
) -> Result<SignInLink, CliError> {
    let owner = user::Entity::find()
        .filter(user::Column::Email.eq(email))
        .one(context.store().reader())
        .await
        .map_err(database)?;
    let linked = match owner {
        Some(owner) => members::link(context, Id(owner.id), RequestBody::default()).await?,
        None => {
            let draft = RequestBody::of(json!({"email": email, "name": name}));
            members::create(context, Id(tenant), draft).await?
        }
    };
    Ok(linked.value)
}

async fn create(
    store: &Store,
    vault: &Vault,
    receiver: SocketAddr,
    now: Millis,
) -> Result<Demo, CliError> {
    let webhook_secret = Vault::generate_key();
    let context = OperationContext::of_command(store, Some(vault), NODE);
    let named = |name: &str| RequestBody::of(json!({"name": name}));
    let bridge = bridges::create(context.clone(), named("demo bridge")).await?;
    let mut demo = Demo {
        key: String::new(),
        bridge_token: bridge.value.secret().expose().to_owned(),
        dids: dids()?,
        webhook_secret,
        webhooks: Vec::new(),
        functions: Vec::new(),
    };
    let rich = demo
        .tenant(store, vault, "Kopi Senja", DID, 10_000, receiver, now)
        .await?;
    demo.tenant(
        store,
        vault,
        "Toko Hemat (low on credit)",
        DID_LOW,
        LOW_START_MINUTES,
        receiver,
        now,
    )
    .await?;
    let key = keys::create(context, Id(rich), named("demo")).await?;
    demo.key = key.value.secret().expose().to_owned();
    Ok(demo)
}

impl Demo {
    #[expect(
        clippy::too_many_arguments,
        reason = "a list of what differs between the two demo tenants"
    )]
    async fn tenant(
        &mut self,
        store: &Store,
        vault: &Vault,
        name: &str,
        did: &str,
        minutes: i64,
        receiver: SocketAddr,
        now: Millis,
    ) -> Result<TenantId, CliError> {
        let context = OperationContext::of_command(store, Some(vault), NODE);
        let draft = json!({"name": name, "plan": Plan::Business.as_str()});
        let tenant = tenants::create(context.clone(), RequestBody::of(draft)).await?;
        let tenant = tenant.value.id;
        let draft = json!({"tenantId": tenant, "did": did, "label": "Main line"});
        let number = numbers::create(context, RequestBody::of(draft)).await?;
        let number = number.value.id;
        let credit = ledger::Credit {
            tenant,
            minutes,
            kind: TransactionType::Purchase,
            reference: Some("demo".to_owned()),
            description: Some("Demo credit".to_owned()),
        };
        commit::credit(store, Arc::new(SystemClock), credit, None)
            .await
            .map_err(|e| CliError::Failed(e.to_string()))?;
        let rows = self.configure(store, vault, tenant, number, receiver, now);
        rows.await.map_err(database)?;
        Ok(tenant)
    }

    async fn configure(
        &mut self,
        store: &Store,
        vault: &Vault,
        tenant: TenantId,
        number: PhoneNumberId,
        receiver: SocketAddr,
        now: Millis,
    ) -> Result<(), sea_orm::DbErr> {
        let agent = demo_agent(tenant, language_of(&locale()), now);
        let function = demo_function(tenant, agent.id, receiver, now);
        let webhook = demo_webhook(vault, tenant, &self.webhook_secret(), receiver, now);
        let till = webhook::Model {
            url: url(receiver, receiver::BROKEN),
            events: json!([EventKind::CallEnded]).to_string(),
            ..demo_webhook(vault, tenant, &self.webhook_secret(), receiver, now)
        };
        self.functions.push(function.id);
        self.webhooks.extend([webhook.id, till.id]);
        let txn = store.begin().await?;
        let agent_id = agent.id;
        agent::Entity::insert(agent.into_active_model())
            .exec_without_returning(&txn)
            .await?;
        function::Entity::insert(function.into_active_model())
            .exec_without_returning(&txn)
            .await?;
        for webhook in [webhook, till] {
            webhook::Entity::insert(webhook.into_active_model())
                .exec_without_returning(&txn)
                .await?;
        }
        let assign = phone_number::ActiveModel {
            id: Set(number),
            agent_id: Set(Some(agent_id)),
            ..Default::default()
        };
        assign.update(&txn).await?;
        txn.commit().await
    }
}

/// Four calls to the first tenant for each call to the tenant with low credit.
fn dids() -> Result<Vec<PhoneNumber>, CliError> {
    let parse = |did: &str| {
        did.parse()
            .map_err(|_| CliError::Failed(format!("{did} is no number")))
    };
    [DID, DID, DID_LOW, DID, DID]
        .into_iter()
        .map(parse)
        .collect()
}

fn url(receiver: SocketAddr, path: &str) -> OutboundUrl {
    let policy = UrlPolicy { allow_http: true };
    OutboundUrl::parse(&format!("http://{receiver}/{path}"), policy)
        .expect("an address and a plain path")
}

/// The URL with the same path at this start's receiver.
fn moved(before: &OutboundUrl, receiver: SocketAddr) -> OutboundUrl {
    url(receiver, before.to_url().path().trim_start_matches('/'))
}

/// The locale of the process, by the variables that C programs read.
fn locale() -> String {
    let set = |name| env::var(name).ok().filter(|locale| !locale.is_empty());
    let names = ["LC_ALL", "LC_MESSAGES", "LANG"];
    names.into_iter().find_map(set).unwrap_or_default()
}

/// The language of the demo's agents. The test voice speaks Indonesian and English only.
fn language_of(locale: &str) -> Language {
    let tag = locale.split(['_', '.', '@']).next();
    match tag {
        Some("id") => Language::default(),
        _ => ENGLISH.parse().expect("a language tag"),
    }
}

/// The demo's agent.
pub fn demo_agent(tenant: TenantId, language: Language, now: Millis) -> agent::Model {
    let greeting = match language.as_str() {
        ENGLISH => "Hello, this is Ayu. How can I help?",
        _ => "Halo, dengan Ayu. Ada yang bisa dibantu?",
    };
    agent::Model {
        name: "Ayu".to_owned(),
        system_prompt: "You answer the phone of a coffee shop in Bandung: friendly and short."
            .to_owned(),
        voice_id: Some(VoiceId::Kore),
        greeting_text: Some(greeting.to_owned()),
        language,
        tools_enabled: json!(["end_call", "check_order"]).to_string(),
        ..agent::Model::new(tenant, now)
    }
}

fn demo_function(
    tenant: TenantId,
    agent: AgentId,
    receiver: SocketAddr,
    now: Millis,
) -> function::Model {
    function::Model {
        id: FunctionId::new(now),
        tenant_id: tenant,
        agent_id: agent,
        name: "check_order".to_owned(),
        description: "Looks up an order by its number.".to_owned(),
        endpoint: url(receiver, "orders/check"),
        method: FunctionMethod::Post,
        parameters: json!({
            "type": "object",
            "properties": {"orderNumber": {"type": "string", "description": "The number on the receipt"}},
            "required": ["orderNumber"],
        })
        .to_string(),
        created_at: now,
        updated_at: now,
    }
}

/// A webhook at the receiver, subscribed to all events.
pub fn demo_webhook(
    vault: &Vault,
    tenant: TenantId,
    secret: &Secret,
    receiver: SocketAddr,
    now: Millis,
) -> webhook::Model {
    let new = NewWebhook {
        id: WebhookId::new(now),
        tenant,
        url: url(receiver, "hooks"),
        events: EventKind::OF_WEBHOOKS,
        secret,
    };
    webhook::Model::new(new, vault, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_speaks_the_language_of_the_locale() {
        for (locale, language) in [
            ("id_ID.UTF-8", "id"),
            ("id", "id"),
            ("en_GB.UTF-8", "en"),
            ("de_DE@euro", "en"),
            ("C.UTF-8", "en"),
            ("", "en"),
        ] {
            assert_eq!(language_of(locale).as_str(), language, "{locale}");
        }
    }
}
