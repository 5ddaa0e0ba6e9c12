//! Who may come in, and how often.

pub(in crate::http) mod keys;
pub(in crate::http) mod rate;
mod strangers;

use std::time::Duration;

use dikala_actors::runtime::turns::{Turn, Turns};
use dikala_entities::{Millis, TenantId, store::API_READERS};

use self::{keys::Keys, rate::Limiter};
use super::error::ApiError;

pub use strangers::{Stranger, Strangers, address_of};

const TENANTS_MAX: usize = 1_000_000;
/// Reads of one tenant that are worked on at once: never all the connections that the store has for them.
const READS_EACH: usize = API_READERS as usize - 1;
/// Reads that are let in at once. They share the machine's cores with calls; who waits for a connection has it without another
/// change of threads.
const READS_MAX: usize = 2 * READS_EACH;
/// How long a read waits for others.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Posts of a tenant's people in a minute. They do not count as requests of the tenant's programs, nor those as theirs: who has to
/// take a key back that floods the API can, and whatever people do, the programs are served.
const POSTS_MAX: u32 = 300;

/// Known keys and used-up limits of this process.
#[derive(Debug)]
pub struct Gate {
    pub(in crate::http) keys: Keys,
    pub(in crate::http) tenants: Limiter<TenantId>,
    posts: Limiter<TenantId>,
    reads: Turns<TenantId>,
    pub strangers: Strangers,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            keys: Keys::default(),
            tenants: Limiter::new(TENANTS_MAX),
            posts: Limiter::new(TENANTS_MAX),
            reads: Turns::new(READS_MAX, READS_EACH),
            strangers: Strangers::default(),
        }
    }
}

impl Gate {
    /// Forgets what it knows of keys and tenants, after this process changed one.
    pub fn forget_keys(&self) {
        self.keys.forget();
    }

    /// Counts a post of a tenant's people in the dashboard; errors over the limit.
    pub fn post(&self, tenant: TenantId, now: Millis) -> Result<(), ApiError> {
        let verdict = self.posts.count(tenant, POSTS_MAX, now);
        match verdict.allowed {
            true => Ok(()),
            false => Err(ApiError::RateLimited {
                retry_after_seconds: verdict.retry_after_seconds(now),
            }),
        }
    }

    /// Tenants of whose requests so many at least were refused within a minute, for being too many.
    pub fn flooding(&self, at_least: u32, now: Millis) -> Vec<(TenantId, u32)> {
        self.tenants.refused(at_least, now)
    }

    /// The right of a tenant to have something read, in turn with other tenants.
    pub async fn read(&self, tenant: TenantId) -> Result<Turn<TenantId>, ApiError> {
        let turn = tokio::time::timeout(READ_WITHIN, self.reads.take(tenant)).await;
        turn.map_err(|_| ApiError::Unavailable)
    }
}
