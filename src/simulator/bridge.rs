//! A simulated bridge with its socket: connects, sends, receives, and reconnects until the work is done.

use std::{pin::Pin, time::Duration};

use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_protocol::client::socket::{ClientSocket, write};
use futures_util::{
    FutureExt, SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::{Error, Message as Frame};

use super::{
    connection::{ConnectError, Dialer, Peer},
    engine::SimulatedCalls,
    figures::DecimalArgument,
    scenario::CallScenario,
    tally::{Summary, Totals},
};

const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);
/// Bound of the outgoing queue; further messages wait in the exchange.
const OUTGOING_MAX: usize = 4_000;
/// Frames that are read before their effects are handled.
const FRAMES_AT_ONCE: usize = 256;
/// Interval at which an idle connection is checked.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The service pings every 5 s, and a function may take several seconds. A longer silence means a dead connection.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const UNANSWERED_MAX: Duration = Duration::from_secs(30);
/// Time for calls to end after a stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

enum ConnectionEnd {
    Done,
    Lost(String),
    /// The time after a stop has passed.
    GivenUp,
}

/// A telephony bridge that places calls.
#[derive(Debug)]
pub struct SimulatedBridge {
    connection: Peer,
    engine: SimulatedCalls,
    started: Instant,
}

/// A requested stop and its deadline.
struct Stop<F> {
    wish: Pin<Box<F>>,
    deadline: Option<Instant>,
}

impl<F: Future<Output = ()>> Stop<F> {
    /// Returns true once a stop is requested, and then false once its deadline has passed.
    async fn next(&mut self) -> bool {
        match self.deadline {
            Some(deadline) => {
                sleep_until(deadline).await;
                false
            }
            None => {
                self.wish.as_mut().await;
                self.deadline = Some(Instant::now() + STOP_WITHIN);
                true
            }
        }
    }
}

impl SimulatedBridge {
    /// A bridge that is not connected yet. Equal seeds draw equal calls.
    pub fn new(connection: Peer, scenario: CallScenario, seed: u64) -> Self {
        Self {
            connection,
            engine: SimulatedCalls::new(scenario, seed, SystemClock.now()),
            started: Instant::now(),
        }
    }

    /// Places calls until all have ended, or until `stop` completes and running calls are hung up. Reports totals
    /// to `progress`. Fails if the first connection fails; a later loss is retried within the configured time.
    pub async fn run(
        mut self,
        stop: impl Future<Output = ()>,
        mut progress: impl FnMut(&Totals),
    ) -> Result<Summary, ConnectError> {
        let dialer = Dialer::new(self.connection.clone())?;
        let mut stop = Stop {
            wish: Box::pin(stop),
            deadline: None,
        };
        let (mut sink, mut frames) = dialer.dial().await?.split();
        self.started = Instant::now();
        let fault = loop {
            match self
                .serve(&mut sink, &mut frames, &mut stop, &mut progress)
                .await
            {
                ConnectionEnd::Done => break None,
                ConnectionEnd::GivenUp => {
                    break Some("calls did not end in time after the stop".to_owned());
                }
                ConnectionEnd::Lost(reason) => {
                    tracing::debug!(reason, "the connection was lost");
                    self.engine.disconnected();
                }
            }
            match self.reconnect(&dialer, &mut stop).await {
                Ok(socket) => (sink, frames) = socket.split(),
                Err(fault) => break Some(fault),
            }
        };
        progress(&self.engine.totals());
        // The peer may be gone.
        let _ = timeout(CLOSE_WITHIN, sink.send(Frame::Close(None))).await;
        Ok(self.summary(fault))
    }

    /// Retries until it succeeds, the time is up, the token is refused, or a stop reaches its deadline.
    async fn reconnect<F: Future<Output = ()>>(
        &mut self,
        dialer: &Dialer,
        stop: &mut Stop<F>,
    ) -> Result<ClientSocket, String> {
        let deadline = Instant::now() + dialer.reconnect_within();
        let mut back_off = BACK_OFF_FIRST;
        loop {
            let fault = match dialer.dial().await {
                Ok(socket) => return Ok(socket),
                Err(fault) => fault,
            };
            if matches!(fault, ConnectError::Token(_)) || Instant::now() + back_off >= deadline {
                return Err(fault.to_string());
            }
            tokio::select! {
                () = sleep_until(Instant::now() + back_off) => {}
                wished = stop.next() => {
                    self.engine.stop(self.started.elapsed());
                    if !wished {
                        return Err(fault.to_string());
                    }
                }
            }
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    /// Serves one connection until it ends.
    async fn serve<F: Future<Output = ()>>(
        &mut self,
        sink: &mut SplitSink<ClientSocket, Frame>,
        frames: &mut SplitStream<ClientSocket>,
        stop: &mut Stop<F>,
        progress: &mut impl FnMut(&Totals),
    ) -> ConnectionEnd {
        // Reading and writing are separate, because two peers that only write would deadlock.
        let (outgoing, to_write) = mpsc::channel(OUTGOING_MAX);
        let mut writing = std::pin::pin!(write(sink, to_write));
        self.engine.connected();
        let (mut heard_at, mut look_at) = (Instant::now(), Instant::now() + LOOK_EVERY);
        loop {
            let now = self.started.elapsed();
            self.engine.advance(now);
            while outgoing.capacity() > 0
                && let Some(text) = self.engine.next_message(now)
            {
                // Cannot fail: the capacity was checked above, and this is the only sender.
                let _ = outgoing.try_send(Frame::text(text));
            }
            progress(&self.engine.totals());
            if self.engine.is_done() {
                return ConnectionEnd::Done;
            }
            tokio::select! {
                frame = frames.next() => {
                    heard_at = Instant::now();
                    if let Err(reason) = self.on_frames(frame, frames) {
                        return ConnectionEnd::Lost(reason);
                    }
                }
                Err(error) = &mut writing => return ConnectionEnd::Lost(error.to_string()),
                () = sleep_until(self.wake_at(look_at)) => {
                    // Scanning all unacknowledged messages is expensive, so it does not happen on every wake-up.
                    if Instant::now() >= look_at {
                        look_at = Instant::now() + LOOK_EVERY;
                        if let Err(reason) = self.look(heard_at) {
                            return ConnectionEnd::Lost(reason);
                        }
                    }
                }
                wished = stop.next() => {
                    if !wished {
                        return ConnectionEnd::GivenUp;
                    }
                    self.engine.stop(self.started.elapsed());
                }
            }
        }
    }

    /// Handles a frame and those that have arrived already.
    fn on_frames(
        &mut self,
        first: Option<Result<Frame, Error>>,
        frames: &mut SplitStream<ClientSocket>,
    ) -> Result<(), String> {
        let mut frame = first;
        for _ in 0..FRAMES_AT_ONCE {
            self.on_frame(frame)?;
            match frames.next().now_or_never() {
                Some(next) => frame = next,
                None => return Ok(()),
            }
        }
        self.on_frame(frame)
    }

    fn on_frame(&mut self, frame: Option<Result<Frame, Error>>) -> Result<(), String> {
        match frame {
            Some(Ok(Frame::Text(text))) => self.engine.on_text(&text, self.started.elapsed()),
            // The library answers pings.
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {}
            Some(Ok(Frame::Close(reason))) => {
                let reason = reason.map(|reason| reason.reason.to_string());
                return Err(reason.unwrap_or_else(|| "closed".to_owned()));
            }
            Some(Ok(Frame::Binary(_) | Frame::Frame(_))) => {
                return Err("a frame that is no text".to_owned());
            }
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err("closed".to_owned()),
        }
        Ok(())
    }

    /// Fails if the connection no longer answers.
    fn look(&self, heard_at: Instant) -> Result<(), String> {
        if heard_at.elapsed() > SILENCE_MAX {
            return Err("silent for too long".to_owned());
        }
        if self
            .engine
            .waits_since_before(self.started.elapsed().saturating_sub(UNANSWERED_MAX))
        {
            return Err("a message was not answered".to_owned());
        }
        Ok(())
    }

    fn wake_at(&self, look: Instant) -> Instant {
        let due = self.engine.wakes_at().map(|due| self.started + due);
        due.map_or(look, |due| due.min(look))
    }

    fn summary(self, fault: Option<String>) -> Summary {
        let elapsed_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let seconds = DecimalArgument(elapsed_ms.max(1));
        let (totals, measured) = self.engine.finish();
        Summary {
            seconds,
            calls_per_second: DecimalArgument::ratio(totals.ended, seconds),
            acknowledgements_per_second: DecimalArgument::ratio(totals.acknowledgements, seconds),
            latency_ms: measured.all.percentiles(),
            service_latency_ms: measured.service.percentiles(),
            function_latency_ms: measured.functions.percentiles(),
            fault,
            totals,
        }
    }
}
