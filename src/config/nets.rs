//! Ranges of addresses as they are configured.

use std::net::IpAddr;

use ipnet::IpNet;

/// A range, or one address.
pub(super) fn parse_net(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address)
}
