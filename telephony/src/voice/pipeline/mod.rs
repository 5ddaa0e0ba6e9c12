//! A pipeline: speech-to-text, a language model and text-to-speech, each behind an OpenAI-compatible endpoint.
//!
//! [`machine`] decides. [`http`] carries out the requests, [`wire`] has what they and their answers look like, [`clauses`] cuts the
//! model's text for the speech, [`sample_decoder`] reads the sound, and [`transcripts`] judges the caller's. [`text_model`] is the
//! language model alone, for conversations in writing.

mod check;
mod clauses;
mod http;
mod machine;
mod sample_decoder;
#[cfg(test)]
pub(crate) mod tests;
mod text_model;
mod thoughts;
mod transcripts;
mod wire;

use dikala_entities::InterruptionMode;
use url::Url;

pub use self::{
    check::check,
    text_model::{TextAnswer, TextCall, TextModel, TextModelError, TextTurn},
};
use self::{
    http::{HttpEndpoint, PipelineHttp},
    machine::PipelineMachine,
};
use super::{
    Provider, VoiceSession, VoiceSetup,
    common::{self, words},
};
use crate::{
    settings::{EndpointSettings, PipelineSettings},
    trust::Trust,
};

pub struct PipelineProvider {
    http: PipelineHttp,
    is_interruptible: bool,
}

impl std::fmt::Debug for PipelineProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PipelineProvider(…)")
    }
}

impl PipelineProvider {
    /// `interruptible`: the caller's voice stops the agent's.
    pub fn new(settings: &PipelineSettings, trust: &Trust, interruptible: bool) -> Self {
        Self {
            http: endpoints(settings, trust),
            is_interruptible: interruptible,
        }
    }
}

impl Provider for PipelineProvider {
    fn open(&self, setup: VoiceSetup) -> VoiceSession {
        let agent = setup.agent;
        let mut http = self.http.clone();
        http.language = words::language_code(&agent).map(str::to_owned);
        if let Some(name) = &agent.voice_name {
            http.voice.clone_from(name);
        }
        let never = agent.conversation.interruptions == InterruptionMode::Off;
        let is_interruptible = self.is_interruptible && !never;
        let machine = PipelineMachine::new(
            agent,
            &setup.circumstances,
            is_interruptible,
            &setup.so_far,
            setup.is_answer_cut,
        );
        common::open(machine, http, setup.call_id)
    }
}

fn endpoint(setting: &'static str, of: &EndpointSettings, path: &str) -> HttpEndpoint {
    HttpEndpoint {
        setting,
        url: complete(&of.url, path),
        key: of.api_key.clone(),
        model: of.model.clone(),
    }
}

fn endpoints(settings: &PipelineSettings, trust: &Trust) -> PipelineHttp {
    PipelineHttp {
        client: http::client(trust),
        stt: endpoint(
            "telephony.pipeline.stt",
            &settings.stt,
            "/audio/transcriptions",
        ),
        llm: endpoint("telephony.pipeline.llm", &settings.llm, "/chat/completions"),
        tts: endpoint("telephony.pipeline.tts", &settings.tts, "/audio/speech"),
        voice: settings.voice.clone(),
        language: None,
    }
}

/// The whole address of an endpoint. The given one may end before the version, behind it, or have everything.
fn complete(given: &str, path: &str) -> String {
    let Ok(mut url) = Url::parse(given) else {
        return given.to_owned();
    };
    let base = url.path().trim_end_matches('/').to_owned();
    let whole = match base.as_str() {
        "" => format!("/v1{path}"),
        base if base.ends_with(path) => base.to_owned(),
        base => format!("{base}{path}"),
    };
    url.set_path(&whole);
    url.into()
}
