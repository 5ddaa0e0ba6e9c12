//! Resolves the host of a URI to addresses.

use std::{io, net::SocketAddr};

use crate::message::Host;

/// The addresses of a host, the preferred one first; empty if the name has none.
///
/// Errors: the DNS does not answer.
pub async fn addresses(host: &Host, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host {
        Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, port)]),
        Host::Name(name) => Ok(tokio::net::lookup_host((name.as_str(), port))
            .await?
            .collect()),
    }
}
