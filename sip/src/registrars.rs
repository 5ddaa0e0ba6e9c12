//! The registrars that we are registered with, by trunk, and the messages that they send.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{settings::Trunk, transport::Flow};

/// The address that each trunk's REGISTER went to, by the trunk's name; two trunks may share a registrar. Calls from there are
/// admitted, and the trunk's credentials may go there.
#[derive(Debug, Default)]
pub struct Registrars(Mutex<HashMap<String, SocketAddr>>);

impl Registrars {
    fn table(&self) -> MutexGuard<'_, HashMap<String, SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, trunk: &str, address: SocketAddr) {
        self.table().insert(trunk.to_owned(), address);
    }

    /// Removes a registration; false if there was none.
    pub fn remove(&self, trunk: &str) -> bool {
        self.table().remove(trunk).is_some()
    }

    /// Number of trunks that we are registered with.
    pub fn count(&self) -> usize {
        self.table().len()
    }

    /// Address of this trunk's registrar, if we are registered with it.
    pub fn address_of(&self, trunk: &str) -> Option<IpAddr> {
        let address = self.table().get(trunk).copied();
        address.map(|address| address.ip().to_canonical())
    }

    /// True if this address belongs to the trunk: it is one of its `addresses`, or that of its own registrar.
    pub fn is_of(&self, trunk: &Trunk, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.address_of(&trunk.name) == Some(ip)
            || trunk.addresses.iter().any(|net| net.contains(&ip))
    }

    /// True if a registrar has this address.
    pub fn have(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let table = self.table();
        let mut hosts = table.values().map(|address| address.ip().to_canonical());
        hosts.any(|host| host == ip)
    }

    /// True if a registrar sent this.
    pub fn sent(&self, flow: &Flow) -> bool {
        self.table().values().any(|address| is_at(*address, flow))
    }

    /// True if the registrar of this trunk sent this.
    pub fn sent_for(&self, trunk: &str, flow: &Flow) -> bool {
        let table = self.table();
        let address = table.get(trunk);
        address.is_some_and(|address| is_at(*address, flow))
    }

    /// The trunk whose registrar sent this. If several trunks share the registrar, it is the one whose username, our Contact's
    /// user, is called; else the first in the configuration.
    pub fn trunk_of<'a>(
        &self,
        trunks: &'a [Trunk],
        flow: &Flow,
        called: &str,
    ) -> Option<&'a Trunk> {
        let is_here = |trunk: &&Trunk| self.sent_for(&trunk.name, flow);
        let is_called = |trunk: &&Trunk| {
            let register = trunk.register.as_ref();
            register.is_some_and(|register| register.credentials.username == called)
        };
        let here = || trunks.iter().filter(is_here);
        here().find(is_called).or_else(|| here().next())
    }
}

/// True if the flow's peer is this registrar. A connection that a registrar opened has another source port.
fn is_at(registrar: SocketAddr, flow: &Flow) -> bool {
    registrar == flow.remote || flow.is_reliable() && registrar.ip() == flow.remote.ip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registrar_of_another_trunk_is_not_the_trunks() {
        let trunk = Trunk {
            name: "carrier".to_owned(),
            addresses: vec!["192.0.2.0/24".parse().expect("a net")],
            ..Trunk::default()
        };
        let registrars = Registrars::default();
        registrars.add("carrier", "198.51.100.1:5060".parse().expect("an address"));
        registrars.add("other", "203.0.113.1:5060".parse().expect("an address"));
        for (ip, expected) in [
            ("192.0.2.7", true),
            ("198.51.100.1", true),
            ("::ffff:198.51.100.1", true),
            ("203.0.113.1", false),
        ] {
            let ip = ip.parse().expect("an address");
            assert_eq!(registrars.is_of(&trunk, ip), expected, "{ip}");
        }
    }
}
