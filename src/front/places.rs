//! Limits on open connections, in all and per address.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use ipnet::IpNet;

use super::address::{is_trusted, network};

/// Clients' connections get this part of the process's open files. The rest is for the database, tenants' servers and
/// short uses.
const FILES_PER_CONNECTION: u64 = 2;
/// One address has at most this part of all connections.
const ADDRESSES_MIN: usize = 2;

/// The limits of one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    /// Connections per address.
    pub per_address: usize,
    /// Proxies, which the limit per address does not apply to.
    pub trusted: Vec<IpNet>,
}

impl ConnectionLimits {
    /// Lowers the configured limits to what the limit on open files allows.
    pub fn within(self, files: Option<u64>) -> Self {
        let most = files.map_or(self.total, |files| {
            usize::try_from(files / FILES_PER_CONNECTION).unwrap_or(usize::MAX)
        });
        let total = self.total.min(most).max(ADDRESSES_MIN);
        Self {
            total,
            per_address: self.per_address.min(total / ADDRESSES_MIN),
            trusted: self.trusted,
        }
    }
}

/// The reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// The address has reached its limit.
    Address,
    /// The listener has reached its limit.
    Listener,
}

/// The open connections of one listener.
#[derive(Debug)]
pub struct ConnectionSlots {
    bounds: ConnectionLimits,
    taken: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    total: usize,
    /// Only addresses with open connections.
    by_address: HashMap<IpAddr, usize>,
}

impl ConnectionSlots {
    pub fn new(bounds: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            taken: Mutex::default(),
        })
    }

    pub(super) fn total(&self) -> usize {
        self.bounds.total
    }

    /// Takes a place for a connection from this address.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Result<ConnectionSlot, LimitReached> {
        let address = Some(peer)
            .filter(|peer| !is_trusted(*peer, &self.bounds.trusted))
            .map(network);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.total >= self.bounds.total {
            return Err(LimitReached::Listener);
        }
        if let Some(address) = address {
            let of_address = taken.by_address.entry(address).or_default();
            if *of_address >= self.bounds.per_address {
                return Err(LimitReached::Address);
            }
            *of_address += 1;
        }
        taken.total += 1;
        Ok(ConnectionSlot {
            places: Arc::clone(self),
            address,
        })
    }

    fn give_back(&self, address: Option<IpAddr>) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total -= 1;
        if let Some(address) = address
            && let Some(of_address) = taken.by_address.get_mut(&address)
        {
            *of_address -= 1;
            if *of_address == 0 {
                taken.by_address.remove(&address);
            }
        }
    }
}

/// The place of a connection; freed when it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    places: Arc<ConnectionSlots>,
    address: Option<IpAddr>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.give_back(self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(total: usize, per_address: usize) -> ConnectionLimits {
        ConnectionLimits {
            total,
            per_address,
            trusted: vec!["127.0.0.1/32".parse().expect("a range")],
        }
    }

    #[test]
    fn an_address_has_its_share_and_all_together_theirs() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let places = ConnectionSlots::new(bounds(4, 2));
        let first = places.take(ip("192.0.2.1")).expect("a place");
        let _second = places.take(ip("::ffff:192.0.2.1")).expect("a place");
        assert_eq!(
            places.take(ip("192.0.2.1")).err(),
            Some(LimitReached::Address)
        );
        let _third = places.take(ip("192.0.2.2")).expect("a place");
        drop(first);
        let _again = places.take(ip("192.0.2.1")).expect("a place");
        let _fourth = places.take(ip("192.0.2.3")).expect("a place");
        assert_eq!(
            places.take(ip("192.0.2.4")).err(),
            Some(LimitReached::Listener)
        );
    }

    #[test]
    fn a_trusted_proxy_is_counted_in_all_only() {
        let places = ConnectionSlots::new(bounds(3, 1));
        let proxy = || places.take("127.0.0.1".parse().expect("an address"));
        let held: Vec<_> = (0..3).map(|_| proxy().expect("a place")).collect();
        assert_eq!(proxy().err(), Some(LimitReached::Listener));
        drop(held);
        assert!(
            places
                .taken
                .lock()
                .expect("unpoisoned")
                .by_address
                .is_empty()
        );
        proxy().expect("a place");
    }

    #[test]
    fn files_that_may_not_be_opened_are_not_promised() {
        for (files, total, per_address) in [
            (None, 10_000, 2_000),
            (Some(1_000_000), 10_000, 2_000),
            (Some(1_024), 512, 256),
            (Some(1), 2, 1),
        ] {
            let found = bounds(10_000, 2_000).within(files);
            assert_eq!((found.total, found.per_address), (total, per_address));
        }
    }
}
