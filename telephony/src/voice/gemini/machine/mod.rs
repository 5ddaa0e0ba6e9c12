//! A session with Gemini Live, decided: what came and when → what to do. It waits for nothing and knows no socket.
//!
//! - [`link`](self) is which connection is used, and when the next one takes its place;
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

/// Words for the model that wait for a connection; the oldest are dropped beyond.
const WORDS_MOST: usize = 32;
/// How long a summary may take.
const SUMMARY: Duration = Duration::from_secs(8);

/// What came.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// The socket stands.
    Opened {
        connection: u32,
    },
    Message {
        connection: u32,
        message: Box<server::Message>,
    },
    /// Something that cannot be read.
    Rubbish {
        connection: u32,
    },
    Closed {
        connection: u32,
        why: Closure,
    },
    Spoken(Spoken),
    /// It is as late as [`Machine::due`] said.
    Time,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closure {
    /// The service does not want what it was sent, and will not want it the next time either.
    pub refused: bool,
    /// In words for operators, without secrets.
    pub words: String,
}

/// What to do.
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
    /// Something that operators should know about this call.
    Warn(&'static str),
}

/// A summary that was asked for: nothing else is told any more.
#[derive(Debug)]
struct Summary {
    text: String,
    /// None once it was told.
    until: Option<Duration>,
    has_begun: bool,
}

/// The state of a session.
#[derive(Debug)]
pub(super) struct Machine {
    persona: Persona,
    now: Duration,
    effects: Vec<Effect>,
    link: Link,
    /// Connections that were opened so far.
    connections: u32,
    /// Sessions that were begun so far: more than one when a handle was refused.
    sessions: u32,
    handle: Option<Handle>,
    failures: link::Failures,
    tools: Tools,
    doubt: Option<Doubt>,
    held: Held,
    words: VecDeque<String>,
    transcript: Transcript,
    /// The greeting was heard, at least its beginning.
    spoke: bool,
    ready: bool,
    /// The model is at work on an answer.
    answering: bool,
    /// A piece of the agent's audio ended within a sample; the next one of the turn begins with the rest.
    half_sample: Option<u8>,
    /// Messages on this connection that could not be read.
    rubbish: u32,
    summary: Option<Summary>,
    bill: Bill,
}

/// What a session can be resumed with.
#[derive(Debug)]
struct Handle {
    text: String,
    at: Duration,
    /// The state that it stands for is the newest.
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

    /// Takes what came at `now`, counted from the beginning of the session.
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

    /// When to come back with [`Input::Time`] if nothing else comes.
    pub(super) fn due(&self) -> Option<Duration> {
        let gate = self
            .live()
            .filter(|_| self.persona.profile.functions == Functions::Blocking)
            .and_then(|connection| self.tools.gated_until(connection, self.now));
        // Nothing is said where nobody is there.
        let doubt = self.doubt.as_ref().filter(|_| self.live().is_some());
        let doubt = doubt.map(|doubt| doubt.until);
        let summary = self.summary.as_ref().and_then(|summary| summary.until);
        [self.link_due(), gate, doubt, summary]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.is_over())
    }

    /// There is no voice any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.link, Link::Over)
    }

    /// What is due by now.
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
            // The service listens for itself: it stops when it hears the caller, and its own record ends there.
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

    /// The model says something, and it is not for the caller.
    fn sums_up(&mut self) {
        let begins = |summary: &mut Summary| !std::mem::replace(&mut summary.has_begun, true);
        if self.summary.as_mut().is_some_and(begins) {
            self.tell(Heard::Summarising);
        }
    }

    /// The summary is as long as it becomes.
    fn summed_up(&mut self) {
        let Some(summary) = &mut self.summary else {
            return;
        };
        let text = summary.text.trim().to_owned();
        if summary.until.take().is_some() && !text.is_empty() {
            self.tell(Heard::Summary(text));
        }
    }

    /// Words for the model, as soon as it can be told.
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
