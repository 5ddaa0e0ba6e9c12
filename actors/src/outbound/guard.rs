//! The addresses that may be dialled on behalf of a tenant: public ones, and those that the operator allows.
//!
//! This is our own list, because `IpAddr::is_global` is unstable and because refusals must not change with a
//! library's version.
//!
//! The ranges are those of the IANA special-purpose address registries
//! (<https://www.iana.org/assignments/iana-ipv4-special-registry>, `…/iana-ipv6-special-registry`), multicast, and in
//! IPv6 everything outside the global unicast block 2000::/3. A few registered ranges are globally reachable (anycast
//! services of the network itself: AS112, AMT, PCP, TURN, ORCHID, DRIP). They are refused too: no tenant's server has
//! its address there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::{
    blocked::BlockedReason,
    names::{self, AllowedHost},
};

/// The rule for outbound connections.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Ranges that may be dialled although they are not public.
    pub allow_cidrs: Vec<IpNet>,
    /// Hosts that may be reached although they are internal, whatever their addresses.
    pub allow_hosts: AllowedHosts,
    /// Plain http is allowed.
    pub allow_http: bool,
    /// Ports of this service: never dialled on an address of this machine, whatever is allowed.
    pub own_ports: Vec<u16>,
}

/// The hosts that the operator trusts by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedHosts {
    /// The operator chose the destination.
    All,
    Only(Vec<AllowedHost>),
}

impl Default for AllowedHosts {
    fn default() -> Self {
        Self::Only(Vec::new())
    }
}

/// The addresses that a host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Public addresses, and ranges that the operator allows.
    Public,
    /// Any address: the operator trusts the name.
    Anywhere,
}

impl Guard {
    /// The addresses that a host may have, if it may be used at all.
    pub(super) fn check_host(&self, host: &str, port: u16) -> Result<Reach, BlockedReason> {
        let trusted = match &self.allow_hosts {
            AllowedHosts::All => true,
            AllowedHosts::Only(hosts) => hosts.iter().any(|allowed| allowed.covers(host, port)),
        };
        if trusted {
            return Ok(Reach::Anywhere);
        }
        names::check(host, port)?;
        Ok(Reach::Public)
    }

    /// Checks every address for `port`: one refused address refuses the name.
    pub(super) fn check_all(
        &self,
        addresses: &[IpAddr],
        port: u16,
        reach: Reach,
    ) -> Result<(), BlockedReason> {
        addresses
            .iter()
            .try_for_each(|address| self.check(*address, port, reach))
    }

    /// Checks one address for `port`.
    pub(super) fn check(
        &self,
        address: IpAddr,
        port: u16,
        reach: Reach,
    ) -> Result<(), BlockedReason> {
        let address = effective(address);
        let allowed = reach == Reach::Anywhere
            || is_public(address)
            || self.allow_cidrs.iter().any(|net| net.contains(&address));
        if !allowed {
            return Err(BlockedReason::NotPublic);
        }
        if self.own_ports.contains(&port) && is_this_machine(address) {
            return Err(BlockedReason::Own);
        }
        Ok(())
    }
}

/// The address that the kernel or a translator really dials. That is the IPv4 address inside a mapped
/// (`::ffff:0:0/96`) or NAT64 (`64:ff9b::/96`, RFC 6052) address, else the address itself.
fn effective(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !SPECIAL_V4.iter().any(|range| range.contains(v4)),
        IpAddr::V6(v6) => {
            GLOBAL_UNICAST.contains(v6) && !SPECIAL_V6.iter().any(|range| range.contains(v6))
        }
    }
}

/// Loopback and unspecified addresses by rule; for others, asks the kernel if the address can be bound.
fn is_this_machine(address: IpAddr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || std::net::UdpSocket::bind((address, 0)).is_ok()
}

struct V4(u8, u8, u8, u8, u32);

impl V4 {
    const fn contains(&self, address: Ipv4Addr) -> bool {
        let network = Ipv4Addr::new(self.0, self.1, self.2, self.3).to_bits();
        (network ^ address.to_bits()) >> (32 - self.4) == 0
    }
}

struct V6(u16, u16, u16, u32);

impl V6 {
    /// All listed prefixes lie in the first three segments.
    const fn contains(&self, address: Ipv6Addr) -> bool {
        let network = Ipv6Addr::new(self.0, self.1, self.2, 0, 0, 0, 0, 0).to_bits();
        (network ^ address.to_bits()) >> (128 - self.3) == 0
    }
}

const SPECIAL_V4: &[V4] = &[
    V4(0, 0, 0, 0, 8),        // this network
    V4(10, 0, 0, 0, 8),       // private
    V4(100, 64, 0, 0, 10),    // shared by carriers
    V4(127, 0, 0, 0, 8),      // loopback
    V4(168, 63, 129, 16, 32), // a cloud's own service for its machines, in the middle of public addresses
    V4(169, 254, 0, 0, 16),   // link local, with the clouds' metadata services
    V4(172, 16, 0, 0, 12),    // private
    V4(192, 0, 0, 0, 24),     // protocol assignments
    V4(192, 0, 2, 0, 24),     // documentation
    V4(192, 31, 196, 0, 24),  // AS112
    V4(192, 52, 193, 0, 24),  // AMT
    V4(192, 88, 99, 0, 24),   // 6to4 relays
    V4(192, 168, 0, 0, 16),   // private
    V4(192, 175, 48, 0, 24),  // AS112
    V4(198, 18, 0, 0, 15),    // benchmarks
    V4(198, 51, 100, 0, 24),  // documentation
    V4(203, 0, 113, 0, 24),   // documentation
    V4(224, 0, 0, 0, 4),      // multicast
    V4(240, 0, 0, 0, 4),      // reserved, with broadcast
];

/// Outside are loopback, unspecified, IPv4-compatible, discard, local NAT64, SRv6, unique local, link local,
/// multicast and unassigned addresses.
const GLOBAL_UNICAST: V6 = V6(0x2000, 0, 0, 3);

const SPECIAL_V6: &[V6] = &[
    V6(0x2001, 0, 0, 23), // protocol assignments: Teredo, benchmarks, ORCHID, DRIP
    V6(0x2001, 0xdb8, 0, 32), // documentation
    V6(0x2002, 0, 0, 16), // 6to4: carries any IPv4 address
    V6(0x2620, 0x4f, 0x8000, 48), // AS112
    V6(0x3fff, 0, 0, 20), // documentation
];

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(guard: &Guard, address: &str) -> Result<(), BlockedReason> {
        guard.check(address.parse().expect("an address"), 443, Reach::Public)
    }

    /// Both registries, multicast, and former site-local addresses. Without `::ffff:0:0/96` and `64:ff9b::/96`, which
    /// carry an IPv4 address that decides.
    const SPECIAL: &[&str] = &[
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.0.0/29",
        "192.0.0.8/32",
        "192.0.0.9/32",
        "192.0.0.10/32",
        "192.0.0.170/31",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "255.255.255.255/32",
        "::/128",
        "::1/128",
        "::/96",
        "::ffff:0:0:0/96",
        "64:ff9b:1::/48",
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",
        "2001::/32",
        "2001:1::1/128",
        "2001:1::2/128",
        "2001:1::3/128",
        "2001:2::/48",
        "2001:3::/32",
        "2001:4:112::/48",
        "2001:10::/28",
        "2001:20::/28",
        "2001:30::/28",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    ];

    fn shifted(address: IpAddr, by: i8) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                Ipv4Addr::from_bits(v4.to_bits().wrapping_add_signed(by.into())).into()
            }
            IpAddr::V6(v6) => {
                Ipv6Addr::from_bits(v6.to_bits().wrapping_add_signed(by.into())).into()
            }
        }
    }

    #[test]
    fn every_special_range_is_refused_and_nothing_beside_it() {
        let guard = Guard::default();
        let net = |text: &&str| text.parse::<IpNet>().expect("a range");
        let special: Vec<IpNet> = SPECIAL.iter().map(net).collect();
        let unicast: IpNet = "2000::/3".parse().expect("a range");
        for range in &special {
            let (first, last) = (range.network(), range.broadcast());
            for address in [
                first,
                last,
                shifted(first, 1),
                shifted(last, -1),
                shifted(first, -1),
                shifted(last, 1),
            ] {
                let refused = special.iter().any(|range| range.contains(&address))
                    || address.is_ipv6() && !unicast.contains(&address);
                let expected = if refused {
                    Err(BlockedReason::NotPublic)
                } else {
                    Ok(())
                };
                assert_eq!(
                    guard.check(address, 443, Reach::Public),
                    expected,
                    "{address}, beside {range}"
                );
            }
        }
    }

    #[test]
    fn an_address_that_carries_another_is_no_way_around() {
        let guard = Guard::default();
        for v4 in [
            "127.0.0.1",
            "10.1.2.3",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "255.255.255.255",
        ] {
            for before in ["::ffff:", "64:ff9b::", "64:ff9b:1::", "::", "::ffff:0:"] {
                let address = format!("{before}{v4}");
                assert_eq!(
                    verdict(&guard, &address),
                    Err(BlockedReason::NotPublic),
                    "{address}"
                );
            }
        }
        // 6to4 and Teredo are always refused; others go by the address that they carry, or are not unicast.
        for address in [
            "2002:7f00:1::1",
            "2002:808:808::1",
            "2001:0:808:808::1",
            "64:ff9b:1::8.8.8.8",
            "::8.8.8.8",
        ] {
            assert_eq!(
                verdict(&guard, address),
                Err(BlockedReason::NotPublic),
                "{address}"
            );
        }
        for address in ["::ffff:8.8.8.8", "64:ff9b::8.8.8.8"] {
            assert_eq!(verdict(&guard, address), Ok(()), "{address}");
        }
    }

    #[test]
    fn public_addresses_are_dialled() {
        let guard = Guard::default();
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450::1",
            "3ffe::1",
        ] {
            assert_eq!(verdict(&guard, address), Ok(()), "{address}");
        }
    }

    #[test]
    fn what_the_operator_allows_is_dialled_in_every_spelling() {
        let guard = Guard {
            allow_cidrs: vec![
                "127.0.0.0/8".parse().expect("a range"),
                "fd00::/8".parse().expect("a range"),
            ],
            ..Guard::default()
        };
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "fd12::1"] {
            assert_eq!(verdict(&guard, address), Ok(()), "{address}");
        }
        for address in ["::1", "10.0.0.1", "0.0.0.0", "fc00::1"] {
            assert!(verdict(&guard, address).is_err(), "{address}");
        }
    }

    #[test]
    fn one_bad_address_refuses_the_name() {
        let guard = Guard::default();
        let addresses = [
            "8.8.8.8".parse().expect("v4"),
            "127.0.0.1".parse().expect("v4"),
        ];
        assert_eq!(
            guard.check_all(&addresses, 443, Reach::Public),
            Err(BlockedReason::NotPublic)
        );
        assert_eq!(guard.check_all(&addresses[..1], 443, Reach::Public), Ok(()));
    }

    #[test]
    fn the_service_does_not_call_itself_even_where_its_address_is_allowed() {
        let guard = Guard {
            allow_cidrs: vec![
                "0.0.0.0/0".parse().expect("a range"),
                "::/0".parse().expect("a range"),
            ],
            own_ports: vec![8080],
            ..Guard::default()
        };
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "::1",
            "::",
            "::ffff:127.0.0.1",
        ] {
            let address = address.parse().expect("an address");
            for reach in [Reach::Public, Reach::Anywhere] {
                let own = guard.check(address, 8080, reach);
                assert_eq!(own, Err(BlockedReason::Own), "{address}");
                assert_eq!(guard.check(address, 8081, reach), Ok(()), "{address}");
            }
        }
        let elsewhere = "192.0.2.1".parse().expect("v4");
        assert_eq!(guard.check(elsewhere, 8080, Reach::Public), Ok(()));
    }

    #[test]
    fn a_host_that_the_operator_allows_may_lead_anywhere_and_no_other() {
        let allowed = |text: &str| text.parse::<AllowedHost>().expect("a host");
        let guard = Guard {
            allow_hosts: AllowedHosts::Only(vec![allowed("hooks.internal"), allowed("mail:25")]),
            ..Guard::default()
        };
        let reach = guard.check_host("hooks.internal", 8080);
        assert_eq!(reach, Ok(Reach::Anywhere));
        let private = "10.1.2.3".parse().expect("v4");
        assert_eq!(guard.check(private, 8080, Reach::Anywhere), Ok(()));
        assert_eq!(guard.check_host("mail", 25), Ok(Reach::Anywhere));
        for (host, port, verdict) in [
            ("other.internal", 443, Err(BlockedReason::Internal)),
            ("hooks.internal", 25, Err(BlockedReason::Port)),
            ("mail", 443, Err(BlockedReason::Internal)),
            ("example.com", 443, Ok(Reach::Public)),
        ] {
            assert_eq!(guard.check_host(host, port), verdict, "{host}:{port}");
        }
    }
}
