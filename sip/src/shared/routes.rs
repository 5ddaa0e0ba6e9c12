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
    resolution::{self, SipTarget, addresses, named_transport, port_of},
    settings::{SipTransport, Trunk},
    transport::{Flow, connect},
};

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
        while let Some(SipTarget { transport, address }) = targets.pop_front() {
            match self.begun(transport, address, host, known).await {
                Ok(flow) => return Ok(flow),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// The route of a request inside a dialog. `known` is where the peer's last request came from. A phone, which has no `trunk`,
    /// is reached nowhere else. A trunk may record a route through public addresses and its own.
    pub async fn flow_within(
        &self,
        trunk: Option<&Trunk>,
        dialog: &Dialog,
        known: &Flow,
    ) -> io::Result<Flow> {
        if known.is_open() && (known.is_reliable() || dialog.routes.is_empty()) {
            return Ok(known.clone());
        }
        let Some(trunk) = trunk else {
            return match known.is_open() {
                true => Ok(known.clone()),
                false => Err(io::ErrorKind::NotConnected.into()),
            };
        };
        self.flow_named(trunk, &dialog.next_hop(), known).await
    }

    /// The route to an address that a trunk names: public ones and its own are followed. For others it is `known`, where its last
    /// request came from.
    pub async fn flow_named(&self, trunk: &Trunk, uri: &Uri, known: &Flow) -> io::Result<Flow> {
        let transport = transport_to(uri, known);
        let port = port_of(uri, transport);
        let found = addresses(&uri.host, port).await.unwrap_or_default();
        let may_be_named = |address: &SocketAddr| self.may_be_named(trunk, address.ip(), known);
        let named: Vec<SocketAddr> = found.into_iter().filter(may_be_named).collect();
        let served = named.iter().find(|address| self.serves(**address));
        let address = match served.or(named.first()) {
            Some(named) => *named,
            None if !known.is_reliable() => return Ok(known.clone()),
            None => SocketAddr::new(known.remote.ip(), port),
        };
        self.begun(transport, address, &uri.host, Some(known)).await
    }

    /// True if a trunk may have us send requests there.
    fn may_be_named(&self, trunk: &Trunk, ip: IpAddr, known: &Flow) -> bool {
        let ip = ip.to_canonical();
        !is_hidden(ip)
            || ip == known.remote.ip().to_canonical()
            || trunk.addresses.iter().any(|net| net.contains(&ip))
            || self.registrars.has(&trunk.name, ip)
    }

    async fn begun(
        &self,
        transport: SipTransport,
        address: SocketAddr,
        host: &Host,
        known: Option<&Flow>,
    ) -> io::Result<Flow> {
        if transport == SipTransport::Udp {
            // A socket cannot send to the other address family.
            let fits = |known: &&Flow| {
                known.transport == SipTransport::Udp && known.bound.is_ipv4() == address.is_ipv4()
            };
            return match known.filter(fits) {
                Some(known) => Ok(known.towards(address)),
                None => self.datagrams_to(address),
            };
        }
        let receiver = self
            .sockets
            .get()
            .and_then(|sockets| sockets.receiver.upgrade());
        let receiver = receiver.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let secured = (transport == SipTransport::Tls).then_some((&self.tls, host));
        connect(transport, address, secured, receiver).await
    }

    /// True if we listen on a UDP address of this family.
    fn serves(&self, address: SocketAddr) -> bool {
        let sockets = self.sockets.get().map_or(&[][..], |sockets| &sockets.udp);
        sockets
            .iter()
            .any(|flow| flow.bound.is_ipv4() == address.is_ipv4())
    }

    fn datagrams_to(&self, address: SocketAddr) -> io::Result<Flow> {
        let sockets = self.sockets.get().map_or(&[][..], |sockets| &sockets.udp);
        let fits = |flow: &&Flow| flow.bound.is_ipv4() == address.is_ipv4();
        let flow = sockets.iter().find(fits);
        flow.map(|flow| flow.towards(address))
            .ok_or_else(|| io::Error::other("not listening on a UDP address of this family"))
    }
}

fn transport_to(uri: &Uri, known: &Flow) -> SipTransport {
    named_transport(uri).unwrap_or(known.transport)
}
