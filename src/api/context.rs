//! The state that handlers use.

use std::{sync::Arc, time::Duration};

use actix_web::web::Data;
use dikala_actors::{calls::CallRouter, events::followers::Followers, runtime::clock::SharedClock};
use dikala_entities::{Plan, Store, TransferPrefixes, UrlPolicy, Vault};

use super::control::LiveOutbound;
use crate::{
    http::{context::HttpContext, settings::HttpSettings},
    node::Runtime,
    operations::OperationResources,
};

/// Everything a handler can reach. Cheap to clone; all clones share keys and limits.
#[derive(Clone, Debug)]
pub struct Services {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub settings: Arc<ApiSettings>,
    pub calls: CallRouter,
    pub outbound: LiveOutbound,
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
        Self {
            store: runtime.store.clone(),
            vault: runtime.vault.clone(),
            clock: Arc::clone(&runtime.clock),
            settings: Arc::new(settings),
            calls: runtime.calls.clone(),
            outbound: LiveOutbound(runtime.clone()),
            feed: runtime.feed.clone(),
            operations: OperationResources {
                store: runtime.store.clone(),
                clock: Arc::clone(&runtime.clock),
                vault: Some(runtime.vault.clone()),
                gate: Some(Arc::clone(&http.gate)),
                base: "".into(),
                bridges: Some(Arc::clone(&runtime.bridges)),
                webhooks: Some(runtime.webhooks.clone()),
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
    /// The numbers that calls may be transferred to.
    pub transfers: TransferPrefixes,
    /// Longest time that a client may leave a piece of a long list unread.
    pub unread: Duration,
    /// Limits on the total weight of a tenant's agents, in bytes, by plan.
    pub starter_configuration_bytes: i64,
    pub business_configuration_bytes: i64,
    pub enterprise_configuration_bytes: i64,
}

/// Default of [`ApiSettings::unread`].
pub const UNREAD: Duration = Duration::from_secs(30);
/// Default limit on the total weight of a tenant's agents.
const CONFIGURATION_BYTES: i64 = 16 * 1024 * 1024;

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            http: HttpSettings::default(),
            urls: UrlPolicy::default(),
            transfers: TransferPrefixes::default(),
            unread: UNREAD,
            starter_configuration_bytes: CONFIGURATION_BYTES,
            business_configuration_bytes: CONFIGURATION_BYTES,
            enterprise_configuration_bytes: CONFIGURATION_BYTES,
        }
    }
}

impl ApiSettings {
    /// The limit on the total weight of a tenant's agents, in bytes.
    pub const fn configuration_bytes(&self, plan: Plan) -> i64 {
        match plan {
            Plan::Starter => self.starter_configuration_bytes,
            Plan::Business => self.business_configuration_bytes,
            Plan::Enterprise => self.enterprise_configuration_bytes,
        }
    }
}
