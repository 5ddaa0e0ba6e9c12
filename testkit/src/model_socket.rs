//! The socket of a simulated model's connection, and the ways in which it ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{SinkExt, StreamExt, stream::SplitStream};
use serde_json::Value;
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error, Message, protocol::CloseFrame},
};

/// Time for a peer to close.
const GOODBYE: Duration = Duration::from_secs(1);

/// The close code and reason of a violated rule.
pub(crate) type Breach = (u16, String);

/// The end of a connection.
pub(crate) enum End {
    /// Close with this code and reason.
    Close(u16, String),
    /// A rule was violated.
    Broken(Breach),
    /// Drop without a close frame.
    Gone,
}

impl From<Error> for End {
    fn from(_: Error) -> Self {
        Self::Gone
    }
}

/// The messages of a simulated model to its peer.
#[derive(Debug, Clone)]
pub(crate) struct ModelOutput {
    out: mpsc::UnboundedSender<Message>,
    unsent: Arc<AtomicUsize>,
}

impl ModelOutput {
    pub(crate) fn new(unsent: Arc<AtomicUsize>) -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (out, outgoing) = mpsc::unbounded_channel();
        (Self { out, unsent }, outgoing)
    }

    pub(crate) fn send(&self, message: Message) -> Result<(), End> {
        self.unsent.fetch_add(1, Ordering::Relaxed);
        self.out.send(message).map_err(|_| End::Gone)
    }
}

/// A socket whose reading does not wait for its writing, like the real service's.
pub(crate) struct ModelSocket {
    stream: SplitStream<WebSocketStream<TcpStream>>,
    output: ModelOutput,
    writer: JoinHandle<()>,
}

impl ModelSocket {
    pub(crate) fn new(socket: WebSocketStream<TcpStream>, unsent: Arc<AtomicUsize>) -> Self {
        let (mut sink, stream) = socket.split();
        let left = unsent.clone();
        let (output, mut outgoing) = ModelOutput::new(unsent);
        let writer = tokio::spawn(async move {
            while let Some(message) = outgoing.recv().await {
                if sink.send(message).await.is_err() {
                    return;
                }
                left.fetch_sub(1, Ordering::Relaxed);
            }
        });
        Self {
            stream,
            output,
            writer,
        }
    }

    pub(crate) fn output(&self) -> ModelOutput {
        self.output.clone()
    }

    pub(crate) async fn next(&mut self) -> Result<Value, End> {
        loop {
            let bytes = match self.stream.next().await.ok_or(End::Gone)?? {
                Message::Text(text) => text.as_bytes().to_vec(),
                Message::Binary(bytes) => bytes.to_vec(),
                Message::Close(_) => return Err(End::Gone),
                _ => continue,
            };
            let invalid = |_| End::Broken((1007, "Invalid JSON payload received.".to_owned()));
            return serde_json::from_slice(&bytes).map_err(invalid);
        }
    }

    /// Drops the connection after flushing earlier messages. Nothing else may hold its output.
    pub(crate) async fn leave(self) {
        let Self {
            output, mut writer, ..
        } = self;
        drop(output);
        if timeout(GOODBYE, &mut writer).await.is_err() {
            writer.abort();
        }
    }

    /// Closes the connection; waits at most a second for the peer's close frame.
    pub(crate) async fn close(mut self, code: u16, reason: String) {
        let frame = CloseFrame {
            code: code.into(),
            reason: reason.into(),
        };
        let _ = self.output.send(Message::Close(Some(frame)));
        let rest = async { while let Some(Ok(_)) = self.stream.next().await {} };
        let _ = timeout(GOODBYE, rest).await;
        self.writer.abort();
    }
}

/// Waits for this moment, or for ever.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
