//! A model that speaks Gemini Live: it hears how long somebody spoke, answers with tones, and calls functions.
//!
//! It is as strict as the service is documented or known to be ([`rules`]): what breaks a rule is answered with a close of 1007 or 1008
//! and the reason, which [`Gemini::broken_rules`] collects, so that a test ends with none. And it misbehaves as it is told, when a
//! connection begins ([`Begin`]) or at any moment ([`Act`]).

mod connection;
mod rules;
mod sound;
mod wire;

use std::{
    collections::{HashMap, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{net::TcpListener, sync::mpsc};

use crate::{aside::Aside, wait::eventually};

/// The key that is taken.
pub const KEY: &str = "key-of-the-fake";

/// How a connection begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    Normally,
    /// The upgrade is answered with this status.
    Status(u16),
    /// The setup is taken after so long.
    Slowly(Duration),
    /// The setup is answered with this close.
    Close(u16, &'static str),
    /// The setup is never answered.
    Silence,
    /// No handle is ever given.
    WithoutHandles,
}

/// What the model does at any moment, on the newest connection that is set up.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    Say {
        text: String,
        milliseconds: u64,
    },
    /// Begins to say so much and does not end its turn.
    Begin {
        milliseconds: u64,
    },
    /// The same in messages of so much each.
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
    /// Says so, and closes with 1011 when the time is over.
    GoAway {
        time_left: Duration,
    },
    /// The newest state cannot be resumed; the handle that was given before can.
    Unresumable,
    /// Every handle that was given so far is forgotten.
    Forget,
    Close {
        code: u16,
        reason: &'static str,
    },
    /// The connection is gone without a word.
    Cut,
    Text(String),
    Binary(Vec<u8>),
    /// A message in frames of so many bytes.
    Fragments {
        message: Value,
        bytes: usize,
    },
    /// A message as it is given.
    Message(Value),
}

/// What the model does when it was spoken to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Say { text: String, milliseconds: u64 },
    Call { name: String, arguments: Value },
    Nothing,
}

/// One connection, as it went so far.
#[derive(Debug, Clone, Default)]
pub struct Connection {
    pub opened: Option<Instant>,
    /// Null until it came.
    pub setup: Value,
    /// When the setup was taken.
    pub set_up: Option<Instant>,
    /// What came after the setup, without audio.
    pub messages: Vec<Value>,
    /// Audio that came: milliseconds, those of them with voice in them, and the lengths of its pieces.
    pub audio_ms: u64,
    pub voice_ms: u64,
    pub shortest_ms: u64,
    pub longest_ms: u64,
    /// Messages that wait until the other side reads on.
    pub unsent: Arc<AtomicUsize>,
    /// The rule that was broken.
    pub broken: Option<String>,
    pub over: Option<Instant>,
}

impl Connection {
    /// The texts that came, in realtime or as the last turn.
    pub fn texts(&self) -> Vec<String> {
        let of = |message: &Value| {
            let last = message["clientContent"]["turns"].as_array();
            let last = last.and_then(|turns| turns.last()?["parts"][0]["text"].as_str());
            let text = message["realtimeInput"]["text"].as_str().or(last)?;
            Some(text.to_owned())
        };
        self.messages.iter().filter_map(of).collect()
    }

    /// The answers of functions that came.
    pub fn function_responses(&self) -> Vec<Value> {
        let of = |message: &Value| {
            message["toolResponse"]["functionResponses"]
                .as_array()
                .cloned()
        };
        self.messages.iter().filter_map(of).flatten().collect()
    }

    /// The handle that it began with.
    pub fn handle(&self) -> Option<&str> {
        self.setup["sessionResumption"]["handle"].as_str()
    }
}

#[derive(Debug, Default)]
struct State {
    connections: Vec<Connection>,
    acts: HashMap<usize, mpsc::UnboundedSender<Act>>,
    begins: VecDeque<Begin>,
    answers: VecDeque<Answer>,
    /// What each connection does by itself.
    script: Vec<Answer>,
    /// What a handle stands for.
    handles: HashMap<String, rules::Memory>,
    /// Sessions that a socket has.
    taken: HashMap<u64, usize>,
    sessions: u64,
    given: u64,
    takes_no_key: bool,
}

type Shared = Arc<Mutex<State>>;

/// A running model; it ends with this value.
#[derive(Debug)]
pub struct Gemini {
    pub address: SocketAddr,
    shared: Shared,
    _serving: Aside,
}

impl Gemini {
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::default();
        let serving = shared.clone();
        let aside = Aside::run(move || accept(listener, serving));
        Self {
            address,
            shared,
            _serving: aside,
        }
    }

    /// What `telephony.gemini.url` is to be; the key is [`KEY`].
    pub fn url(&self) -> String {
        format!("ws://{}/ws/fake.BidiGenerateContent", self.address)
    }

    /// From now on no key is wanted, and an address with one in it is not known.
    pub fn takes_no_key(&self) {
        self.shared.lock().unwrap().takes_no_key = true;
    }

    /// How the next connections begin, one after the other; those after them normally.
    pub fn begin(&self, begins: impl IntoIterator<Item = Begin>) {
        self.shared.lock().unwrap().begins.extend(begins);
    }

    /// What is done when the model was spoken to, one after the other: the greeting is the first. Otherwise it says what it heard.
    pub fn answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.lock().unwrap().answers.extend(answers);
    }

    /// What each connection to come does when the model was spoken to, one after the other, where [`Gemini::answer`] says nothing.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.lock().unwrap().script = answers.into_iter().collect();
    }

    /// Does something on the newest connection that is set up.
    pub fn act(&self, act: Act) {
        let state = self.shared.lock().unwrap();
        let newest = state
            .connections
            .iter()
            .rposition(|one| one.set_up.is_some() && one.over.is_none())
            .expect("a connection that is set up");
        state.acts[&newest].send(act).unwrap();
    }

    /// Every connection so far.
    pub fn connections(&self) -> Vec<Connection> {
        self.shared.lock().unwrap().connections.clone()
    }

    /// The rules that were broken.
    pub fn broken_rules(&self) -> Vec<String> {
        let connections = self.connections();
        connections
            .into_iter()
            .filter_map(|one| one.broken)
            .collect()
    }

    /// Waits until the connections are as wanted.
    pub async fn wait<T>(&self, what: &str, wanted: impl Fn(&[Connection]) -> Option<T>) -> T {
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
            state.connections.push(Connection {
                opened: Some(Instant::now()),
                ..Connection::default()
            });
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
