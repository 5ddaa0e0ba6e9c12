//! The state machine of a session with Gemini Live: an input and the time give effects. Pure: no sockets, no waiting.
//!
//! `connection` keeps the connection in use and changes to the next one. `content` is the model's output, `billing` its cost,
//! `outgoing` what is sent to it.

mod billing;
mod connection;
mod content;
mod outgoing;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dikala_entities::Speaker;

use self::{connection::ConnectionState, outgoing::Doubt};
use super::{
    profile::FunctionMode,
    setup::SessionSettings,
    wire::{client, server},
};
use crate::voice::{
    VoiceEvent, VoiceInput,
    common::{
        Bill, ConversationRecord, Failures, HeldAudio, SessionEffect, SessionInput, SocketMachine,
        SpeechDecoder, SummaryRequest, ToolCalls, VoiceMachine,
        words::{self, WaitingWords},
    },
};

#[derive(Debug)]
pub(super) struct SessionMachine {
    session_settings: SessionSettings,
    now: Duration,
    effects: Vec<SessionEffect<client::ClientMessage>>,
    link: ConnectionState,
    /// Connections opened so far.
    connections: u32,
    /// Fresh sessions begun so far: more than one after a handle was refused.
    sessions: u32,
    handle: Option<Handle>,
    failures: Failures,
    tools: ToolCalls,
    doubt: Option<Doubt>,
    held_audio: HeldAudio,
    words: WaitingWords,
    transcript: ConversationRecord,
    /// The call is answered, so the model may speak.
    may_speak: bool,
    /// At least the beginning of the greeting was heard.
    spoke: bool,
    ready: bool,
    /// The model is at work on an answer.
    answering: bool,
    /// Speech of an answer has come, and not its end.
    speaking: bool,
    /// All of the turn was generated, and its end was not told.
    has_generated: bool,
    speech: SpeechDecoder,
    /// Unreadable messages on this connection.
    rubbish: u32,
    summary: Option<SummaryRequest>,
    bill: Bill,
}

/// A handle for session resumption.
#[derive(Debug)]
struct Handle {
    text: String,
    at: Duration,
    /// It stands for the newest state.
    newest: bool,
}

impl SessionMachine {
    /// With a conversation so far the model goes on with it and does not greet.
    pub(super) fn new(
        session_settings: SessionSettings,
        so_far: &[(Speaker, String)],
        is_answer_cut: bool,
    ) -> Self {
        Self {
            session_settings,
            now: Duration::ZERO,
            effects: Vec::new(),
            link: ConnectionState::first(),
            connections: 0,
            sessions: 0,
            handle: None,
            failures: Failures::default(),
            tools: ToolCalls::default(),
            doubt: None,
            held_audio: HeldAudio::default(),
            words: WaitingWords::default(),
            transcript: ConversationRecord::from(so_far),
            may_speak: !so_far.is_empty(),
            spoke: !so_far.is_empty(),
            ready: false,
            answering: false,
            speaking: is_answer_cut,
            has_generated: false,
            speech: SpeechDecoder::default(),
            rubbish: 0,
            summary: None,
            bill: Bill::default(),
        }
    }

    /// Handles expired deadlines.
    fn time(&mut self) {
        self.link_time();
        if self.live().is_some() {
            self.doubt_time();
            self.flush();
        }
        let due = self.summary.as_ref().and_then(SummaryRequest::due);
        if due.is_some_and(|until| until <= self.now) {
            self.summed_up();
        }
    }

    fn spoken(&mut self, spoken: VoiceInput) {
        match spoken {
            VoiceInput::Audio(samples) => self.caller(&samples),
            // A model that waits for a function cannot speak, and the text would follow the outcome.
            VoiceInput::AnswerNow(_) if self.live().is_some_and(|it| self.waits(it)) => {
                self.tell(VoiceEvent::CannotSpeak);
            }
            VoiceInput::Text(text) | VoiceInput::AnswerNow(text) | VoiceInput::Goodbye(text) => {
                self.say(words::note(&text));
            }
            VoiceInput::Keys(words) => self.say(words),
            VoiceInput::ToolOutcome { id, outcome } => {
                self.tools.came(&id, outcome, self.now);
            }
            // The service detects the caller's voice itself: it stops, and its own record ends there.
            VoiceInput::Interrupted { .. } | VoiceInput::Activity { .. } => {}
            VoiceInput::Greet => self.greet(),
            VoiceInput::Summarise => self.summarise(),
        }
    }

    fn summarise(&mut self) {
        if self.summary.is_none() {
            self.say(words::SUMMARISE.to_owned());
            self.summary = Some(SummaryRequest::new(self.now));
        }
    }

    /// The model speaks, but to sum up, not to the caller.
    fn sums_up(&mut self) {
        if self.summary.as_mut().is_some_and(SummaryRequest::begins) {
            self.tell(VoiceEvent::Summarising);
        }
    }

    /// Ends the summary with what has come so far.
    fn summed_up(&mut self) {
        if let Some(text) = self.summary.as_mut().and_then(SummaryRequest::finish) {
            self.tell(VoiceEvent::Summary(text));
        }
    }

    /// Queues text for the model.
    fn say(&mut self, words: String) {
        self.words.push(words);
    }

    fn tell(&mut self, heard: VoiceEvent) {
        self.effects.push(SessionEffect::Tell(heard));
    }
}

impl VoiceMachine for SessionMachine {
    type Received = server::ServerMessage;
    type Sent = client::ClientMessage;

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
                } => self.message(connection, *message),
                SessionInput::Rubbish { connection } => self.rubbish(connection),
                SessionInput::Closed { connection, why } => self.closed(connection, &why),
                SessionInput::Spoken(spoken) => self.spoken(spoken),
                SessionInput::Drained | SessionInput::Time => {}
            }
            self.time();
        }
        std::mem::take(&mut self.effects)
    }

    fn due(&self) -> Option<Duration> {
        let gate = self
            .live()
            .filter(|_| self.session_settings.profile.functions == FunctionMode::Blocking)
            .and_then(|connection| self.tools.gated_until(connection, self.now));
        // Without a connection the doubt cannot be sent.
        let doubt = self.doubt.as_ref().filter(|_| self.live().is_some());
        let doubt = doubt.map(|doubt| doubt.until);
        let summary = self.summary.as_ref().and_then(SummaryRequest::due);
        [self.link_due(), gate, doubt, summary]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.is_over())
    }

    fn is_over(&self) -> bool {
        matches!(self.link, ConnectionState::Over)
    }
}

impl SocketMachine for SessionMachine {
    fn read(bytes: &[u8]) -> Option<Self::Received> {
        server::read(bytes)
    }
}
