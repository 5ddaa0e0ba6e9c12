//! Who may come in, and how often.

pub(in crate::http) mod keys;
pub(in crate::http) mod rate;
mod strangers;
mod together;

use std::time::Duration;

use dikala_actors::{
    nodes::Membership,
    runtime::turns::{Turn, Turns},
};
use dikala_entities::{Millis, Store, TenantId, store::API_READERS};

use self::{
    keys::Keys,
    rate::{Allowance, Limiter},
    together::Together,
};
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
    tenants: Limiter<TenantId>,
    together: Together,
    posts: Limiter<TenantId>,
    reads: Turns<TenantId>,
    pub strangers: Strangers,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            keys: Keys::default(),
            tenants: Limiter::new(TENANTS_MAX),
            together: Together::default(),
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

    /// Counts a request of a tenant, of all that its programs make at whichever node.
    pub(in crate::http) async fn count(
        &self,
        shared: (&Store, &Membership),
        tenant: (TenantId, u32),
        now: Millis,
    ) -> Allowance {
        self.together
            .count(&self.tenants, shared, tenant, now)
            .await
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
