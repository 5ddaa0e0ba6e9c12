//! A simulated model with the Gemini Live protocol: it measures speech, answers with tones, and calls functions.
//!
//! It enforces the service's documented or known rules ([`rules`]). A violation closes the connection with 1007 or
//! 1008 and the reason; [`FakeGemini::broken_rules`] collects violations, and tests end with none.
//!
//! Tests make it misbehave at the start of a connection ([`Begin`]) or at any time ([`Act`]).

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

pub use self::line::GeminiLine;
use crate::{aside::ServerThread, wait::eventually};

/// The only accepted key.
pub const KEY: &str = "key-of-the-fake";

/// The start of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    Normally,
    /// Answers the upgrade with this status.
    Status(u16),
    /// Accepts the setup after this delay.
    Slowly(Duration),
    /// Answers the setup with this close code and reason.
    Close(u16, &'static str),
    /// Never answers the setup.
    Silence,
    /// Never sends resumption handles.
    WithoutHandles,
}

/// An action of the model on the newest connection that is set up.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Say {
        text: String,
        milliseconds: u64,
    },
    /// Starts to speak for this long without ending the turn.
    Begin {
        milliseconds: u64,
    },
    /// As `Begin`, in pieces of this length.
    BeginIn {
        milliseconds: u64,
        piece_ms: u64,
    },
    Call {
        id: Option<String>,
        name: String,
        arguments: Value,
    },
    Cancel {
        id: String,
    },
    Interrupted,
    /// Announces the end, and closes with 1011 when the time is over.
    GoAway {
        time_left: Duration,
    },
    /// The current state cannot be resumed; the state of the handle before can.
    Unresumable,
    /// Invalidates all handles.
    Forget,
    Close {
        code: u16,
        reason: &'static str,
    },
    /// Drops the connection without a close frame.
    Cut,
    Text(String),
    Binary(Vec<u8>),
    /// Sends a message in frames of this size.
    Fragments {
        message: Value,
        bytes: usize,
    },
    /// Sends a message unchanged.
    Message(Value),
}

/// The model's reaction to speech.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelReaction {
    Say {
        text: String,
        milliseconds: u64,
    },
    Call {
        name: String,
        arguments: Value,
    },
    Nothing,
    /// Ends its turn without a word.
    Empty,
    /// Answers in writing alone.
    Write(String),
    /// A turn of silence with words, such as `[Silence]` (sutando#1356).
    Hush {
        text: String,
        milliseconds: u64,
    },
    /// Begins to speak, and never ends its turn.
    Stall {
        text: String,
        milliseconds: u64,
    },
    /// Ends its turn in the middle of its speech, and goes on (python-genai#2117).
    EndEarly {
        halves: [String; 2],
        milliseconds: u64,
    },
    /// Says goodbye, and calls `end_call`.
    HangUp {
        text: String,
        milliseconds: u64,
    },
}

/// Log of one connection.
#[derive(Debug, Clone, Default)]
pub struct ModelConnection {
    pub opened: Option<Instant>,
    /// Null before the setup arrived.
    pub setup: Value,
    /// Time at which the setup was accepted.
    pub set_up: Option<Instant>,
    /// Messages after the setup, without audio.
    pub messages: Vec<Value>,
    /// Received audio: its length, the length with voice, and the lengths of its pieces, in milliseconds.
    pub audio_ms: u64,
    pub voice_ms: u64,
    pub shortest_ms: u64,
    pub longest_ms: u64,
    /// Messages that wait because the peer does not read.
    pub unsent: Arc<AtomicUsize>,
    /// The violated rule.
    pub broken: Option<String>,
    pub over: Option<Instant>,
}

impl ModelConnection {
    /// The received texts, of realtime input or as the last turn.
    pub fn texts(&self) -> Vec<String> {
        let of = |message: &Value| {
            let last = message["clientContent"]["turns"].as_array();
            let last = last.and_then(|turns| turns.last()?["parts"][0]["text"].as_str());
            let text = message["realtimeInput"]["text"].as_str().or(last)?;
            Some(text.to_owned())
        };
        self.messages.iter().filter_map(of).collect()
    }

    /// The received function responses.
    pub fn function_responses(&self) -> Vec<Value> {
        let of = |message: &Value| {
            message["toolResponse"]["functionResponses"]
                .as_array()
                .cloned()
        };
        self.messages.iter().filter_map(of).flatten().collect()
    }

    /// The resumption handle that it began with.
    pub fn handle(&self) -> Option<&str> {
        self.setup["sessionResumption"]["handle"].as_str()
    }
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<ModelConnection>,
    acts: HashMap<usize, mpsc::UnboundedSender<Act>>,
    begins: VecDeque<Begin>,
    answers: VecDeque<ModelReaction>,
    /// Reactions of each connection.
    script: Vec<ModelReaction>,
    /// The session state of each handle.
    handles: HashMap<String, rules::Memory>,
    /// Number of open sockets per session.
    taken: HashMap<u64, usize>,
    sessions: u64,
    given: u64,
    takes_no_key: bool,
    splits_turns: bool,
    /// Speech in place of tones.
    recording: Option<Arc<[u8]>>,
    /// No sound is a voice.
    is_deaf: bool,
}

impl State {
    /// Begins the log of a connection, and returns its number.
    fn opened(&mut self) -> usize {
        self.connections.push(ModelConnection {
            opened: Some(Instant::now()),
            ..ModelConnection::default()
        });
        self.connections.len() - 1
    }
}

type Shared = Arc<Mutex<State>>;

/// A running model; dropping it stops the server.
#[derive(Debug)]
pub struct FakeGemini {
    pub address: SocketAddr,
    shared: Shared,
    _serving: ServerThread,
}

impl FakeGemini {
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
    pub fn line(&self) -> GeminiLine {
        GeminiLine::open(&self.shared)
    }

    /// The value for `telephony.gemini.url`; the key is [`KEY`].
    pub fn url(&self) -> String {
        format!("ws://{}/ws/fake.BidiGenerateContent", self.address)
    }

    /// From now on no key is expected, and an address with a key is unknown.
    pub fn takes_no_key(&self) {
        self.shared.lock().unwrap().takes_no_key = true;
    }

    /// From now on 2 s of voice without a pause are a turn of the caller.
    pub fn splits_turns(&self) {
        self.shared.lock().unwrap().splits_turns = true;
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
    pub fn begin(&self, begins: impl IntoIterator<Item = Begin>) {
        self.shared.lock().unwrap().begins.extend(begins);
    }

    /// Queues reactions to speech, the greeting being the first. Without one the model says what it heard.
    pub fn answer(&self, answers: impl IntoIterator<Item = ModelReaction>) {
        self.shared.lock().unwrap().answers.extend(answers);
    }

    /// Sets the reactions of each later connection, used if [`FakeGemini::answer`] queued none.
    pub fn script(&self, answers: impl IntoIterator<Item = ModelReaction>) {
        self.shared.lock().unwrap().script = answers.into_iter().collect();
    }

    /// Performs an action on the newest connection that is set up.
    pub fn act(&self, act: Act) {
        let state = self.shared.lock().unwrap();
        let newest = state
            .connections
            .iter()
            .rposition(|one| one.set_up.is_some() && one.over.is_none())
            .expect("a connection that is set up");
        state.acts[&newest].send(act).unwrap();
    }

    pub fn connections(&self) -> Vec<ModelConnection> {
        self.shared.lock().unwrap().connections.clone()
    }

    /// The violations of all connections.
    pub fn broken_rules(&self) -> Vec<String> {
        let connections = self.connections();
        connections
            .into_iter()
            .filter_map(|one| one.broken)
            .collect()
    }

    /// Waits until `wanted` returns a value for the connections.
    pub async fn wait<T>(&self, what: &str, wanted: impl Fn(&[ModelConnection]) -> Option<T>) -> T {
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
            let number = state.opened();
            let (sender, acts) = mpsc::unbounded_channel();
            state.acts.insert(number, sender);
            let begin = state.begins.pop_front().unwrap_or(Begin::Normally);
            (number, begin, acts)
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
