//! Our addresses, as peers are told them: in Contact, Via and SDP.

use std::net::IpAddr;

use super::{Shared, token};
use crate::{
    message::{Host, SipRequest, Uri},
    settings::{ListenAddress, SipTransport},
    transport::Flow,
};

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
        let host = match &self.settings.public_address {
            Some(public) => public
                .parse()
                .unwrap_or_else(|()| Host::Name(public.clone())),
            None => Host::Ip(local.ip().to_canonical()),
        };
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
        let local = flow.local().ip().to_canonical();
        let public = self.public_ip;
        public
            .filter(|public| public.is_ipv4() == local.is_ipv4())
            .unwrap_or(local)
    }

    pub fn with_via(&self, mut request: SipRequest, flow: &Flow) -> SipRequest {
        let (host, port) = self.reached_at(flow);
        let transport = match flow.transport {
            SipTransport::Udp => "UDP",
            SipTransport::Tcp => "TCP",
            SipTransport::Tls => "TLS",
        };
        let via = format!(
            "SIP/2.0/{transport} {host}:{port};branch=z9hG4bK{};rport",
            token()
        );
        request.headers.push_front("Via", &via);
        request.headers.push("User-Agent", self.user_agent.product);
        request
    }
}
