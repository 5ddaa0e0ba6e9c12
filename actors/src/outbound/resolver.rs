//! Names to addresses, with a bound on how many lookups run and how long one may take.

use std::{
    collections::HashMap,
    net::{IpAddr, ToSocketAddrs},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::sync::Semaphore;

/// A lookup that takes longer counts as failed. The system's own patience is often 10 s and more.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Lookups at the same time. Each holds a thread for as long as the system's resolver keeps it.
const LOOKUPS_MAX: usize = 128;
/// How long a lookup waits for its turn before it counts as our fault.
const TURN_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a name gave no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResolveError {
    /// There are none, or nobody who knows answered in time.
    NotFound,
    /// Too many lookups at the same time: not the name's fault.
    Busy,
}

type Lookup = Shared<BoxFuture<'static, Result<Arc<[IpAddr]>, ResolveError>>>;

/// Looks names up. Who asks for a name that is being looked up already waits for that answer.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    permits: Arc<Semaphore>,
    running: Arc<Mutex<HashMap<String, Lookup>>>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            running: Arc::default(),
        }
    }

    /// The addresses of a host; of an address literal, itself.
    pub(super) async fn resolve(&self, host: &str) -> Result<Arc<[IpAddr]>, ResolveError> {
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
        let lookup = self.lookup(host).await?;
        tokio::time::timeout(LOOKUP_TIMEOUT, lookup)
            .await
            .unwrap_or(Err(ResolveError::NotFound))
    }

    async fn lookup(&self, host: &str) -> Result<Lookup, ResolveError> {
        if let Some(lookup) = self.joined(host) {
            return Ok(lookup);
        }
        let permit = tokio::time::timeout(TURN_TIMEOUT, Arc::clone(&self.permits).acquire_owned())
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or(ResolveError::Busy)?;
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lookup) = running.get(host) {
            return Ok(lookup.clone());
        }
        let (name, all) = (host.to_owned(), Arc::clone(&self.running));
        let task = tokio::task::spawn_blocking(move || {
            let found = system_lookup(&name);
            all.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&name);
            // The thread is free again only now, however long ago everybody stopped waiting.
            drop(permit);
            found
        });
        let lookup = task
            .map(|ended| ended.unwrap_or(Err(ResolveError::Busy)))
            .boxed()
            .shared();
        running.insert(host.to_owned(), lookup.clone());
        Ok(lookup)
    }

    fn joined(&self, host: &str) -> Option<Lookup> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(host).cloned()
    }
}

fn is_localhost(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn system_lookup(name: &str) -> Result<Arc<[IpAddr]>, ResolveError> {
    let mut addresses: Vec<IpAddr> = (name, 0)
        .to_socket_addrs()
        .map_err(|_| ResolveError::NotFound)?
        .map(|address| address.ip())
        .collect();
    addresses.dedup();
    if addresses.is_empty() {
        return Err(ResolveError::NotFound);
    }
    Ok(addresses.into())
}
