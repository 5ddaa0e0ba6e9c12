//! A simulated bridge with its socket: connects, writes, reads, and connects again until the work is done.

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
    connection::{ConnectError, Dialer, Peer, Socket},
    engine::Engine,
    figures::Thousandths,
    scenario::Scenario,
    tally::{Summary, Totals},
};

const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);
/// Frames that may wait to be written: all unanswered messages, and room for answers to pings.
const OUTGOING_MAX: usize = 4_100;
/// Frames that are read at once, before it is looked what follows from them.
const FRAMES_AT_ONCE: usize = 256;
/// How often a connection is looked at that nothing happens on.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The engine pings every 15 s, and a function may take some seconds: what is silent or unanswered for longer is dead.
const SILENCE_MAX: Duration = Duration::from_secs(45);
const UNANSWERED_US_MAX: i64 = 30_000_000;
/// How long calls may take to end after a stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Why a connection is over.
enum Over {
    Done,
    Lost(String),
    /// The time after a stop is used up.
    GivenUp,
}

/// A telephony bridge that places calls by itself.
#[derive(Debug)]
pub struct Bridge {
    connection: Peer,
    engine: Engine,
    started: Instant,
}

/// The caller's wish to stop, and how long is left after it.
struct Stop<F> {
    wish: Pin<Box<F>>,
    deadline: Option<Instant>,
}

impl<F: Future<Output = ()>> Stop<F> {
    /// Completes with true when the wish comes, with false when the time after it is over.
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

impl Bridge {
    /// A bridge that is not connected yet. The same seed draws the same calls.
    pub fn new(connection: Peer, scenario: Scenario, seed: u64) -> Self {
        Self {
            connection,
            engine: Engine::new(scenario, seed),
            started: Instant::now(),
        }
    }

    /// Places calls until all are over, or `stop` completes and the running ones are hung up. `progress` is told the totals
    /// again and again. Fails if the first connection does; a later one is tried again for as long as the connection says.
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
                Over::Done => break None,
                Over::GivenUp => break Some("calls did not end in time after the stop".to_owned()),
                Over::Lost(reason) => {
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
        // A peer that is gone cannot be told.
        let _ = timeout(CLOSE_WITHIN, sink.send(Message::Close(None))).await;
        Ok(self.summary(fault))
    }

    /// Tries again until it works, the time is up, the token is refused or a stop has waited long enough.
    async fn reconnect<F: Future<Output = ()>>(
        &mut self,
        dialer: &Dialer,
        stop: &mut Stop<F>,
    ) -> Result<Box<dyn Socket>, String> {
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

    /// One connection, from its beginning to its end.
    async fn serve<F: Future<Output = ()>>(
        &mut self,
        sink: &mut (impl Sink<Message, Error = WsProtocolError> + Unpin),
        frames: &mut (impl Stream<Item = Result<Frame, WsProtocolError>> + Unpin),
        stop: &mut Stop<F>,
        progress: &mut impl FnMut(&Totals),
    ) -> Over {
        // Written apart from reading: two ends that both only write would wait for each other for ever.
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
                // There is room: it was looked at just now, and nobody else writes.
                let _ = outgoing.try_send(Message::Text(text.into()));
            }
            progress(self.engine.totals());
            if self.engine.is_done() {
                return Over::Done;
            }
            tokio::select! {
                frame = frames.next() => {
                    heard_at = Instant::now();
                    if let Err(reason) = self.on_frames(frame, frames, &outgoing) {
                        return Over::Lost(reason);
                    }
                }
                fault = &mut writing => return Over::Lost(fault),
                () = sleep_until(self.wake_at(look_at)) => {
                    // All that is unanswered is looked through: not at every wake of a call.
                    if Instant::now() >= look_at {
                        look_at = Instant::now() + LOOK_EVERY;
                        if let Err(reason) = self.look(heard_at) {
                            return Over::Lost(reason);
                        }
                    }
                }
                wished = stop.next() => {
                    if !wished {
                        return Over::GivenUp;
                    }
                    self.engine.stop(self.now_us());
                }
            }
        }
    }

    /// A frame, and those that are there already.
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
            // A pong that finds no room is one of very many.
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

    /// Whether the connection still answers.
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
        let seconds = Thousandths(elapsed_ms.max(1));
        let (totals, measured) = self.engine.finish();
        Summary {
            seconds,
            calls_per_second: Thousandths::ratio(totals.ended, seconds),
            acknowledgements_per_second: Thousandths::ratio(totals.acknowledgements, seconds),
            latency_ms: measured.all.percentiles(),
            service_latency_ms: measured.service.percentiles(),
            function_latency_ms: measured.functions.percentiles(),
            fault,
            totals,
        }
    }
}

/// Writes what comes, as much at once as there is. Completes with the fault that ends it.
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
