//! A simulated model with the protocol of OpenAI Realtime: it measures speech, answers with tones, and calls functions.
//!
//! It enforces the service's documented or known rules ([`rules`]). A violation is recorded, and closes the connection or is
//! answered with an error, as the service does; [`FakeOpenAi::broken_rules`] collects violations, and tests end with none.
//!
//! Tests make it misbehave at the start of a connection ([`RealtimeBegin`]) or at any time ([`RealtimeAct`]).

mod connection;
mod line;
mod rules;
mod speech;

use std::{
    collections::{HashMap, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{net::TcpListener, sync::mpsc};

pub use self::line::RealtimeLine;
use crate::{aside::ServerThread, wait::eventually};

/// The only accepted key.
pub const KEY: &str = "key-of-the-fake";
/// A model that it knows.
pub const MODEL: &str = "gpt-realtime-2.1";

/// The start of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RealtimeBegin {
    Normally,
    /// Answers the upgrade with this status.
    Status(u16),
    /// Sends an error with this code in place of `session.created`, and closes with 3000.
    Error(&'static str),
    /// Answers the first update with an error of this code.
    RefuseUpdate(&'static str),
    /// Never sends `session.created`.
    Silence,
    /// Sends the names of the former beta.
    BetaNames,
    /// Refuses responses beside the conversation (sip-to-ai#12).
    OnlyWithin,
}

/// An action of the model on the newest connection that is set up.
#[derive(Debug, Clone, PartialEq)]
pub enum RealtimeAct {
    /// Starts a response and speaks for this long, without ending it.
    Begin {
        milliseconds: u64,
    },
    /// Sends more audio of the response that was last active, although it is over.
    Late {
        milliseconds: u64,
    },
    /// Ends the running response.
    End,
    /// A turn of the model.
    Answer(RealtimeReaction),
    /// Detects the caller's voice, without any.
    SpeechStarted,
    SpeechStopped,
    /// An error event with this code.
    Error {
        code: &'static str,
    },
    Close {
        code: u16,
        reason: &'static str,
    },
    /// Drops the connection without a close frame.
    Cut,
    Text(String),
    /// Sends an event unchanged.
    Event(Value),
}

/// The model's reaction to speech or text.
#[derive(Debug, Clone, PartialEq)]
pub enum RealtimeReaction {
    Say {
        text: String,
        milliseconds: u64,
    },
    /// The same with the words before the speech.
    WordsFirst {
        text: String,
        milliseconds: u64,
    },
    /// Says goodbye, and calls `end_call`.
    HangUp {
        text: String,
        milliseconds: u64,
    },
    /// Begins to speak, and never ends its response.
    Stall {
        text: String,
        milliseconds: u64,
    },
    /// Ends its response without a word.
    Empty,
    /// Answers in writing, although speech is wanted (AVA).
    Write(String),
    /// Calls functions: their names and arguments.
    Call(Vec<(String, Value)>),
    /// The response fails with this code.
    Fail(&'static str),
    Nothing,
}

/// Log of one connection.
#[derive(Debug, Clone, Default)]
pub struct RealtimeConnection {
    /// The request's query.
    pub query: String,
    /// The session of the accepted update; null before.
    pub session: Value,
    /// Time at which the update was accepted.
    pub set_up: Option<Instant>,
    /// Events after the update, without audio.
    pub events: Vec<Value>,
    /// Received audio, and the part with voice, in milliseconds.
    pub audio_ms: u64,
    pub voice_ms: u64,
    /// Messages that wait because the peer does not read.
    pub unsent: Arc<AtomicUsize>,
    pub broken: Vec<String>,
    pub over: Option<Instant>,
}

impl RealtimeConnection {
    /// The received events of a type.
    pub fn of_type(&self, kind: &str) -> Vec<Value> {
        let events = self.events.iter().filter(|event| event["type"] == kind);
        events.cloned().collect()
    }

    /// The texts of created items, with their roles.
    pub fn texts(&self) -> Vec<(String, String)> {
        let items = self.of_type("conversation.item.create");
        let text = |event: &Value| {
            let role = event["item"]["role"].as_str()?;
            let text = event["item"]["content"][0]["text"].as_str()?;
            Some((role.to_owned(), text.to_owned()))
        };
        items.iter().filter_map(text).collect()
    }

    /// The outcomes of functions, by call id.
    pub fn function_outputs(&self) -> Vec<(String, String)> {
        let items = self.of_type("conversation.item.create");
        let output = |event: &Value| {
            let id = event["item"]["call_id"].as_str()?;
            let output = event["item"]["output"].as_str()?;
            Some((id.to_owned(), output.to_owned()))
        };
        items.iter().filter_map(output).collect()
    }
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<RealtimeConnection>,
    acts: HashMap<usize, mpsc::UnboundedSender<RealtimeAct>>,
    begins: VecDeque<RealtimeBegin>,
    answers: VecDeque<RealtimeReaction>,
    takes_no_key: bool,
    /// Speech in place of tones.
    recording: Option<Arc<[u8]>>,
    /// No sound is a voice.
    is_deaf: bool,
}

type Shared = Arc<Mutex<State>>;

/// A running model; dropping it stops the server.
#[derive(Debug)]
pub struct FakeOpenAi {
    pub address: SocketAddr,
    shared: Shared,
    _serving: ServerThread,
}

impl FakeOpenAi {
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::default();
        let serving = shared.clone();
        let aside = ServerThread::run(move || accept(listener, serving));
        Self {
            address,
            shared,
            _serving: aside,
        }
    }

    /// A connection without a socket, for simulated time.
    pub fn line(&self) -> RealtimeLine {
        RealtimeLine::open(&self.shared)
    }

    /// The value for `telephony.openai.url`; the key is [`KEY`], the model [`MODEL`].
    pub fn url(&self) -> String {
        format!("ws://{}/v1/realtime", self.address)
    }

    /// From now on no key is expected, and a request with a key is refused.
    pub fn takes_no_key(&self) {
        self.shared.lock().unwrap().takes_no_key = true;
    }

    /// From now on speech is the first of this recording in place of a tone: samples of 16 bits at 24 kHz.
    pub fn speaks(&self, recording: &[u8]) {
        self.shared.lock().unwrap().recording = Some(recording.into());
    }

    /// While this is true, no sound is a voice.
    pub fn is_deaf(&self, is_deaf: bool) {
        self.shared.lock().unwrap().is_deaf = is_deaf;
    }

    /// Sets the starts of the next connections, in order; later connections start normally.
    pub fn begin(&self, begins: impl IntoIterator<Item = RealtimeBegin>) {
        self.shared.lock().unwrap().begins.extend(begins);
    }

    /// Queues reactions, that to the greeting being the first. Without one the model says what it heard.
    pub fn answer(&self, answers: impl IntoIterator<Item = RealtimeReaction>) {
        self.shared.lock().unwrap().answers.extend(answers);
    }

    /// Performs an action on the newest connection that is set up.
    pub fn act(&self, act: RealtimeAct) {
        let state = self.shared.lock().unwrap();
        let newest = state
            .connections
            .iter()
            .rposition(|one| one.set_up.is_some() && one.over.is_none())
            .expect("a connection that is set up");
        state.acts[&newest].send(act).unwrap();
    }

    pub fn connections(&self) -> Vec<RealtimeConnection> {
        self.shared.lock().unwrap().connections.clone()
    }

    /// The violations of all connections.
    pub fn broken_rules(&self) -> Vec<String> {
        let connections = self.connections().into_iter();
        connections.flat_map(|one| one.broken).collect()
    }

    /// Waits until `wanted` returns a value for the connections.
    pub async fn wait<T>(
        &self,
        what: &str,
        wanted: impl Fn(&[RealtimeConnection]) -> Option<T>,
    ) -> T {
        eventually(what, async || {
            let connections = self.connections();
            wanted(&connections)
        })
        .await
    }
}

async fn accept(listener: std::net::TcpListener, shared: Shared) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (number, begin, acts) = {
            let mut state = shared.lock().unwrap();
            let number = state.connections.len();
            state.connections.push(RealtimeConnection::default());
            let (sender, acts) = mpsc::unbounded_channel();
            state.acts.insert(number, sender);
            let begin = state.begins.pop_front();
            (number, begin.unwrap_or(RealtimeBegin::Normally), acts)
        };
        tokio::spawn(connection::serve(
            stream,
            number,
            begin,
            acts,
            shared.clone(),
        ));
    }
}
