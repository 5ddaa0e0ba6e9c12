//! The socket to the service: redials it whenever it is lost, and carries out the decisions of the [`MessageExchange`].

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use dikala_entities::{Millis, Secret};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, interval_at, sleep_until, timeout},
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::{self, Bytes, Message as Frame};
use ulid::Ulid;

use super::{
    events::{ReplyDelay, ServiceEvent, ServiceReply},
    exchange::{CallKey, MessageExchange},
    posted::OpenedCall,
    socket::{
        ClientSocket, SocketError, dial_service,
        silence::{LastReceived, Silence, SilenceWatch},
        write,
    },
};
use crate::message::{CallReport, MessageType};

/// The current time, for the `at` of messages; supplied by the program that starts the bridge.
pub type WallClock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// Messages of all calls on their way to the exchange.
const REQUESTS_MAX: usize = 1_024;
/// Unread messages to one call; more than can be under way for it.
const EVENTS_MAX: usize = 256;
/// Frames that wait for the socket.
const FRAMES_MAX: usize = 64;
/// Interval of the heartbeat, which lists the held calls. The reply says which of them are over.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The service pings every 5 s, so a socket that is silent for this long is dead even if pings were never answered.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Without anything to do, the client looks for it this often.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Bounds for the silence after which a service that answers pings counts as away. The silence is a third of the time that a call
/// goes on without the service; a third of it passes before a ping, the rest is for the answer.
const UNNOTICED_MIN: Duration = Duration::from_secs(1);
const UNNOTICED_MAX: Duration = Duration::from_secs(5);
/// Backoff before the socket is dialled again.
const REDIAL_MS_FIRST: u64 = 100;
const REDIAL_MS_MAX: u64 = 5_000;
/// A refused token does not become valid soon.
const REDIAL_MS_REFUSED: u64 = 15_000;

#[derive(Debug, Clone)]
pub struct Address {
    /// `ws://` or `wss://`, with the path.
    pub url: String,
    /// A bridge token.
    pub token: Secret,
}

/// Handle to the service, shared by all calls.
#[derive(Clone)]
pub struct ServiceClient {
    requests: mpsc::Sender<Request>,
    away_since: watch::Receiver<Option<Instant>>,
    clock: WallClock,
    last: Arc<AtomicU64>,
}

impl fmt::Debug for ServiceClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceClient")
            .field("away_since", &*self.away_since.borrow())
            .finish_non_exhaustive()
    }
}

/// The exchange between one call and the service. Dropping it detaches the call; a call that is not over is reported as failed.
pub struct CallChannel {
    key: CallKey,
    requests: mpsc::Sender<Request>,
    clock: WallClock,
    pub events: mpsc::Receiver<ServiceEvent>,
    /// Since when the service is away; `None` while its socket is open.
    pub away_since: watch::Receiver<Option<Instant>>,
}

impl fmt::Debug for CallChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallChannel")
            .field("key", &self.key)
            .finish()
    }
}

enum Request {
    Open(CallKey, OpenedCall, mpsc::Sender<ServiceEvent>),
    Post(CallKey, CallReport, Millis),
    Close(CallKey, Millis),
}

impl ServiceClient {
    /// Dials the service, and redials it whenever it is lost, until every client and channel is dropped. `lost_after`: how long a
    /// call goes on without the service.
    pub fn start(
        address: Address,
        tls: TlsConnector,
        clock: WallClock,
        lost_after: Duration,
    ) -> (Self, JoinHandle<()>) {
        let (requests, waiting) = mpsc::channel(REQUESTS_MAX);
        let epoch = Instant::now();
        let (away, away_since) = watch::channel(Some(epoch));
        let shell = Shell {
            address,
            tls,
            clock: Arc::clone(&clock),
            waiting,
            away,
            unnoticed: (lost_after / 3).clamp(UNNOTICED_MIN, UNNOTICED_MAX),
            exchange: MessageExchange::new(Ulid::generate().to_string()),
            calls: HashMap::new(),
            epoch,
        };
        let client = Self {
            requests,
            away_since,
            clock,
            last: Arc::default(),
        };
        (client, tokio::spawn(shell.run()))
    }

    /// Reports a new call, and gives it a channel; `None` once the client has stopped.
    pub async fn open_call(&self, opened: impl Into<OpenedCall>) -> Option<CallChannel> {
        let key = self.last.fetch_add(1, Relaxed);
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let request = Request::Open(key, opened.into(), sender);
        self.requests.send(request).await.ok()?;
        Some(CallChannel {
            key,
            requests: self.requests.clone(),
            clock: Arc::clone(&self.clock),
            events,
            away_since: self.away_since.clone(),
        })
    }
}

impl CallChannel {
    /// Delivers a message, however often the socket is lost meanwhile. `at`: when its cause happened.
    pub async fn post(&self, report: CallReport, at: Millis) {
        let request = Request::Post(self.key, report, at);
        // The client outlives its channels, so this fails only while the runtime shuts down.
        let _ = self.requests.send(request).await;
    }

    pub fn now(&self) -> Millis {
        (self.clock)()
    }
}

impl Drop for CallChannel {
    fn drop(&mut self) {
        // If the queue is full, the next heartbeat finds the channel closed.
        let _ = self
            .requests
            .try_send(Request::Close(self.key, (self.clock)()));
    }
}

struct Shell {
    address: Address,
    tls: TlsConnector,
    clock: WallClock,
    waiting: mpsc::Receiver<Request>,
    away: watch::Sender<Option<Instant>>,
    /// Silence after which the service counts as away.
    unnoticed: Duration,
    exchange: MessageExchange,
    calls: HashMap<CallKey, mpsc::Sender<ServiceEvent>>,
    epoch: Instant,
}

/// All clients and channels are dropped, and every message is delivered.
struct Finished;

/// The way in which a socket was lost.
enum Lost {
    /// It was closed, or broke.
    Closed,
    /// It is open, but nothing comes over it.
    Silent,
}

impl Shell {
    async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let (wait_ms, outcome) = match self.dial().await {
                Ok(Ok(socket)) => {
                    tracing::info!(url = self.address.url, "connected to the service");
                    failures = 0;
                    let finished = self.serve(socket).await;
                    (REDIAL_MS_FIRST, finished)
                }
                Ok(Err(error)) => {
                    let wait_ms = wait_ms(&error, failures);
                    tracing::warn!(url = self.address.url, %error, wait_ms, "the service is not reached");
                    failures = failures.saturating_add(1);
                    (wait_ms, Ok(()))
                }
                Err(finished) => (0, Err(finished)),
            };
            let pause = Duration::from_millis(wait_ms / 2 + rand::random_range(0..=wait_ms / 2));
            let paused = async {
                outcome?;
                self.meanwhile(tokio::time::sleep(pause)).await
            };
            if paused.await.is_err() {
                return;
            }
        }
    }

    /// Handles requests of calls while `other` runs.
    async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> Result<T, Finished> {
        tokio::pin!(other);
        loop {
            tokio::select! {
                done = &mut other => return Ok(done),
                request = self.waiting.recv() => match request {
                    Some(request) => self.take(request),
                    None if self.exchange.is_quiet() => return Err(Finished),
                    None => return Ok(other.await),
                },
            }
        }
    }

    async fn dial(&mut self) -> Result<Result<ClientSocket, SocketError>, Finished> {
        let (address, tls) = (self.address.clone(), self.tls.clone());
        let dialled = async move { dial_service(&address.url, &address.token, &tls).await };
        self.meanwhile(dialled).await
    }

    fn take(&mut self, request: Request) {
        let now = self.epoch.elapsed();
        match request {
            Request::Open(key, opened, events) => {
                self.calls.insert(key, events);
                self.exchange.open(key, opened, now);
            }
            Request::Post(key, report, at) => {
                if let Some(reply) = self.exchange.post(key, report, Some(at), now) {
                    self.tell(key, ServiceEvent::Reply(reply, ReplyDelay::default()));
                }
            }
            Request::Close(key, at) => {
                self.calls.remove(&key);
                self.exchange.close(key, at, now);
            }
        }
    }

    fn tell(&self, key: CallKey, event: ServiceEvent) {
        if let ServiceEvent::Reply(
            ServiceReply::Declined {
                message,
                code,
                words,
                ..
            },
            _,
        ) = &event
        {
            // Nothing depends on a turn: the transcript follows.
            match message.kind {
                MessageType::Turn => tracing::debug!(code, words, "the service declines a turn"),
                _ => tracing::warn!(code, words, "the service declines a message"),
            }
        }
        if let Some(events) = self.calls.get(&key)
            && events.try_send(event).is_err()
        {
            tracing::warn!("a call does not hear what the service tells it");
        }
    }

    /// Serves a socket until it is lost, or nothing is left to send.
    async fn serve(&mut self, socket: ClientSocket) -> Result<(), Finished> {
        let heard = socket.get_ref().heard();
        let (mut sink, mut stream) = socket.split();
        let (frames, writing) = mpsc::channel(FRAMES_MAX);
        let mut writer = tokio::spawn(async move {
            write(&mut sink, writing).await?;
            sink.close().await
        });
        self.exchange.connected();
        self.away.send_replace(None);
        let done = self.speak(&frames, &mut stream, &heard).await;
        let since = match done {
            Ok(Lost::Closed) | Err(Finished) => Instant::now(),
            Ok(Lost::Silent) => heard.last(),
        };
        self.away.send_replace(Some(since));
        self.exchange.disconnected();
        drop(frames);
        if timeout(Duration::from_secs(1), &mut writer).await.is_err() {
            tracing::debug!("the service does not read its socket");
            writer.abort();
        }
        done.map(|_| ())
    }

    async fn speak(
        &mut self,
        frames: &mpsc::Sender<Frame>,
        stream: &mut (impl StreamExt<Item = Result<Frame, tungstenite::Error>> + Unpin),
        heard: &LastReceived,
    ) -> Result<Lost, Finished> {
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        let quiet = self.unnoticed / 3;
        let mut silence = SilenceWatch::new(heard.clone(), quiet, self.unnoticed - quiet);
        // The held calls come first: the service may consider others lost.
        let mut next = Some(self.exchange.heartbeat(Some((self.clock)())));
        let mut is_abandoned = false;
        loop {
            let now = self.epoch.elapsed();
            next = next.or_else(|| self.exchange.next(now));
            if is_abandoned && self.exchange.is_quiet() {
                let _ = frames.try_send(Frame::Close(None));
                return Err(Finished);
            }
            let wake = self.exchange.wakes_at().unwrap_or(Duration::MAX);
            let wake = self.epoch + wake.min(now + LOOK_EVERY);
            tokio::select! {
                // Reading comes first, so a task that was delayed does not mistake its own delay for silence.
                biased;
                frame = stream.next() => {
                    if matches!(frame, Some(Ok(Frame::Pong(_)))) {
                        silence.answered();
                    }
                    if !self.read(frame, now) {
                        return Ok(Lost::Closed);
                    }
                }
                request = self.waiting.recv(), if !is_abandoned => match request {
                    Some(request) => self.take(request),
                    None => is_abandoned = true,
                },
                permit = frames.reserve(), if next.is_some() => match (permit, next.take()) {
                    (Ok(permit), Some(text)) => permit.send(Frame::text(text)),
                    _ => return Ok(Lost::Closed),
                },
                _ = heartbeat.tick() => {
                    self.close_dropped_calls();
                    let text = self.exchange.heartbeat(Some((self.clock)()));
                    // A full queue already shows the service that this side lives.
                    let _ = frames.try_send(Frame::text(text));
                }
                () = sleep_until(silence.due()) => {
                    let now = Instant::now();
                    let silent = now - heard.last();
                    match silence.look(now) {
                        Silence::Fine if silent < SILENCE_MAX => {}
                        Silence::Ping if silent < SILENCE_MAX => {
                            drop(frames.try_send(Frame::Ping(Bytes::new())));
                        }
                        _ => {
                            tracing::warn!(silent_ms = silent.as_millis(), "the service is silent");
                            return Ok(Lost::Silent);
                        }
                    }
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Returns whether the socket is still usable.
    fn read(&mut self, frame: Option<Result<Frame, tungstenite::Error>>, now: Duration) -> bool {
        match frame {
            Some(Ok(Frame::Text(text))) => {
                for (key, event) in self.exchange.on_frame(&text, now) {
                    self.tell(key, event);
                }
                true
            }
            Some(Ok(Frame::Close(frame))) => {
                let words = frame.map(|frame| frame.to_string()).unwrap_or_default();
                tracing::warn!(words, "the service closes the socket");
                false
            }
            Some(Ok(_)) => true,
            Some(Err(error)) => {
                tracing::warn!(%error, "the socket to the service is lost");
                false
            }
            None => false,
        }
    }

    fn close_dropped_calls(&mut self) {
        let at = (self.clock)();
        let calls = self.calls.iter();
        let closed: Vec<CallKey> = calls
            .filter(|(_, events)| events.is_closed())
            .map(|(key, _)| *key)
            .collect();
        for key in closed {
            self.take(Request::Close(key, at));
        }
    }
}

fn wait_ms(error: &SocketError, failures: u32) -> u64 {
    match error {
        SocketError::Status(401 | 403) => REDIAL_MS_REFUSED,
        _ => (REDIAL_MS_FIRST << failures.min(10)).min(REDIAL_MS_MAX),
    }
}

#[cfg(test)]
mod tests;
