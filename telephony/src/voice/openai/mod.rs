//! OpenAI Realtime: the model listens and speaks by itself, over a WebSocket. So do servers that speak the same protocol.
//!
//! [`machine`] decides. [`session_update`] has the terms of a session, [`wire`] the events. This code has never run against
//! OpenAI's service. It follows the published types of 2026-08-21, and reports of other projects, which are named where they count.

mod check;
mod machine;
mod session_update;
#[cfg(test)]
pub(crate) mod tests;
mod wire;

use dikala_entities::InterruptionMode;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, header};
use url::Url;

pub use self::check::check;
use self::{machine::RealtimeMachine, session_update::SessionTerms};
use super::{
    Provider, VoiceSession, VoiceSetup,
    common::{self, ModelEndpoint, Sockets},
};
use crate::{
    settings::{OpenAiSettings, host_of},
    trust::Trust,
};

/// OpenAI's endpoint.
pub const URL: &str = "wss://api.openai.com/v1/realtime";
/// The newest model of the published types of 2026-08-21.
pub const MODEL: &str = "gpt-realtime-2.1";
/// The model that writes down the caller's words.
pub const TRANSCRIPTION_MODEL: &str = "gpt-4o-mini-transcribe";

#[derive(Debug)]
pub struct OpenAiProvider {
    settings: OpenAiSettings,
    trust: Trust,
    interruptible: bool,
}

impl OpenAiProvider {
    /// `interruptible`: the caller's voice stops the agent's.
    pub fn new(settings: OpenAiSettings, trust: Trust, interruptible: bool) -> Self {
        Self {
            settings,
            trust,
            interruptible,
        }
    }
}

impl Provider for OpenAiProvider {
    fn open(&self, setup: VoiceSetup) -> VoiceSession {
        let call_id = setup.call_id.clone();
        let sockets = Sockets::new(endpoint(&self.settings), self.trust.clone());
        common::open(self.machine(setup), sockets, call_id)
    }
}

impl OpenAiProvider {
    fn machine(&self, setup: VoiceSetup) -> RealtimeMachine {
        let never = setup.agent.conversation.interruptions == InterruptionMode::Off;
        let terms = SessionTerms {
            agent: setup.agent,
            circumstances: setup.circumstances,
            transcription_model: self.settings.transcription_model.clone(),
            turn_detection: self.settings.turn_detection,
            interruptible: self.interruptible && !never,
            is_plain: false,
        };
        RealtimeMachine::new(terms, &setup.so_far, setup.is_answer_cut)
    }
}

/// The address names the model, a header has the key. The header of the former beta is refused, so none is sent.
fn endpoint(settings: &OpenAiSettings) -> ModelEndpoint {
    let url = match Url::parse(&settings.url) {
        Ok(mut url) if !settings.model.is_empty() => {
            url.query_pairs_mut().append_pair("model", &settings.model);
            url.into()
        }
        _ => settings.url.clone(),
    };
    let key = &settings.api_key;
    let (name, value) = match host_of(&settings.url).ends_with(".azure.com") {
        true => (HeaderName::from_static("api-key"), key.clone()),
        false => (header::AUTHORIZATION, format!("Bearer {key}")),
    };
    let value = HeaderValue::from_str(&value).ok();
    let headers = value.filter(|_| !key.is_empty()).map(|value| (name, value));
    ModelEndpoint {
        setting: "telephony.openai.url",
        url,
        headers: headers.into_iter().collect(),
        key: key.clone(),
    }
}
