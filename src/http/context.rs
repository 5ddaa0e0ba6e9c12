//! The state of request processing, the same for every route.

use std::sync::Arc;

use dikala_actors::{
    nodes::Membership,
    runtime::{clock::SharedClock, shared_limit::SharedLimit},
};
use dikala_entities::{Store, TenantId, Vault};
use tokio::sync::Semaphore;

use super::{
    gate::Gate,
    settings::HttpSettings,
    unread::{LISTS_MAX, UnreadAnswers},
};

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
    /// Running exports by tenant: one each. Whoever reads slowly keeps nobody else's place.
    pub exports: SharedLimit<TenantId>,
    /// Permits to read one piece of an export, so that exports never take the CPU from other requests.
    pub export_reads: Arc<Semaphore>,
}

/// Limit of pieces of exports that are read at the same time.
const EXPORT_READS_MAX: usize = 2;

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
            exports: SharedLimit::new(LISTS_MAX, 1),
            export_reads: Arc::new(Semaphore::new(EXPORT_READS_MAX)),
        }
    }
}
