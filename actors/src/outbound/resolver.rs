//! Resolves names, with limits on concurrent lookups, per tenant and in all, and on their duration.

use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use dikala_entities::TenantId;
use futures_util::future::{BoxFuture, FutureExt, Shared};

use super::names::is_localhost;
use crate::runtime::shared_limit::SharedLimit;

/// A longer lookup counts as failed. The system's own timeout is often 10 s and more.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent lookups. Each holds a thread for as long as the system's resolver blocks.
const LOOKUPS_MAX: usize = 128;
/// Concurrent lookups of one tenant.
const TENANT_LOOKUPS_MAX: usize = 32;
/// A name without an address is not looked up again for this time.
const FAILURE_KEPT: Duration = Duration::from_secs(5);
/// A caller that gave up after at least this long marks the name as failed; one that left sooner says nothing of it.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(1);
/// Limit of remembered failures.
const FAILURES_MAX: usize = 4_096;

/// The reason why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResolveError {
    /// There are none, or no name server answered in time.
    NotFound,
    /// Too many concurrent lookups: not the name's fault.
    Busy,
}

type Addresses = Result<Arc<[IpAddr]>, ResolveError>;
type Lookup = Shared<BoxFuture<'static, Addresses>>;
/// The lookup itself. It may block.
type Ask = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves names. Callers with the same name share one lookup.
#[derive(Clone)]
pub(super) struct Resolver {
    ask: Arc<Ask>,
    shares: SharedLimit<Option<TenantId>>,
    names: Arc<Mutex<ResolverState>>,
}

#[derive(Default)]
struct ResolverState {
    running: HashMap<String, Lookup>,
    /// Names without an address, and until when that is remembered.
    failed: HashMap<String, Instant>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    /// Uses the system's resolver.
    pub(super) fn of_system() -> Self {
        Self::new(|name| {
            let found = (name, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }

    pub(super) fn new(
        ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            ask: Arc::new(ask),
            shares: SharedLimit::new(LOOKUPS_MAX, TENANT_LOOKUPS_MAX),
            names: Arc::default(),
        }
    }

    /// The addresses of a host, looked up on behalf of `asker`. An address literal is its own answer.
    pub(super) async fn resolve(&self, asker: Option<TenantId>, host: &str) -> Addresses {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(literal) = bare.parse::<IpAddr>() {
            return Ok(Arc::new([literal]));
        }
        if is_localhost(host) {
            // RFC 6761 section 6.3: these names are the loopback's, whatever a name server says.
            return Ok(Arc::new([
                IpAddr::from([127, 0, 0, 1]),
                IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]),
            ]));
        }
        let lookup = self.lookup(asker, host)?;
        // Most callers have a shorter timeout than the lookup and drop this future.
        let waiting = LookupWaiter {
            resolver: self,
            host,
            since: Instant::now(),
            answered: false,
        };
        let found = tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await;
        waiting.ended(found.is_ok());
        found.unwrap_or(Err(ResolveError::NotFound))
    }

    fn lookup(&self, asker: Option<TenantId>, host: &str) -> Result<Lookup, ResolveError> {
        let mut names = self.names();
        if names.failed_lately(host, Instant::now()) {
            return Err(ResolveError::NotFound);
        }
        if let Some(lookup) = names.running.get(host) {
            return Ok(lookup.clone());
        }
        let share = self.shares.take(asker).ok_or(ResolveError::Busy)?;
        let (name, resolver) = (host.to_owned(), self.clone());
        let task = tokio::task::spawn_blocking(move || {
            let found = addresses((resolver.ask)(&name));
            let mut names = resolver.names();
            names.running.remove(&name);
            match found {
                Ok(_) => drop(names.failed.remove(&name)),
                Err(_) => names.remember_failure(&name, Instant::now()),
            }
            drop(names);
            // Only now is the thread free, even if all callers stopped waiting long ago.
            drop(share);
            found
        });
        let lookup = task
            .map(|ended| ended.unwrap_or(Err(ResolveError::Busy)))
            .boxed()
            .shared();
        names.running.insert(host.to_owned(), lookup.clone());
        Ok(lookup)
    }

    fn names(&self) -> MutexGuard<'_, ResolverState> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for a lookup.
struct LookupWaiter<'a> {
    resolver: &'a Resolver,
    host: &'a str,
    since: Instant,
    answered: bool,
}

impl LookupWaiter<'_> {
    fn ended(mut self, answered: bool) {
        self.answered = answered;
    }
}

impl Drop for LookupWaiter<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        if self.answered || now.duration_since(self.since) < GIVEN_UP_AFTER {
            return;
        }
        let mut names = self.resolver.names();
        // The lookup may have ended at this very moment.
        if names.running.contains_key(self.host) {
            names.remember_failure(self.host, now);
        }
    }
}

impl ResolverState {
    fn failed_lately(&self, name: &str, now: Instant) -> bool {
        self.failed.get(name).is_some_and(|until| now < *until)
    }

    /// Without room the failure is not remembered, and the next caller looks the name up again.
    fn remember_failure(&mut self, name: &str, now: Instant) {
        if self.failed.len() >= FAILURES_MAX {
            self.failed.retain(|_, until| now < *until);
        }
        if self.failed.len() < FAILURES_MAX {
            self.failed.insert(name.to_owned(), now + FAILURE_KEPT);
        }
    }
}

fn addresses(found: io::Result<Vec<IpAddr>>) -> Addresses {
    let mut found = found.map_err(|_| ResolveError::NotFound)?;
    found.dedup();
    if found.is_empty() {
        return Err(ResolveError::NotFound);
    }
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use dikala_entities::Millis;

    use super::*;

    const PUBLIC: [u8; 4] = [8, 8, 8, 8];

    fn tenant() -> Option<TenantId> {
        Some(TenantId::new(Millis::from_i64(1)))
    }

    /// Blocks on names that begin with `hang` until released, and counts lookups.
    #[derive(Clone, Default)]
    struct SlowResolver {
        asked: Arc<AtomicUsize>,
        released: Arc<(Mutex<bool>, std::sync::Condvar)>,
    }

    impl SlowResolver {
        fn resolver(&self) -> Resolver {
            let slow = self.clone();
            Resolver::new(move |name| {
                slow.asked.fetch_add(1, SeqCst);
                if name.starts_with("hang") {
                    let (released, told) = &*slow.released;
                    let released = released.lock().expect("no panics");
                    drop(told.wait_while(released, |released| !*released));
                }
                match name.split('.').next() {
                    Some("none") => Err(io::Error::other("no such name")),
                    _ => Ok(vec![PUBLIC.into()]),
                }
            })
        }

        fn release(&self) {
            *self.released.0.lock().expect("no panics") = true;
            self.released.1.notify_all();
        }
    }

    #[actix_rt::test]
    async fn names_that_hang_hold_up_one_tenant_until_their_threads_return() {
        let slow = SlowResolver::default();
        let resolver = slow.resolver();
        let (greedy, other) = (tenant(), tenant());
        let mut waiting: Vec<_> = (0..192)
            .map(|n| {
                let resolver = resolver.clone();
                let name = format!("hang{n}.example.com");
                actix_rt::spawn(async move { resolver.resolve(greedy, &name).await })
            })
            .collect();
        while slow.asked.load(SeqCst) < TENANT_LOOKUPS_MAX {
            tokio::task::yield_now().await;
        }
        let beyond = resolver.resolve(greedy, "quick.example.com").await;
        assert_eq!(beyond, Err(ResolveError::Busy));
        for n in 0..10 {
            let found = resolver.resolve(other, &format!("n{n}.example.com")).await;
            assert_eq!(found.map(|a| a.to_vec()), Ok(vec![PUBLIC.into()]));
        }
        // No caller waits any more, but the threads are still held and count.
        for task in &waiting {
            task.abort();
        }
        assert_eq!(resolver.shares.held(), TENANT_LOOKUPS_MAX);
        let beyond = resolver.resolve(greedy, "quick.example.com").await;
        assert_eq!(beyond, Err(ResolveError::Busy));
        slow.release();
        while resolver.shares.held() > 0 {
            tokio::task::yield_now().await;
        }
        let found = resolver.resolve(greedy, "quick.example.com").await;
        assert!(found.is_ok());
        waiting.clear();
    }

    #[actix_rt::test]
    async fn a_name_without_address_is_not_asked_for_again_at_once() {
        let slow = SlowResolver::default();
        let resolver = slow.resolver();
        for _ in 0..5 {
            let found = resolver.resolve(tenant(), "none.example.com").await;
            assert_eq!(found, Err(ResolveError::NotFound));
        }
        assert_eq!(slow.asked.load(SeqCst), 1);
        let later = Instant::now() + FAILURE_KEPT;
        assert!(!resolver.names().failed_lately("none.example.com", later));
        for _ in 0..2 {
            let found = resolver.resolve(tenant(), "some.example.com").await;
            assert!(found.is_ok());
        }
        assert_eq!(slow.asked.load(SeqCst), 3, "addresses are not kept");
    }

    /// The lookups go on, and their results count: the failure is not permanent.
    #[actix_rt::test]
    async fn a_name_on_which_somebody_gave_up_is_not_waited_for_again_until_it_answers() {
        let slow = SlowResolver::default();
        let resolver = slow.resolver();
        let name = "hang.example.com";
        let hasty = resolver.resolve(tenant(), name);
        assert_eq!(hasty.now_or_never(), None);
        assert!(!resolver.names().failed_lately(name, Instant::now()));
        let mut patient = Box::pin(resolver.resolve(tenant(), name));
        assert_eq!((&mut patient).now_or_never(), None);
        tokio::time::sleep(GIVEN_UP_AFTER).await;
        drop(patient);
        let again = resolver.resolve(tenant(), name);
        assert_eq!(again.now_or_never(), Some(Err(ResolveError::NotFound)));
        slow.release();
        while resolver.shares.held() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(slow.asked.load(SeqCst), 1);
        let found = resolver.resolve(tenant(), name).await;
        assert!(found.is_ok());
    }

    #[test]
    fn failures_are_remembered_within_a_bound() {
        let (mut names, now) = (ResolverState::default(), Instant::now());
        for n in 0..FAILURES_MAX * 2 {
            names.remember_failure(&format!("n{n}"), now);
        }
        assert_eq!(names.failed.len(), FAILURES_MAX);
        names.remember_failure("late", now + FAILURE_KEPT);
        assert_eq!(names.failed.len(), 1);
    }
}
