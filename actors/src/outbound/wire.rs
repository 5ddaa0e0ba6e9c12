//! The connection that the HTTP client sees, with or without TLS. It passes one whole answer for each request and
//! nothing else that a server sends.
//!
//! The client itself takes the first head for the answer, and keeps a connection without examining bytes beyond the
//! end. So interim answers are skipped here, and a connection with unsolicited bytes is not written to again. The
//! permission to send is checked here too, because this is the last step before the kernel.

use std::{
    fmt, io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_rt::net::{ActixStream, Ready, TcpStream};
use bytes::{Buf, BytesMut};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::{
    answer::{AnswerReader, InvalidAnswer},
    permission::Permission,
};

/// Size of one read from a socket, in bytes.
const READ_BYTES: usize = 8 * 1024;

/// The stream beneath.
pub(super) enum Carrier {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that carries requests and their answers in turn.
pub(super) struct GuardedStream {
    socket: Carrier,
    permission: Permission,
    phase: Phase,
    /// Bytes from the socket that are not parsed yet.
    came: BytesMut,
    /// Parsed bytes that the client has not read yet.
    plain: BytesMut,
    /// True once an answer was read.
    used: bool,
}

enum Phase {
    /// Between an answer and the next request: nothing may arrive.
    Idle,
    Asking,
    Answering(AnswerReader),
    /// Unusable from now on; the client reads the reason at the end.
    Over(Option<io::Error>),
}

impl fmt::Debug for GuardedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Carrier {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    /// True if bytes or the end of the stream have arrived at this machine. Asks the kernel, because the runtime may
    /// not have noticed yet.
    fn has_more(&self) -> bool {
        let mut byte = [MaybeUninit::uninit(); 1];
        let peeked = SockRef::from(self.tcp()).peek(&mut byte);
        !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl GuardedStream {
    pub(super) fn new(socket: Carrier, permission: Permission) -> Self {
        Self {
            socket,
            permission,
            phase: Phase::Idle,
            came: BytesMut::new(),
            plain: BytesMut::new(),
            used: false,
        }
    }

    /// Checks the permission to write. Once it is withdrawn, the connection is not used any more.
    fn ask(&mut self) -> io::Result<()> {
        self.permission
            .ask()
            .inspect_err(|_| self.phase = Phase::Over(None))
    }

    /// True if the server sent anything or closed while no request was open.
    fn spoke_unasked(&mut self, cx: &mut Context<'_>) -> bool {
        // A new TLS connection may hold session tickets, which only TLS itself can tell from an answer.
        let expected = matches!(self.socket, Carrier::Tls(_)) && !self.used;
        if !expected && self.socket.has_more() {
            return true;
        }
        let mut byte = [0; 1];
        let mut byte = ReadBuf::new(&mut byte);
        Pin::new(&mut self.socket)
            .poll_read(cx, &mut byte)
            .is_ready()
    }

    /// Reads until there are bytes for the client or the answer is over.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Phase::Answering(answer) = &mut self.phase else {
            return Poll::Ready(());
        };
        while self.plain.is_empty() && !answer.is_done() {
            let mut bytes = [0; READ_BYTES];
            let mut bytes = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.socket).poll_read(cx, &mut bytes));
            let came = bytes.filled();
            self.came.extend_from_slice(came);
            let ended = match &read {
                Ok(()) => came.is_empty(),
                // Many servers close a TLS connection without a TLS close. Over TCP that is a normal end.
                Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
            };
            let outcome = match read {
                _ if ended && answer.closed(&mut self.plain) => Ok(()),
                _ if ended => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(()) => answer
                    .read(&mut self.came, &mut self.plain)
                    .map_err(|InvalidAnswer| io::ErrorKind::InvalidData.into()),
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                self.phase = Phase::Over(Some(error));
                return Poll::Ready(());
            }
        }
        if answer.is_done() {
            self.used = true;
            self.phase = if answer.keeps() && self.came.is_empty() {
                Phase::Idle
            } else {
                Phase::Over(None)
            };
        }
        Poll::Ready(())
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.plain.is_empty() {
            match wire.phase {
                Phase::Asking => wire.phase = Phase::Answering(AnswerReader::new()),
                // The pool asks if the connection can be reused.
                Phase::Idle => {
                    if !wire.spoke_unasked(cx) {
                        return Poll::Pending;
                    }
                    wire.phase = Phase::Over(None);
                }
                Phase::Answering(_) | Phase::Over(_) => {}
            }
            ready!(wire.poll_answer(cx));
        }
        if wire.plain.is_empty()
            && let Phase::Over(error) = &mut wire.phase
        {
            return Poll::Ready(error.take().map_or(Ok(()), Err));
        }
        let count = wire.plain.len().min(buf.remaining());
        buf.put_slice(&wire.plain[..count]);
        wire.plain.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        wire.ask()?;
        let goes_on = match wire.phase {
            Phase::Asking => true,
            Phase::Idle => wire.plain.is_empty() && !wire.spoke_unasked(cx),
            Phase::Answering(_) | Phase::Over(_) => false,
        };
        if !goes_on {
            wire.phase = Phase::Over(None);
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        wire.phase = Phase::Asking;
        Pin::new(&mut wire.socket).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        // TLS may still buffer some bytes. Over TCP they are sent, so a check now would wrongly report them as
        // unsent.
        if matches!(wire.socket, Carrier::Tls(_)) {
            wire.ask()?;
        }
        Pin::new(&mut wire.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

impl ActixStream for GuardedStream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        ActixStream::poll_read_ready(self.socket.tcp(), cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready>> {
        ActixStream::poll_write_ready(self.socket.tcp(), cx)
    }
}

impl AsyncRead for Carrier {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    };

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::{super::permission::PermissionWithdrawn, *};

    const SEEN: &str = "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok";
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

    async fn pair() -> (GuardedStream, TcpStream) {
        pair_with(Permission::given()).await
    }

    async fn pair_with(permission: Permission) -> (GuardedStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let ours = TcpStream::connect(address).await.expect("a connection");
        let (theirs, _) = listener.accept().await.expect("a connection");
        (GuardedStream::new(Carrier::Plain(ours), permission), theirs)
    }

    /// Sends a request and reads the answer that the client would see.
    async fn talk(
        wire: &mut GuardedStream,
        server: &mut TcpStream,
        answer: &[u8],
    ) -> io::Result<String> {
        wire.write_all(b"request").await?;
        let mut request = [0; 7];
        server.read_exact(&mut request).await?;
        assert_eq!(&request, b"request");
        server.write_all(answer).await?;
        let mut seen = vec![0; SEEN.len()];
        wire.read_exact(&mut seen).await?;
        Ok(String::from_utf8_lossy(&seen).into_owned())
    }

    #[actix_rt::test]
    async fn a_quiet_connection_carries_one_request_after_the_other() {
        let (mut wire, mut server) = pair().await;
        let interim = [b"HTTP/1.1 103 X\r\n\r\n", ANSWER].concat();
        for answer in [ANSWER, &interim, ANSWER] {
            let seen = talk(&mut wire, &mut server, answer).await;
            assert_eq!(seen.expect("an answer"), SEEN);
        }
    }

    #[actix_rt::test]
    async fn what_came_before_the_request_is_no_answer_to_it() {
        let (mut wire, mut server) = pair().await;
        server.write_all(ANSWER).await.expect("sent");
        let refused = wire.write_all(b"request").await;
        let kind = refused.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::ConnectionReset));
    }

    #[actix_rt::test]
    async fn what_follows_an_answer_ends_the_connection() {
        for (with_the_answer, later) in [
            (ANSWER, &b""[..]),
            (b"x", b""),
            (b"", ANSWER),
            (b"", b"\r\n"),
        ] {
            let (mut wire, mut server) = pair().await;
            let answer = [ANSWER, with_the_answer].concat();
            let seen = talk(&mut wire, &mut server, &answer).await;
            assert_eq!(seen.expect("an answer"), SEEN);
            server.write_all(later).await.expect("sent");
            let refused = wire.write_all(b"request").await;
            let kind = refused.map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::ConnectionReset));
            let mut rest = Vec::new();
            wire.read_to_end(&mut rest).await.expect("the end");
            assert_eq!(rest, b"", "nothing of it is passed on");
        }
    }

    #[actix_rt::test]
    async fn a_connection_that_the_server_closed_is_not_written_to() {
        let (mut wire, mut server) = pair().await;
        let seen = talk(&mut wire, &mut server, ANSWER).await;
        assert!(seen.is_ok());
        drop(server);
        assert!(wire.write_all(b"request").await.is_err());
    }

    /// On a new connection, after one request, and in the middle of one.
    #[actix_rt::test]
    async fn nothing_is_written_that_may_not_go_out_any_more() {
        for (before, under_way) in [
            (0, &b""[..]),
            (2, b""),
            (0, b"the beginning"),
            (1, b"of it"),
        ] {
            let may = Arc::new(AtomicBool::new(true));
            let asked = Arc::clone(&may);
            let permission = Permission::only_while(move || asked.load(Relaxed));
            let (mut wire, mut server) = pair_with(permission).await;
            for _ in 0..before {
                let seen = talk(&mut wire, &mut server, ANSWER).await;
                assert_eq!(seen.expect("an answer"), SEEN);
            }
            wire.write_all(under_way).await.expect("is written");
            may.store(false, Relaxed);
            let refused = wire.write_all(b"request").await;
            let error = refused.expect_err("is refused");
            assert!(
                error
                    .get_ref()
                    .is_some_and(|inner| inner.is::<PermissionWithdrawn>())
            );
            // For good: the beginning of one request must not be followed by the next.
            may.store(true, Relaxed);
            assert!(wire.write_all(b"request").await.is_err());
            drop(wire);
            let mut came = Vec::new();
            server.read_to_end(&mut came).await.expect("the end");
            assert_eq!(came, under_way);
        }
    }
}
