//! SIP over UDP.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Flow, FlowPath, Receive};
use crate::settings::SipTransport;

/// Holds a burst of calls that come in while the reader is busy.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Binds a socket; one for IPv6 leaves IPv4 to another.
pub fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // The system may grant less, which is sufficient.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Binds a socket and reads it until the task is ended. The returned flow sends from this socket; its `remote` is a placeholder.
pub fn listen_udp(
    address: SocketAddr,
    receiver: Arc<dyn Receive>,
) -> io::Result<(Flow, tokio::task::JoinHandle<()>)> {
    let socket = bind_udp(address)?;
    let bound = socket.local_addr()?;
    let reader = tokio::net::UdpSocket::from_std(socket.try_clone()?)?;
    let flow = Flow {
        transport: SipTransport::Udp,
        bound,
        remote: bound,
        way: FlowPath::Datagrams(Arc::new(socket)),
        ladders: receiver.ladders(),
    };
    let back = flow.clone();
    let task = tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        loop {
            match reader.recv_from(&mut buffer).await {
                Ok((length, remote)) => {
                    receiver.received(&buffer[..length], &back.towards(remote));
                    // A flood must not keep the thread from everything else.
                    tokio::task::consume_budget().await;
                }
                // A peer is gone (ICMP error): others may still be there.
                Err(error) => {
                    tracing::debug!(%error, "reading a datagram failed");
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    Ok((flow, task))
}
