//! SIP over TCP and TLS: a limited number of connections, each with a bounded buffer and an idle timeout.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use rustls::pki_types::ServerName;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    Acceptor, Flow, FlowPath, Receive,
    connection_limits::{ConnectionPermit, SipConnectionLimits},
};
use crate::{
    message::{HEAD_BYTES_MAX, Host, MESSAGE_BYTES_MAX, body_length, head_end, lacks_length},
    settings::SipTransport,
};

/// Messages that wait to be written to one peer.
const QUEUE: usize = 64;
/// The longest silence of a stranger, and of an authenticated peer. Calls outlive their connection.
const STRANGER_IDLE: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(900);
/// Time limit for a peer to complete a message.
const WHOLE: Duration = Duration::from_secs(20);
const CONNECT: Duration = Duration::from_secs(5);

/// Binds a listener; one for IPv6 leaves IPv4 to another.
pub fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1_024)?;
    TcpListener::from_std(socket.into())
}

/// Accepts connections, over TLS if there is a certificate.
pub async fn accept(
    listener: TcpListener,
    tls: Option<Arc<Acceptor>>,
    limits: Arc<SipConnectionLimits>,
    receiver: Arc<dyn Receive>,
) {
    loop {
        let (stream, remote) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely out of file descriptors: some will be released soon.
                tracing::warn!(%error, "no connection can be taken");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if tls.is_some() && !receiver.may_shake_hands(remote.ip()) {
            tracing::debug!(%remote, "too many TLS handshakes from this address; a connection was closed");
            continue;
        }
        let transport = match &tls {
            Some(_) => SipTransport::Tls,
            None => SipTransport::Tcp,
        };
        let is_known = receiver.knows(remote.ip(), transport);
        let Some(permit) = limits.take(remote.ip(), is_known) else {
            tracing::debug!(%remote, "a connection too many was closed");
            continue;
        };
        let Ok(bound) = stream.local_addr() else {
            continue;
        };
        let tls = tls.clone();
        let receiver = receiver.clone();
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            tokio::select! {
                () = permit.lost() => tracing::debug!(%remote, "a stranger's connection was closed to admit another"),
                () = serve(stream, tls, bound, remote, &permit, receiver) => {}
            }
        });
    }
}

/// Serves an accepted connection.
async fn serve(
    stream: TcpStream,
    tls: Option<Arc<Acceptor>>,
    bound: SocketAddr,
    remote: SocketAddr,
    permit: &ConnectionPermit,
    receiver: Arc<dyn Receive>,
) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    let flow = |transport| Flow {
        transport,
        bound,
        remote,
        way: FlowPath::Connection(queue),
        ladders: receiver.ladders(),
    };
    let Some(tls) = tls else {
        return run(
            stream,
            flow(SipTransport::Tcp),
            waiting,
            Some(permit),
            receiver,
        )
        .await;
    };
    match timeout(STRANGER_IDLE, tls.get().accept(stream)).await {
        Ok(Ok(stream)) => {
            run(
                stream,
                flow(SipTransport::Tls),
                waiting,
                Some(permit),
                receiver,
            )
            .await
        }
        Ok(Err(error)) => tracing::debug!(%remote, %error, "no TLS was agreed on"),
        Err(_) => tracing::debug!(%remote, "a TLS handshake timed out"),
    }
}

/// Opens a connection and serves it. With TLS, the certificate must be for this host and from a trusted authority.
pub async fn connect(
    transport: SipTransport,
    remote: SocketAddr,
    secured: Option<(&Arc<rustls::ClientConfig>, &Host)>,
    receiver: Arc<dyn Receive>,
) -> io::Result<Flow> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let stream = timeout(CONNECT, TcpStream::connect(remote))
        .await
        .map_err(late)??;
    stream.set_nodelay(true)?;
    let bound = stream.local_addr()?;
    let (queue, waiting) = mpsc::channel(QUEUE);
    let flow = Flow {
        transport,
        bound,
        remote,
        way: FlowPath::Connection(queue),
        ladders: receiver.ladders(),
    };
    let served = flow.clone();
    if let Some((tls, host)) = secured {
        let name = match host {
            Host::Ip(ip) => ServerName::from(*ip),
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        };
        let connector = TlsConnector::from(Arc::clone(tls));
        let stream = timeout(CONNECT, connector.connect(name, stream))
            .await
            .map_err(late)??;
        tokio::spawn(run(stream, served, waiting, None, receiver));
    } else {
        tokio::spawn(run(stream, served, waiting, None, receiver));
    }
    Ok(flow)
}

/// Serves a connection. One that we opened has no permit.
async fn run<S>(
    stream: S,
    flow: Flow,
    waiting: mpsc::Receiver<Vec<u8>>,
    permit: Option<&ConnectionPermit>,
    receiver: Arc<dyn Receive>,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (reader, writer) = tokio::io::split(stream);
    let remote = flow.remote;
    tokio::select! {
        why = read(reader, flow, permit, receiver) => tracing::debug!(%remote, why, "a connection was closed"),
        () = write(writer, waiting) => tracing::debug!(%remote, "a connection does not take what is sent"),
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut waiting: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = waiting.recv().await {
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        if !matches!(timeout(WHOLE, written).await, Ok(Ok(()))) {
            return;
        }
    }
}

/// Reads messages until the connection ends. Returns why it ended.
async fn read(
    mut reader: impl AsyncRead + Unpin,
    flow: Flow,
    permit: Option<&ConnectionPermit>,
    receiver: Arc<dyn Receive>,
) -> &'static str {
    let mut buffer = Buffer::default();
    let mut chunk = vec![0; 8_192];
    let mut peer = Peer {
        flow,
        permit,
        receiver,
        is_proven: permit.is_none(),
        has_spoken: false,
    };
    let mut until = Instant::now() + peer.idle();
    loop {
        let read = match tokio::time::timeout_at(until, reader.read(&mut chunk)).await {
            Ok(Ok(0)) => return "its peer closed it",
            Ok(Ok(read)) => read,
            Ok(Err(_)) => return "it broke",
            Err(_) => return "its peer said nothing for too long",
        };
        let began = !buffer.is_begun();
        buffer.bytes.extend_from_slice(&chunk[..read]);
        let mut heard = false;
        loop {
            match buffer.take() {
                Taken::Message(message) => {
                    peer.said(&message).await;
                    heard = true;
                }
                Taken::Pings(count) => {
                    peer.pinged(count).await;
                    heard |= peer.has_spoken;
                }
                Taken::Nothing => break,
                Taken::Broken(head) => {
                    peer.said(&head).await;
                    // Lets the answer leave before the connection is closed.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    return "its peer sent what cannot be framed";
                }
            }
        }
        if !buffer.is_begun() {
            // Memory of read messages is not kept for a peer that may be silent for long.
            buffer.bytes = buffer.bytes[..].into();
            until = match peer.has_spoken {
                true => Instant::now() + peer.idle(),
                false => until,
            };
        } else if began || heard {
            until = Instant::now() + WHOLE;
        }
    }
}

/// The peer of a connection.
struct Peer<'a> {
    flow: Flow,
    permit: Option<&'a ConnectionPermit>,
    receiver: Arc<dyn Receive>,
    is_proven: bool,
    has_spoken: bool,
}

impl Peer<'_> {
    fn idle(&self) -> Duration {
        match self.is_proven || self.receiver.is_proven(&self.flow) {
            true => IDLE,
            false => STRANGER_IDLE,
        }
    }

    /// Waits for the peer's rate limit, and until an answer can be sent.
    async fn wait(&self) {
        if !self.is_proven {
            let pause = self.receiver.pause(&self.flow);
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        self.flow.is_ready().await;
    }

    async fn said(&mut self, message: &[u8]) {
        self.wait().await;
        self.receiver.received(message, &self.flow);
        self.has_spoken = true;
        let Some(permit) = self.permit.filter(|_| !self.is_proven) else {
            return;
        };
        self.is_proven = self.receiver.is_proven(&self.flow);
        match self.is_proven {
            true => permit.proven(),
            false => permit.heard(),
        }
    }

    /// Answers keep-alives, which together count as one message.
    async fn pinged(&self, count: usize) {
        self.wait().await;
        self.flow.send(&b"\r\n".repeat(count));
    }
}

enum Taken {
    Message(Bytes),
    /// This many double line ends (keep-alives), each answered with one line end (RFC 5626).
    Pings(usize),
    Nothing,
    /// The part that was read of a message that cannot be framed.
    Broken(Bytes),
}

/// Received bytes that are not handled yet. Each byte is searched once, however small the pieces are.
#[derive(Default)]
struct Buffer {
    bytes: BytesMut,
    /// Bytes that contain no end of a head.
    searched: usize,
    /// The length of the message, once its head is complete.
    whole: Option<usize>,
}

impl Buffer {
    /// True if there is more than line ends, which are keep-alives and belong to no message.
    fn is_begun(&self) -> bool {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        !self.bytes.iter().all(is_end)
    }

    /// Takes the next message.
    fn take(&mut self) -> Taken {
        let Some(whole) = self.whole else {
            return self.begin();
        };
        if self.bytes.len() < whole {
            return Taken::Nothing;
        }
        (self.searched, self.whole) = (0, None);
        Taken::Message(self.bytes.split_to(whole).freeze())
    }

    /// Searches the end of the head.
    fn begin(&mut self) -> Taken {
        let bytes = &mut self.bytes;
        let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let ends = bytes.iter().take_while(is_end).count();
        let pings = ends / 4;
        let is_begun = ends < bytes.len();
        // Without a message behind it, the rest of a keep-alive may follow.
        bytes.advance(if is_begun { ends } else { pings * 4 });
        if pings > 0 {
            return Taken::Pings(pings);
        }
        if !is_begun {
            return Taken::Nothing;
        }
        let Some((end, body)) = head_end(bytes, self.searched) else {
            if bytes.len() > HEAD_BYTES_MAX {
                return Taken::Broken(std::mem::take(bytes).freeze());
            }
            // The longest end of a head has four bytes, and the last of them may be missing.
            self.searched = bytes.len().saturating_sub(3);
            return Taken::Nothing;
        };
        let length = match body_length(&bytes[..end]) {
            Ok(None) if lacks_length(&bytes[..end]) => MESSAGE_BYTES_MAX,
            Ok(length) => length.unwrap_or_default(),
            Err(_) => MESSAGE_BYTES_MAX,
        };
        let whole = body.saturating_add(length);
        if whole > MESSAGE_BYTES_MAX {
            bytes.truncate(body);
            return Taken::Broken(std::mem::take(bytes).freeze());
        }
        self.whole = Some(whole);
        self.take()
    }
}

#[cfg(test)]
mod tests;
