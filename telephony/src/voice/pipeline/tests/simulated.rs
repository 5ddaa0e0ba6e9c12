//! A session with a pipeline in simulated time. Its servers answer after fixed times, and no HTTP is spoken.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use dikala_sip::leg::SPEECH_RATE;
use dikala_testkit::pipeline::check_messages;
use serde_json::Value;

use super::super::{
    machine::PipelineMachine,
    wire::{CallDelta, ChatDelta, FunctionDelta, PipelineReply, PipelineRequest},
};
use crate::voice::{
    SimulatedVoice, VoiceEvent, VoiceInput, VoiceSetup,
    common::{CloseReason, SessionEffect, SessionInput, VoiceMachine, words},
};

/// Times until the text of the caller's words, the first token, and the first sound.
const TEXT_MS: u64 = 300;
const FIRST_TOKEN_MS: u64 = 250;
const FIRST_SOUND_MS: u64 = 150;
/// Times until a request is refused, between tokens, and between pieces of sound.
const REFUSAL_MS: u64 = 50;
const TOKEN_MS: u64 = 20;
const PIECE_MS: u64 = 40;
/// 100 ms of sound.
const PIECE: usize = SPEECH_RATE as usize / 10;
/// Sound of one character, if a reaction does not say.
const PER_CHARACTER: usize = SPEECH_RATE as usize / 20;

/// The reaction to one request to the language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChatReaction {
    /// Words that take this long to speak.
    Say {
        text: String,
        milliseconds: u64,
    },
    /// The same, and then `end_call`.
    HangUp {
        text: String,
        milliseconds: u64,
    },
    /// The beginning of an answer, and nothing more.
    Stall {
        text: String,
        milliseconds: u64,
    },
    Nothing,
    Empty,
}

/// The servers of all sessions of a test.
#[derive(Debug, Default)]
pub(crate) struct SimulatedServers {
    state: Mutex<ServersState>,
}

#[derive(Debug, Default)]
struct ServersState {
    reactions: VecDeque<ChatReaction>,
    /// The messages of the newest request to the language model.
    newest: Vec<Value>,
    broken: Vec<String>,
    /// Sound of one character of the newest answer, in samples.
    per_character: usize,
    transcribed: u64,
}

impl SimulatedServers {
    pub(crate) fn answer(&self, reactions: impl IntoIterator<Item = ChatReaction>) {
        self.state.lock().unwrap().reactions.extend(reactions);
    }

    pub(crate) fn newest_texts(&self) -> String {
        Value::from(self.state.lock().unwrap().newest.clone()).to_string()
    }

    /// Requests that break the documented rules.
    pub(crate) fn broken_rules(&self) -> Vec<String> {
        self.state.lock().unwrap().broken.clone()
    }

    /// Opens a session.
    pub(crate) fn open(
        self: &Arc<Self>,
        setup: VoiceSetup,
        now_ms: u64,
    ) -> Box<dyn SimulatedVoice> {
        let machine = PipelineMachine::new(
            setup.agent,
            &setup.circumstances,
            true,
            &setup.so_far,
            setup.is_answer_cut,
        );
        let mut session = SimulatedPipeline {
            machine,
            servers: Arc::clone(self),
            began_ms: now_ms,
            open: BTreeSet::new(),
            coming: BTreeMap::new(),
            sent: 0,
            told: Vec::new(),
            is_down: false,
        };
        session.step(SessionInput::Time, now_ms);
        Box::new(session)
    }

    /// Answers a request: replies, each after this time.
    fn replies(&self, request: PipelineRequest) -> Vec<(u64, PipelineReply)> {
        let mut state = self.state.lock().unwrap();
        match request {
            PipelineRequest::Transcribe(samples) => {
                let is_voice = samples.iter().any(|sample| sample.unsigned_abs() > 1_000);
                state.transcribed += u64::from(is_voice);
                let text = match is_voice {
                    true => format!("Pertanyaan {}.", state.transcribed),
                    false => String::new(),
                };
                let text = PipelineReply::Transcript(text);
                vec![(TEXT_MS, text), (TEXT_MS, PipelineReply::Done)]
            }
            PipelineRequest::Speak { text } => {
                let length = text.chars().count() * state.per_character;
                // A tone that is no silence anywhere.
                let sound = vec![2_000; length];
                let pieces = sound
                    .chunks(PIECE)
                    .map(|it| PipelineReply::Audio(it.to_vec()));
                let pieces = pieces.chain([PipelineReply::Done]);
                let times = (0..).map(|at| FIRST_SOUND_MS + at * PIECE_MS);
                times.zip(pieces).collect()
            }
            PipelineRequest::Chat { messages, .. } => {
                state.broken.extend(check_messages(&messages).err());
                let last = messages.last().map(Value::to_string);
                let summary = words::SUMMARISE.trim_matches(['[', ']']);
                let is_summary = last.is_some_and(|last| last.contains(summary));
                state.newest = messages;
                let reaction = match is_summary {
                    true => None,
                    false => state.reactions.pop_front(),
                };
                chat_replies(&mut state, reaction)
            }
        }
    }
}

fn chat_replies(
    state: &mut ServersState,
    reaction: Option<ChatReaction>,
) -> Vec<(u64, PipelineReply)> {
    let content = |text: &str| ChatDelta {
        content: text.to_owned(),
        ..ChatDelta::default()
    };
    let (text, milliseconds, ends, calls) = match reaction {
        None => ("Ya.".to_owned(), 0, true, false),
        Some(ChatReaction::Nothing) => return Vec::new(),
        Some(ChatReaction::Empty) => (String::new(), 0, true, false),
        Some(ChatReaction::Say { text, milliseconds }) => (text, milliseconds, true, false),
        Some(ChatReaction::HangUp { text, milliseconds }) => (text, milliseconds, true, true),
        Some(ChatReaction::Stall { text, milliseconds }) => (text, milliseconds, false, false),
    };
    let length = usize::try_from(milliseconds).unwrap() * SPEECH_RATE as usize / 1_000;
    state.per_character = match length {
        0 => PER_CHARACTER,
        // The space between two sentences has no sound.
        length => length / text.trim().replace(". ", ".").chars().count().max(1),
    };
    let mut deltas: Vec<ChatDelta> = text.split_inclusive(' ').map(content).collect();
    if calls {
        let function = FunctionDelta {
            name: "end_call".to_owned(),
            arguments: "{}".to_owned(),
        };
        let call = CallDelta {
            function,
            ..CallDelta::default()
        };
        deltas.push(ChatDelta {
            calls: vec![call],
            ..ChatDelta::default()
        });
    }
    let end = ends.then_some([
        PipelineReply::Chat(ChatDelta {
            is_last: true,
            ..ChatDelta::default()
        }),
        PipelineReply::Done,
    ]);
    let deltas = deltas.into_iter().map(PipelineReply::Chat);
    let replies = deltas.chain(end.into_iter().flatten());
    let times = (0..).map(|at| FIRST_TOKEN_MS + at * TOKEN_MS);
    times.zip(replies).collect()
}

struct SimulatedPipeline {
    machine: PipelineMachine,
    servers: Arc<SimulatedServers>,
    began_ms: u64,
    /// Requests that are under way.
    open: BTreeSet<u32>,
    /// Replies on their way, by the time of their arrival. `None`: nothing answers.
    coming: BTreeMap<(u64, u64), (u32, Option<PipelineReply>)>,
    sent: u64,
    told: Vec<VoiceEvent>,
    is_down: bool,
}

impl SimulatedPipeline {
    fn step(&mut self, input: SessionInput<PipelineReply>, now_ms: u64) {
        let now = Duration::from_millis(now_ms - self.began_ms);
        for effect in self.machine.step(input, now) {
            match effect {
                SessionEffect::Open { connection } => {
                    self.open.insert(connection);
                }
                SessionEffect::Send {
                    connection,
                    message,
                } => {
                    let replies = match self.is_down {
                        true => vec![(REFUSAL_MS, None)],
                        false => {
                            let replies = self.servers.replies(message).into_iter();
                            replies.map(|(after, reply)| (after, Some(reply))).collect()
                        }
                    };
                    for (after, reply) in replies {
                        self.sent += 1;
                        let arrives = (now_ms + after, self.sent);
                        self.coming.insert(arrives, (connection, reply));
                    }
                }
                SessionEffect::Close { connection } => {
                    self.open.remove(&connection);
                }
                SessionEffect::Tell(heard) => self.told.push(heard),
                SessionEffect::Warn(_) => {}
            }
        }
    }

    fn closed(&mut self, connection: u32, words: &str, now_ms: u64) {
        if self.open.remove(&connection) {
            let why = CloseReason::gone(words);
            self.step(SessionInput::Closed { connection, why }, now_ms);
        }
    }

    fn machine_due(&self) -> Option<u64> {
        let due = self.machine.due()?;
        Some(self.began_ms + u64::try_from(due.as_millis()).unwrap_or(u64::MAX))
    }
}

impl SimulatedVoice for SimulatedPipeline {
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
            match next.remove() {
                (connection, None) => self.closed(connection, "nothing answers", now_ms),
                (connection, Some(reply)) if self.open.contains(&connection) => {
                    let message = SessionInput::Message {
                        connection,
                        message: Box::new(reply),
                    };
                    self.step(message, now_ms);
                }
                _ => {}
            }
        }
        if self.machine_due().is_some_and(|due| due <= now_ms) {
            self.step(SessionInput::Time, now_ms);
        }
        let mut told = std::mem::take(&mut self.told);
        while !told.is_empty() {
            // The call takes it at once.
            self.step(SessionInput::Drained, now_ms);
            match std::mem::take(&mut self.told) {
                more if more.is_empty() => break,
                more => told.extend(more),
            }
        }
        told
    }

    fn cut(&mut self, now_ms: u64) -> usize {
        let open = self.open.clone();
        for connection in &open {
            self.closed(*connection, "it broke", now_ms);
        }
        open.len()
    }

    fn set_down(&mut self, is_down: bool) {
        self.is_down = is_down;
    }
}
