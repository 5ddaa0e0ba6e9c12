//! The TCP connection below lettre's SMTP client.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Limit for what a server sends during one mail, its TLS handshake included.
const RECEIVED_BYTES_MAX: usize = 256 * 1024;

/// A connection that is read byte by byte, up to a limit.
///
/// lettre 0.11.23 keeps what it has read beyond the answer to `STARTTLS`, and takes it for answers on the encrypted connection: an
/// attacker on the way could so confirm a mail that the server never saw. Of what is read byte by byte nothing is kept. lettre also
/// checks a line's length only after its end.
#[derive(Debug)]
pub struct SmtpSocket {
    socket: TcpStream,
    left: usize,
}

impl SmtpSocket {
    pub async fn connect(host: &str, port: u16) -> io::Result<Self> {
        let socket = TcpStream::connect((host, port)).await?;
        Ok(Self {
            socket,
            left: RECEIVED_BYTES_MAX,
        })
    }
}

impl AsyncTokioStream for SmtpSocket {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.socket.peer_addr()
    }
}

impl AsyncRead for SmtpSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(left) = self.left.checked_sub(1) else {
            let error = "the server sends more than answers to one mail take";
            return Poll::Ready(Err(io::Error::other(error)));
        };
        let mut byte = [0];
        let mut one = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut one))?;
        self.left = left;
        buffer.put_slice(one.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SmtpSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
