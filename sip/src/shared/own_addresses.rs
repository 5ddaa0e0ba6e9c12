//! Our addresses, as peers are told them: in Contact, Via and SDP.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
};

use super::{Shared, token};
use crate::{
    message::{Host, SipRequest, Uri},
    settings::{ListenAddress, SipTransport},
    transport::Flow,
};

/// Any port will do to look up a route; this one is for nothing (RFC 863).
const DISCARD_PORT: u16 = 9;
/// Addresses for documentation (RFC 5737, RFC 3849), to which the default route leads.
const ANYWHERE_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ANYWHERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

impl Shared {
    /// Host and port at which a peer reaches us, for the transport and address family of this flow.
    pub fn reached_at(&self, flow: &Flow) -> (Host, u16) {
        let local = flow.local();
        let same = |listen: &&ListenAddress| {
            listen.transport == flow.transport && listen.address.is_ipv4() == local.is_ipv4()
        };
        let listened = self.addresses().iter().find(|listen| {
            listen.transport == flow.transport && listen.address.port() == local.port()
        });
        let port = listened
            .or_else(|| self.addresses().iter().find(same))
            .map_or(local.port(), |listen| listen.address.port());
        let ip = local.ip().to_canonical();
        let public = self.public.as_ref();
        let public = public.filter(|public| public.towards(flow.remote.ip(), ip).is_some());
        let host = public.map_or(Host::Ip(ip), |public| public.host().clone());
        (host, port)
    }

    /// Our Contact for the peer of this flow.
    pub fn contact(&self, flow: &Flow) -> String {
        self.contact_of(self.user_agent.name, flow)
    }

    /// Our Contact under a username of the peer's.
    pub fn contact_of(&self, user: &str, flow: &Flow) -> String {
        let (host, port) = self.reached_at(flow);
        let uri = Uri::sip(user, host, Some(port));
        let uri = match flow.transport {
            SipTransport::Udp => uri,
            SipTransport::Tcp => uri.with("transport", Some("tcp")),
            SipTransport::Tls => uri.with("transport", Some("tls")),
        };
        format!("<{uri}>")
    }

    /// Our media address for the peer of this flow, of the flow's address family.
    pub fn media_ip(&self, flow: &Flow) -> IpAddr {
        self.told(flow, flow.local().ip().to_canonical())
    }

    /// The same for an offer that names this address. If it is of the other family, so is ours, unless this machine has no way
    /// there.
    pub fn media_ip_for(&self, flow: &Flow, named: Option<IpAddr>) -> IpAddr {
        let local = flow.local().ip().to_canonical();
        let is_other = |named: &IpAddr| named.is_ipv4() != local.is_ipv4();
        let other = named
            .filter(is_other)
            .and_then(|named| source_for(reachable(named)).ok());
        self.told(flow, other.unwrap_or(local))
    }

    /// The address that the peer of this flow is told in place of our own.
    fn told(&self, flow: &Flow, own: IpAddr) -> IpAddr {
        let public = self.public.as_ref();
        let public = public.and_then(|public| public.towards(flow.remote.ip(), own));
        public.unwrap_or(own)
    }

    pub fn with_via(&self, mut request: SipRequest, flow: &Flow) -> SipRequest {
        let (host, port) = self.reached_at(flow);
        let transport = match flow.transport {
            SipTransport::Udp => "UDP",
            SipTransport::Tcp => "TCP",
            SipTransport::Tls => "TLS",
        };
        let via = format!(
            "SIP/2.0/{transport} {host}:{port};branch={}{};rport",
            self.branch,
            token()
        );
        request.headers.push_front("Via", &via);
        request.headers.push("User-Agent", self.user_agent.product);
        request
    }
}

/// An address for a route look-up; an unspecified one would lead to this machine.
fn reachable(named: IpAddr) -> IpAddr {
    match named {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => ANYWHERE_V4.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => ANYWHERE_V6.into(),
        named => named,
    }
}

/// The address from which this machine sends to that one. Nothing is sent.
fn source_for(remote: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((remote, DISCARD_PORT))?;
    Ok(socket.local_addr()?.ip())
}
