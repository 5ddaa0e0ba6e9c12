//! What the handlers work with, and what they ask of the rest of the program.

use std::{fmt, sync::Arc, time::Duration};

use dikala_actors::{clock::SharedClock, feed::Feed, functions::CircuitState, outbound::Blocked};
use dikala_entities::{
    CallId, DeliveryId, OutboundUrl, PhoneNumber, Plan, Store, TenantId, TransferPrefixes,
    UrlPolicy, Vault, WebhookId, function, webhook,
};
use futures_util::future::BoxFuture;
use ipnet::IpNet;
use serde_json::{Map, Value};

use crate::{api::listing::Lists, middleware::Gate};

/// Everything a handler can reach. Cheap to clone; all clones share keys and limits.
#[derive(Clone, Debug)]
pub struct Services {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub settings: Arc<ApiSettings>,
    pub calls: Arc<dyn CallControl>,
    pub outbound: Arc<dyn OutboundControl>,
    /// Where events can be followed.
    pub feed: Feed,
    /// Known keys and used-up limits of this process.
    pub gate: Arc<Gate>,
    /// Large answers that clients have not read yet.
    pub lists: Arc<Lists>,
}

impl Services {
    /// Puts the parts together, with nothing known of keys and limits yet.
    pub fn new(
        store: Store,
        vault: Vault,
        clock: SharedClock,
        settings: ApiSettings,
        calls: Arc<dyn CallControl>,
        outbound: Arc<dyn OutboundControl>,
        feed: Feed,
    ) -> Self {
        Self {
            store,
            vault,
            clock,
            settings: Arc::new(settings),
            calls,
            outbound,
            feed,
            gate: Arc::default(),
            lists: Arc::default(),
        }
    }
}

/// What operators can set of the API.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Which addresses tenants may register.
    pub urls: UrlPolicy,
    /// Where calls may be transferred to.
    pub transfers: TransferPrefixes,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a client may leave a piece of a long list unread.
    pub unread: Duration,
    /// Requests a minute of each plan, for tenants without a figure of their own.
    pub starter_per_minute: u32,
    pub business_per_minute: u32,
    pub enterprise_per_minute: u32,
    /// Requests a minute of one address without a valid key.
    pub unauthenticated_per_minute: u32,
    /// What the agents of one tenant may weigh in all, in bytes, by plan.
    pub starter_configuration_bytes: i64,
    pub business_configuration_bytes: i64,
    pub enterprise_configuration_bytes: i64,
    /// Proxies that are believed when they say from whom a request comes.
    pub trusted_proxies: Vec<IpNet>,
}

/// How long a client may leave a piece of a long list unread.
pub const UNREAD: Duration = Duration::from_secs(30);
/// What the agents of one tenant may weigh in all, unless the operator decided otherwise.
const CONFIGURATION_BYTES: i64 = 16 * 1024 * 1024;

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            urls: UrlPolicy::default(),
            transfers: TransferPrefixes::default(),
            body_timeout: Duration::from_secs(10),
            unread: UNREAD,
            starter_per_minute: 60,
            business_per_minute: 300,
            enterprise_per_minute: 1_000,
            unauthenticated_per_minute: 60,
            starter_configuration_bytes: CONFIGURATION_BYTES,
            business_configuration_bytes: CONFIGURATION_BYTES,
            enterprise_configuration_bytes: CONFIGURATION_BYTES,
            trusted_proxies: Vec::new(),
        }
    }
}

impl ApiSettings {
    /// What the agents of a tenant may weigh in all, in bytes.
    pub const fn configuration_bytes(&self, plan: Plan) -> i64 {
        match plan {
            Plan::Starter => self.starter_configuration_bytes,
            Plan::Business => self.business_configuration_bytes,
            Plan::Enterprise => self.enterprise_configuration_bytes,
        }
    }

    /// Requests a minute of a plan.
    pub const fn per_minute(&self, plan: Plan) -> u32 {
        match plan {
            Plan::Starter => self.starter_per_minute,
            Plan::Business => self.business_per_minute,
            Plan::Enterprise => self.enterprise_per_minute,
        }
    }
}

/// Why a request to the living part of the program was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error("there is no such call")]
    NotFound,
    #[error("the call is over")]
    NotActive,
    #[error("a call is not transferred to such a number")]
    TransferNotAllowed,
    #[error("the call was transferred as often as a call can be")]
    TooManyTransfers,
    #[error("too much to do at the moment; nothing happened")]
    Busy,
    #[error("not available; nothing is known to have happened")]
    Unavailable,
}

/// Reaches the actors of running calls.
pub trait CallControl: fmt::Debug + Send + Sync {
    /// Ends the call with the reason `requested`. Done means: the command is stored and on its way to the bridge.
    fn hang_up(&self, tenant: TenantId, call: CallId) -> BoxFuture<'_, Result<(), ControlError>>;

    /// Connects the caller to a person.
    fn transfer(
        &self,
        tenant: TenantId,
        call: CallId,
        to: PhoneNumber,
    ) -> BoxFuture<'_, Result<(), ControlError>>;
}

/// Reaches what makes requests to tenants' servers.
pub trait OutboundControl: fmt::Debug + Send + Sync {
    /// Whether the address may be dialled, as far as can be known now: a name that does not resolve may.
    fn check_url(&self, tenant: TenantId, url: &OutboundUrl) -> BoxFuture<'_, Result<(), Blocked>>;

    /// Whether a function's endpoint is called at the moment.
    fn circuit(&self, function: &function::Model) -> CircuitState;

    /// Calls the endpoint as a call would, marked as a test. The outcome is what a bridge would be told:
    /// `{"status":"ok","result":{…}}` or `{"status":"error","code","message"}`.
    fn test_function(
        &self,
        function: function::Model,
        parameters: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, ControlError>>;

    /// Sends a signed sample of a subscribed kind and waits for its first attempt.
    fn test_webhook(
        &self,
        webhook: webhook::Model,
    ) -> BoxFuture<'_, Result<DeliveryId, ControlError>>;

    /// A webhook was changed or deleted. May be lost without harm.
    fn refresh(&self, webhook: WebhookId);

    /// Deliveries became due in the table. May be lost without harm.
    fn wake(&self);
}
