//! The holder of an address, for limits per address. Pure.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 address: a host with one of its addresses has them all.
pub fn holder(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let net = ip.to_bits() & !u128::from(u64::MAX);
            Ipv6Addr::from_bits(net).into()
        }
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_counts_as_one() {
        for (one, other, same) in [
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let holder = |text: &str| holder(text.parse().expect("an address"));
            assert_eq!(holder(one) == holder(other), same, "{one} {other}");
        }
    }
}
