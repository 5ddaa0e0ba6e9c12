//! A whole call in simulated time: the machines of call and voice, a strict fake of the model, and a phone that plays.
//!
//! Sockets, queues between tasks and RTP are left out. Tests over sockets are in `voice`, and in the workspace's `tests/it`.

use std::{collections::VecDeque, sync::Arc};

use dikala_sip::leg::VOICE_HANG_OVER_MS;
use dikala_testkit::{
    gemini::{FakeGemini, ModelReaction},
    openai::{FakeOpenAi, RealtimeReaction},
};

use super::*;
use crate::settings::TurnDetection;
use crate::voice::{
    SimulatedVoice, VoiceSetup,
    gemini::tests::simulated as simulated_gemini,
    openai::tests::simulated as simulated_openai,
    pipeline::tests::simulated::{ChatReaction, SimulatedServers},
};

const PER_MS: u64 = 24;
/// Quieter samples are silence.
const SOFTEST: u16 = 104;
/// The caller's frames, and the silence after a voice that is sent.
pub(super) const FRAME_MS: u64 = 40;
const SILENCE_MS: u64 = 320;
/// When the voice activity detection reports a voice and its end.
const STARTED_MS: u64 = 120;
const ENDED_MS: u64 = VOICE_HANG_OVER_MS + FRAME_MS;
/// The way of the 200 to the phone and of the ACK back.
const ACKNOWLEDGED_MS: u64 = 60;

/// A reaction of any fake.
#[derive(Debug, Clone)]
pub(super) enum Reaction {
    Say(String, u64),
    Nothing,
    /// A turn without anything.
    Empty,
    /// A turn in writing alone.
    Write(String),
    /// The beginning of an answer, and nothing more.
    Stall(String, u64),
    /// A goodbye, and `end_call`.
    HangUp(String, u64),
}

#[derive(Debug, Clone)]
pub(super) enum Fake {
    Gemini(Arc<FakeGemini>),
    OpenAi(Arc<FakeOpenAi>, TurnDetection),
    Pipeline(Arc<SimulatedServers>),
}

impl Fake {
    pub(super) fn gemini() -> Self {
        Self::Gemini(Arc::new(FakeGemini::start()))
    }

    pub(super) fn openai() -> Self {
        Self::OpenAi(Arc::new(FakeOpenAi::start()), TurnDetection::Server)
    }

    /// The bridge detects the caller's turns.
    pub(super) fn openai_own() -> Self {
        Self::OpenAi(Arc::new(FakeOpenAi::start()), TurnDetection::Own)
    }

    pub(super) fn pipeline() -> Self {
        Self::Pipeline(Arc::default())
    }

    /// One of each provider.
    pub(super) fn all() -> [Self; 3] {
        [Self::gemini(), Self::openai(), Self::pipeline()]
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::OpenAi(_, TurnDetection::Own) => "openai with turns of our own".to_owned(),
            _ => self.provider().to_string(),
        }
    }

    pub(super) fn provider(&self) -> VoiceProvider {
        match self {
            Self::Gemini(_) => VoiceProvider::Gemini,
            Self::OpenAi(..) => VoiceProvider::Openai,
            Self::Pipeline(_) => VoiceProvider::Pipeline,
        }
    }

    /// Queues reactions.
    pub(super) fn answer(&self, reactions: impl IntoIterator<Item = Reaction>) {
        for reaction in reactions {
            match self {
                Self::Gemini(fake) => fake.answer([match reaction {
                    Reaction::Say(text, milliseconds) => ModelReaction::Say { text, milliseconds },
                    Reaction::Nothing => ModelReaction::Nothing,
                    Reaction::Empty => ModelReaction::Empty,
                    Reaction::Write(text) => ModelReaction::Write(text),
                    Reaction::Stall(text, milliseconds) => {
                        ModelReaction::Stall { text, milliseconds }
                    }
                    Reaction::HangUp(text, milliseconds) => {
                        ModelReaction::HangUp { text, milliseconds }
                    }
                }]),
                Self::OpenAi(fake, _) => fake.answer([match reaction {
                    Reaction::Say(text, milliseconds) => {
                        RealtimeReaction::Say { text, milliseconds }
                    }
                    Reaction::Nothing => RealtimeReaction::Nothing,
                    Reaction::Empty => RealtimeReaction::Empty,
                    Reaction::Write(text) => RealtimeReaction::Write(text),
                    Reaction::Stall(text, milliseconds) => {
                        RealtimeReaction::Stall { text, milliseconds }
                    }
                    Reaction::HangUp(text, milliseconds) => {
                        RealtimeReaction::HangUp { text, milliseconds }
                    }
                }]),
                Self::Pipeline(servers) => servers.answer([match reaction {
                    Reaction::Say(text, milliseconds) => ChatReaction::Say { text, milliseconds },
                    Reaction::Nothing => ChatReaction::Nothing,
                    // All that it writes is spoken.
                    Reaction::Empty | Reaction::Write(_) => ChatReaction::Empty,
                    Reaction::Stall(text, milliseconds) => {
                        ChatReaction::Stall { text, milliseconds }
                    }
                    Reaction::HangUp(text, milliseconds) => {
                        ChatReaction::HangUp { text, milliseconds }
                    }
                }]),
            }
        }
    }

    /// All texts that the newest connection was given.
    pub(super) fn newest_texts(&self) -> String {
        match self {
            Self::Gemini(fake) => {
                let connections = fake.connections();
                let newest = connections.last().expect("a connection");
                Value::from(newest.messages.clone()).to_string()
            }
            Self::OpenAi(fake, _) => {
                let connections = fake.connections();
                let newest = connections.last().expect("a connection");
                Value::from(newest.events.clone()).to_string()
            }
            Self::Pipeline(servers) => servers.newest_texts(),
        }
    }

    pub(super) fn broken_rules(&self) -> Vec<String> {
        match self {
            Self::Gemini(fake) => fake.broken_rules(),
            Self::OpenAi(fake, _) => fake.broken_rules(),
            Self::Pipeline(servers) => servers.broken_rules(),
        }
    }

    fn open(&self, setup: VoiceSetup, now_ms: u64) -> Box<dyn SimulatedVoice> {
        match self {
            Self::Gemini(fake) => simulated_gemini(fake, setup, now_ms),
            Self::OpenAi(fake, turns) => simulated_openai(fake, *turns, setup, now_ms),
            Self::Pipeline(servers) => servers.open(setup, now_ms),
        }
    }
}

enum Queued {
    Audio { samples: u64, is_audible: bool },
    Mark(u64),
}

/// A phone that plays at the speed of the time.
#[derive(Default)]
struct SimulatedPhone {
    queue: VecDeque<Queued>,
    now_ms: u64,
    played: u64,
    is_paused: bool,
    /// When the agent was audible: beginnings and ends.
    audible: Vec<(u64, u64)>,
}

impl SimulatedPhone {
    /// When the next mark is reached.
    fn due(&self) -> Option<u64> {
        if self.is_paused {
            return None;
        }
        let mut samples = 0;
        for queued in &self.queue {
            match queued {
                Queued::Audio { samples: more, .. } => samples += more,
                Queued::Mark(_) => return Some(self.now_ms + samples.div_ceil(PER_MS)),
            }
        }
        None
    }

    fn play_until(&mut self, now_ms: u64) -> Vec<LegEvent> {
        let mut events = Vec::new();
        while !self.is_paused {
            match self.queue.front_mut() {
                Some(Queued::Mark(mark)) => {
                    events.push(LegEvent::Played(*mark));
                    self.queue.pop_front();
                }
                Some(Queued::Audio {
                    samples,
                    is_audible,
                }) if self.now_ms < now_ms => {
                    let played = (*samples).min((now_ms - self.now_ms) * PER_MS);
                    let until = self.now_ms + played.div_ceil(PER_MS);
                    match self.audible.last_mut() {
                        _ if !*is_audible => {}
                        Some(last) if last.1 == self.now_ms => last.1 = until,
                        _ => self.audible.push((self.now_ms, until)),
                    }
                    *samples -= played;
                    self.played += played;
                    self.now_ms = until;
                    if *samples == 0 {
                        self.queue.pop_front();
                    }
                }
                _ => break,
            }
        }
        self.now_ms = self.now_ms.max(now_ms);
        events
    }

    fn flush(&mut self) -> Vec<LegEvent> {
        self.is_paused = false;
        let marks = self.queue.drain(..).filter_map(|queued| match queued {
            Queued::Mark(mark) => Some(LegEvent::Played(mark)),
            Queued::Audio { .. } => None,
        });
        let total_played_ms = self.played / PER_MS;
        let flushed = LegEvent::Flushed { total_played_ms };
        marks.chain([flushed]).collect()
    }

    fn is_silent(&self) -> bool {
        let is_audio = |queued: &Queued| matches!(queued, Queued::Audio { .. });
        !self.queue.iter().any(is_audio)
    }
}

/// A running call.
pub(super) struct SimulatedCall {
    machine: CallMachine,
    pub(super) ms: u64,
    fakes: Vec<Fake>,
    voice: Option<Box<dyn SimulatedVoice>>,
    phone: SimulatedPhone,
    pub(super) opened: Vec<VoiceProvider>,
    pub(super) reports: Vec<CallReport>,
    /// The words of the model so far.
    pub(super) said: String,
    /// The model has ended its last turn.
    is_turn_over: bool,
    pub(super) answered_ms: u64,
    pub(super) hung_up_ms: Option<u64>,
    /// Recorded sentences that were played.
    pub(super) fillers: usize,
    /// The speech of the voice so far, in milliseconds, and the part of it that was played.
    pub(super) voice_ms: u64,
}

impl SimulatedCall {
    /// A call that rings while its voice opens. The first fake is preferred.
    pub(super) fn ring(rules: CallRules, fakes: &[Fake]) -> Self {
        let mut effects = Vec::new();
        let rules = CallRules {
            opens_early: true,
            ..rules
        };
        let machine = CallMachine::new(rules, origin(), now(0), &mut effects);
        let mut call = Self {
            machine,
            ms: 0,
            fakes: fakes.to_vec(),
            voice: None,
            phone: SimulatedPhone::default(),
            opened: Vec::new(),
            reports: Vec::new(),
            said: String::new(),
            is_turn_over: false,
            answered_ms: 0,
            hung_up_ms: None,
            fillers: 0,
            voice_ms: 0,
        };
        // Given words need no model, and a pipeline would speak them without asking it.
        let mut agent = agent();
        agent.greeting_text = None;
        call.take(taken_for(agent));
        call
    }

    /// A call with one provider, after its greeting.
    pub(super) fn greeted(fake: &Fake) -> Self {
        let mut rules = rules();
        rules.voices = vec![(fake.provider(), None)];
        rules.preferred = vec![fake.provider()];
        fake.answer([Reaction::Say("Halo.".to_owned(), 600)]);
        let mut call = Self::ring(rules, std::slice::from_ref(fake));
        call.until_said("Halo.");
        call
    }

    pub(super) fn take(&mut self, input: MachineInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            self.machine.step(now(self.ms), input, &mut effects);
            for effect in effects {
                let events = self.carry_out(effect);
                inputs.extend(events.into_iter().map(MachineInput::Leg));
            }
        }
    }

    fn carry_out(&mut self, effect: MachineEffect) -> Vec<LegEvent> {
        match effect {
            MachineEffect::Leg(Order::Answer { .. }) => self.answered_ms = self.ms,
            MachineEffect::Leg(Order::Pause) => self.phone.is_paused = true,
            MachineEffect::Leg(Order::Continue) => self.phone.is_paused = false,
            MachineEffect::Leg(Order::Flush) => return self.phone.flush(),
            MachineEffect::Leg(Order::Hangup(_)) => self.hung_up_ms = Some(self.ms),
            MachineEffect::Say(Speech::Audio(samples)) => {
                let is_loud = |sample: &i16| sample.unsigned_abs() > SOFTEST;
                // A voice's pieces have 100 ms at most.
                self.fillers += usize::from(samples.len() as u64 > 100 * PER_MS);
                self.phone.queue.push_back(Queued::Audio {
                    is_audible: samples.iter().any(is_loud),
                    samples: samples.len() as u64,
                });
            }
            MachineEffect::Say(Speech::Mark(mark)) => {
                self.phone.queue.push_back(Queued::Mark(mark));
            }
            MachineEffect::OpenVoice(provider, setup) => {
                let mut fakes = self.fakes.iter();
                let fake = fakes.find(|fake| fake.provider() == provider);
                let fake = fake.expect("a fake of this provider");
                self.opened.push(provider);
                self.voice = Some(fake.open(*setup, self.ms));
            }
            MachineEffect::Voice(spoken) => {
                if let Some(voice) = &mut self.voice {
                    voice.say(spoken, self.ms);
                }
            }
            MachineEffect::CloseVoice => self.voice = None,
            MachineEffect::Service(report, _) => self.reports.push(report),
            _ => {}
        }
        Vec::new()
    }

    /// Something of the voice happens.
    fn hear(&mut self, heard: VoiceEvent) {
        match &heard {
            VoiceEvent::AgentSaid(piece) => {
                self.is_turn_over = false;
                self.said.push_str(piece);
            }
            VoiceEvent::Audio(samples) => {
                self.is_turn_over = false;
                self.voice_ms += samples.len() as u64 / PER_MS;
            }
            VoiceEvent::TurnOver => self.is_turn_over = true,
            _ => {}
        }
        self.take(MachineInput::Voice(heard));
    }

    pub(super) fn advance_to(&mut self, until: u64) {
        loop {
            let is_answering = matches!(self.machine.phase, Phase::Answering { .. });
            let acknowledged = is_answering.then_some(self.answered_ms + ACKNOWLEDGED_MS);
            let voice = self.voice.as_ref().and_then(|voice| voice.due());
            let due = [self.machine.due(), voice, self.phone.due(), acknowledged];
            let next = due.into_iter().flatten().min().unwrap_or(u64::MAX);
            let is_due = next <= until;
            self.ms = self.ms.max(next.min(until));
            for event in self.phone.play_until(self.ms) {
                self.take(MachineInput::Leg(event));
            }
            if acknowledged.is_some_and(|at| at <= self.ms) {
                self.take(MachineInput::Leg(LegEvent::Answered));
            }
            let heard = self.voice.as_mut().map(|voice| voice.hear(self.ms));
            for heard in heard.into_iter().flatten() {
                self.hear(heard);
            }
            self.take(MachineInput::Time);
            if !is_due {
                return;
            }
        }
    }

    pub(super) fn wait(&mut self, ms: u64) {
        self.advance_to(self.ms + ms);
    }

    /// The caller speaks for this long, and is silent until the end of the voice is noticed. Returns the end of the voice.
    pub(super) fn speak(&mut self, ms: u64) -> u64 {
        let (began, end) = (self.ms, self.ms + ms);
        while self.ms < end + ENDED_MS && self.hung_up_ms.is_none() {
            self.wait(FRAME_MS);
            if self.ms <= end + SILENCE_MS {
                let sample = if self.ms <= end { 3_000 } else { 0 };
                self.take(MachineInput::Leg(LegEvent::Audio(vec![sample; 640])));
            }
            if self.ms == began + STARTED_MS {
                self.take(MachineInput::Leg(LegEvent::VoiceStarted));
            }
        }
        self.take(MachineInput::Leg(LegEvent::VoiceEnded));
        end
    }

    /// Music sets in and does not end. It is no voice for models.
    pub(super) fn music(&mut self, ms: u64) {
        self.noise(300, ms);
    }

    /// A noise sets in that this side takes for a voice without end. Models do if it is as loud as one.
    pub(super) fn noise(&mut self, loudness: i16, ms: u64) {
        self.take(MachineInput::Leg(LegEvent::VoiceStarted));
        self.sound(loudness, ms);
    }

    /// A sound of the caller's side, or silence.
    pub(super) fn sound(&mut self, loudness: i16, ms: u64) {
        let end = self.ms + ms;
        while self.ms < end && self.hung_up_ms.is_none() {
            self.take(MachineInput::Leg(LegEvent::Audio(vec![loudness; 640])));
            self.wait(FRAME_MS);
        }
    }

    /// Waits until the model has said this, with the rest of its turn, and all of it was played.
    pub(super) fn until_said(&mut self, text: &str) {
        let before = self.said.len();
        let limit = self.ms + 60_000;
        let is_said = |call: &Self| {
            let words = &call.said[before.saturating_sub(text.len())..];
            words.contains(text) && call.is_turn_over && call.phone.is_silent()
        };
        while !is_said(self) {
            assert!(self.ms < limit, "no \"{text}\"; there was {}", self.said);
            self.wait(FRAME_MS);
        }
    }

    /// Waits until the agent has been audible for this long since now.
    pub(super) fn until_heard(&mut self, ms: u64) {
        let before = self.played_ms();
        let limit = self.ms + 60_000;
        while self.played_ms() < before + ms {
            assert!(self.ms < limit, "only {} ms were played", self.played_ms());
            self.wait(FRAME_MS);
        }
    }

    /// Speech that was played since the beginning of the call.
    pub(super) fn played_ms(&self) -> u64 {
        self.phone.played / PER_MS
    }

    /// Speech that was played until a time in the past.
    pub(super) fn played_ms_until(&self, at: u64) -> u64 {
        let audible = self.phone.audible.iter();
        audible
            .map(|(begins, ends)| (*ends).min(at).saturating_sub(*begins))
            .sum()
    }

    /// Breaks the connections to the model. Returns how many there were.
    pub(super) fn cut(&mut self) -> usize {
        self.voice.as_mut().map_or(0, |voice| voice.cut(self.ms))
    }

    /// The provider in use answers no more.
    pub(super) fn set_down(&mut self) {
        if let Some(voice) = &mut self.voice {
            voice.set_down(true);
        }
    }

    pub(super) fn hang_up(&mut self) {
        self.take(MachineInput::Leg(LegEvent::HungUp));
        self.wait(5_000);
    }

    pub(super) fn first_sound_ms(&self) -> u64 {
        self.phone.audible.first().expect("a sound").0
    }

    pub(super) fn last_sound_ms(&self) -> u64 {
        self.phone.audible.last().expect("a sound").1
    }

    /// The silences of the agent since a time, up to its last sound.
    pub(super) fn silences_since(&self, since: u64) -> Vec<u64> {
        let mut silent_since = since;
        let mut silences = Vec::new();
        for (begins, ends) in &self.phone.audible {
            if *begins > silent_since {
                silences.push(begins - silent_since);
            }
            silent_since = silent_since.max(*ends);
        }
        silences
    }

    /// The reason of an end without a fault.
    pub(super) fn ended_because(&self) -> Option<HangupReason> {
        self.reports.iter().find_map(|report| match report {
            CallReport::Hangup { reason, .. } => Some(*reason),
            _ => None,
        })
    }

    pub(super) fn transcript(&self) -> Vec<(Speaker, String, bool)> {
        let turns = self.reports.iter().find_map(|report| match report {
            CallReport::Transcript { turns, .. } => Some(turns),
            _ => None,
        });
        let turns = turns.into_iter().flatten();
        turns
            .map(|turn| (turn.role, turn.text.clone(), turn.interrupted))
            .collect()
    }
}
