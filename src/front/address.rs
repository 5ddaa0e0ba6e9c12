//! The client's address: the peer's, or the one that a trusted proxy reports.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::header::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// An IPv4 address, or the /64 of an IPv6 address: one client usually has a whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 => v4,
    }
}

/// The address that limits count for. Each proxy appends its peer's address to `X-Forwarded-For`. So the last address
/// that is no trusted proxy is the client's; anything before it may be forged.
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    if !is_trusted(peer, trusted) {
        return peer;
    }
    let forwarded: Vec<&str> = headers
        .get_all(FORWARDED_FOR)
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .collect();
    let mut nearest = peer;
    for text in forwarded.into_iter().rev() {
        let Some(address) = parse(text.trim()) else {
            break;
        };
        nearest = address;
        if !is_trusted(address, trusted) {
            break;
        }
    }
    nearest
}

/// True if the address is one of the operator's proxies.
pub(super) fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    let address = address.to_canonical();
    trusted.iter().any(|net| net.contains(&address))
}

/// Parses an address; some proxies add the port.
fn parse(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = || text.parse::<SocketAddr>().ok().map(|it| it.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    #[test]
    fn one_client_of_ipv6_is_one_network() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.2"), network("192.0.2.1"));
    }

    #[test]
    fn only_what_a_trusted_proxy_says_counts() {
        let trusted = [
            "127.0.0.0/8".parse().expect("a range"),
            "10.0.0.5/32".parse().expect("a range"),
        ];
        let table: &[(&str, &[&str], &str)] = &[
            ("192.0.2.1", &["198.51.100.7"], "192.0.2.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("127.0.0.1", &["6.6.6.6, 198.51.100.7"], "198.51.100.7"),
            ("127.0.0.1", &["6.6.6.6", "198.51.100.7"], "198.51.100.7"),
            ("127.0.0.1", &["198.51.100.7, 10.0.0.5"], "198.51.100.7"),
            ("::ffff:127.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            ("127.0.0.1", &["[2001:db8::7]:443"], "2001:db8::7"),
            ("127.0.0.1", &["198.51.100.7, unknown"], "127.0.0.1"),
        ];
        for (peer, sent, expected) in table {
            let mut headers = HeaderMap::new();
            for value in *sent {
                headers.append(FORWARDED_FOR, HeaderValue::from_static(value));
            }
            let address = client_address(peer.parse().expect("an address"), &headers, &trusted);
            assert_eq!(address.to_string(), *expected, "{peer} {sent:?}");
        }
    }
}
