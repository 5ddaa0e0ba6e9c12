//! One WebSocket to the service, read and written.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use dikala_protocol::client::socket::{
    ClientSocket, SocketError, dial, read_budget::ReadBudget, silence::LastReceived,
};
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use serde::Serialize;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::tungstenite::{
    self, Bytes, Message,
    http::{HeaderName, HeaderValue},
    protocol::CloseFrame,
};

use super::{
    exchange::{CloseReason, SessionInput, SocketMachine},
    shell::Transport,
};
use crate::trust::Trust;

/// A second of the agent's audio is 64 KB as text; no legitimate message is this long.
const MESSAGE_MOST: usize = 4 * 1024 * 1024;
/// Time limit for the service to read a message.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for closing a socket from this side.
const CLOSING: Duration = Duration::from_secs(1);
/// Time without a byte after which a ping is sent, to keep the connection open in routers. Pongs of Gemini were measured 8 to 30 s
/// late (aicc2025/sip-to-ai, pull request 14), so nothing is concluded from them.
const QUIET: Duration = Duration::from_secs(15);
/// Time of sending without a byte in return after which the connection counts as lost.
const UNANSWERED: Duration = Duration::from_secs(45);
/// Pauses of sending from this length on begin that time anew.
const PAUSE: Duration = Duration::from_secs(5);
/// Interval of looks at the two.
const LOOK: Duration = Duration::from_secs(5);

/// The address of a service. It is never logged, because it may contain the key.
pub(in crate::voice) struct ModelEndpoint {
    /// The setting that has the address.
    pub setting: &'static str,
    pub url: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The API key, or nothing; it is removed from the service's words.
    pub key: String,
}

/// The sockets of one session.
pub(in crate::voice) struct Sockets {
    endpoint: Arc<ModelEndpoint>,
    trust: Trust,
    budget: Arc<ReadBudget>,
}

impl Sockets {
    pub(in crate::voice) fn new(endpoint: ModelEndpoint, trust: Trust) -> Self {
        Self {
            endpoint: Arc::new(endpoint),
            trust,
            budget: Arc::new(ReadBudget::new(Instant::now())),
        }
    }
}

impl<V: SocketMachine> Transport<V> for Sockets {
    fn carry(
        &self,
        connection: u32,
        outgoing: mpsc::Receiver<V::Sent>,
        events: mpsc::Sender<SessionInput<V::Received>>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (endpoint, trust) = (self.endpoint.clone(), self.trust.clone());
        carry::<V>(
            connection,
            endpoint,
            trust,
            self.budget.clone(),
            outgoing,
            events,
        )
    }
}

/// Messages that are sent without a pause: when they began, and when the last one was sent.
#[derive(Debug, Clone, Default)]
struct SendingRun(Arc<Mutex<Option<(Instant, Instant)>>>);

impl SendingRun {
    fn sent(&self, now: Instant) {
        let mut run = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let began = run.filter(|(_, last)| now < *last + PAUSE);
        *run = Some((began.map_or(now, |(began, _)| began), now));
    }

    /// How long messages are being sent since a byte was received.
    fn unanswered(&self, heard: Instant, now: Instant) -> Duration {
        let run = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = run.filter(|(_, last)| now < *last + PAUSE);
        since.map_or(Duration::ZERO, |(began, _)| {
            now.saturating_duration_since(began.max(heard))
        })
    }
}

/// Opens the socket, and carries messages until either side ends it. Dropping the sender of `outgoing` closes it.
async fn carry<V: SocketMachine>(
    connection: u32,
    endpoint: Arc<ModelEndpoint>,
    trust: Trust,
    budget: Arc<ReadBudget>,
    mut outgoing: mpsc::Receiver<V::Sent>,
    events: mpsc::Sender<SessionInput<V::Received>>,
) {
    let why = match connect(&endpoint, &trust, Some(budget.clone())).await {
        Err(why) => why,
        Ok(socket) => {
            if events
                .send(SessionInput::Opened { connection })
                .await
                .is_err()
            {
                return;
            }
            let heard = socket.get_ref().heard();
            let run = SendingRun::default();
            let (mut sink, mut stream) = socket.split();
            let (pings, mut due) = mpsc::channel(1);
            let key = &endpoint.key;
            let reading = read::<V>(
                connection,
                &mut stream,
                &events,
                key,
                &budget,
                (heard, run.clone(), pings),
            );
            tokio::pin!(reading);
            let written = tokio::select! {
                why = &mut reading => Err(why),
                written = write(&mut sink, &mut outgoing, &mut due, &run) => Ok(written),
            };
            match written {
                Err(why) => why,
                // The reason for a close may still be unread when a write fails.
                Ok(written) => {
                    let otherwise = written
                        .err()
                        .unwrap_or_else(|| CloseReason::gone("it does not close"));
                    timeout(CLOSING, reading).await.unwrap_or(otherwise)
                }
            }
        }
    };
    // Fails if the session is over.
    let _ = events.send(SessionInput::Closed { connection, why }).await;
}

/// Opens the socket.
pub(in crate::voice) async fn connect(
    endpoint: &ModelEndpoint,
    trust: &Trust,
    budget: Option<Arc<ReadBudget>>,
) -> Result<ClientSocket, CloseReason> {
    let (headers, connector) = (endpoint.headers.clone(), trust.connector());
    let dialled = dial(&endpoint.url, &connector, headers, MESSAGE_MOST, budget);
    dialled.await.map_err(|error| CloseReason {
        refused: match error {
            SocketError::Status(status) => (400..500).contains(&status) && status != 429,
            SocketError::Address => true,
            _ => false,
        },
        is_final: matches!(
            error,
            SocketError::Address | SocketError::Status(401 | 403 | 404)
        ),
        words: match error {
            SocketError::Address => format!(
                "{} is no address; it begins with ws:// or wss://",
                endpoint.setting
            ),
            error => shown(&error.to_string(), &endpoint.key),
        },
        retry_after: None,
    })
}

async fn read<V: SocketMachine>(
    connection: u32,
    stream: &mut (impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin),
    events: &mpsc::Sender<SessionInput<V::Received>>,
    key: &str,
    budget: &ReadBudget,
    (heard, run, pings): (LastReceived, SendingRun, mpsc::Sender<()>),
) -> CloseReason {
    // The service may be silent until its first message; the setup has its own time limit.
    let mut is_watched = false;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pinged = Instant::now();
    loop {
        let message = tokio::select! {
            biased;
            message = stream.next() => message,
            now = looks.tick(), if is_watched => {
                let last = heard.last();
                if run.unanswered(last, now) >= UNANSWERED {
                    return CloseReason::gone("much was sent, and nothing came back");
                }
                if now >= last.max(pinged) + QUIET {
                    pinged = now;
                    // A ping that still waits to be written is enough.
                    let _ = pings.try_send(());
                }
                continue;
            }
        };
        budget.spend_message(Instant::now());
        let input = match message {
            // Google sends its JSON in binary frames.
            Some(Ok(Message::Text(text))) => parse::<V>(connection, text.as_bytes()),
            Some(Ok(Message::Binary(bytes))) => parse::<V>(connection, &bytes),
            Some(Ok(Message::Close(frame))) => return closed(frame, key),
            Some(Ok(Message::Pong(_))) => continue,
            Some(Ok(_)) => continue,
            Some(Err(error)) => return CloseReason::gone(&broken(&error)),
            None => return CloseReason::gone("the connection ended without a word"),
        };
        is_watched = true;
        // While the call has enough to play, it reads nothing.
        if events.send(input).await.is_err() {
            return CloseReason::gone("the session is over");
        }
        heard.note(Instant::now());
    }
}

fn parse<V: SocketMachine>(connection: u32, bytes: &[u8]) -> SessionInput<V::Received> {
    match V::read(bytes) {
        Some(message) => SessionInput::Message {
            connection,
            message: Box::new(message),
        },
        None => SessionInput::Rubbish { connection },
    }
}

async fn write<M: Serialize>(
    sink: &mut (impl Sink<Message, Error = tungstenite::Error> + Unpin),
    outgoing: &mut mpsc::Receiver<M>,
    pings: &mut mpsc::Receiver<()>,
    run: &SendingRun,
) -> Result<(), CloseReason> {
    loop {
        let message = tokio::select! {
            biased;
            Some(()) = pings.recv() => Message::Ping(Bytes::new()),
            message = outgoing.recv() => match message.as_ref().map(serde_json::to_string) {
                Some(Ok(text)) => {
                    run.sent(Instant::now());
                    Message::text(text)
                }
                Some(Err(_)) => continue,
                None => break,
            },
        };
        match timeout(PATIENCE, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(CloseReason::gone(&broken(&error))),
            Err(_) => return Err(CloseReason::gone("the service does not read")),
        }
    }
    match timeout(CLOSING, sink.close()).await {
        Ok(Err(error)) => Err(CloseReason::gone(&broken(&error))),
        Ok(Ok(())) | Err(_) => Ok(()),
    }
}

/// The service's reason; 1007 and 1008 reject what was sent.
pub(in crate::voice) fn closed(frame: Option<CloseFrame>, key: &str) -> CloseReason {
    let Some(frame) = frame else {
        return CloseReason::gone("the service closed the connection");
    };
    let code = u16::from(frame.code);
    let reason = shown(&frame.reason, key);
    CloseReason {
        refused: matches!(code, 1007 | 1008),
        is_final: false,
        words: format!("the service closed the connection with {code} {reason}")
            .trim_end()
            .to_owned(),
        retry_after: None,
    }
}

/// Text of the service on one line, in ASCII, without the API key and without numbers, which may be telephone numbers.
pub(in crate::voice) fn shown(text: &str, key: &str) -> String {
    let text = match key {
        "" => text.to_owned(),
        key => text.replace(key, "…"),
    };
    let one_line = |each: char| match each {
        '…' | ' '..='~' => each,
        _ => ' ',
    };
    let line: String = text.chars().map(one_line).collect();
    let is_number = |word: &str| word.bytes().filter(u8::is_ascii_digit).count() >= 6;
    let words = line.split(' ').map(|word| match is_number(word) {
        true => "…",
        false => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(in crate::voice) fn broken(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Io(error) => format!("the connection broke ({})", error.kind()),
        tungstenite::Error::Capacity(_) => "it sent a message that is too long".to_owned(),
        tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_) => {
            "it does not keep to the WebSocket protocol".to_owned()
        }
        _ => "the connection broke".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};

    use super::*;

    #[test]
    fn a_connection_is_lost_once_much_was_sent_and_nothing_came_back() {
        let epoch = Instant::now();
        let after = |seconds| epoch + Duration::from_secs(seconds);
        let run = SendingRun::default();
        let sends = |seconds: std::ops::Range<u64>| seconds.for_each(|at| run.sent(after(at)));
        let unanswered = |heard, now| run.unanswered(after(heard), after(now)).as_secs();
        assert_eq!(unanswered(0, 100), 0, "nothing was sent");
        sends(0..45);
        assert_eq!(unanswered(0, 44), 44);
        assert_eq!(unanswered(20, 44), 24);
        // A call on hold sends nothing.
        assert_eq!(unanswered(0, 60), 0);
        sends(60..106);
        assert_eq!(unanswered(0, 105), 45);
    }

    #[test]
    fn a_reason_is_told_without_the_key() {
        let frame = CloseFrame {
            code: CloseCode::Policy,
            reason: "no access for\nkey-1234".into(),
        };
        let why = closed(Some(frame), "key-1234");
        assert_eq!(
            why.words,
            "the service closed the connection with 1008 no access for …"
        );
        assert!(why.refused);
        let frame = CloseFrame {
            code: CloseCode::Policy,
            reason: "caller +6281234567890 is\u{202e} 42".into(),
        };
        assert_eq!(
            closed(Some(frame), "").words,
            "the service closed the connection with 1008 caller … is  42"
        );
        assert!(!closed(None, "key-1234").refused);
    }
}
