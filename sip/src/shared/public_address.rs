//! The address at which peers elsewhere reach this machine, and the networks whose peers reach it at its own.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::message::Host;

/// `public_address`, with the addresses of its name.
#[derive(Debug)]
pub struct PublicAddress {
    host: Host,
    ips: Vec<IpAddr>,
    /// Peers in these networks are told the machine's own address.
    local_networks: Vec<IpNet>,
}

impl PublicAddress {
    /// `local_networks`: if empty, the private networks of this machine's interfaces, as they are now.
    pub fn new(host: Host, ips: Vec<IpAddr>, local_networks: &[IpNet]) -> Self {
        let local_networks = match local_networks {
            [] => of_interfaces(),
            configured => configured.to_vec(),
        };
        Self {
            host,
            ips,
            local_networks,
        }
    }

    /// The address for this peer, if it is of the family of `local`, our own; else the peer could not use it.
    pub fn towards(&self, peer: IpAddr, local: IpAddr) -> Option<IpAddr> {
        let peer = peer.to_canonical();
        if self.local_networks.iter().any(|net| net.contains(&peer)) {
            return None;
        }
        let mut ips = self.ips.iter().copied();
        ips.find(|ip| ip.is_ipv4() == local.is_ipv4())
    }

    pub fn host(&self) -> &Host {
        &self.host
    }
}

fn of_interfaces() -> Vec<IpNet> {
    match if_addrs::get_if_addrs() {
        Ok(interfaces) => {
            let addresses = interfaces.iter().map(|interface| match &interface.addr {
                if_addrs::IfAddr::V4(of) => (of.ip.into(), of.prefixlen),
                if_addrs::IfAddr::V6(of) => (of.ip.into(), of.prefixlen),
            });
            addresses
                .filter_map(|(ip, prefix)| private_network(ip, prefix))
                .collect()
        }
        Err(error) => {
            tracing::warn!(%error, "could not read the addresses of the interfaces; set telephony.sip.local_networks");
            Vec::new()
        }
    }
}

/// The network of an interface's address, if it is private (RFC 1918, RFC 4193) or of the link.
fn private_network(ip: IpAddr, prefix: u8) -> Option<IpNet> {
    let is_private = match ip {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    };
    let network = IpNet::new(ip, prefix).ok().filter(|_| is_private)?;
    Some(network.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_of_private_interfaces_are_local() {
        for (interface, prefix, network) in [
            ("192.168.1.9", 24, Some("192.168.1.0/24")),
            ("10.2.3.4", 8, Some("10.0.0.0/8")),
            ("172.17.0.2", 16, Some("172.17.0.0/16")),
            ("169.254.7.7", 16, Some("169.254.0.0/16")),
            ("fd00::2", 64, Some("fd00::/64")),
            ("fe80::1", 64, Some("fe80::/64")),
            // A proxy of this machine passes our address on to others, and carriers' networks are shared by strangers.
            ("127.0.0.1", 8, None),
            ("::1", 128, None),
            ("100.64.0.2", 10, None),
            ("203.0.113.7", 24, None),
            ("2001:db8::7", 64, None),
            ("10.2.3.4", 33, None),
        ] {
            let found = private_network(ip(interface), prefix).map(|net| net.to_string());
            assert_eq!(found.as_deref(), network, "{interface}");
        }
    }

    #[test]
    fn peers_elsewhere_are_told_the_public_address_of_their_family() {
        let networks = ["192.168.1.0/24", "fd00::/64"].map(|net| net.parse().expect("a net"));
        let told = |ips: &[&str], peer: &str, local: &str| {
            let ips = ips.iter().map(|text| ip(text)).collect();
            let host = Host::Name("sip.example.com".to_owned());
            let public = PublicAddress::new(host, ips, &networks);
            let told = public.towards(ip(peer), ip(local));
            told.map(|ip| ip.to_string())
        };
        let (four, both) = (
            &["203.0.113.7"][..],
            &["203.0.113.7", "2001:db8::7", "203.0.113.8"][..],
        );
        for (ips, peer, local, expected) in [
            (four, "198.51.100.1", "192.168.1.2", Some("203.0.113.7")),
            (four, "192.168.2.1", "192.168.1.2", Some("203.0.113.7")),
            (four, "192.168.1.1", "192.168.1.2", None),
            (four, "::ffff:192.168.1.1", "192.168.1.2", None),
            (four, "2001:db8::1", "fd00::2", None),
            (both, "2001:db8::1", "fd00::2", Some("2001:db8::7")),
            (both, "198.51.100.1", "192.168.1.2", Some("203.0.113.7")),
            (both, "fd00::1", "fd00::2", None),
        ] {
            let told = told(ips, peer, local);
            assert_eq!(told.as_deref(), expected, "{peer}, from {local}");
        }
    }
}
