//! A voice session whose model is a strict fake without sockets, in simulated time: the machine of the voice alone.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use dikala_testkit::ModelLine;
use serde_json::Value;

use super::{CloseReason, SessionEffect, SessionInput, SocketMachine};
use crate::voice::{VoiceEvent, VoiceInput};

/// Time for opening a socket.
const DIAL_MS: u64 = 150;
/// The way to the model, and from it with the time that it thinks.
const TO_MODEL_MS: u64 = 40;
const FROM_MODEL_MS: u64 = 300;

/// A session of any provider.
pub(crate) trait SimulatedVoice {
    fn say(&mut self, spoken: VoiceInput, now_ms: u64);
    /// When [`SimulatedVoice::hear`] has something to do.
    fn due(&self) -> Option<u64>;
    /// Does what is due, and returns what the call is told.
    fn hear(&mut self, now_ms: u64) -> Vec<VoiceEvent>;
    /// Breaks the connections. Returns how many there were.
    fn cut(&mut self, now_ms: u64) -> usize;
    /// From now on nothing answers at the provider's address, or it answers again.
    fn set_down(&mut self, is_down: bool);
}

/// Opens connections to a fake.
pub(in crate::voice) type OpenLine = Box<dyn Fn() -> Box<dyn ModelLine>>;

pub(in crate::voice) struct SimulatedSession<V: SocketMachine> {
    machine: V,
    open_line: OpenLine,
    began_ms: u64,
    lines: HashMap<u32, (Box<dyn ModelLine>, u64)>,
    /// Messages and news on their way, by the time of their arrival.
    coming: BTreeMap<(u64, u64), OnItsWay>,
    sent: u64,
    told: Vec<VoiceEvent>,
    is_down: bool,
}

enum OnItsWay {
    Opened(u32),
    ToModel(u32, Value),
    FromModel(u32, Vec<u8>),
    Closed(u32, &'static str),
}

impl<V: SocketMachine> SimulatedSession<V> {
    pub(in crate::voice) fn new(machine: V, open_line: OpenLine, now_ms: u64) -> Self {
        let mut session = Self {
            machine,
            open_line,
            began_ms: now_ms,
            lines: HashMap::new(),
            coming: BTreeMap::new(),
            sent: 0,
            told: Vec::new(),
            is_down: false,
        };
        session.step(SessionInput::Time, now_ms);
        session
    }

    fn send(&mut self, at_ms: u64, what: OnItsWay) {
        self.sent += 1;
        self.coming.insert((at_ms, self.sent), what);
    }

    fn step(&mut self, input: SessionInput<V::Received>, now_ms: u64) {
        let now = Duration::from_millis(now_ms - self.began_ms);
        for effect in self.machine.step(input, now) {
            match effect {
                SessionEffect::Open { connection } if self.is_down => {
                    self.send(
                        now_ms + DIAL_MS,
                        OnItsWay::Closed(connection, "nothing answers"),
                    );
                }
                SessionEffect::Open { connection } => {
                    self.send(now_ms + DIAL_MS, OnItsWay::Opened(connection));
                }
                SessionEffect::Send {
                    connection,
                    message,
                } => {
                    let message = serde_json::to_value(message).expect("a message");
                    let message = OnItsWay::ToModel(connection, message);
                    self.send(now_ms + TO_MODEL_MS, message);
                }
                SessionEffect::Close { connection } => drop(self.lines.remove(&connection)),
                SessionEffect::Tell(heard) => self.told.push(heard),
                SessionEffect::Warn(_) => {}
            }
        }
    }

    fn arrive(&mut self, what: OnItsWay, now_ms: u64) {
        match what {
            OnItsWay::Opened(connection) => {
                self.lines.insert(connection, ((self.open_line)(), now_ms));
                self.step(SessionInput::Opened { connection }, now_ms);
            }
            OnItsWay::ToModel(connection, message) => {
                if let Some((line, since)) = self.lines.get_mut(&connection) {
                    line.take(message, Duration::from_millis(now_ms - *since));
                }
            }
            OnItsWay::FromModel(connection, bytes) => {
                if !self.lines.contains_key(&connection) {
                    return;
                }
                let message = Box::new(V::read(&bytes).expect("a readable message"));
                let message = SessionInput::Message {
                    connection,
                    message,
                };
                self.step(message, now_ms);
            }
            OnItsWay::Closed(connection, words) => {
                self.lines.remove(&connection);
                let why = CloseReason::gone(words);
                self.step(SessionInput::Closed { connection, why }, now_ms);
            }
        }
    }

    /// Lets what the model has sent go on its way.
    fn collect(&mut self, now_ms: u64) {
        let mut from_model = Vec::new();
        for (connection, (line, _)) in &mut self.lines {
            let sent = line.sent().into_iter();
            from_model.extend(sent.map(|bytes| OnItsWay::FromModel(*connection, bytes)));
            if line.is_closed() {
                from_model.push(OnItsWay::Closed(*connection, "a rule was broken"));
            }
        }
        for message in from_model {
            self.send(now_ms + FROM_MODEL_MS, message);
        }
    }

    fn machine_due(&self) -> Option<u64> {
        let due = self.machine.due()?;
        Some(self.began_ms + u64::try_from(due.as_millis()).unwrap_or(u64::MAX))
    }
}

impl<V: SocketMachine> SimulatedVoice for SimulatedSession<V> {
    fn say(&mut self, spoken: VoiceInput, now_ms: u64) {
        self.step(SessionInput::Spoken(spoken), now_ms);
    }

    fn due(&self) -> Option<u64> {
        let coming = self.coming.keys().next().map(|(at, _)| *at);
        let told = (!self.told.is_empty()).then_some(0);
        [coming, told, self.machine_due()]
            .into_iter()
            .flatten()
            .min()
    }

    fn hear(&mut self, now_ms: u64) -> Vec<VoiceEvent> {
        while let Some(next) = self.coming.first_entry().filter(|it| it.key().0 <= now_ms) {
            let what = next.remove();
            self.arrive(what, now_ms);
            self.collect(now_ms);
        }
        if self.machine_due().is_some_and(|due| due <= now_ms) {
            self.step(SessionInput::Time, now_ms);
        }
        std::mem::take(&mut self.told)
    }

    fn cut(&mut self, now_ms: u64) -> usize {
        let connections: Vec<u32> = self.lines.keys().copied().collect();
        for connection in &connections {
            self.arrive(OnItsWay::Closed(*connection, "it broke"), now_ms);
        }
        connections.len()
    }

    fn set_down(&mut self, is_down: bool) {
        self.is_down = is_down;
    }
}
