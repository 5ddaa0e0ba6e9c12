//! The state machine of a session with Gemini Live: an input and the time give effects. Pure: no sockets, no waiting.
//!
//! - `connection` keeps the connection in use and changes to the next one;
//! - `content` is the model's output, `billing` its cost, `tools` its function calls; `held_audio` and `transcript` outlive a
//!   connection.

mod billing;
mod connection;
mod content;
mod held_audio;
mod outgoing;
#[cfg(test)]
mod tests;
mod tools;
mod transcript;

use std::{collections::VecDeque, time::Duration};

use self::{
    billing::Bill, connection::ConnectionState, held_audio::HeldAudio, outgoing::Doubt,
    tools::ToolCalls, transcript::ConversationRecord,
};
use super::{
    profile::FunctionMode,
    setup::SessionSettings,
    wire::{client, server},
};
use crate::voice::{VoiceEvent, VoiceInput};

/// Texts for the model that wait for a connection; beyond this the oldest are dropped.
const WORDS_MOST: usize = 32;
/// Time limit of a summary.
const SUMMARY: Duration = Duration::from_secs(8);

#[derive(Debug, Clone)]
pub(super) enum SessionInput {
    /// The socket was opened.
    Opened {
        connection: u32,
    },
    Message {
        connection: u32,
        message: Box<server::ServerMessage>,
    },
    /// An unreadable message.
    Rubbish {
        connection: u32,
    },
    Closed {
        connection: u32,
        why: CloseReason,
    },
    Spoken(VoiceInput),
    /// The time that [`SessionMachine::due`] gave has come.
    Time,
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CloseReason {
    /// The service rejects what it was sent, and would reject it again.
    pub refused: bool,
    /// For operators, without secrets.
    pub words: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum SessionEffect {
    Open {
        connection: u32,
    },
    Send {
        connection: u32,
        message: client::ClientMessage,
    },
    Close {
        connection: u32,
    },
    Tell(VoiceEvent),
    /// A warning for operators about this call.
    Warn(&'static str),
}

/// A requested summary: from then on nothing is sent to the caller.
#[derive(Debug)]
struct Summary {
    text: String,
    /// `None` once it was reported.
    until: Option<Duration>,
    has_begun: bool,
}

#[derive(Debug)]
pub(super) struct SessionMachine {
    session_settings: SessionSettings,
    now: Duration,
    effects: Vec<SessionEffect>,
    link: ConnectionState,
    /// Connections opened so far.
    connections: u32,
    /// Fresh sessions begun so far: more than one after a handle was refused.
    sessions: u32,
    handle: Option<Handle>,
    failures: connection::Failures,
    tools: ToolCalls,
    /// The end of the time that past tool calls have used up of their rate.
    tools_paid_until: Duration,
    doubt: Option<Doubt>,
    held_audio: HeldAudio,
    words: VecDeque<String>,
    transcript: ConversationRecord,
    /// At least the beginning of the greeting was heard.
    spoke: bool,
    ready: bool,
    /// The model is at work on an answer.
    answering: bool,
    /// The odd byte of a piece of audio that ended within a sample; the next piece of the turn completes it.
    half_sample: Option<u8>,
    /// Unreadable messages on this connection.
    rubbish: u32,
    summary: Option<Summary>,
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
    pub(super) fn new(session_settings: SessionSettings) -> Self {
        Self {
            session_settings,
            now: Duration::ZERO,
            effects: Vec::new(),
            link: ConnectionState::first(),
            connections: 0,
            sessions: 0,
            handle: None,
            failures: connection::Failures::default(),
            tools: ToolCalls::default(),
            tools_paid_until: Duration::ZERO,
            doubt: None,
            held_audio: HeldAudio::default(),
            words: VecDeque::new(),
            transcript: ConversationRecord::default(),
            spoke: false,
            ready: false,
            answering: false,
            half_sample: None,
            rubbish: 0,
            summary: None,
            bill: Bill::default(),
        }
    }

    /// Handles an input. `now` counts from the beginning of the session.
    pub(super) fn step(&mut self, input: SessionInput, now: Duration) -> Vec<SessionEffect> {
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
                SessionInput::Time => {}
            }
            self.time();
        }
        std::mem::take(&mut self.effects)
    }

    /// When [`SessionInput::Time`] is due.
    pub(super) fn due(&self) -> Option<Duration> {
        let gate = self
            .live()
            .filter(|_| self.session_settings.profile.functions == FunctionMode::Blocking)
            .and_then(|connection| self.tools.gated_until(connection, self.now));
        // Without a connection the doubt cannot be sent.
        let doubt = self.doubt.as_ref().filter(|_| self.live().is_some());
        let doubt = doubt.map(|doubt| doubt.until);
        let summary = self.summary.as_ref().and_then(|summary| summary.until);
        [self.link_due(), gate, doubt, summary]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.is_over())
    }

    /// The voice has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.link, ConnectionState::Over)
    }

    /// Handles expired deadlines.
    fn time(&mut self) {
        self.link_time();
        if self.live().is_some() {
            self.doubt_time();
            self.flush();
        }
        let is_late = |summary: &Summary| summary.until.is_some_and(|until| until <= self.now);
        if self.summary.as_ref().is_some_and(is_late) {
            self.summed_up();
        }
    }

    fn spoken(&mut self, spoken: VoiceInput) {
        match spoken {
            VoiceInput::Audio(samples) => self.caller(&samples),
            VoiceInput::Text(text) | VoiceInput::Goodbye(text) => {
                self.say(super::words::note(&text))
            }
            VoiceInput::Keys(words) => self.say(words),
            VoiceInput::ToolOutcome { id, outcome } => {
                self.tools.came(&id, outcome, self.now);
            }
            // The service detects the caller's voice itself: it stops, and its own record ends there.
            VoiceInput::Interrupted { .. } => {}
            VoiceInput::Summarise => self.summarise(),
        }
    }

    fn summarise(&mut self) {
        if self.summary.is_some() {
            return;
        }
        self.say(super::words::SUMMARISE.to_owned());
        self.summary = Some(Summary {
            text: String::new(),
            until: Some(self.now + SUMMARY),
            has_begun: false,
        });
    }

    /// The model speaks, but to sum up, not to the caller.
    fn sums_up(&mut self) {
        let begins = |summary: &mut Summary| !std::mem::replace(&mut summary.has_begun, true);
        if self.summary.as_mut().is_some_and(begins) {
            self.tell(VoiceEvent::Summarising);
        }
    }

    /// Ends the summary with what has come so far.
    fn summed_up(&mut self) {
        let Some(summary) = &mut self.summary else {
            return;
        };
        let text = summary.text.trim().to_owned();
        if summary.until.take().is_some() && !text.is_empty() {
            self.tell(VoiceEvent::Summary(text));
        }
    }

    /// Queues text for the model.
    fn say(&mut self, words: String) {
        if self.words.len() == WORDS_MOST {
            self.words.pop_front();
        }
        self.words.push_back(words);
    }

    fn tell(&mut self, heard: VoiceEvent) {
        self.effects.push(SessionEffect::Tell(heard));
    }
}
