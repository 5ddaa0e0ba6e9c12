//! Rules for the addresses that a peer may name as its own. Pure.
//!
//! A peer controls its Contact, Record-Route and SDP. Without these rules it could make this machine connect, and send media, to
//! services of its own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{settings::Trunk, trunks};

/// True for an address that is meaningful on its own network only. Peers behind NAT name such addresses, and attackers who probe
/// our network.
pub fn is_hidden(ip: IpAddr) -> bool {
    match decoded(ip) {
        IpAddr::V4(v4) => {
            // Shared address space of carriers (RFC 6598).
            let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            // "This network" (RFC 791), which Linux takes for itself.
            let is_this = v4.octets()[0] == 0;
            v4.is_private() || is_shared || is_this || is_of_this_link(ip)
        }
        IpAddr::V6(v6) => {
            // Site-local (RFC 3879): obsolete, still routed in some networks.
            let is_site_local = v6.segments()[0] & 0xffc0 == 0xfec0;
            v6.is_unique_local() || is_site_local || is_of_this_link(ip)
        }
    }
}

/// The IPv4 address in an IPv4-mapped or NAT64 address (`64:ff9b::/96`, RFC 6052); other addresses as they are.
fn decoded(ip: IpAddr) -> IpAddr {
    let ip = ip.to_canonical();
    match ip {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        _ => ip,
    }
}

/// True for obsolete forms with an IPv4 address inside: IPv4-compatible (RFC 4291, 2.5.5.1), 6to4 (RFC 7526) and Teredo
/// (RFC 4380). No phone has one; a tunnel of this machine would send to the address inside.
fn is_tunnelled(ip: Ipv6Addr) -> bool {
    matches!(
        ip.segments(),
        [0, 0, 0, 0, 0, 0, ..] | [0x2002, ..] | [0x2001, 0, ..]
    )
}

/// True for addresses of this machine (loopback), of its tunnels, and for link-local and multicast addresses.
fn is_of_this_link(ip: IpAddr) -> bool {
    match decoded(ip) {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_link_local() || v4.is_multicast() || v4 == Ipv4Addr::BROADCAST
        }
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_multicast() || is_tunnelled(v6),
    }
}

/// True if media may be sent there. `source` is the address of the call's signalling; a phone on this machine may get media on
/// it.
pub fn may_hear(ip: IpAddr, source: IpAddr, trunks: &[Trunk]) -> bool {
    let (ip, source) = (ip.to_canonical(), source.to_canonical());
    !is_of_this_link(ip)
        || ip == source
        || (ip.is_loopback() && source.is_loopback())
        || trunks::has_address(trunks, ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn addresses_that_only_their_own_network_knows_are_hidden() {
        for hidden in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "127.0.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "febf::1",
            "fd00::1",
            "ff02::1",
            "::ffff:10.1.2.3",
            "::ffff:100.64.0.1",
            "::ffff:169.254.169.254",
            "::ffff:127.0.0.1",
            "64:ff9b::10.1.2.3",
            "64:ff9b::127.0.0.1",
            "::127.0.0.1",
            "2002:7f00:1::1",
            "2001:0:cb00:7105::1",
            "fec0::1",
        ] {
            assert!(is_hidden(ip(hidden)), "{hidden}");
        }
        for public in [
            "203.0.113.5",
            "100.63.255.255",
            "100.128.0.0",
            "172.32.0.1",
            "::ffff:203.0.113.5",
            "64:ff9b::203.0.113.5",
            "2001:db8::1",
            "2001:4860::1",
        ] {
            assert!(!is_hidden(ip(public)), "{public}");
        }
    }

    #[test]
    fn media_goes_to_this_machine_and_its_link_only_where_that_is_meant() {
        let trunk = Trunk {
            name: "here".to_owned(),
            addresses: vec!["127.0.0.1/32".parse().expect("a net")],
            ..Trunk::default()
        };
        let listed = [trunk];
        for (to, source, trunks, may) in [
            ("203.0.113.5", "198.51.100.7", &[][..], true),
            ("10.0.0.5", "198.51.100.7", &[], true),
            ("127.0.0.1", "198.51.100.7", &[], false),
            ("::ffff:127.0.0.1", "198.51.100.7", &[], false),
            ("127.0.0.1", "198.51.100.7", &listed, true),
            ("127.0.0.2", "198.51.100.7", &listed, false),
            ("127.0.0.2", "127.0.0.1", &[], true),
            ("127.0.0.1", "::1", &[], true),
            ("169.254.169.254", "198.51.100.7", &listed, false),
            ("169.254.169.254", "127.0.0.1", &listed, false),
            ("64:ff9b::127.0.0.1", "2001:db8::1", &[], false),
            ("64:ff9b::169.254.169.254", "2001:db8::1", &[], false),
            ("64:ff9b::203.0.113.5", "2001:db8::1", &[], true),
            ("::7f00:1", "2001:db8::1", &[], false),
            ("2002:7f00:1::1", "2001:db8::1", &[], false),
            ("2001:0:cb00:7105::1", "2001:db8::1", &[], false),
            ("fe80::1", "2001:db8::1", &[], false),
            ("fe80::1", "fe80::1", &[], true),
            ("224.0.0.1", "198.51.100.7", &[], false),
            ("ff02::1", "2001:db8::1", &[], false),
            ("255.255.255.255", "198.51.100.7", &[], false),
        ] {
            let allowed = may_hear(ip(to), ip(source), trunks);
            assert_eq!(allowed, may, "{to} for a call from {source}");
        }
    }
}
