//! Authentication and rate limits.

pub(in crate::http) mod keys;
pub(in crate::http) mod rate;
mod strangers;
mod together;

use std::time::Duration;

use dikala_actors::{
    nodes::Membership,
    runtime::fair_semaphore::{FairPermit, FairSemaphore},
};
use dikala_entities::{Millis, Store, TenantId, store::API_READERS};

use self::{
    keys::KeyCache,
    rate::{Allowance, Limiter},
    together::SharedWindows,
};
use super::error::ApiError;

pub use strangers::{UnknownClient, UnknownClients, address_of};

const TENANTS_MAX: usize = 1_000_000;
/// Concurrent reads of one tenant: fewer than the store's connections for reads.
const READS_EACH: usize = API_READERS as usize - 1;
/// Concurrent reads. They share the cores with calls. Some reads wait for a connection, so that a free one is used
/// without another thread switch.
const READS_MAX: usize = 2 * READS_EACH;
/// Longest wait of a read for its permit.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Posts per minute of a tenant's members. They are counted apart from API requests, so that a member can
/// revoke a key that floods the API, and members cannot use up the programs' limit.
const POSTS_MAX: u32 = 300;

/// Cached keys and rate limits of this process.
#[derive(Debug)]
pub struct Gate {
    pub(in crate::http) keys: KeyCache,
    tenants: Limiter<TenantId>,
    together: SharedWindows,
    posts: Limiter<TenantId>,
    reads: FairSemaphore<TenantId>,
    pub strangers: UnknownClients,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            keys: KeyCache::default(),
            tenants: Limiter::new(TENANTS_MAX),
            together: SharedWindows::default(),
            posts: Limiter::new(TENANTS_MAX),
            reads: FairSemaphore::new(READS_MAX, READS_EACH),
            strangers: UnknownClients::default(),
        }
    }
}

impl Gate {
    /// Clears the key cache, after this process changed a key or a tenant.
    pub fn forget_keys(&self) {
        self.keys.forget();
    }

    /// Counts an API request of a tenant against its limit over all nodes.
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

    /// Counts a dashboard post of a tenant. Fails above the limit.
    pub fn post(&self, tenant: TenantId, now: Millis) -> Result<(), ApiError> {
        let verdict = self.posts.count(tenant, POSTS_MAX, now);
        match verdict.allowed {
            true => Ok(()),
            false => Err(ApiError::RateLimited {
                retry_after_seconds: verdict.retry_after_seconds(now),
            }),
        }
    }

    /// Tenants with at least this many refused requests in the current window.
    pub fn flooding(&self, at_least: u32, now: Millis) -> Vec<(TenantId, u32)> {
        self.tenants.refused(at_least, now)
    }

    /// Waits for a tenant's permit to read, round-robin over tenants.
    pub async fn read(&self, tenant: TenantId) -> Result<FairPermit<TenantId>, ApiError> {
        let turn = tokio::time::timeout(READ_WITHIN, self.reads.take(tenant)).await;
        turn.map_err(|_| ApiError::Unavailable)
    }
}
