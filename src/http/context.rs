//! The state of request processing, the same for every route.

use std::sync::Arc;

use dikala_actors::{
    nodes::Membership,
    runtime::{clock::SharedClock, shared_limit::SharedLimit},
};
use dikala_entities::{Store, TenantId, Vault};

use super::{gate::Gate, settings::HttpSettings, unread::UnreadAnswers};

/// Application data that every middleware uses. Cheap to clone; all clones share keys and limits.
#[derive(Clone, Debug)]
pub struct HttpContext {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    /// The identity of this node.
    pub member: Membership,
    pub settings: Arc<HttpSettings>,
    /// Cached keys and rate limits of this process.
    pub gate: Arc<Gate>,
    /// Large answers that clients have not read yet.
    pub unread: Arc<UnreadAnswers>,
    /// Running exports by tenant: one each, so that no tenant takes the CPU from others.
    pub exports: SharedLimit<TenantId>,
}

/// Limit of concurrent exports of all tenants.
const EXPORTS_MAX: usize = 8;

impl HttpContext {
    /// Empty key cache and limits.
    pub fn new(
        store: Store,
        vault: Vault,
        clock: SharedClock,
        member: Membership,
        settings: HttpSettings,
    ) -> Self {
        Self {
            store,
            vault,
            clock,
            member,
            settings: Arc::new(settings),
            gate: Arc::default(),
            unread: Arc::default(),
            exports: SharedLimit::new(EXPORTS_MAX, 1),
        }
    }
}
