//! The route to a peer: an existing flow, a datagram, or a new connection.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::time::timeout;

use super::{
    Shared,
    certificate_faults::{in_words, is_certificate_fault},
};
use crate::{
    address_rules::is_hidden,
    message::{Host, Uri},
    resolution::{self, SipTarget, named_transport, port_of},
    settings::{SipTransport, Trunk},
    transport::{Flow, connect},
};

/// Servers of an address that a trunk names, at most: the name may be a called phone's.
const NAMED_MAX: usize = 3;
/// The longest look-up of addresses beside those of servers.
const NAMED_WITHIN: Duration = Duration::from_secs(1);

/// The server at the other end of a route.
pub fn server_of(flow: &Flow) -> SipTarget {
    SipTarget {
        transport: flow.transport,
        address: flow.remote,
    }
}

/// Removes servers without TLS, if this error is the fault of a certificate: otherwise an impostor could bring our credentials into
/// the clear.
pub fn keep_secured(targets: &mut VecDeque<SipTarget>, error: &io::Error) {
    if is_certificate_fault(error) {
        targets.retain(|target| target.transport == SipTransport::Tls);
    }
}

impl Shared {
    /// The servers of a URI, in the order in which they are tried: the one of `known` first, where the last request went.
    pub async fn targets(
        &self,
        uri: &Uri,
        known: Option<&Flow>,
    ) -> io::Result<VecDeque<SipTarget>> {
        let usual = known.map_or(SipTransport::Udp, |known| known.transport);
        let listen = &self.settings.listen;
        let mut found = resolution::targets(uri, usual, &self.nameservers, listen).await?;
        let known = known.map(server_of);
        found.sort_by_key(|target| known != Some(*target));
        Ok(found.into())
    }

    /// The addresses of a host by its own name; empty if they are not found within a second.
    pub async fn addresses_of(&self, host: &Host) -> Vec<IpAddr> {
        let found = resolution::addresses_by(&self.nameservers, host, 0);
        let found = timeout(NAMED_WITHIN, found).await;
        let found = found.ok().and_then(Result::ok).unwrap_or_default();
        found.iter().map(SocketAddr::ip).collect()
    }

    /// The route to the first of these servers that can be reached. It is removed, with those before it. After the fault of a
    /// certificate only servers with TLS are tried.
    pub async fn flow_among(
        &self,
        targets: &mut VecDeque<SipTarget>,
        host: &Host,
        known: Option<&Flow>,
    ) -> io::Result<Flow> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        while let Some(target) = targets.pop_front() {
            match self.flow_to(target, host, known).await {
                Ok(flow) => return Ok(flow),
                Err(error) => {
                    keep_secured(targets, &error);
                    failed = error;
                }
            }
        }
        Err(failed)
    }

    /// The route to the next hop of a dialog. `known` is where the peer's last request came from. A phone, which has no `trunk`,
    /// is reached nowhere else. A trunk may record a route through public addresses and its own. It takes time if a name has to be
    /// looked up, or a connection to be opened; otherwise it is ready at once.
    ///
    /// Errors: the name is not found while `known` is open, no server can be reached, or the connection of a phone is gone.
    pub async fn flow_within(
        &self,
        trunk: Option<&Trunk>,
        hop: &Uri,
        known: &Flow,
    ) -> io::Result<Flow> {
        let trunk = trunk.ok_or(io::ErrorKind::NotConnected)?;
        let found = self.targets(hop, Some(known)).await;
        if known.is_open() {
            found.as_ref().map_err(|error| error.kind())?;
        }
        let mut targets = self.targets_allowed(trunk, hop, known, found.unwrap_or_default());
        if named_transport(hop).is_none() && known.is_open() {
            // The dialog has a transport already; the DNS may name others, which a firewall may swallow.
            targets.retain(|target| target.transport == known.transport);
        }
        self.flow_among(&mut targets, &hop.host, Some(known)).await
    }

    /// The servers of an address that a trunk names: public ones and its own are followed. Without any it is `known`, where its
    /// last request came from.
    pub async fn targets_named(
        &self,
        trunk: &Trunk,
        uri: &Uri,
        known: &Flow,
    ) -> VecDeque<SipTarget> {
        let found = self.targets(uri, Some(known)).await;
        self.targets_allowed(trunk, uri, known, found.unwrap_or_default())
    }

    fn targets_allowed(
        &self,
        trunk: &Trunk,
        uri: &Uri,
        known: &Flow,
        mut found: VecDeque<SipTarget>,
    ) -> VecDeque<SipTarget> {
        found.retain(|target| self.may_be_named(trunk, target.address.ip(), known));
        found.truncate(NAMED_MAX);
        if found.is_empty() {
            let (transport, address) = match known.is_reliable() {
                false => (known.transport, known.remote),
                true => {
                    let transport = named_transport(uri).unwrap_or(known.transport);
                    let port = port_of(uri, transport);
                    (transport, SocketAddr::new(known.remote.ip(), port))
                }
            };
            found.push_back(SipTarget { transport, address });
        }
        found
    }

    /// True if a trunk may have us send requests there.
    fn may_be_named(&self, trunk: &Trunk, ip: IpAddr, known: &Flow) -> bool {
        let ip = ip.to_canonical();
        !is_hidden(ip)
            || ip == known.remote.ip().to_canonical()
            || trunk.addresses.iter().any(|net| net.contains(&ip))
            || self.registrars.has(&trunk.name, ip)
    }

    /// Opens the route to a server. A connection that is open already is not looked for.
    ///
    /// Errors: it cannot be reached, or its certificate is refused ([`is_certificate_fault`]).
    pub async fn flow_to(
        &self,
        target: SipTarget,
        host: &Host,
        known: Option<&Flow>,
    ) -> io::Result<Flow> {
        let SipTarget { transport, address } = target;
        if transport == SipTransport::Udp {
            return self.datagrams(address, known);
        }
        let receiver = self
            .sockets
            .get()
            .and_then(|sockets| sockets.receiver.upgrade());
        let receiver = receiver.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let secured = (transport == SipTransport::Tls).then_some((&self.tls, host));
        let connected = connect(transport, address, secured, receiver).await;
        connected.map_err(|error| in_words(error, host))
    }

    /// The route to a UDP address, over the socket of `known` if it is of the address family.
    fn datagrams(&self, address: SocketAddr, known: Option<&Flow>) -> io::Result<Flow> {
        let sockets = self.sockets.get().map_or(&[][..], |sockets| &sockets.udp);
        let fits = |flow: &&Flow| {
            flow.transport == SipTransport::Udp && flow.bound.is_ipv4() == address.is_ipv4()
        };
        let flow = known.into_iter().chain(sockets).find(fits);
        flow.map(|flow| flow.towards(address))
            .ok_or_else(|| io::Error::other("not listening on a UDP address of this family"))
    }
}
