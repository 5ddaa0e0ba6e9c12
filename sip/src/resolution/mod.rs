//! Resolves names: to addresses, and to the servers of a SIP service in the order in which they are tried (RFC 3263).

mod nameservers;
mod order;
mod records;

use std::{io, net::SocketAddr, time::Duration};

use tokio::time::timeout;

pub use self::nameservers::Nameservers;
use self::order::service_names;
use crate::{
    message::{Host, Uri},
    settings::{ListenAddress, SipTransport},
};

/// Servers of one service that are tried.
const TARGETS_MAX: usize = 16;
/// Time limit for the servers of a URI, with all questions.
const RESOLVED: Duration = Duration::from_secs(4);
/// The part of it for services; the rest is for the addresses of a name without any.
const SERVED: Duration = Duration::from_secs(3);
/// The part of that for NAPTR records, which some nameservers refuse or drop. The first silent nameserver takes 2 s of it.
const POINTED: Duration = Duration::from_millis(2_200);
/// Why the addresses of a name are not asked for (RFC 2782).
const DECLINED: &str =
    "the SRV record of its domain says that it has no such service (target \".\")";

/// A server of a SIP service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SipTarget {
    pub transport: SipTransport,
    pub address: SocketAddr,
}

/// Answers of the DNS about the services of a name.
#[derive(Debug, Default)]
struct FoundServices {
    /// In the order in which they are tried.
    targets: Vec<SipTarget>,
    /// Transports whose service the name decidedly does not have.
    declined: Vec<SipTransport>,
}

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

/// The same, by the configured nameservers first.
pub async fn addresses_by(
    nameservers: &Nameservers,
    host: &Host,
    port: u16,
) -> io::Result<Vec<SocketAddr>> {
    if let Host::Name(name) = host {
        let found = nameservers.addresses(name).await.unwrap_or_default();
        if !found.is_empty() {
            let found = found.into_iter();
            return Ok(found.map(|ip| SocketAddr::new(ip, port)).collect());
        }
    }
    addresses(host, port).await
}

/// The transport that a URI names.
pub fn named_transport(uri: &Uri) -> Option<SipTransport> {
    let named = uri.param("transport").map(str::to_ascii_lowercase);
    match named.as_deref() {
        _ if uri.scheme == "sips" => Some(SipTransport::Tls),
        Some("tcp") => Some(SipTransport::Tcp),
        Some("tls") => Some(SipTransport::Tls),
        Some(_) => Some(SipTransport::Udp),
        None => None,
    }
}

pub fn port_of(uri: &Uri, transport: SipTransport) -> u16 {
    uri.port.unwrap_or(match transport {
        SipTransport::Tls => 5061,
        SipTransport::Udp | SipTransport::Tcp => 5060,
    })
}

/// The servers of a URI, those of an address family that we listen on first. Services of a name without a port are looked up; a
/// name without any has its addresses, with the `usual` transport.
///
/// Errors: the DNS does not answer within 4 s, or says that there is no such service.
pub async fn targets(
    uri: &Uri,
    usual: SipTransport,
    nameservers: &Nameservers,
    listen: &[ListenAddress],
) -> io::Result<Vec<SipTarget>> {
    let found = timeout(RESOLVED, looked_up(uri, usual, nameservers)).await;
    let mut found = found.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let datagrams = |listen: &&ListenAddress| listen.transport == SipTransport::Udp;
    let serves = |target: &SipTarget| {
        let mut listen = listen.iter().filter(datagrams);
        listen.any(|listen| listen.address.is_ipv4() == target.address.is_ipv4())
    };
    found.sort_by_key(|target| !serves(target));
    Ok(found)
}

async fn looked_up(
    uri: &Uri,
    usual: SipTransport,
    nameservers: &Nameservers,
) -> io::Result<Vec<SipTarget>> {
    let transport = named_transport(uri).unwrap_or(usual);
    if let (Host::Name(name), None) = (&uri.host, uri.port)
        && name.contains('.')
    {
        let mut found = FoundServices::default();
        let service = served(name, named_transport(uri), nameservers, &mut found);
        // Those that were found in time are tried.
        let _ = timeout(SERVED, service).await;
        if !found.targets.is_empty() {
            return Ok(found.targets);
        }
        if found.declined.contains(&transport) {
            return Err(io::Error::new(io::ErrorKind::NotFound, DECLINED));
        }
    }
    let found = addresses_by(nameservers, &uri.host, port_of(uri, transport)).await?;
    let target = |address| SipTarget { transport, address };
    Ok(found.into_iter().take(TARGETS_MAX).map(target).collect())
}

/// Adds the servers that the DNS names as a service of this name. A question that fails hides only its own records: nameservers
/// that know no NAPTR records may know the SRV records (RFC 3263, 4.1).
async fn served(
    name: &str,
    named: Option<SipTransport>,
    nameservers: &Nameservers,
    found: &mut FoundServices,
) {
    let pointers = match named {
        Some(_) => Vec::new(),
        None => {
            let pointers = timeout(POINTED, nameservers.pointers(name)).await;
            pointers.ok().and_then(Result::ok).unwrap_or_default()
        }
    };
    for (transport, service) in service_names(name, named, pointers) {
        let Ok(services) = nameservers.services(&service).await else {
            continue;
        };
        if order::is_declined(&services) {
            found.declined.push(transport);
        }
        for record in order::by_weight(services, rand::random) {
            let Ok(host) = record.target.parse() else {
                continue;
            };
            let addresses = addresses_by(nameservers, &host, record.port).await;
            let target = |address| SipTarget { transport, address };
            let addresses = addresses.unwrap_or_default().into_iter();
            found.targets.extend(addresses.map(target));
            if found.targets.len() >= TARGETS_MAX {
                found.targets.truncate(TARGETS_MAX);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Each would be waited for on its own, for each question.
    #[tokio::test]
    async fn silent_nameservers_are_waited_for_a_few_seconds_in_all() {
        let silent = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let sockets = [silent(), silent(), silent()];
        let addresses = sockets.each_ref().map(|socket| socket.local_addr());
        let nameservers = Nameservers::new(&addresses.map(|address| address.expect("bound")));
        let uri = "sip:trunk.invalid".parse().expect("a URI");
        let found = targets(&uri, SipTransport::Udp, &nameservers, &[]);
        let found = timeout(RESOLVED + Duration::from_secs(1), found).await;
        assert!(found.is_ok_and(|found| found.is_err()));
    }
}
