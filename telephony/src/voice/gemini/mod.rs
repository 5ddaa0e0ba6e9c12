//! Gemini Live: the model listens and speaks by itself, over a WebSocket.
//!
//! [`machine`] decides (what came and when → what to do), [`shell`] carries out with a socket or two ([`socket`]). What a model is told
//! first is [`setup`], what it is told in [`words`], what the families of models differ in [`profile`], the messages [`wire`].
//! Nothing of this has ever run against Google's service; each rule has the date and the source that it was taken from.

mod check;
mod machine;
mod profile;
mod setup;
mod shell;
mod socket;
#[cfg(test)]
mod tests;
mod wire;
mod words;

use std::sync::Arc;

use tokio::sync::mpsc;

pub use self::check::check;
use self::{machine::Machine, setup::Persona};
use super::{Provider, Session, Setup};
use crate::{settings, trust::Trust};

/// Where Google serves it.
pub const URL: &str = "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
/// The stable model, as recommended since September 2026 (ai.google.dev, models/gemini-3.8-live).
pub const MODEL: &str = "gemini-3.8-live";

/// What the caller says waits here while the session does something else: 5 s.
const SPOKEN_MOST: usize = 256;
/// What the agent says, before the session holds it back itself: less than a second.
const HEARD_MOST: usize = 8;

/// Opens sessions with Gemini Live.
#[derive(Debug)]
pub struct Gemini {
    settings: Arc<settings::Gemini>,
    trust: Trust,
    interruptible: bool,
}

impl Gemini {
    /// `interruptible`: whether the caller's voice stops the agent's.
    pub fn new(settings: settings::Gemini, trust: Trust, interruptible: bool) -> Self {
        Self {
            settings: Arc::new(settings),
            trust,
            interruptible,
        }
    }
}

impl Provider for Gemini {
    fn open(&self, setup: Setup) -> Session {
        let (spoken, from_call) = mpsc::channel(SPOKEN_MOST);
        let (to_call, heard) = mpsc::channel(HEARD_MOST);
        let mut persona = Persona::new(setup.agent, &self.settings.model);
        persona.interruptible = self.interruptible;
        let machine = Machine::new(persona);
        tokio::spawn(shell::run(
            machine,
            self.settings.clone(),
            self.trust.clone(),
            setup.call_id,
            from_call,
            to_call,
        ));
        Session { spoken, heard }
    }
}
