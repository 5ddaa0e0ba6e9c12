//! Address ranges in the configuration.

use std::net::IpAddr;

use ipnet::IpNet;

/// Parses a range, or a single address.
pub(super) fn parse_net(text: &str) -> Option<IpNet> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address)
}
