//! A simulated server with the three endpoints of a pipeline: it writes speech down, answers in text, and speaks with tones.
//!
//! It enforces the documented rules of OpenAI's interface ([`rules`]). A violation is recorded and answered with 400;
//! [`FakePipeline::broken_rules`] collects violations, and tests end with none. Tests make it misbehave ([`ServerReaction`]).

mod answers;
mod connection;
mod rules;

use std::{
    collections::{HashMap, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::net::TcpListener;

pub use self::rules::messages as check_messages;
use crate::{aside::ServerThread, wait::eventually};

/// The only accepted key.
pub const KEY: &str = "key-of-the-fake";
/// A model of each endpoint that it knows.
pub const MODEL: &str = "fake-1";

/// One of the three endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    Stt,
    Llm,
    Tts,
}

/// The reaction to one request.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerReaction {
    /// This text: what was said, or the model's answer, word by word.
    Text(&'static str),
    /// A text, and calls of functions in pieces.
    Call(&'static str, Vec<(&'static str, Value)>),
    /// These events of a stream, unchanged, and its end.
    Events(Vec<Value>),
    /// A refusal with this code, and perhaps `Retry-After`.
    Status(u16, &'static str, Option<u32>),
    /// Never answers.
    Silence,
    /// Begins, and then sends nothing more.
    Stall,
    /// Begins, and then breaks the connection.
    Cut,
    /// Sends without end.
    Endless,
    /// Sends the usual speech as a WAV file of 12 kHz.
    Wav,
    /// Sends speech that is compressed.
    Mp3,
    /// An answer without content.
    Empty,
}

/// A request with its audio.
#[derive(Debug, Clone)]
pub struct ReceivedCall {
    pub endpoint: Endpoint,
    /// The JSON, or the fields of the form.
    pub body: Value,
    /// Of the audio: its length and the part with voice.
    pub audio_ms: u64,
    pub voice_ms: u64,
    pub at: Instant,
    /// When the client closed the connection in mid-answer.
    pub cancelled: Option<Instant>,
}

impl ReceivedCall {
    /// The last message to the language model.
    pub fn last_message(&self) -> &str {
        let messages = self.body["messages"].as_array();
        let last = messages.and_then(|all| all.last());
        last.and_then(|it| it["content"].as_str())
            .unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<ReceivedCall>,
    reactions: HashMap<Endpoint, VecDeque<ServerReaction>>,
    broken: Vec<String>,
    takes_no_key: bool,
    refuses_usage: bool,
    connections: usize,
    senses: Option<(Ears, Mouth)>,
}

/// Writes a WAV file down.
pub type Ears = fn(&[u8]) -> String;
/// Speaks a text: bytes of samples at 24 kHz.
pub type Mouth = fn(&str) -> Vec<u8>;

type Shared = Arc<Mutex<State>>;

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct FakePipeline {
    pub address: SocketAddr,
    shared: Shared,
    _serving: ServerThread,
}

impl FakePipeline {
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::default();
        let serving = shared.clone();
        Self {
            address,
            shared,
            _serving: ServerThread::run(move || accept(listener, serving)),
        }
    }

    /// The value for the `url` of each endpoint; the key is [`KEY`], the model [`MODEL`].
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on no key is expected, and a request with a key is refused.
    pub fn takes_no_key(&self) {
        self.shared.lock().unwrap().takes_no_key = true;
    }

    /// From now on `stream_options` is refused.
    pub fn refuses_usage(&self) {
        self.shared.lock().unwrap().refuses_usage = true;
    }

    /// From now on speech is written down and spoken by these.
    pub fn work_with(&self, ears: Ears, mouth: Mouth) {
        self.shared.lock().unwrap().senses = Some((ears, mouth));
    }

    /// Queues reactions of an endpoint. Without one it does its work.
    pub fn react(&self, endpoint: Endpoint, reactions: impl IntoIterator<Item = ServerReaction>) {
        let mut state = self.shared.lock().unwrap();
        let queue = state.reactions.entry(endpoint).or_default();
        queue.extend(reactions);
    }

    /// The requests so far.
    pub fn calls(&self, endpoint: Endpoint) -> Vec<ReceivedCall> {
        let state = self.shared.lock().unwrap();
        let calls = state.calls.iter().filter(|it| it.endpoint == endpoint);
        calls.cloned().collect()
    }

    /// Connections that were opened.
    pub fn connections(&self) -> usize {
        self.shared.lock().unwrap().connections
    }

    /// The violations so far.
    pub fn broken_rules(&self) -> Vec<String> {
        self.shared.lock().unwrap().broken.clone()
    }

    /// Waits until `wanted` returns a value for the requests of an endpoint.
    pub async fn wait<T>(
        &self,
        what: &str,
        endpoint: Endpoint,
        wanted: impl Fn(&[ReceivedCall]) -> Option<T>,
    ) -> T {
        eventually(what, async || wanted(&self.calls(endpoint))).await
    }
}

async fn accept(listener: std::net::TcpListener, shared: Shared) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        shared.lock().unwrap().connections += 1;
        tokio::spawn(connection::serve(stream, shared.clone()));
    }
}
