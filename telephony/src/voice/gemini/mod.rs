//! Gemini Live: the model listens and speaks by itself, over a WebSocket.
//!
//! [`machine`] decides. [`setup`] is the first message of a connection, [`profile`] the differences between models, [`wire`] the
//! messages. This code has never run against Google's service. Each rule names its date and source.

mod check;
mod machine;
mod profile;
mod setup;
#[cfg(test)]
pub(crate) mod tests;
mod wire;

use dikala_entities::InterruptionMode;
use url::Url;

pub use self::check::check;
use self::{machine::SessionMachine, setup::SessionSettings};
use super::{
    Provider, VoiceSession, VoiceSetup,
    common::{self, ModelEndpoint, Sockets},
};
use crate::{settings, trust::Trust};

/// Google's endpoint.
pub const URL: &str = "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
/// The stable model, as recommended since September 2026 (ai.google.dev, models/gemini-3.8-live).
pub const MODEL: &str = "gemini-3.8-live";

#[derive(Debug)]
pub struct GeminiProvider {
    settings: settings::GeminiSettings,
    trust: Trust,
    interruptible: bool,
}

impl GeminiProvider {
    /// `interruptible`: the caller's voice stops the agent's.
    pub fn new(settings: settings::GeminiSettings, trust: Trust, interruptible: bool) -> Self {
        Self {
            settings,
            trust,
            interruptible,
        }
    }
}

impl Provider for GeminiProvider {
    fn open(&self, setup: VoiceSetup) -> VoiceSession {
        let call_id = setup.call_id.clone();
        let sockets = Sockets::new(endpoint(&self.settings), self.trust.clone());
        common::open(self.machine(setup), sockets, call_id)
    }
}

impl GeminiProvider {
    fn machine(&self, setup: VoiceSetup) -> SessionMachine {
        let never = setup.agent.conversation.interruptions == InterruptionMode::Off;
        let mut session_settings = SessionSettings::new(setup.agent, &self.settings.model);
        session_settings.interruptible = self.interruptible && !never;
        session_settings.circumstances = setup.circumstances;
        SessionMachine::new(session_settings, &setup.so_far, setup.is_answer_cut)
    }
}

/// The address has the key as a parameter.
fn endpoint(settings: &settings::GeminiSettings) -> ModelEndpoint {
    let url = match Url::parse(&settings.url) {
        Ok(mut url) if !settings.api_key.is_empty() => {
            url.query_pairs_mut().append_pair("key", &settings.api_key);
            url.into()
        }
        _ => settings.url.clone(),
    };
    ModelEndpoint {
        setting: "telephony.gemini.url",
        url,
        headers: Vec::new(),
        key: settings.api_key.clone(),
    }
}
