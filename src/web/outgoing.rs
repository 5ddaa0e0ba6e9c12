//! Frames that wait to be written to a browser. A browser that does not read is disconnected.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use actix_web::web::Bytes;
use actix_ws::{CloseReason, Session};
use tokio::{sync::mpsc, task::JoinHandle, time::Duration};

/// Bytes that may wait.
const UNREAD_MAX: usize = 1024 * 1024;
/// Longest time for a browser to read the last messages.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

pub(super) enum OutgoingFrame {
    Text(String),
    Audio(Vec<u8>),
    Pong(Bytes),
    Close(CloseReason),
}

impl OutgoingFrame {
    /// Its bytes, with those of its place in the queue.
    fn len(&self) -> usize {
        let bytes = match self {
            Self::Text(text) => text.len(),
            Self::Audio(bytes) => bytes.len(),
            Self::Pong(bytes) => bytes.len(),
            Self::Close(_) => 0,
        };
        bytes + size_of::<Self>()
    }
}

/// The writing side of a socket.
pub(super) struct Outgoing {
    frames: mpsc::UnboundedSender<OutgoingFrame>,
    waiting: Arc<AtomicUsize>,
    writer: JoinHandle<()>,
}

impl Outgoing {
    pub(super) fn new(session: Session) -> Self {
        let (frames, to_write) = mpsc::unbounded_channel();
        let waiting = Arc::default();
        Self {
            writer: actix_web::rt::spawn(write(session, to_write, Arc::clone(&waiting))),
            frames,
            waiting,
        }
    }

    /// Queues a frame. False if too much waits, or the socket is gone.
    pub(super) fn send(&self, frame: OutgoingFrame) -> bool {
        let length = frame.len();
        if self.waiting.load(Relaxed) + length > UNREAD_MAX {
            return false;
        }
        self.waiting.fetch_add(length, Relaxed);
        self.frames.send(frame).is_ok()
    }

    /// Writes what waits, and closes the socket.
    pub(super) async fn close(self, reason: CloseReason) {
        let Self {
            frames, mut writer, ..
        } = self;
        let _ = frames.send(OutgoingFrame::Close(reason));
        drop(frames);
        if tokio::time::timeout(CLOSE_WITHIN, &mut writer)
            .await
            .is_err()
        {
            writer.abort();
        }
    }
}

async fn write(
    mut session: Session,
    mut frames: mpsc::UnboundedReceiver<OutgoingFrame>,
    waiting: Arc<AtomicUsize>,
) {
    while let Some(frame) = frames.recv().await {
        let length = frame.len();
        let written = match frame {
            OutgoingFrame::Text(text) => session.text(text).await,
            OutgoingFrame::Audio(bytes) => session.binary(bytes).await,
            OutgoingFrame::Pong(payload) => session.pong(&payload).await,
            OutgoingFrame::Close(reason) => {
                let _ = session.close(Some(reason)).await;
                return;
            }
        };
        waiting.fetch_sub(length, Relaxed);
        if written.is_err() {
            return;
        }
    }
}
