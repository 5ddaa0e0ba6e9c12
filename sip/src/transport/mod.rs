//! The sockets of SIP. Received bytes are passed on with the [`Flow`] that leads back. Sending never waits: a datagram is sent or
//! lost, a connection has a short queue and is closed if its peer does not read.

mod connection_limits;
mod stream;
mod tls;
mod udp;

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    ladder::{Ladders, MessageSocket},
    settings::SipTransport,
};

pub use self::{
    connection_limits::SipConnectionLimits,
    stream::{accept, connect, listen_tcp},
    tls::{Acceptor, TlsError},
    udp::{bind_udp, listen_udp},
};

/// Receives messages. Called by the socket readers, so it must not wait.
pub trait Receive: Send + Sync + 'static {
    fn received(&self, bytes: &[u8], flow: &Flow);
    /// The pause before the next message of a connection is read. Strangers over their limit wait.
    fn pause(&self, flow: &Flow) -> Duration;
    /// True if one more TLS handshake from there is admitted.
    fn may_shake_hands(&self, ip: IpAddr) -> bool;
    /// True if this peer may call, or has authenticated lately.
    fn is_proven(&self, flow: &Flow) -> bool;
    /// True if a trunk calls from the address over this transport, or a peer there was admitted: it may hold more connections.
    fn knows(&self, ip: IpAddr, transport: SipTransport) -> bool;
    /// The records of sent messages.
    fn ladders(&self) -> Arc<Ladders>;
}

/// The route to a peer.
#[derive(Clone)]
pub struct Flow {
    pub transport: SipTransport,
    /// Our bound address; a listener's may be unspecified.
    pub bound: SocketAddr,
    pub remote: SocketAddr,
    way: FlowPath,
    ladders: Arc<Ladders>,
}

#[derive(Clone)]
enum FlowPath {
    Datagrams(Arc<UdpSocket>),
    Connection(mpsc::Sender<Vec<u8>>),
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} -> {}", self.transport, self.bound, self.remote)
    }
}

impl Flow {
    /// A flow whose other end is read by a test.
    #[cfg(test)]
    pub fn kept(
        transport: SipTransport,
        bound: &str,
        remote: &str,
    ) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (queue, sent) = mpsc::channel(16);
        let address = |text: &str| text.parse().expect("an address");
        let flow = Self {
            transport,
            bound: address(bound),
            remote: address(remote),
            way: FlowPath::Connection(queue),
            ladders: Arc::default(),
        };
        (flow, sent)
    }

    pub fn is_reliable(&self) -> bool {
        matches!(self.way, FlowPath::Connection(_))
    }

    /// Sends; false if the connection is gone. A call's message is kept in its ladder.
    pub fn send(&self, bytes: &[u8]) -> bool {
        self.ladders.sent(bytes, self.socket());
        match &self.way {
            FlowPath::Datagrams(socket) => {
                if let Err(error) = socket.send_to(bytes, self.remote) {
                    tracing::debug!(%error, remote = %self.remote, "a datagram was not sent");
                }
                true
            }
            FlowPath::Connection(queue) => queue.try_send(bytes.to_vec()).is_ok(),
        }
    }

    pub fn socket(&self) -> MessageSocket {
        MessageSocket {
            transport: self.transport,
            bound: self.bound,
            remote: self.remote,
        }
    }

    /// Waits until something can be sent.
    async fn is_ready(&self) {
        if let FlowPath::Connection(queue) = &self.way {
            let _ = queue.reserve().await;
        }
    }

    /// The same socket with another destination; a connection keeps its own.
    #[must_use]
    pub fn towards(&self, remote: SocketAddr) -> Self {
        match self.way {
            FlowPath::Datagrams(_) => Self {
                remote,
                ..self.clone()
            },
            FlowPath::Connection(_) => self.clone(),
        }
    }

    pub fn is_open(&self) -> bool {
        match &self.way {
            FlowPath::Datagrams(_) => true,
            FlowPath::Connection(queue) => !queue.is_closed(),
        }
    }

    /// Our address as this peer sees it, without NAT between us.
    pub fn local(&self) -> SocketAddr {
        local(self.bound, self.remote)
    }
}

/// The address of a socket that is bound there, as `remote` sees it without NAT.
pub fn local(bound: SocketAddr, remote: SocketAddr) -> SocketAddr {
    if bound.ip().is_unspecified() {
        SocketAddr::new(local_towards(remote), bound.port())
    } else {
        bound
    }
}

/// This machine's address on the route to `remote`. Sends no packet.
pub fn local_towards(remote: SocketAddr) -> IpAddr {
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0))
        .and_then(|socket| {
            socket.connect(remote)?;
            socket.local_addr()
        })
        .map_or(any, |address| address.ip().to_canonical())
}
