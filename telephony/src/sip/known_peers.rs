//! Peers that authenticated lately. They are still read when strangers at their address exceed the limit, and still checked when
//! strangers guess passwords there. Pure.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, SocketAddr},
};

use super::address_holder::holder;

/// The time for which a peer is remembered, in seconds.
const LIFE: u64 = 600;
/// The same for a user at an address: phones do not call all day.
const USER_LIFE: u64 = 86_400;
/// Limit of each table; further entries are dropped.
const MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct KnownPeers {
    sources: HashMap<SocketAddr, u64>,
    hosts: HashMap<IpAddr, u64>,
    users: HashMap<(IpAddr, String), u64>,
}

impl KnownPeers {
    /// Records an authenticated peer. Seconds count from any epoch.
    pub fn remember(&mut self, source: SocketAddr, second: u64) {
        put(&mut self.sources, source, second, LIFE);
        put(&mut self.hosts, source.ip().to_canonical(), second, LIFE);
    }

    /// Records the user.
    pub fn remember_user(&mut self, ip: IpAddr, user: &str, second: u64) {
        let user = (holder(ip), user.to_owned());
        put(&mut self.users, user, second, USER_LIFE);
    }

    /// True if this user has authenticated from this address.
    pub fn has_user(&self, ip: IpAddr, user: &str, second: u64) -> bool {
        let until = self.users.get(&(holder(ip), user.to_owned()));
        until.is_some_and(|until| *until > second)
    }

    /// True if the peer at this very port has authenticated: others may share its address.
    pub fn has(&self, source: SocketAddr, second: u64) -> bool {
        self.sources
            .get(&source)
            .is_some_and(|until| *until > second)
    }

    /// True if a peer at this address has authenticated.
    pub fn has_host(&self, ip: IpAddr, second: u64) -> bool {
        let until = self.hosts.get(&ip.to_canonical());
        until.is_some_and(|until| *until > second)
    }
}

fn put<K: Eq + Hash>(table: &mut HashMap<K, u64>, key: K, second: u64, life: u64) {
    if table.len() >= MAX && !table.contains_key(&key) {
        table.retain(|_, until| *until > second);
        if table.len() >= MAX {
            return;
        }
    }
    table.insert(key, second + life);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: usize) -> SocketAddr {
        let [.., a, b, c] = number.to_be_bytes();
        SocketAddr::from(([10, a, b, c], 5060))
    }

    #[test]
    fn somebody_is_known_for_a_while_and_the_others_at_his_address_are_not() {
        let mut known = KnownPeers::default();
        let other = SocketAddr::from(([10, 0, 0, 1], 6_000));
        known.remember(source(1), 5);
        assert!(known.has(source(1), 5 + LIFE - 1) && !known.has(source(1), 5 + LIFE));
        assert!(!known.has(other, 5));
        assert!(known.has_host(other.ip(), 5) && !known.has_host(other.ip(), 5 + LIFE));
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        assert!(known.has_host(mapped, 5));
    }

    #[test]
    fn a_user_is_known_at_his_address_for_a_day() {
        let mut known = KnownPeers::default();
        let ip = source(1).ip();
        known.remember_user(ip, "ayu", 5);
        assert!(known.has_user(ip, "ayu", 86_404) && !known.has_user(ip, "ayu", 86_405));
        assert!(!known.has_user(ip, "budi", 5) && !known.has_user(source(2).ip(), "ayu", 5));
    }

    #[test]
    fn a_crowd_is_not_remembered_without_end() {
        let mut known = KnownPeers::default();
        for number in 0..MAX + 100 {
            known.remember(source(number), 1);
        }
        assert_eq!((known.sources.len(), known.hosts.len()), (MAX, MAX));
        assert!(known.has(source(0), 2) && !known.has(source(MAX), 2));
        known.remember(source(MAX), 1 + LIFE);
        assert_eq!(known.sources.len(), 1, "who was forgotten makes room");
    }
}
