//! Gemini Live: the model listens and speaks by itself, over a WebSocket.
//!
//! [`machine`] decides, [`shell`] carries that out with one or two sockets ([`socket`]). [`setup`] is the first message of a
//! connection, [`words`] the texts for the model, [`profile`] the differences between models, [`wire`] the messages. This code
//! has never run against Google's service. Each rule names its date and source.

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
use self::{machine::SessionMachine, setup::SessionSettings};
use super::{Provider, VoiceSession, VoiceSetup};
use crate::{settings, trust::Trust};

/// Google's endpoint.
pub const URL: &str = "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
/// The stable model, as recommended since September 2026 (ai.google.dev, models/gemini-3.8-live).
pub const MODEL: &str = "gemini-3.8-live";

/// Messages from the call that wait for the session: 5 s of audio.
const SPOKEN_MOST: usize = 256;
/// Messages to the call that wait: less than a second. The session itself holds back the rest.
const HEARD_MOST: usize = 8;

#[derive(Debug)]
pub struct GeminiProvider {
    settings: Arc<settings::GeminiSettings>,
    trust: Trust,
    interruptible: bool,
}

impl GeminiProvider {
    /// `interruptible`: the caller's voice stops the agent's.
    pub fn new(settings: settings::GeminiSettings, trust: Trust, interruptible: bool) -> Self {
        Self {
            settings: Arc::new(settings),
            trust,
            interruptible,
        }
    }
}

impl Provider for GeminiProvider {
    fn open(&self, setup: VoiceSetup) -> VoiceSession {
        let (spoken, from_call) = mpsc::channel(SPOKEN_MOST);
        let (to_call, heard) = mpsc::channel(HEARD_MOST);
        let mut session_settings = SessionSettings::new(setup.agent, &self.settings.model);
        session_settings.interruptible = self.interruptible;
        let machine = SessionMachine::new(session_settings);
        tokio::spawn(shell::run(
            machine,
            self.settings.clone(),
            self.trust.clone(),
            setup.call_id,
            from_call,
            to_call,
        ));
        VoiceSession { spoken, heard }
    }
}
