//! The state machine of a session with OpenAI Realtime. Pure: no sockets, no waiting.
//!
//! - `connection` keeps the connection in use and changes to the next one;
//! - `content` is the model's output, `answers` are its responses, `billing` their cost;
//! - `caller_turns` are the caller's, where this side detects them;
//! - `outgoing` is what is sent.

mod answers;
mod billing;
mod caller_turns;
mod connection;
mod content;
mod outgoing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dikala_entities::Speaker;
use dikala_sip::Resampler;

use self::{answers::ModelAnswers, caller_turns::CallerTurns, connection::ModelConnections};
use super::{
    session_update::SessionTerms,
    wire::{
        client::RealtimeRequest,
        server::{self, RealtimeEvent},
    },
};
use crate::{
    settings::TurnDetection,
    voice::{
        VoiceEvent, VoiceInput,
        common::{
            Bill, ConversationRecord, HeldAudio, Playback, Role, SessionEffect, SessionInput,
            SocketMachine, SpeechDecoder, SummaryRequest, ToolCalls, VoiceMachine,
            words::{self, WaitingWords},
        },
    },
};

#[derive(Debug)]
pub(super) struct RealtimeMachine {
    terms: SessionTerms,
    now: Duration,
    effects: Vec<SessionEffect<RealtimeRequest>>,
    connections: ModelConnections,
    answers: ModelAnswers,
    playback: Playback,
    tools: ToolCalls,
    held_audio: HeldAudio,
    /// From the caller's rate to the model's.
    resampler: Resampler,
    /// `None` if the server detects the caller's turns.
    own_turns: Option<CallerTurns>,
    /// A turn that this side detected is to be committed.
    commits: bool,
    words: WaitingWords,
    record: ConversationRecord,
    /// The call is answered, so the model may speak.
    may_speak: bool,
    /// At least the beginning of the greeting was heard.
    spoke: bool,
    /// Another session has left the rest of an answer.
    is_answer_cut: bool,
    speech: SpeechDecoder,
    summary: Option<SummaryState>,
    bill: Bill,
}

#[derive(Debug)]
struct SummaryState {
    request: SummaryRequest,
    stage: SummaryStage,
}

/// How far a summary has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SummaryStage {
    /// It waits until no response is running.
    Waiting,
    /// Requested beside the conversation, which some gateways refuse (sip-to-ai#12).
    Beside,
    /// Requested as a turn of the conversation.
    Within,
}

impl RealtimeMachine {
    /// With a conversation so far the model goes on with it and does not greet.
    pub(super) fn new(
        terms: SessionTerms,
        so_far: &[(Speaker, String)],
        is_answer_cut: bool,
    ) -> Self {
        let own_turns = terms.turn_detection == TurnDetection::Own;
        Self {
            terms,
            now: Duration::ZERO,
            effects: Vec::new(),
            connections: ModelConnections::default(),
            answers: ModelAnswers::default(),
            playback: Playback::default(),
            tools: ToolCalls::default(),
            held_audio: HeldAudio::default(),
            resampler: Resampler::from_16_to_24(),
            own_turns: own_turns.then(CallerTurns::default),
            commits: false,
            words: WaitingWords::default(),
            record: ConversationRecord::from(so_far),
            may_speak: !so_far.is_empty(),
            spoke: !so_far.is_empty(),
            is_answer_cut,
            speech: SpeechDecoder::default(),
            summary: None,
            bill: Bill::default(),
        }
    }

    /// Handles expired deadlines.
    fn time(&mut self) {
        self.connection_time();
        self.turn_time();
        if self.live().is_some() {
            self.answer_time();
            self.flush();
        }
        let summary = self.summary.as_ref();
        let due = summary.and_then(|summary| summary.request.due());
        if due.is_some_and(|until| until <= self.now) {
            self.summed_up();
        }
    }

    fn spoken(&mut self, spoken: VoiceInput) {
        match spoken {
            VoiceInput::Audio(samples) => self.caller(samples),
            // A second response would say it all again.
            VoiceInput::AnswerNow(_) if !self.gets_no_answer() => {}
            VoiceInput::Text(text) | VoiceInput::AnswerNow(text) | VoiceInput::Goodbye(text) => {
                self.record_note(&text);
                self.words.push(words::note(&text));
            }
            VoiceInput::Keys(words) => {
                self.record_note(&words);
                self.words.push(words);
            }
            VoiceInput::ToolOutcome { id, outcome } => {
                self.tools.came(&id, outcome, self.now);
            }
            VoiceInput::Interrupted { played_ms } => self.heard(played_ms),
            VoiceInput::Greet => self.greet(),
            VoiceInput::Activity { speaks } => self.activity(speaks),
            VoiceInput::Summarise => self.summarise(),
        }
    }

    /// Keeps a text for later sessions. Without a connection it waits, and the next session gets it anyway.
    fn record_note(&mut self, text: &str) {
        if self.live().is_some() {
            self.record.add(Role::Tool, text);
        }
    }

    fn summarise(&mut self) {
        if self.summary.is_some() {
            return;
        }
        self.stop_answer();
        if let Some(turns) = &mut self.own_turns {
            turns.end();
        }
        self.summary = Some(SummaryState {
            request: SummaryRequest::new(self.now),
            stage: SummaryStage::Waiting,
        });
    }

    /// The model speaks or writes, but to sum up, not to the caller.
    fn sums_up(&mut self, piece: &str) {
        if let Some(summary) = &mut self.summary {
            summary.request.push(piece);
            if summary.request.begins() {
                self.tell(VoiceEvent::Summarising);
            }
        }
    }

    /// Ends the summary with what has come so far.
    fn summed_up(&mut self) {
        let summary = self.summary.as_mut();
        if let Some(text) = summary.and_then(|summary| summary.request.finish()) {
            self.tell(VoiceEvent::Summary(text));
        }
    }

    fn tell(&mut self, heard: VoiceEvent) {
        self.effects.push(SessionEffect::Tell(heard));
    }

    fn warn(&mut self, words: &'static str) {
        self.effects.push(SessionEffect::Warn(words));
    }
}

impl VoiceMachine for RealtimeMachine {
    type Received = RealtimeEvent;
    type Sent = RealtimeRequest;

    fn step(
        &mut self,
        input: SessionInput<Self::Received>,
        now: Duration,
    ) -> Vec<SessionEffect<Self::Sent>> {
        self.now = self.now.max(now);
        if !self.is_over() {
            match input {
                SessionInput::Opened { connection } => self.opened(connection),
                SessionInput::Message {
                    connection,
                    message,
                } => self.event(connection, *message),
                SessionInput::Rubbish { connection } => self.rubbish(connection),
                SessionInput::Closed { connection, why } => self.closed(connection, &why),
                SessionInput::Spoken(spoken) => self.spoken(spoken),
                SessionInput::Drained | SessionInput::Time => {}
            }
        }
        if !self.is_over() {
            self.time();
        }
        std::mem::take(&mut self.effects)
    }

    fn due(&self) -> Option<Duration> {
        let summary = self.summary.as_ref();
        let summary = summary.and_then(|summary| summary.request.due());
        let turn = self.own_turns.as_ref().and_then(CallerTurns::due);
        [self.connection_due(), self.answer_due(), turn, summary]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.is_over())
    }

    fn is_over(&self) -> bool {
        self.connections.is_over()
    }
}

impl SocketMachine for RealtimeMachine {
    fn read(bytes: &[u8]) -> Option<Self::Received> {
        server::read(bytes)
    }
}
