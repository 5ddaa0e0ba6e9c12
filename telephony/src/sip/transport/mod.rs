//! The sockets of SIP. What comes in is handed over as bytes with the [`Flow`] that leads back; what goes out never waits: a
//! datagram is sent or lost, a connection has a short queue and is closed when its peer does not read.

mod seats;
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

use crate::settings::Transport;

pub use self::{
    seats::Seats,
    stream::{accept, connect, listen_tcp},
    tls::{Acceptor, TlsError},
    udp::{bind_udp, listen_udp},
};

/// Takes what comes in. Called from the readers of sockets, so it must not wait.
pub trait Receive: Send + Sync + 'static {
    fn received(&self, bytes: &[u8], flow: &Flow);
    /// How long a connection stays unread before its next message is read. Strangers over their limit wait.
    fn pause(&self, flow: &Flow) -> Duration;
    /// True if one more TLS handshake from there is admitted.
    fn may_shake_hands(&self, ip: IpAddr) -> bool;
    /// True if this peer may call, or has authenticated lately.
    fn is_proven(&self, flow: &Flow) -> bool;
    /// Whether the address is a trunk's, or of somebody who was let in: such may hold more connections.
    fn knows(&self, ip: IpAddr) -> bool;
}

/// The way to a peer.
#[derive(Clone)]
pub struct Flow {
    pub transport: Transport,
    /// Our end, as far as it is bound: a listener's address may be unspecified.
    pub bound: SocketAddr,
    pub remote: SocketAddr,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Datagrams(Arc<UdpSocket>),
    Connection(mpsc::Sender<Vec<u8>>),
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} -> {}", self.transport, self.bound, self.remote)
    }
}

impl Flow {
    /// One whose other end is read by a test.
    #[cfg(test)]
    pub fn kept(
        transport: Transport,
        bound: &str,
        remote: &str,
    ) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (queue, sent) = mpsc::channel(16);
        let address = |text: &str| text.parse().expect("an address");
        let flow = Self {
            transport,
            bound: address(bound),
            remote: address(remote),
            way: Way::Connection(queue),
        };
        (flow, sent)
    }

    pub fn is_reliable(&self) -> bool {
        matches!(self.way, Way::Connection(_))
    }

    /// Sends, or says that the connection is gone.
    pub fn send(&self, bytes: &[u8]) -> bool {
        match &self.way {
            Way::Datagrams(socket) => {
                if let Err(error) = socket.send_to(bytes, self.remote) {
                    tracing::debug!(%error, remote = %self.remote, "a datagram was not sent");
                }
                true
            }
            Way::Connection(queue) => queue.try_send(bytes.to_vec()).is_ok(),
        }
    }

    /// Waits until something can be sent.
    async fn is_ready(&self) {
        if let Way::Connection(queue) = &self.way {
            let _ = queue.reserve().await;
        }
    }

    /// The same socket to another address; a connection stays where it leads.
    #[must_use]
    pub fn towards(&self, remote: SocketAddr) -> Self {
        match self.way {
            Way::Datagrams(_) => Self {
                remote,
                ..self.clone()
            },
            Way::Connection(_) => self.clone(),
        }
    }

    pub fn is_open(&self) -> bool {
        match &self.way {
            Way::Datagrams(_) => true,
            Way::Connection(queue) => !queue.is_closed(),
        }
    }

    /// Our address as this peer sees it without translation in between.
    pub fn local(&self) -> SocketAddr {
        if self.bound.ip().is_unspecified() {
            SocketAddr::new(local_towards(self.remote), self.bound.port())
        } else {
            self.bound
        }
    }
}

/// Which of this machine's addresses leads there. Nothing is sent for it.
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
