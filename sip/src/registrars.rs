//! The registrars that we are registered with, by trunk, and the messages that they send.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use crate::{
    message::{Host, Uri},
    settings::{RegisterSettings, Trunk},
    transport::Flow,
};

/// Addresses of a registrar's name that are read.
const ADDRESSES_MAX: usize = 32;

/// The registration of each trunk, by the trunk's name; two trunks may share a registrar. Calls from there are admitted, and the
/// trunk's credentials may go there.
#[derive(Debug, Default)]
pub struct Registrars(Mutex<HashMap<String, RegistrarBinding>>);

/// Addresses of a registrar, and the end of the registration that it granted.
#[derive(Debug)]
struct RegistrarBinding {
    addresses: Vec<IpAddr>,
    until: Instant,
}

impl RegistrarBinding {
    fn has(&self, ip: IpAddr) -> bool {
        self.until > Instant::now() && self.addresses.contains(&ip.to_canonical())
    }
}

impl Registrars {
    fn table(&self) -> MutexGuard<'_, HashMap<String, RegistrarBinding>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds or renews a registration.
    pub fn add(&self, trunk: &str, addresses: impl Iterator<Item = IpAddr>, until: Instant) {
        let addresses = different(addresses);
        let binding = RegistrarBinding { addresses, until };
        self.table().insert(trunk.to_owned(), binding);
    }

    /// Adds addresses to a registration. The earlier ones stay, because some domains name only a part of theirs each time.
    pub fn extend(&self, trunk: &str, addresses: impl Iterator<Item = IpAddr>) {
        if let Some(binding) = self.table().get_mut(trunk) {
            let earlier = std::mem::take(&mut binding.addresses);
            binding.addresses = different(addresses.chain(earlier));
        }
    }

    /// Removes a registration; false if there was none.
    pub fn remove(&self, trunk: &str) -> bool {
        let removed = self.table().remove(trunk);
        removed.is_some_and(|binding| binding.until > Instant::now())
    }

    /// Number of trunks that we are registered with.
    pub fn count(&self) -> usize {
        let now = Instant::now();
        let table = self.table();
        table.values().filter(|binding| binding.until > now).count()
    }

    /// True if this is an address of the trunk's registrar, and we are registered with it.
    pub fn has(&self, trunk: &str, ip: IpAddr) -> bool {
        let table = self.table();
        table.get(trunk).is_some_and(|binding| binding.has(ip))
    }

    /// True if this address belongs to the trunk: it is one of its `addresses`, or of its own registrar.
    pub fn is_of(&self, trunk: &Trunk, ip: IpAddr) -> bool {
        let listed = trunk.addresses.iter();
        self.has(&trunk.name, ip) || { listed }.any(|net| net.contains(&ip.to_canonical()))
    }

    /// True if a registrar has this address.
    pub fn have(&self, ip: IpAddr) -> bool {
        self.table().values().any(|binding| binding.has(ip))
    }

    /// The trunk whose registrar sent this. If several trunks share the registrar, it is the one whose account, our Contact's
    /// user, is called; else the first in the configuration.
    pub fn trunk_of<'a>(
        &self,
        trunks: &'a [Trunk],
        flow: &Flow,
        called: &str,
    ) -> Option<&'a Trunk> {
        let is_here = |trunk: &&Trunk| self.has(&trunk.name, flow.remote.ip());
        let is_called = |trunk: &&Trunk| {
            let register = trunk.register.as_ref();
            register.is_some_and(|register| register.account() == called)
        };
        let here = || trunks.iter().filter(is_here);
        here().find(is_called).or_else(|| here().next())
    }
}

/// The first different addresses of these.
fn different(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for ip in addresses.map(|ip| ip.to_canonical()) {
        if found.len() < ADDRESSES_MAX && !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}

impl RegisterSettings {
    /// The user of the address of record, which is also the user of our Contact.
    pub(crate) fn account(&self) -> &str {
        let account = self.account.as_ref();
        account.unwrap_or(&self.credentials.username)
    }

    /// The Route through the outbound proxy (RFC 3261, 8.1.2).
    pub(crate) fn route(&self) -> Option<String> {
        let proxy: Uri = self.proxy.as_ref()?.parse().ok()?;
        let proxy = match proxy.has("lr") {
            true => proxy,
            false => proxy.with("lr", None),
        };
        Some(format!("<{proxy}>"))
    }

    /// The address of record; `None` if the settings have no valid one.
    pub(crate) fn address_of_record(&self) -> Option<Uri> {
        let registrar: Uri = self.registrar.parse().ok()?;
        let (host, port) = match &self.domain {
            Some(domain) => (domain.parse::<Host>().ok()?, None),
            None => (registrar.host, registrar.port),
        };
        Some(Uri {
            scheme: registrar.scheme,
            ..Uri::sip(self.account(), host, port)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_registrar_of_another_trunk_is_not_the_trunks() {
        let trunk = Trunk {
            name: "carrier".to_owned(),
            addresses: vec!["192.0.2.0/24".parse().expect("a net")],
            ..Trunk::default()
        };
        let registrars = Registrars::default();
        let add = |name: &str, addresses: &[&str], until: Instant| {
            let addresses = addresses.iter().map(|ip| ip.parse().expect("an address"));
            registrars.add(name, addresses, until);
        };
        let later = Instant::now() + Duration::from_secs(600);
        add("carrier", &["198.51.100.1", "198.51.100.2"], later);
        add("other", &["203.0.113.1"], later);
        add("expired", &["203.0.113.9"], Instant::now());
        assert_eq!(registrars.count(), 2);
        assert!(!registrars.have("203.0.113.9".parse().expect("an address")));
        for (ip, expected) in [
            ("192.0.2.7", true),
            ("198.51.100.2", true),
            ("198.51.100.1", true),
            ("::ffff:198.51.100.1", true),
            ("203.0.113.1", false),
        ] {
            let ip = ip.parse().expect("an address");
            assert_eq!(registrars.is_of(&trunk, ip), expected, "{ip}");
        }
    }

    #[test]
    fn new_addresses_of_a_registrar_displace_the_oldest() {
        let registrars = Registrars::default();
        let until = Instant::now() + Duration::from_secs(600);
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let twice = [ip(1), ip(1), ip(2)].into_iter();
        registrars.add("carrier", twice, until);
        registrars.extend("carrier", [ip(3), ip(2)].into_iter());
        registrars.extend("another", [ip(9)].into_iter());
        let has = |last| registrars.has("carrier", ip(last));
        assert_eq!([1, 2, 3, 9].map(has), [true, true, true, false]);
        assert!(!registrars.have(ip(9)), "nobody is registered there");
        registrars.extend("carrier", (100..100 + 30).map(ip));
        assert_eq!([1, 2, 3, 129].map(has), [false, true, true, true]);
        registrars.add("carrier", [ip(4)].into_iter(), until);
        assert_eq!([3, 4].map(has), [false, true]);
    }
}
