//! What requests are taken with, before it is known what they are for.

use std::sync::Arc;

use dikala_actors::{nodes::Membership, runtime::clock::SharedClock};
use dikala_entities::{Store, Vault};

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
}

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
        }
    }
}
