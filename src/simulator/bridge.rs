//! A simulated bridge with its socket: connects, sends, receives, and reconnects until the work is done.

use std::{pin::Pin, time::Duration};

use awc::{
    error::WsProtocolError,
    ws::{Frame, Message},
};
use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    connection::{ConnectError, Dialer, Peer, SimulatorSocket},
    engine::SimulatedCalls,
    figures::DecimalArgument,
    scenario::CallScenario,
    tally::{Summary, Totals},
};

const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);
/// Bound of the outgoing queue: all unacknowledged messages, and room for pongs.
const OUTGOING_MAX: usize = 4_100;
/// Frames that are read before their effects are handled.
const FRAMES_AT_ONCE: usize = 256;
/// Interval at which an idle connection is checked.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The service pings every 15 s, and a function may take several seconds. A longer silence means a dead connection.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const UNANSWERED_US_MAX: i64 = 30_000_000;
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
            engine: SimulatedCalls::new(scenario, seed),
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
        progress(self.engine.totals());
        // The peer may be gone.
        let _ = timeout(CLOSE_WITHIN, sink.send(Message::Close(None))).await;
        Ok(self.summary(fault))
    }

    /// Retries until it succeeds, the time is up, the token is refused, or a stop reaches its deadline.
    async fn reconnect<F: Future<Output = ()>>(
        &mut self,
        dialer: &Dialer,
        stop: &mut Stop<F>,
    ) -> Result<Box<dyn SimulatorSocket>, String> {
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
                    self.engine.stop(self.now_us());
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
        sink: &mut (impl Sink<Message, Error = WsProtocolError> + Unpin),
        frames: &mut (impl Stream<Item = Result<Frame, WsProtocolError>> + Unpin),
        stop: &mut Stop<F>,
        progress: &mut impl FnMut(&Totals),
    ) -> ConnectionEnd {
        // Reading and writing are separate, because two peers that only write would deadlock.
        let (outgoing, to_write) = mpsc::channel(OUTGOING_MAX);
        let mut writing = std::pin::pin!(write(sink, to_write));
        self.engine.connected();
        let (mut heard_at, mut look_at) = (Instant::now(), Instant::now() + LOOK_EVERY);
        loop {
            let now_us = self.now_us();
            self.engine.advance(now_us);
            while outgoing.capacity() > 0
                && let Some(text) = self.engine.next_message(now_us)
            {
                // Cannot fail: the capacity was checked above, and this is the only sender.
                let _ = outgoing.try_send(Message::Text(text.into()));
            }
            progress(self.engine.totals());
            if self.engine.is_done() {
                return ConnectionEnd::Done;
            }
            tokio::select! {
                frame = frames.next() => {
                    heard_at = Instant::now();
                    if let Err(reason) = self.on_frames(frame, frames, &outgoing) {
                        return ConnectionEnd::Lost(reason);
                    }
                }
                fault = &mut writing => return ConnectionEnd::Lost(fault),
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
                    self.engine.stop(self.now_us());
                }
            }
        }
    }

    /// Handles a frame and those that have arrived already.
    fn on_frames(
        &mut self,
        first: Option<Result<Frame, WsProtocolError>>,
        frames: &mut (impl Stream<Item = Result<Frame, WsProtocolError>> + Unpin),
        outgoing: &mpsc::Sender<Message>,
    ) -> Result<(), String> {
        let mut frame = first;
        for _ in 0..FRAMES_AT_ONCE {
            self.on_frame(frame, outgoing)?;
            match frames.next().now_or_never() {
                Some(next) => frame = next,
                None => return Ok(()),
            }
        }
        self.on_frame(frame, outgoing)
    }

    fn on_frame(
        &mut self,
        frame: Option<Result<Frame, WsProtocolError>>,
        outgoing: &mpsc::Sender<Message>,
    ) -> Result<(), String> {
        match frame {
            Some(Ok(Frame::Text(text))) => self.engine.on_text(&text, self.now_us()),
            // A pong may be dropped if the queue is full.
            Some(Ok(Frame::Ping(payload))) => drop(outgoing.try_send(Message::Pong(payload))),
            Some(Ok(Frame::Pong(_))) => {}
            Some(Ok(Frame::Close(reason))) => {
                return Err(reason
                    .and_then(|reason| reason.description)
                    .unwrap_or_else(|| "closed".to_owned()));
            }
            Some(Ok(Frame::Binary(_) | Frame::Continuation(_))) => {
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
            .waits_since_before(self.now_us() - UNANSWERED_US_MAX)
        {
            return Err("a message was not answered".to_owned());
        }
        Ok(())
    }

    fn wake_at(&self, look: Instant) -> Instant {
        let due = self
            .engine
            .next_wake_us()
            .map(|us| self.started + Duration::from_micros(us.max(0).unsigned_abs()));
        due.map_or(look, |due| due.min(look))
    }

    /// Microseconds since the start.
    fn now_us(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX / 2)
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

/// Writes frames, in batches where possible. Returns the error that ends it.
async fn write(
    sink: &mut (impl Sink<Message, Error = WsProtocolError> + Unpin),
    mut to_write: mpsc::Receiver<Message>,
) -> String {
    let fault = |error: WsProtocolError| error.to_string();
    while let Some(message) = to_write.recv().await {
        let mut next = Some(message);
        while let Some(message) = next {
            if let Err(error) = sink.feed(message).await {
                return fault(error);
            }
            next = to_write.try_recv().ok();
        }
        if let Err(error) = sink.flush().await {
            return fault(error);
        }
    }
    "nothing more to write".to_owned()
}
