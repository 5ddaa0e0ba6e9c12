//! What the handlers work with.

use std::{sync::Arc, time::Duration};

use actix_web::web::Data;
use dikala_actors::{calls::Calls, events::followers::Followers, runtime::clock::SharedClock};
use dikala_entities::{Plan, Store, TransferPrefixes, UrlPolicy, Vault};

use super::control::LiveOutbound;
use crate::{
    http::{context::HttpContext, settings::HttpSettings},
    node::Node,
};

/// Everything a handler can reach. Cheap to clone; all clones share keys and limits.
#[derive(Clone, Debug)]
pub struct Services {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub settings: Arc<ApiSettings>,
    pub calls: Calls,
    pub outbound: LiveOutbound,
    /// Where events can be followed.
    pub feed: Followers,
    /// What requests are taken with; the application has to hold it as well.
    pub http: Data<HttpContext>,
}

impl Services {
    /// On what runs in this process, with nothing known of keys and limits yet.
    pub fn new(node: &Node, settings: ApiSettings) -> Self {
        let http = HttpContext::new(
            node.store.clone(),
            node.vault.clone(),
            Arc::clone(&node.clock),
            node.member.clone(),
            settings.http.clone(),
        );
        Self {
            store: node.store.clone(),
            vault: node.vault.clone(),
            clock: Arc::clone(&node.clock),
            settings: Arc::new(settings),
            calls: node.calls.clone(),
            outbound: LiveOutbound(node.clone()),
            feed: node.feed.clone(),
            http: Data::new(http),
        }
    }
}

/// What operators can set of the API.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// How requests are taken.
    pub http: HttpSettings,
    /// Which addresses tenants may register.
    pub urls: UrlPolicy,
    /// Where calls may be transferred to.
    pub transfers: TransferPrefixes,
    /// How long a client may leave a piece of a long list unread.
    pub unread: Duration,
    /// What the agents of one tenant may weigh in all, in bytes, by plan.
    pub starter_configuration_bytes: i64,
    pub business_configuration_bytes: i64,
    pub enterprise_configuration_bytes: i64,
}

/// How long a client may leave a piece of a long list unread.
pub const UNREAD: Duration = Duration::from_secs(30);
/// What the agents of one tenant may weigh in all, unless the operator decided otherwise.
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
    /// What the agents of a tenant may weigh in all, in bytes.
    pub const fn configuration_bytes(&self, plan: Plan) -> i64 {
        match plan {
            Plan::Starter => self.starter_configuration_bytes,
            Plan::Business => self.business_configuration_bytes,
            Plan::Enterprise => self.enterprise_configuration_bytes,
        }
    }
}
