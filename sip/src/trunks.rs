//! Finds the trunk of a caller. Pure.

use std::net::IpAddr;

use crate::{
    settings::{SipTransport, Trunk},
    whatsapp::may_come_over,
};

/// The trunk that admits this address over this transport without digest; of several, the one with the narrowest range. All
/// WhatsApp trunks have Meta's addresses, so of several the called number decides.
pub fn by_address<'a>(
    trunks: &'a [Trunk],
    ip: IpAddr,
    transport: SipTransport,
    called: &str,
) -> Option<&'a Trunk> {
    let ip = ip.to_canonical();
    let exactness = |trunk: &Trunk| {
        let nets = trunk.addresses.iter().filter(|net| net.contains(&ip));
        nets.map(|net| net.prefix_len()).max()
    };
    let is_only = trunks.iter().filter(|trunk| trunk.is_whatsapp()).count() == 1;
    let digits = called.trim_start_matches('+');
    let is_called = |trunk: &Trunk| {
        let number = trunk.number.as_deref().unwrap_or_default();
        is_only || !trunk.is_whatsapp() || number.trim_start_matches('+') == digits
    };
    trunks
        .iter()
        .filter(|trunk| may_come_over(trunk, transport) && is_called(trunk))
        .filter_map(|trunk| Some((exactness(trunk)?, trunk)))
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, trunk)| trunk)
}

/// True if a trunk admits this address, over whichever transport.
pub fn has_address(trunks: &[Trunk], ip: IpAddr) -> bool {
    is_among(trunks.iter(), ip)
}

/// True if a trunk admits this address over this transport.
pub fn admits(trunks: &[Trunk], ip: IpAddr, transport: SipTransport) -> bool {
    let callers = trunks.iter();
    is_among(callers.filter(|trunk| may_come_over(trunk, transport)), ip)
}

fn is_among<'a>(mut trunks: impl Iterator<Item = &'a Trunk>, ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    trunks.any(|trunk| trunk.addresses.iter().any(|net| net.contains(&ip)))
}

/// The trunk with this digest username, and its password.
pub fn by_username<'a>(trunks: &'a [Trunk], username: &str) -> Option<(&'a Trunk, &'a str)> {
    trunks.iter().find_map(|trunk| {
        let credentials = trunk.credentials.as_ref()?;
        (credentials.username == username).then_some((trunk, credentials.password.as_str()))
    })
}

/// True if any trunk has a digest.
pub fn any_digest(trunks: &[Trunk]) -> bool {
    trunks.iter().any(|trunk| trunk.credentials.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TrunkPreset;

    fn trunk(name: &str, nets: &[&str]) -> Trunk {
        Trunk {
            name: name.to_owned(),
            addresses: nets.iter().map(|net| net.parse().expect("a net")).collect(),
            ..Trunk::default()
        }
    }

    #[test]
    fn the_most_exact_trunk_is_taken() {
        let trunks = [
            trunk("wide", &["10.0.0.0/8", "2001:db8::/32"]),
            trunk("exact", &["10.1.2.3/32"]),
            trunk("nobody", &[]),
        ];
        for (ip, name) in [
            ("10.1.2.3", Some("exact")),
            ("10.1.2.4", Some("wide")),
            ("::ffff:10.1.2.3", Some("exact")),
            ("2001:db8::1", Some("wide")),
            ("127.0.0.1", None),
        ] {
            let ip = ip.parse().expect("an address");
            let found = by_address(&trunks, ip, SipTransport::Udp, "");
            assert_eq!(has_address(&trunks, ip), name.is_some(), "{ip}");
            assert_eq!(found.map(|trunk| trunk.name.as_str()), name, "{ip}");
        }
    }

    #[test]
    fn addresses_of_whatsapp_are_strangers_in_clear() {
        let whatsapp = Trunk {
            preset: Some(TrunkPreset::WhatsApp),
            ..trunk("whatsapp", &["10.0.0.0/8"])
        };
        let trunks = [whatsapp, trunk("carrier", &["10.1.0.0/16"])];
        for (ip, transport, expected) in [
            ("10.2.0.1", SipTransport::Udp, false),
            ("10.2.0.1", SipTransport::Tcp, false),
            ("10.2.0.1", SipTransport::Tls, true),
            ("10.1.0.1", SipTransport::Udp, true),
            ("192.0.2.1", SipTransport::Tls, false),
        ] {
            let ip = ip.parse().expect("an address");
            assert_eq!(admits(&trunks, ip, transport), expected, "{ip}");
        }
    }

    #[test]
    fn of_whatsapp_trunks_the_called_number_decides() {
        let business = |number: &str| Trunk {
            number: Some(number.to_owned()),
            preset: Some(TrunkPreset::WhatsApp),
            ..trunk(number, &["10.0.0.0/8"])
        };
        let (first, second) = ("+622150001000", "+622150002000");
        let ip = "10.1.2.3".parse().expect("an address");
        let found = |trunks: &[Trunk], called: &str| {
            let found = by_address(trunks, ip, SipTransport::Tls, called);
            found.map(|trunk| trunk.name.clone())
        };
        let both = [business(first), business(second)];
        for (called, expected) in [
            (second, Some(second)),
            ("622150002000", Some(second)),
            (first, Some(first)),
            ("+622150003000", None),
            ("", None),
        ] {
            assert_eq!(found(&both, called).as_deref(), expected, "{called}");
        }
        assert_eq!(found(&both[..1], "").as_deref(), Some(first));
    }
}
