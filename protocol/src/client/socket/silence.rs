//! Detects a dead socket.
//!
//! A network path that swallows everything ends no connection. So a silent peer is pinged and has to answer (RFC 6455, 5.5.3).
//! Received bytes count, not messages: on a slow line a pong may be queued behind a long message. A peer that never answered a
//! ping is not considered lost, because it may never do so.

use std::{
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use super::{ByteStream, read_budget::ReadBudget};

/// The time of the last received byte of a socket.
#[derive(Debug, Clone)]
pub struct LastReceived {
    epoch: Instant,
    after_ns: Arc<AtomicU64>,
}

impl LastReceived {
    pub fn now(epoch: Instant) -> Self {
        Self {
            epoch,
            after_ns: Arc::default(),
        }
    }

    pub fn note(&self, now: Instant) {
        let after = now.saturating_duration_since(self.epoch).as_nanos();
        let after = u64::try_from(after).unwrap_or(u64::MAX);
        self.after_ns.store(after, Relaxed);
    }

    pub fn last(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.after_ns.load(Relaxed))
    }
}

/// A stream that records when bytes come, and reads them within a budget if it has one.
pub struct MonitoredStream {
    stream: Box<dyn ByteStream>,
    heard: LastReceived,
    pace: Option<ReadPace>,
}

/// Bytes are limited here, not whole messages: a frame that completes no message costs work, too.
struct ReadPace {
    budget: Arc<ReadBudget>,
    until: Pin<Box<Sleep>>,
}

impl ReadPace {
    fn spend(&mut self, bytes: usize, now: Instant) {
        let from = self.budget.spend(bytes, now);
        if from > now {
            self.until.as_mut().reset(from);
        }
    }
}

impl fmt::Debug for MonitoredStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonitoredStream")
            .field("heard", &self.heard)
            .finish_non_exhaustive()
    }
}

impl MonitoredStream {
    pub(super) fn new(stream: Box<dyn ByteStream>, budget: Option<Arc<ReadBudget>>) -> Self {
        let now = Instant::now();
        let pace = |budget| ReadPace {
            budget,
            until: Box::pin(sleep_until(now)),
        };
        Self {
            stream,
            heard: LastReceived::now(now),
            pace: budget.map(pace),
        }
    }

    pub fn heard(&self) -> LastReceived {
        self.heard.clone()
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pace) = &mut self.pace {
            ready!(pace.until.as_mut().poll(context));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            let now = Instant::now();
            self.heard.note(now);
            if let Some(pace) = &mut self.pace {
                pace.spend(bytes, now);
            }
        }
        read
    }
}

impl AsyncWrite for MonitoredStream {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// No action needed yet.
    Fine,
    /// The peer is to be pinged.
    Ping,
    /// The peer is gone.
    Lost,
}

/// Watches one socket for silence.
#[derive(Debug)]
pub struct SilenceWatch {
    heard: LastReceived,
    quiet: Duration,
    answer: Duration,
    pinged: Option<Instant>,
    has_answered: bool,
}

impl SilenceWatch {
    /// A ping is due after `quiet` without a byte, and the peer has `answer` to send anything then. The first ping is due at
    /// once: it shows whether the peer answers pings.
    pub fn new(heard: LastReceived, quiet: Duration, answer: Duration) -> Self {
        Self {
            heard,
            quiet,
            answer,
            pinged: None,
            has_answered: false,
        }
    }

    pub fn answered(&mut self) {
        self.has_answered = true;
    }

    /// This side chose not to read until now, so the silence does not count.
    pub fn begin_again(&self, now: Instant) {
        self.heard.note(now);
    }

    pub fn due(&self) -> Instant {
        let last = self.heard.last();
        match self.pinged {
            None => last,
            Some(pinged) if last <= pinged => pinged + self.answer,
            Some(_) => last + self.quiet,
        }
    }

    pub fn look(&mut self, now: Instant) -> Silence {
        let waits = self
            .pinged
            .is_some_and(|pinged| self.heard.last() <= pinged);
        if now < self.due() {
            Silence::Fine
        } else if waits && self.has_answered {
            Silence::Lost
        } else {
            self.pinged = Some(now);
            Silence::Ping
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn watch() -> (SilenceWatch, LastReceived, Instant) {
        let epoch = Instant::now();
        let heard = LastReceived::now(epoch);
        (
            SilenceWatch::new(heard.clone(), SECOND, 2 * SECOND),
            heard,
            epoch,
        )
    }

    #[test]
    fn a_side_that_answered_once_has_to_answer() {
        let (mut watch, heard, epoch) = watch();
        assert_eq!(watch.look(epoch), Silence::Ping);
        heard.note(epoch + SECOND / 10);
        watch.answered();
        assert_eq!(watch.look(epoch + SECOND), Silence::Fine);
        assert_eq!(watch.due(), epoch + SECOND + SECOND / 10);
        let pinged = watch.due();
        assert_eq!(watch.look(pinged), Silence::Ping);
        assert_eq!(watch.look(pinged + SECOND), Silence::Fine);
        // Any byte is a sign of life.
        heard.note(pinged + SECOND);
        assert_eq!(watch.look(pinged + 2 * SECOND), Silence::Ping);
        assert_eq!(watch.due(), pinged + 4 * SECOND);
        assert_eq!(watch.look(pinged + 4 * SECOND), Silence::Lost);
    }

    #[test]
    fn a_side_that_never_answered_is_asked_again_and_not_lost() {
        let (mut watch, heard, epoch) = watch();
        for asked in 0..10 {
            assert_eq!(watch.look(epoch + 2 * asked * SECOND), Silence::Ping);
            assert_eq!(watch.look(epoch + (2 * asked + 1) * SECOND), Silence::Fine);
        }
        heard.note(epoch + 20 * SECOND);
        assert_eq!(watch.due(), epoch + 21 * SECOND);
    }

    #[test]
    fn silence_that_this_side_chose_does_not_count() {
        let (mut watch, heard, epoch) = watch();
        assert_eq!(watch.look(epoch), Silence::Ping);
        heard.note(epoch + SECOND);
        watch.answered();
        assert_eq!(watch.look(epoch + 2 * SECOND), Silence::Ping);
        watch.begin_again(epoch + 30 * SECOND);
        assert_eq!(watch.look(epoch + 30 * SECOND), Silence::Fine);
    }
}
