//! Checks of a configuration without an edge that serves it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use tokio::sync::mpsc;

use super::{Edge, SipError, registration::Registration};
use crate::{
    call::media_sockets::MediaSockets,
    message::Uri,
    resolution::{self, Nameservers, SipTarget},
    settings::{ListenAddress, RegisterSettings, SipSettings, SipTransport, Srtp, UserAgent},
    transport::{bind_udp, listen_tcp},
};

/// Tests a trunk's registrar and credentials, without registering.
///
/// Errors: the registrar refuses, or cannot be reached.
pub async fn try_registrar(
    trunk: &str,
    register: &RegisterSettings,
    nameservers: &[SocketAddr],
    user_agent: UserAgent,
    tls: Arc<rustls::ClientConfig>,
) -> Result<(), SipError> {
    let any = [
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::from(Ipv6Addr::UNSPECIFIED),
    ];
    let any = any.map(|ip| SocketAddr::from((ip, 0)));
    let can_listen = |any: &SocketAddr| UdpSocket::bind(any).is_ok();
    let listen = any.into_iter().filter(can_listen);
    let listen = listen.map(|address| ListenAddress {
        transport: SipTransport::Udp,
        address,
    });
    let settings = SipSettings {
        threads: 2,
        max_calls: 0,
        listen: listen.collect(),
        public_address: None,
        local_networks: Vec::new(),
        tls: None,
        rtp_ports: 0..=0,
        codecs: Vec::new(),
        srtp: Srtp::Off,
        trunks: Vec::new(),
        nameservers: nameservers.to_vec(),
    };
    let (incoming, _) = mpsc::channel(1);
    let edge = Edge::start(settings, user_agent, tls, incoming).await?;
    let told = |error| SipError::Registration {
        trunk: trunk.to_owned(),
        error,
    };
    let mut registration = Registration::new(edge.shared.clone(), register).map_err(told)?;
    registration.once(None).await.map_err(told)?;
    Ok(())
}

/// The servers of a trunk's address, in the order in which they are tried. Of servers with the same priority, SRV records choose
/// the first at random, by weight.
///
/// Errors: it is no SIP URI, the DNS does not answer, or names no server.
pub async fn find_targets(settings: &SipSettings, address: &str) -> io::Result<Vec<SipTarget>> {
    let uri: Uri = address
        .parse()
        .map_err(|()| io::Error::other("it is no SIP URI"))?;
    let nameservers = Nameservers::new(&settings.nameservers);
    let listen = &settings.listen;
    let found = resolution::targets(&uri, SipTransport::Udp, &nameservers, listen).await?;
    match found.is_empty() {
        true => Err(io::ErrorKind::NotFound.into()),
        false => Ok(found),
    }
}

/// Binds all addresses at the same time, as [`Edge::start`] does, and releases them. Needs a tokio runtime.
///
/// Errors: the first that cannot be bound, and why.
pub fn try_listen(all: &[ListenAddress]) -> Result<(), (ListenAddress, io::Error)> {
    let (mut datagrams, mut connections) = (Vec::new(), Vec::new());
    for one in all {
        let bound = match one.transport {
            SipTransport::Udp => bind_udp(one.address).map(|socket| datagrams.push(socket)),
            SipTransport::Tcp | SipTransport::Tls => {
                listen_tcp(one.address).map(|listener| connections.push(listener))
            }
        };
        bound.map_err(|error| (*one, error))?;
    }
    Ok(())
}

/// Binds the ports of one call's media for every listening address, and releases them.
///
/// Errors: no pair of the ports is free.
pub fn try_rtp_ports(settings: &SipSettings) -> io::Result<()> {
    for listen in &settings.listen {
        MediaSockets::bind(&settings.rtp_ports, listen.address.ip())?;
    }
    Ok(())
}
