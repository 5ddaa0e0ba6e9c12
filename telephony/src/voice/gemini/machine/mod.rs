//! The state machine of a session with Gemini Live: an input and the time give effects. Pure: no sockets, no waiting.
//!
//! - [`link`](self) keeps the connection in use and changes to the next one;
//! - `content` is the model's output, `billing` its cost, `tools` its function calls; `held` and `transcript` outlive a
//!   connection.

mod billing;
mod content;
mod held;
mod link;
mod tell;
#[cfg(test)]
mod tests;
mod tools;
mod transcript;

use std::{collections::VecDeque, time::Duration};

use self::{
    billing::Bill, held::Held, link::Link, tell::Doubt, tools::Tools, transcript::Transcript,
};
use super::{
    profile::Functions,
    setup::Persona,
    wire::{client, server},
};
use crate::voice::{Heard, Spoken};

/// Texts for the model that wait for a connection; beyond this the oldest are dropped.
const WORDS_MOST: usize = 32;
/// Time limit of a summary.
const SUMMARY: Duration = Duration::from_secs(8);

#[derive(Debug, Clone)]
pub(super) enum Input {
    /// The socket was opened.
    Opened {
        connection: u32,
    },
    Message {
        connection: u32,
        message: Box<server::Message>,
    },
    /// An unreadable message.
    Rubbish {
        connection: u32,
    },
    Closed {
        connection: u32,
        why: Closure,
    },
    Spoken(Spoken),
    /// The time that [`Machine::due`] gave has come.
    Time,
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closure {
    /// The service rejects what it was sent, and would reject it again.
    pub refused: bool,
    /// For operators, without secrets.
    pub words: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    Open {
        connection: u32,
    },
    Send {
        connection: u32,
        message: client::Message,
    },
    Close {
        connection: u32,
    },
    Tell(Heard),
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
pub(super) struct Machine {
    persona: Persona,
    now: Duration,
    effects: Vec<Effect>,
    link: Link,
    /// Connections opened so far.
    connections: u32,
    /// Fresh sessions begun so far: more than one after a handle was refused.
    sessions: u32,
    handle: Option<Handle>,
    failures: link::Failures,
    tools: Tools,
    doubt: Option<Doubt>,
    held: Held,
    words: VecDeque<String>,
    transcript: Transcript,
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

impl Machine {
    pub(super) fn new(persona: Persona) -> Self {
        Self {
            persona,
            now: Duration::ZERO,
            effects: Vec::new(),
            link: Link::first(),
            connections: 0,
            sessions: 0,
            handle: None,
            failures: link::Failures::default(),
            tools: Tools::default(),
            doubt: None,
            held: Held::default(),
            words: VecDeque::new(),
            transcript: Transcript::default(),
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
    pub(super) fn step(&mut self, input: Input, now: Duration) -> Vec<Effect> {
        self.now = self.now.max(now);
        if !self.is_over() {
            match input {
                Input::Opened { connection } => self.opened(connection),
                Input::Message {
                    connection,
                    message,
                } => self.message(connection, *message),
                Input::Rubbish { connection } => self.rubbish(connection),
                Input::Closed { connection, why } => self.closed(connection, &why),
                Input::Spoken(spoken) => self.spoken(spoken),
                Input::Time => {}
            }
            self.time();
        }
        std::mem::take(&mut self.effects)
    }

    /// When [`Input::Time`] is due.
    pub(super) fn due(&self) -> Option<Duration> {
        let gate = self
            .live()
            .filter(|_| self.persona.profile.functions == Functions::Blocking)
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
        matches!(self.link, Link::Over)
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

    fn spoken(&mut self, spoken: Spoken) {
        match spoken {
            Spoken::Audio(samples) => self.caller(&samples),
            Spoken::Text(text) | Spoken::Goodbye(text) => self.say(super::words::note(&text)),
            Spoken::Keys(words) => self.say(words),
            Spoken::ToolOutcome { id, outcome } => {
                self.tools.came(&id, outcome, self.now);
            }
            // The service detects the caller's voice itself: it stops, and its own record ends there.
            Spoken::Interrupted { .. } => {}
            Spoken::Summarise => self.summarise(),
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
            self.tell(Heard::Summarising);
        }
    }

    /// Ends the summary with what has come so far.
    fn summed_up(&mut self) {
        let Some(summary) = &mut self.summary else {
            return;
        };
        let text = summary.text.trim().to_owned();
        if summary.until.take().is_some() && !text.is_empty() {
            self.tell(Heard::Summary(text));
        }
    }

    /// Queues text for the model.
    fn say(&mut self, words: String) {
        if self.words.len() == WORDS_MOST {
            self.words.pop_front();
        }
        self.words.push_back(words);
    }

    fn tell(&mut self, heard: Heard) {
        self.effects.push(Effect::Tell(heard));
    }
}
