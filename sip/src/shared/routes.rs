//! The route to a peer: an existing flow, a datagram, or a new connection.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
};

use super::Shared;
use crate::{
    address_rules::is_hidden,
    dialog::Dialog,
    message::{Host, Uri},
    resolution::{self, SipTarget, named_transport, port_of},
    settings::{SipTransport, Trunk},
    transport::{Flow, connect},
};

/// Servers of an address that a trunk names, at most: the name may be a called phone's.
const NAMED_MAX: usize = 3;

/// The route of a request inside a dialog.
#[derive(Debug)]
pub enum DialogRoute {
    Open(Flow),
    /// A connection that has to be opened. With TLS, the certificate must be for this host.
    Connection {
        target: SipTarget,
        host: Host,
    },
}

impl DialogRoute {
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Open(flow) => flow.remote,
            Self::Connection { target, .. } => target.address,
        }
    }

    pub fn transport(&self) -> SipTransport {
        match self {
            Self::Open(flow) => flow.transport,
            Self::Connection { target, .. } => target.transport,
        }
    }
}

impl Shared {
    /// The servers of an address that the operator configured, in the order in which they are tried: those of a family that we
    /// listen on first, and of them the one that was tried last time.
    pub async fn targets(
        &self,
        uri: &Uri,
        known: Option<&Flow>,
    ) -> io::Result<VecDeque<SipTarget>> {
        let usual = known.map_or(SipTransport::Udp, |known| known.transport);
        let mut found = resolution::targets(uri, usual, &self.nameservers).await?;
        let is_known = |target: &SipTarget| {
            let known = known.map(|known| (known.transport, known.remote));
            known == Some((target.transport, target.address))
        };
        found.sort_by_key(|target| (!self.serves(target.address), !is_known(target)));
        Ok(found.into())
    }

    /// The route to the first of these servers that can be reached. It is removed, with those before it.
    pub async fn flow_among(
        &self,
        targets: &mut VecDeque<SipTarget>,
        host: &Host,
        known: Option<&Flow>,
    ) -> io::Result<Flow> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        while let Some(target) = targets.pop_front() {
            match self.begun(target, host, known).await {
                Ok(flow) => return Ok(flow),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The route of a request inside a dialog. `known` is where the peer's last request came from. A phone, which has no `trunk`,
    /// is reached nowhere else. A trunk may record a route through public addresses and its own. A name is not looked up, because
    /// the call would wait for the DNS. Its host is the one from which the last request came, or a proxy before it.
    ///
    /// Errors: the connection of a phone is gone.
    pub fn route_within(
        &self,
        trunk: Option<&Trunk>,
        dialog: &Dialog,
        known: &Flow,
    ) -> io::Result<DialogRoute> {
        if known.is_open() && (known.is_reliable() || dialog.routes.is_empty()) {
            return Ok(DialogRoute::Open(known.clone()));
        }
        let Some(trunk) = trunk else {
            return match known.is_open() {
                true => Ok(DialogRoute::Open(known.clone())),
                false => Err(io::ErrorKind::NotConnected.into()),
            };
        };
        let uri = dialog.next_hop();
        let transport = transport_to(&uri, known);
        let port = port_of(&uri, transport);
        let address = match uri.host {
            Host::Ip(ip) if self.may_be_named(trunk, ip, known) => SocketAddr::new(ip, port),
            _ if !known.is_reliable() => return Ok(DialogRoute::Open(known.clone())),
            _ => SocketAddr::new(known.remote.ip(), port),
        };
        if transport == SipTransport::Udp {
            let flow = self.datagrams(address, Some(known))?;
            return Ok(DialogRoute::Open(flow));
        }
        Ok(DialogRoute::Connection {
            target: SipTarget { transport, address },
            host: uri.host,
        })
    }

    /// The servers of an address that a trunk names: public ones and its own are followed. Without any it is `known`, where its
    /// last request came from.
    pub async fn targets_named(
        &self,
        trunk: &Trunk,
        uri: &Uri,
        known: &Flow,
    ) -> VecDeque<SipTarget> {
        let mut found = self.targets(uri, Some(known)).await.unwrap_or_default();
        found.retain(|target| self.may_be_named(trunk, target.address.ip(), known));
        found.truncate(NAMED_MAX);
        if found.is_empty() {
            let (transport, address) = match known.is_reliable() {
                false => (known.transport, known.remote),
                true => {
                    let transport = transport_to(uri, known);
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
    async fn begun(
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
        connect(transport, address, secured, receiver).await
    }

    /// Opens a route inside a dialog.
    pub async fn open(&self, route: DialogRoute) -> io::Result<Flow> {
        match route {
            DialogRoute::Open(flow) => Ok(flow),
            DialogRoute::Connection { target, host } => self.begun(target, &host, None).await,
        }
    }

    /// True if we listen on a UDP address of this family.
    fn serves(&self, address: SocketAddr) -> bool {
        let sockets = self.sockets.get().map_or(&[][..], |sockets| &sockets.udp);
        sockets
            .iter()
            .any(|flow| flow.bound.is_ipv4() == address.is_ipv4())
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

fn transport_to(uri: &Uri, known: &Flow) -> SipTransport {
    named_transport(uri).unwrap_or(known.transport)
}
