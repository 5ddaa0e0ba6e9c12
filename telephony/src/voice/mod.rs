//! The voice of an agent. A voice session is a pair of bounded channels; every voice implements only [`Provider`].

mod common;
pub mod gemini;
pub mod openai;
mod phrases;
pub mod pipeline;
mod scripted;
mod session;

use std::{collections::BTreeMap, sync::Arc};

use dikala_entities::VoiceProvider;

use self::{gemini::GeminiProvider, openai::OpenAiProvider, pipeline::PipelineProvider};
use crate::{settings::Voice, trust::Trust};

pub use crate::cost::Usage;
#[cfg(test)]
pub(crate) use common::simulated::SimulatedVoice;
pub(crate) use common::words::{late_outcome, local_time, outcome_in_words};
pub use phrases::Phrase;
use phrases::is_indonesian;
pub use scripted::Scripted;
pub use session::{Provider, ToolOutcome, VoiceEvent, VoiceInput, VoiceSession, VoiceSetup};

/// The configured providers.
pub(crate) fn providers(
    voice: &Voice,
    trust: &Trust,
) -> BTreeMap<VoiceProvider, Arc<dyn Provider>> {
    let mut providers: BTreeMap<VoiceProvider, Arc<dyn Provider>> = BTreeMap::new();
    providers.insert(VoiceProvider::Scripted, Arc::new(Scripted));
    if let Some(gemini) = &voice.gemini {
        let gemini = GeminiProvider::new(gemini.clone(), trust.clone(), voice.barge_in);
        providers.insert(VoiceProvider::Gemini, Arc::new(gemini));
    }
    if let Some(openai) = &voice.openai {
        let openai = OpenAiProvider::new(openai.clone(), trust.clone(), voice.barge_in);
        providers.insert(VoiceProvider::Openai, Arc::new(openai));
    }
    if let Some(pipeline) = &voice.pipeline {
        let pipeline = PipelineProvider::new(pipeline, trust, voice.barge_in);
        providers.insert(VoiceProvider::Pipeline, Arc::new(pipeline));
    }
    providers
}
