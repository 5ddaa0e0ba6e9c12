//! The context of an operation, and the transaction of one that changes something.

use std::{
    future::{Ready, ready},
    ops::Deref,
    rc::Rc,
    sync::Arc,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload, web::Data};
use dikala_actors::{
    bridges::Bridges,
    runtime::{
        clock::{SharedClock, SystemClock},
        fair_semaphore::FairPermit,
    },
};
use dikala_entities::{
    Actor, ApiKeyId, AuditAction, AuditId, BridgeId, IdempotencyScope, Millis, OfTenant, Role,
    Secret, SecretPlace, Store, TenantId, UrlPolicy, UserId, Vault, WebhookId,
    audit as audit_entry, store::Transaction, tenant, webhook,
};
use dikala_telephony::bridge::StatisticsReader;
use sea_orm::{ConnectionTrait, EntityTrait, PrimaryKeyTrait, Select};

use super::{AgentLimits, ChatService};
use crate::{
    audit::{self, AuditChange, AuditQuery, ChangeOrigin},
    http::{
        answer::Answer,
        context::HttpContext,
        error::{ApiError, Missing},
        gate::{Gate, address_of},
        idempotency::IdempotencyClaim,
        request_id::current_request_id,
    },
    node::Runtime,
};

/// Entries of the audit log that are read to find changes of others.
const CHANGES_MAX: u64 = 1_000;

/// The one who asks for an operation. It decides which rows exist for the operation, whether it may change them, and which name
/// the audit shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A program, by an API key of the tenant.
    TenantKey { tenant: TenantId, key: ApiKeyId },
    /// A member, in the dashboard.
    Person {
        tenant: TenantId,
        user: UserId,
        role: Role,
    },
    /// An operator, over the operators' listener, which has checked the token's right.
    Operator,
    /// An operator, on the command line.
    CommandLine,
}

impl Principal {
    /// The only tenant whose rows exist for it; none: all tenants' rows.
    pub const fn scope(self) -> Option<TenantId> {
        match self {
            Self::TenantKey { tenant, .. } | Self::Person { tenant, .. } => Some(tenant),
            Self::Operator | Self::CommandLine => None,
        }
    }

    pub fn may_change(self) -> bool {
        !matches!(self, Self::Person { role, .. } if role != Role::Owner)
    }

    pub const fn actor(self) -> Actor {
        match self {
            Self::TenantKey { key, .. } => Actor::Key(key),
            Self::Person { user, .. } => Actor::User(user),
            Self::Operator => Actor::Operator,
            Self::CommandLine => Actor::Cli,
        }
    }
}

/// The parts of this process that operations use; application data of both listeners.
#[derive(Clone, Debug)]
pub struct OperationResources {
    pub store: Store,
    pub clock: SharedClock,
    /// None for commands that open no secrets.
    pub vault: Option<Vault>,
    /// Prefix of links to this service, without a trailing slash.
    pub base: Arc<str>,
    /// None on the command line.
    pub serving: Option<Arc<ServingProcess>>,
    /// None if no telephony bridge runs in this process.
    pub telephony: Option<LocalBridge>,
    /// None if no language model is configured.
    pub chats: Option<Arc<ChatService>>,
}

/// The telephony bridge inside this process.
#[derive(Clone, Debug)]
pub struct LocalBridge {
    pub id: BridgeId,
    pub records: StatisticsReader,
}

/// The parts that only a serving process has.
#[derive(Clone, Debug)]
pub struct ServingProcess {
    pub node: Runtime,
    /// Cached API keys.
    pub gate: Arc<Gate>,
    pub agents: AgentLimits,
    /// The URLs that tenants may register.
    pub urls: UrlPolicy,
}

/// The mails with new sign-in links.
#[derive(Clone, Debug)]
pub struct LinkMails {
    /// Prefix of mailed links, without a trailing slash.
    pub base: String,
    /// The language for members that have chosen none.
    pub language: &'static str,
}

/// The context of an operation: who asks, and what it runs on. Handlers extract it; pages and commands make it.
#[derive(Clone, Debug)]
pub struct OperationContext {
    pub principal: Principal,
    pub origin: ChangeOrigin,
    pub now: Millis,
    /// None if new sign-in links are not mailed.
    pub(super) mails: Option<LinkMails>,
    pub(super) resources: OperationResources,
    /// The claim of the request's `Idempotency-Key`.
    pub claim: Option<Rc<IdempotencyClaim>>,
    /// The `updated_at` of the row that the changes were made to. None if it may have any.
    pub(super) seen: Option<Millis>,
}

impl OperationContext {
    pub fn new(resources: OperationResources, principal: Principal, origin: ChangeOrigin) -> Self {
        Self {
            principal,
            origin,
            now: resources.clock.now(),
            mails: None,
            resources,
            claim: None,
            seen: None,
        }
    }

    /// The context of a command on the machine of the node with that name.
    pub fn of_command(store: &Store, vault: Option<&Vault>, node: &str) -> Self {
        let resources = OperationResources {
            store: store.clone(),
            clock: Arc::new(SystemClock),
            vault: vault.cloned(),
            base: "".into(),
            serving: None,
            telephony: None,
            chats: None,
        };
        Self::new(resources, Principal::CommandLine, ChangeOrigin::cli(node))
    }

    pub fn store(&self) -> &Store {
        &self.resources.store
    }

    pub(super) fn base(&self) -> &str {
        &self.resources.base
    }

    /// Links begin with this base, which has no trailing slash.
    pub fn with_base(mut self, base: &str) -> Self {
        self.resources.base = base.into();
        self
    }

    /// New sign-in links are mailed, if this is given.
    pub fn with_mails(self, mails: Option<LinkMails>) -> Self {
        Self { mails, ..self }
    }

    /// A row that was changed since this `updated_at` is refused.
    pub fn unless_changed_since(self, seen: Option<Millis>) -> Self {
        Self { seen, ..self }
    }

    /// Refuses to overwrite what somebody else changed meanwhile by `action`, by the audit log. The row must be locked. Beyond
    /// [`CHANGES_MAX`] later changes, the tenant's rows count as changed.
    pub(super) async fn refuse_if_changed(
        &self,
        db: &impl ConnectionTrait,
        action: AuditAction,
        target: String,
        updated_at: Millis,
    ) -> Result<(), ApiError> {
        let Some(seen) = self.seen.filter(|seen| *seen != updated_at) else {
            return Ok(());
        };
        let since = AuditQuery {
            tenant: Some(self.tenant()?),
            action: Some(action),
            from: Some(seen.plus_ms(1)),
            ..AuditQuery::default()
        };
        let changes = since.page(db, None, CHANGES_MAX).await?;
        let me = self.principal.actor();
        let is_others = changes
            .iter()
            .any(|change| change.target == target && change.actor != me);
        match is_others || changes.len() as u64 == CHANGES_MAX {
            true => Err(ApiError::ChangedMeanwhile),
            false => Ok(()),
        }
    }

    /// None on the command line.
    fn node(&self) -> Option<&Runtime> {
        self.resources.serving.as_ref().map(|serving| &serving.node)
    }

    pub fn serving(&self) -> Result<&ServingProcess, ApiError> {
        self.resources.serving.as_deref().ok_or(ApiError::Internal)
    }

    pub(super) fn bridges(&self) -> Option<&Bridges> {
        self.node().map(|node| &*node.bridges)
    }

    /// Makes this process's dispatcher look for due deliveries. May be lost without harm.
    pub(super) fn wake_dispatcher(&self) {
        if let Some(node) = self.node() {
            node.webhooks.wake();
        }
    }

    /// Tells this process's dispatcher that a webhook was changed or deleted. May be lost without harm.
    pub(super) fn refresh_webhook(&self, id: WebhookId) {
        if let Some(node) = self.node() {
            node.webhooks.refresh(id);
        }
    }

    /// The records of this bridge's calls. None if it does not run in this process: another one may use the same ids of calls.
    pub(super) fn telephony(&self, bridge: BridgeId) -> Option<&StatisticsReader> {
        let local = self.resources.telephony.as_ref()?;
        (local.id == bridge).then_some(&local.records)
    }

    pub async fn find_webhook(&self, id: WebhookId) -> Result<webhook::Model, ApiError> {
        let found = self.one_of::<webhook::Entity>(id);
        let found = found.one(self.store().api_reader()).await?;
        found.ok_or(ApiError::NotFound(Missing::Webhook))
    }

    /// The rows in the principal's scope.
    pub fn rows<E: OfTenant>(&self) -> Select<E> {
        match self.principal.scope() {
            Some(tenant) => E::of(tenant),
            None => E::find(),
        }
    }

    /// The row with this key, if the principal's scope includes it.
    pub fn one_of<E: OfTenant>(
        &self,
        key: impl Into<<E::PrimaryKey as PrimaryKeyTrait>::ValueType>,
    ) -> Select<E> {
        match self.principal.scope() {
            Some(tenant) => E::one_of(tenant, key),
            None => E::find_by_id(key),
        }
    }

    /// The tenant, if it exists in the principal's scope.
    pub(super) async fn find_tenant(
        &self,
        db: &impl ConnectionTrait,
        id: TenantId,
    ) -> Result<tenant::Model, ApiError> {
        let is_in_scope = self.principal.scope().is_none_or(|scope| scope == id);
        let found = tenant::Entity::find_by_id(id).one(db).await?;
        let found = found.filter(|_| is_in_scope);
        found.ok_or(ApiError::NotFound(Missing::Tenant))
    }

    /// Fails unless the tenant exists in the principal's scope.
    pub async fn require_tenant(&self, id: TenantId) -> Result<(), ApiError> {
        let found = self.find_tenant(self.store().api_reader(), id);
        found.await.map(drop)
    }

    /// Waits for a permit of the tenant for a long read, as each of its GETs holds one. Operators need none.
    pub(super) async fn read_turn(&self) -> Result<Option<FairPermit<TenantId>>, ApiError> {
        match (&self.resources.serving, self.principal.scope()) {
            (Some(serving), Some(tenant)) => serving.gate.read(tenant).await.map(Some),
            _ => Ok(None),
        }
    }

    /// The tenant of the principal; operators have none.
    pub fn tenant(&self) -> Result<TenantId, ApiError> {
        self.principal.scope().ok_or(ApiError::Internal)
    }

    pub fn agent_limits(&self) -> Result<&AgentLimits, ApiError> {
        self.serving().map(|serving| &serving.agents)
    }

    /// The tenant's secret for signing function requests.
    pub(super) fn function_secret(&self, tenant: &tenant::Model) -> Result<Secret, ApiError> {
        let sealed = &tenant.function_secret;
        let opened = (self.vault()?).open(SecretPlace::FunctionSecret, tenant.id, sealed);
        opened.map_err(|error| {
            tracing::error!(tenant = %tenant.id, %error, "could not open the tenant's function secret; the function is not invoked");
            ApiError::Unavailable
        })
    }

    /// The language model of chats.
    pub fn chats(&self) -> Result<&Arc<ChatService>, ApiError> {
        self.resources.chats.as_ref().ok_or(ApiError::NoTextModel)
    }

    pub(super) fn vault(&self) -> Result<&Vault, ApiError> {
        self.resources.vault.as_ref().ok_or(ApiError::Internal)
    }

    /// The audit entry of a tenant's change that another part of the program writes.
    pub(super) fn entry(&self, tenant: TenantId, change: AuditChange) -> audit_entry::Model {
        self.origin.entry(Some(tenant), change, self.now)
    }

    /// Begins the transaction of a change.
    pub async fn begin(&self) -> Result<OperationWrite<'_>, ApiError> {
        if !self.principal.may_change() {
            return Err(ApiError::ViewOnly);
        }
        Ok(OperationWrite {
            context: self,
            txn: self.store().begin().await?,
            entry: None,
        })
    }

    /// Makes a committed change of keys or tenants take effect at the next request to this process.
    pub fn forget_keys(&self) {
        if let Some(serving) = &self.resources.serving {
            serving.gate.forget_keys();
        }
    }
}

/// The transaction of an operation: its effect, its audit entries and the stored answer. Dropping it rolls back.
#[derive(Debug)]
pub struct OperationWrite<'a> {
    pub(super) context: &'a OperationContext,
    txn: Transaction,
    entry: Option<AuditId>,
}

impl Deref for OperationWrite<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.txn
    }
}

impl OperationWrite<'_> {
    /// Writes the audit entry of a change; `tenant` is none for a change that concerns no tenant.
    pub async fn record(
        &mut self,
        tenant: impl Into<Option<TenantId>>,
        change: AuditChange,
    ) -> Result<(), ApiError> {
        let OperationContext { origin, now, .. } = self.context;
        let written = origin.write(&self.txn, tenant, change, *now).await?;
        self.entry = Some(written);
        Ok(())
    }

    /// Commits, together with the answer to a request with an `Idempotency-Key`.
    pub async fn commit<T: Answer>(self, output: T) -> Result<T, ApiError> {
        let claim = self.context.claim.as_ref();
        let claim = claim.map(|claim| (claim, output.answer()));
        if let Some((claim, answer)) = &claim
            && !claim.settle(&self.txn, answer).await?
        {
            return Err(ApiError::IdempotencyInProgress);
        }
        let committed = audit::commit(self.context.store(), self.txn, self.entry).await;
        committed.map_err(ApiError::of_commit)?;
        if let Some((claim, answer)) = claim {
            claim.committed(&answer);
        }
        Ok(output)
    }
}

impl FromRequest for OperationContext {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(req: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(of_request(req).ok_or(ApiError::Internal))
    }
}

/// The context of a request that the API's admission has given a scope.
fn of_request(req: &HttpRequest) -> Option<OperationContext> {
    let resources = req.app_data::<Data<OperationResources>>()?;
    let extensions = req.extensions();
    let principal = match *extensions.get::<IdempotencyScope>()? {
        IdempotencyScope::Tenant(tenant) => Principal::TenantKey {
            tenant,
            key: *extensions.get::<ApiKeyId>()?,
        },
        IdempotencyScope::Operators => Principal::Operator,
    };
    let origin = origin_of(req, principal)?;
    let context = OperationContext::new(OperationResources::clone(resources), principal, origin);
    Some(OperationContext {
        claim: extensions.get::<Rc<IdempotencyClaim>>().cloned(),
        ..context
    })
}

/// The origin of a request's changes; none if the application lacks its state.
pub fn origin_of(req: &HttpRequest, principal: Principal) -> Option<ChangeOrigin> {
    let http = req.app_data::<Data<HttpContext>>()?;
    Some(ChangeOrigin {
        actor: principal.actor(),
        address: address_of(req, &http.settings),
        request_id: Some(current_request_id()),
        node: http.member.name().clone(),
    })
}
