//! A client's connection, as the HTTP library sees it: a stream of bytes. Adds what the library lacks: a time limit
//! for the head of every request, not only the first, and a proper answer to bytes that are no request.

use std::{
    cell::{Cell, RefCell},
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use actix_web::rt::{
    self,
    net::TcpStream,
    time::{Sleep, sleep},
};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::{
    places::ConnectionSlot,
    refused::{OwnAnswer, new_id},
};

/// Longest time for the head of a request, from the end of the answer before. It is also the longest idle time.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// After a refusal, what the client still sends is discarded for this time. A client that is cut off while it sends
/// does not see the answer.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes discarded after a refusal, at most.
const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// The connection's state as reported by its requests.
#[derive(Debug, Default)]
pub struct ConnectionProgress {
    under_way: Cell<usize>,
    begun: Cell<u64>,
    closing: Cell<bool>,
    /// True if the current answer is an endless stream.
    streaming: Cell<bool>,
    /// True if the client closed its side.
    left: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionProgress {
    /// Begins a request, which lasts until the returned guard is dropped. A request `with_body` may leave unread
    /// bytes.
    pub fn begin(self: &Rc<Self>, with_body: bool) -> RequestGuard {
        self.under_way.set(self.under_way.get() + 1);
        self.begun.set(self.begun.get() + 1);
        self.streaming.set(false);
        RequestGuard {
            progress: Rc::clone(self),
            with_body,
        }
    }

    /// Marks the current answer as an endless stream: when the client closes its side, the connection ends at once.
    /// Otherwise this shows only at the second write. False if the client is gone already.
    pub fn stream(&self) -> bool {
        self.streaming.set(true);
        !self.left.get()
    }

    /// The connection ends soon after the current answer: the rest of the body is not wanted.
    pub fn close(&self) {
        self.closing.set(true);
    }
}

/// A request, until its answer is sent.
#[derive(Debug)]
pub struct RequestGuard {
    progress: Rc<ConnectionProgress>,
    with_body: bool,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let under_way = self.progress.under_way.get() - 1;
        self.progress.under_way.set(under_way);
        // The library waits forever for the rest of an unread body, so the connection must check its deadline.
        if self.with_body
            && under_way == 0
            && let Some(waker) = self.progress.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }
}

/// A connection with its place among the open ones.
pub struct ClientConnection {
    /// Present until the connection is dropped.
    held: Option<HeldStream>,
    peer: SocketAddr,
    progress: Rc<ConnectionProgress>,
    /// The deadline of the next request's head, with the number of requests before it.
    deadline: Option<(u64, Pin<Box<Sleep>>)>,
    /// The unwritten rest of an answer that replaced the library's.
    refusal: Bytes,
    refused: bool,
}

struct HeldStream {
    stream: TcpStream,
    _place: ConnectionSlot,
}

impl std::fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConnection")
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl ClientConnection {
    pub(super) fn new(stream: TcpStream, place: ConnectionSlot, peer: SocketAddr) -> Self {
        Self {
            held: Some(HeldStream {
                stream,
                _place: place,
            }),
            peer,
            progress: Rc::default(),
            deadline: None,
            refusal: Bytes::new(),
            refused: false,
        }
    }

    /// The state that its requests report to.
    pub(super) fn progress(&self) -> Rc<ConnectionProgress> {
        Rc::clone(&self.progress)
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        let held = self.held.as_mut();
        Pin::new(&mut held.expect("it is there until the drop").stream)
    }

    /// True if the next request did not begin in time.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        *self.progress.waker.borrow_mut() = Some(context.waker().clone());
        if self.progress.under_way.get() > 0 {
            self.deadline = None;
            return false;
        }
        let begun = self.progress.begun.get();
        let deadline = match self.deadline.take() {
            Some((after, sleep)) if after == begun => (after, sleep),
            _ => {
                let patience = match self.progress.closing.get() {
                    true => LINGER,
                    false => HEAD_WITHIN,
                };
                (begun, Box::pin(sleep(patience)))
            }
        };
        let deadline = self.deadline.insert(deadline);
        deadline.1.as_mut().poll(context).is_ready()
    }

    fn poll_refusal(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.refusal.is_empty() {
            let rest = self.refusal.clone();
            match self.stream().poll_write(context, &rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.refusal = rest.slice(written..),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ClientConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_late(context) {
            // No bytes read: looks as if the client had closed.
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = this.stream().poll_read(context, buffer);
        if matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before {
            this.progress.left.set(true);
            if this.progress.streaming.get() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
        read
    }
}

impl AsyncWrite for ClientConnection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let own = (this.progress.under_way.get() == 0)
            .then(|| OwnAnswer::find(bytes))
            .flatten();
        match own {
            Some(answer) if answer.at == 0 => {
                let id = new_id();
                tracing::info!(
                    request_id = %id,
                    address = %this.peer.ip(),
                    status = answer.status.as_u16(),
                    "refused an invalid HTTP request"
                );
                this.refusal = answer.with_body(id).into();
                this.refused = true;
                // It is small: if it does not fit now, the client has not read for long.
                let _ = this.poll_refusal(context)?;
                Poll::Ready(Ok(bytes.len()))
            }
            Some(answer) => this.stream().poll_write(context, &bytes[..answer.at]),
            None => this.stream().poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        std::task::ready!(this.poll_refusal(context))?;
        this.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream().poll_shutdown(context)
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        if self.refused
            && let Some(held) = self.held.take()
        {
            rt::spawn(linger(held));
        }
    }
}

/// Reads on for a moment after a refusal. If unread bytes remain when a connection is closed, the system resets it
/// and the client loses the answer.
async fn linger(mut held: HeldStream) {
    let rest = async {
        let mut buffer = vec![0; 8 * 1024];
        let mut read = 0;
        held.stream.shutdown().await?;
        while read < LINGER_BYTES_MAX {
            match held.stream.read(&mut buffer).await? {
                0 => break,
                more => read += more,
            }
        }
        io::Result::Ok(())
    };
    // The connection ends, whatever the result.
    let _ = rt::time::timeout(LINGER, rest).await;
}
