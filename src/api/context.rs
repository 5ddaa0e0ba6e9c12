//! The state that handlers use.

use std::{sync::Arc, time::Duration};

use actix_web::web::Data;
use dikala_actors::{events::followers::Followers, runtime::clock::SharedClock};
use dikala_entities::{Store, UrlPolicy, Vault};

use crate::{
    http::{context::HttpContext, settings::HttpSettings},
    node::Runtime,
    operations::{AgentLimits, OperationResources, ServingProcess},
};

/// Everything a handler can reach. Cheap to clone; all clones share keys and limits.
#[derive(Clone, Debug)]
pub struct Services {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub settings: Arc<ApiSettings>,
    /// The live feed of events.
    pub feed: Followers,
    pub operations: OperationResources,
    /// The state of request processing. The application must hold it as well.
    pub http: Data<HttpContext>,
}

impl Services {
    /// Made from the node's handles, with empty key cache and limits.
    pub fn new(runtime: &Runtime, settings: ApiSettings) -> Self {
        let http = HttpContext::new(
            runtime.store.clone(),
            runtime.vault.clone(),
            Arc::clone(&runtime.clock),
            runtime.member.clone(),
            settings.http.clone(),
        );
        let settings = Arc::new(settings);
        Self {
            store: runtime.store.clone(),
            vault: runtime.vault.clone(),
            clock: Arc::clone(&runtime.clock),
            settings: Arc::clone(&settings),
            feed: runtime.feed.clone(),
            operations: OperationResources {
                store: runtime.store.clone(),
                clock: Arc::clone(&runtime.clock),
                vault: Some(runtime.vault.clone()),
                base: "".into(),
                serving: Some(Arc::new(ServingProcess {
                    node: runtime.clone(),
                    gate: Arc::clone(&http.gate),
                    agents: settings.agents.clone(),
                    urls: settings.urls,
                })),
                telephony: None,
                chats: None,
            },
            http: Data::new(http),
        }
    }
}

/// The API's configuration.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Request processing: keys, limits, sizes.
    pub http: HttpSettings,
    /// The URLs that tenants may register.
    pub urls: UrlPolicy,
    pub agents: AgentLimits,
    /// Longest time that a client may leave a piece of a long list unread.
    pub unread: Duration,
}

/// Default of [`ApiSettings::unread`].
pub const UNREAD: Duration = Duration::from_secs(30);

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            http: HttpSettings::default(),
            urls: UrlPolicy::default(),
            agents: AgentLimits::default(),
            unread: UNREAD,
        }
    }
}
