//! Keeps the library's buffer for the handshake out of a socket.
//!
//! A WebSocket of `tungstenite` goes on with the buffer in which its handshake was read, 64 KiB for as long as the call lasts.
//! [`ResponseHead`] gives the handshake the head of the response and nothing more, so that the socket begins with a buffer of its own.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes read at once. A head has a few hundred.
const PIECE: usize = 1_024;

/// A stream that is read as far as the end of an HTTP response's head: its first empty line behind others. A line ends with a line
/// feed, and a carriage return may stand before it.
pub(super) struct ResponseHead<S> {
    stream: S,
    /// The head has a line that is not empty.
    has_begun: bool,
    /// The present line is empty so far.
    is_line_empty: bool,
    /// Bytes that were read beyond the end.
    rest: Vec<u8>,
}

impl<S> ResponseHead<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            has_begun: false,
            is_line_empty: true,
            rest: Vec::new(),
        }
    }

    /// The stream behind the head, and what was read of it.
    pub(super) fn into_parts(self) -> (S, Vec<u8>) {
        (self.stream, self.rest)
    }

    /// Bytes of a piece that belong to the head.
    fn head_of(&mut self, piece: &[u8]) -> usize {
        for (at, byte) in piece.iter().enumerate() {
            match byte {
                b'\r' => {}
                b'\n' if self.is_line_empty && self.has_begun => return at + 1,
                b'\n' => self.is_line_empty = true,
                _ => {
                    self.has_begun = true;
                    self.is_line_empty = false;
                }
            }
        }
        piece.len()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ResponseHead<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; PIECE];
        let room = buffer.remaining().min(PIECE);
        let mut piece = ReadBuf::new(&mut bytes[..room]);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut piece))?;
        let (head, rest) = piece.filled().split_at(self.head_of(piece.filled()));
        buffer.put_slice(head);
        self.rest.extend_from_slice(rest);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ResponseHead<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Reads these bytes in pieces of this length: the head, and the rest.
    async fn read_in_pieces(bytes: &[u8], head_bytes: usize, length: usize) -> (Vec<u8>, Vec<u8>) {
        let (here, mut there) = tokio::io::duplex(length);
        let mut head = ResponseHead::new(here);
        let sent = bytes.to_vec();
        let sending = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            let _ = there.write_all(&sent).await;
            there
        });
        let mut read = Vec::new();
        while read.len() < head_bytes {
            assert!(head.read_buf(&mut read).await.expect("bytes") > 0);
        }
        let (mut stream, mut rest) = head.into_parts();
        let mut more = Vec::new();
        tokio::join!(
            async {
                drop(sending.await);
            },
            async {
                stream.read_to_end(&mut more).await.expect("the end");
            }
        );
        rest.extend(more);
        (read, rest)
    }

    #[tokio::test]
    async fn nothing_is_lost_between_the_head_and_the_rest() {
        for (head, rest) in [
            ("HTTP/1.1 101 Switching\r\nA: b\r\n\r\n", "\r\n\r\nframes"),
            ("HTTP/1.1 101\r\nA: \r\n\r\n", ""),
            ("HTTP/1.1 101\nA: b\n\n", "\nx"),
            ("HTTP/1.1 101\r\n\n", "x"),
            ("\r\n\r\nHTTP/1.1 101\r\n\r\n", "x"),
        ] {
            let bytes = format!("{head}{rest}");
            for length in [1, 2, 3, 5, 7, 1_000] {
                let (read, left) = read_in_pieces(bytes.as_bytes(), head.len(), length).await;
                assert_eq!((&*read, &*left), (head.as_bytes(), rest.as_bytes()));
            }
        }
    }
}
