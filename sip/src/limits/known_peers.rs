//! Peers that authenticated lately. They are still read when strangers at their address exceed the limit, and still checked when
//! strangers guess passwords there. Pure.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    hash::Hash,
    net::{IpAddr, SocketAddr},
};

use super::address_holder::holder;

/// The time for which a peer is remembered, in seconds.
const LIFE: u64 = 600;
/// The same for a user at an address: phones do not call all day.
const USER_LIFE: u64 = 86_400;
/// Limit of each table. One more entry drops the oldest of the owner with the most.
const MAX: usize = 10_000;

/// The phone or call that proved to be at an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerOwner {
    User(String),
    /// The peer of the call with this Call-ID.
    Call(String),
}

#[derive(Debug, Default)]
pub struct KnownPeers {
    sources: PeerTable<SocketAddr>,
    hosts: PeerTable<IpAddr>,
    users: PeerTable<(IpAddr, String)>,
}

impl KnownPeers {
    /// Records an authenticated peer. Seconds count from any epoch.
    pub fn remember(&mut self, source: SocketAddr, owner: &PeerOwner, second: u64) {
        let ip = source.ip().to_canonical();
        self.sources.put(source, owner, second, LIFE);
        self.hosts.put(ip, owner, second, LIFE);
    }

    /// Records the user, and the peer.
    pub fn remember_user(&mut self, source: SocketAddr, user: &str, second: u64) {
        let owner = PeerOwner::User(user.to_owned());
        self.remember(source, &owner, second);
        let user = (holder(source.ip()), user.to_owned());
        self.users.put(user, &owner, second, USER_LIFE);
    }

    /// True if this user has authenticated from this address.
    pub fn has_user(&self, ip: IpAddr, user: &str, second: u64) -> bool {
        self.users.has(&(holder(ip), user.to_owned()), second)
    }

    /// True if the peer at this very port has authenticated: others may share its address.
    pub fn has(&self, source: SocketAddr, second: u64) -> bool {
        self.sources.has(&source, second)
    }

    /// True if a peer at this address has authenticated.
    pub fn has_host(&self, ip: IpAddr, second: u64) -> bool {
        self.hosts.has(&ip.to_canonical(), second)
    }
}

/// Entries by key, each with its expiry and the owner that added it last.
#[derive(Debug)]
struct PeerTable<K> {
    entries: HashMap<K, (u64, PeerOwner)>,
    /// The keys of each owner by expiry.
    owners: HashMap<PeerOwner, BTreeSet<(u64, K)>>,
}

impl<K> Default for PeerTable<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            owners: HashMap::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> PeerTable<K> {
    fn has(&self, key: &K, second: u64) -> bool {
        let entry = self.entries.get(key);
        entry.is_some_and(|(until, _)| *until > second)
    }

    fn put(&mut self, key: K, owner: &PeerOwner, second: u64, life: u64) {
        self.remove(&key);
        if self.entries.len() >= MAX {
            self.drop_expired(second);
        }
        if self.entries.len() >= MAX {
            self.drop_one();
        }
        let until = second + life;
        let of_owner = self.owners.entry(owner.clone()).or_default();
        of_owner.insert((until, key.clone()));
        self.entries.insert(key, (until, owner.clone()));
    }

    fn remove(&mut self, key: &K) {
        let Some((until, owner)) = self.entries.remove(key) else {
            return;
        };
        if let Some(of_owner) = self.owners.get_mut(&owner) {
            of_owner.remove(&(until, key.clone()));
            if of_owner.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }

    fn drop_expired(&mut self, second: u64) {
        let Self { entries, owners } = self;
        owners.retain(|_, keys| {
            while let Some((until, _)) = keys.first()
                && *until <= second
                && let Some((_, key)) = keys.pop_first()
            {
                entries.remove(&key);
            }
            !keys.is_empty()
        });
    }

    /// Drops the oldest entry of the owner with the most, and of several such owners the oldest of all.
    fn drop_one(&mut self) {
        let most = self.owners.values();
        let most = most.max_by_key(|keys| (keys.len(), Reverse(keys.first())));
        let oldest = most.and_then(|keys| keys.first());
        if let Some((_, key)) = oldest.cloned() {
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: usize) -> SocketAddr {
        let [.., a, b, c] = number.to_be_bytes();
        SocketAddr::from(([10, a, b, c], 5060))
    }

    fn user(name: &str) -> PeerOwner {
        PeerOwner::User(name.to_owned())
    }

    #[test]
    fn somebody_is_known_for_a_while_and_the_others_at_his_address_are_not() {
        let mut known = KnownPeers::default();
        let other = SocketAddr::from(([10, 0, 0, 1], 6_000));
        known.remember(source(1), &user("ayu"), 5);
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
        known.remember_user(source(1), "ayu", 5);
        assert!(known.has_user(ip, "ayu", 86_404) && !known.has_user(ip, "ayu", 86_405));
        assert!(!known.has_user(ip, "budi", 5) && !known.has_user(source(2).ip(), "ayu", 5));
    }

    #[test]
    fn a_crowd_is_not_remembered_without_end() {
        let mut known = KnownPeers::default();
        for number in 0..MAX + 100 {
            known.remember_user(source(number), &number.to_string(), 1);
        }
        let lengths = |known: &KnownPeers| {
            let users = (known.users.entries.len(), known.users.owners.len());
            let hosts = (known.hosts.entries.len(), known.hosts.owners.len());
            (known.sources.entries.len(), hosts, users)
        };
        assert_eq!(lengths(&known), (MAX, (MAX, MAX), (MAX, MAX)));
        assert!(known.has(source(MAX), 2), "the newest");
        known.remember_user(source(MAX), "ayu", 1 + LIFE);
        known.remember(source(MAX + 100), &user("ayu"), 1 + LIFE);
        assert_eq!(known.sources.entries.len(), 2, "expired ones make room");
    }

    /// Of a user with many ports and addresses, the oldest are dropped.
    #[test]
    fn one_user_makes_nobody_else_unknown() {
        let mut known = KnownPeers::default();
        let number = 2 * MAX;
        known.remember_user(source(number), "budi", 1);
        for number in 0..MAX + 100 {
            known.remember_user(source(number), "ayu", 2);
        }
        known.remember_user(source(number + 1), "dewi", 2);
        let call = PeerOwner::Call("1@phone".to_owned());
        known.remember(source(number + 2), &call, 2);
        for (name, number) in [("budi", number), ("dewi", number + 1), ("ayu", MAX + 99)] {
            let source = source(number);
            assert!(known.has(source, 3) && known.has_host(source.ip(), 3));
            assert!(known.has_user(source.ip(), name, 3), "{name}");
        }
        assert!(known.has(source(number + 2), 3));
        assert!(!known.has(source(0), 3), "the oldest of the user with most");
        assert_eq!(known.sources.entries.len(), MAX);
    }
}
