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

use super::{
    Acceptor, Flow, Receive, Way,
    seats::{Seat, Seats},
};
use crate::{
    settings::Transport,
    sip::message::{HEAD_BYTES_MAX, Host, MESSAGE_BYTES_MAX, body_length, head_end, lacks_length},
    trust::Trust,
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
    seats: Arc<Seats>,
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
        let Some(seat) = seats.take(remote.ip(), receiver.knows(remote.ip())) else {
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
                () = seat.lost() => tracing::debug!(%remote, "a stranger's connection was closed to admit another"),
                () = serve(stream, tls, bound, remote, &seat, receiver) => {}
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
    seat: &Seat,
    receiver: Arc<dyn Receive>,
) {
    let (queue, waiting) = mpsc::channel(QUEUE);
    let flow = |transport| Flow {
        transport,
        bound,
        remote,
        way: Way::Connection(queue),
    };
    let Some(tls) = tls else {
        return run(stream, flow(Transport::Tcp), waiting, Some(seat), receiver).await;
    };
    match timeout(STRANGER_IDLE, tls.get().accept(stream)).await {
        Ok(Ok(stream)) => run(stream, flow(Transport::Tls), waiting, Some(seat), receiver).await,
        Ok(Err(error)) => tracing::debug!(%remote, %error, "no TLS was agreed on"),
        Err(_) => tracing::debug!(%remote, "a TLS handshake timed out"),
    }
}

/// Opens a connection and serves it. With TLS, the certificate must be for this host and from a trusted authority.
pub async fn connect(
    transport: Transport,
    remote: SocketAddr,
    secured: Option<(&Trust, &Host)>,
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
        way: Way::Connection(queue),
    };
    let served = flow.clone();
    if let Some((trust, host)) = secured {
        let name = match host {
            Host::Ip(ip) => ServerName::from(*ip),
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        };
        let stream = timeout(CONNECT, trust.connector().connect(name, stream))
            .await
            .map_err(late)??;
        tokio::spawn(run(stream, served, waiting, None, receiver));
    } else {
        tokio::spawn(run(stream, served, waiting, None, receiver));
    }
    Ok(flow)
}

/// Serves a connection. One that we opened has no seat.
async fn run<S>(
    stream: S,
    flow: Flow,
    waiting: mpsc::Receiver<Vec<u8>>,
    seat: Option<&Seat>,
    receiver: Arc<dyn Receive>,
) where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (reader, writer) = tokio::io::split(stream);
    let remote = flow.remote;
    tokio::select! {
        why = read(reader, flow, seat, receiver) => tracing::debug!(%remote, why, "a connection was closed"),
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
    seat: Option<&Seat>,
    receiver: Arc<dyn Receive>,
) -> &'static str {
    let mut buffer = Buffer::default();
    let mut chunk = vec![0; 8_192];
    let mut peer = Peer {
        flow,
        seat,
        receiver,
        is_proven: seat.is_none(),
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
    seat: Option<&'a Seat>,
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
        let Some(seat) = self.seat.filter(|_| !self.is_proven) else {
            return;
        };
        self.is_proven = self.receiver.is_proven(&self.flow);
        match self.is_proven {
            true => seat.proven(),
            false => seat.heard(),
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
mod tests {
    use super::*;

    /// Admits peers that send `proof`.
    #[derive(Default)]
    struct Door {
        proven: std::sync::atomic::AtomicBool,
    }

    impl Receive for Door {
        fn received(&self, bytes: &[u8], _: &Flow) {
            let is_proof = bytes.ends_with(b"proof");
            self.proven
                .fetch_or(is_proof, std::sync::atomic::Ordering::Relaxed);
        }

        fn pause(&self, _: &Flow) -> Duration {
            Duration::ZERO
        }

        fn may_shake_hands(&self, _: std::net::IpAddr) -> bool {
            true
        }

        fn is_proven(&self, _: &Flow) -> bool {
            self.proven.load(std::sync::atomic::Ordering::Relaxed)
        }

        fn knows(&self, _: std::net::IpAddr) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn who_has_not_proven_himself_may_be_silent_for_seconds_only() {
        let (flow, _sent) = Flow::kept(Transport::Tcp, "127.0.0.1:5060", "127.0.0.2:5060");
        let seats = Arc::<Seats>::default();
        let seat = seats.take(flow.remote.ip(), false).expect("a seat");
        let mut peer = Peer {
            flow,
            seat: Some(&seat),
            receiver: Arc::new(Door::default()),
            is_proven: false,
            has_spoken: false,
        };
        assert_eq!(peer.idle(), STRANGER_IDLE);
        peer.said(b"nothing").await;
        assert_eq!(peer.idle(), STRANGER_IDLE);
        peer.said(b"proof").await;
        assert_eq!(peer.idle(), IDLE);
    }

    #[test]
    fn messages_are_taken_apart_however_they_come() {
        let one = b"OPTIONS sip:a SIP/2.0\r\nl: 3\r\n\r\nabc";
        let mut stream = b"\r\n\r\n".to_vec();
        stream.extend_from_slice(one);
        stream.extend_from_slice(b"\r\n");
        stream.extend_from_slice(one);
        for step in [1, 7, stream.len()] {
            let (mut buffer, mut messages, mut pings) = (Buffer::default(), 0, 0);
            for piece in stream.chunks(step) {
                buffer.bytes.extend_from_slice(piece);
                loop {
                    match buffer.take() {
                        Taken::Message(message) => {
                            assert_eq!(*message, *one);
                            messages += 1;
                        }
                        Taken::Pings(count) => pings += count,
                        Taken::Nothing => break,
                        Taken::Broken(_) => panic!("nothing is broken"),
                    }
                }
            }
            assert_eq!(
                (messages, pings, buffer.bytes.len()),
                (2, 1, 0),
                "in steps of {step}"
            );
        }
    }

    #[test]
    fn pings_are_counted_at_once_however_many() {
        let mut buffer = Buffer::default();
        buffer
            .bytes
            .extend_from_slice("\r\n\r\n".repeat(50_000).as_bytes());
        buffer.bytes.extend_from_slice(b"\r\n\r");
        assert!(matches!(buffer.take(), Taken::Pings(50_000)));
        assert!(matches!(buffer.take(), Taken::Nothing));
        assert!(!buffer.is_begun());
        buffer.bytes.extend_from_slice(b"\nA\n\n");
        assert!(matches!(buffer.take(), Taken::Pings(1)));
        assert!(matches!(buffer.take(), Taken::Message(message) if *message == *b"A\n\n"));
        assert!(buffer.bytes.is_empty());
    }

    #[test]
    fn what_would_grow_without_bound_is_broken() {
        let take = |bytes: Vec<u8>| {
            let mut buffer = Buffer {
                bytes: bytes.as_slice().into(),
                ..Buffer::default()
            };
            buffer.take()
        };
        for head in [
            "INVITE sip:a SIP/2.0\r\nContent-Length: 4294967296\r\n\r\n",
            "INVITE sip:a SIP/2.0\r\nContent-Length: -1\r\n\r\n",
            "INVITE sip:a SIP/2.0\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        ] {
            assert!(
                matches!(take(head.as_bytes().to_vec()), Taken::Broken(_)),
                "{head}"
            );
        }
        assert!(matches!(
            take(vec![b'x'; HEAD_BYTES_MAX + 1]),
            Taken::Broken(_)
        ));
    }
}
