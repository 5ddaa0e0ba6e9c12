//! What requests are taken with, before it is known what they are for.

use std::sync::Arc;

use dikala_actors::{
    nodes::Membership,
    runtime::{clock::SharedClock, shares::Shares},
};
use dikala_entities::{Store, TenantId, Vault};

use super::{gate::Gate, settings::HttpSettings, unread::Unread};

/// Data of the application: every middleware finds it there. Cheap to clone; all clones share keys and limits.
#[derive(Clone, Debug)]
pub struct HttpContext {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    /// Which node this is.
    pub member: Membership,
    pub settings: Arc<HttpSettings>,
    /// Known keys and used-up limits of this process.
    pub gate: Arc<Gate>,
    /// Large answers that clients have not read yet.
    pub unread: Arc<Unread>,
    /// Exports being written, by tenant: one each, so that no tenant takes the CPU from others.
    pub exports: Shares<TenantId>,
}

/// Limit of concurrent exports of all tenants.
const EXPORTS_MAX: usize = 8;

impl HttpContext {
    /// Nothing is known yet of keys and limits.
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
            exports: Shares::new(EXPORTS_MAX, 1),
        }
    }
}
