//! Sessions over real sockets, with a strict fake model that misbehaves as told. Each documented pitfall has a test.

mod conversation;
mod faults;

use std::sync::Arc;

use dikala_testkit::openai::{FakeOpenAi, KEY, MODEL, RealtimeReaction};

use super::{OpenAiProvider, TRANSCRIPTION_MODEL};
use crate::{
    settings::{OpenAiSettings, Prices, TurnDetection},
    voice::{
        SimulatedVoice, VoiceSetup,
        common::{
            simulated::SimulatedSession,
            tests::{Call, publicly},
        },
    },
};

/// A session in simulated time.
pub(crate) fn simulated(
    model: &Arc<FakeOpenAi>,
    turn_detection: TurnDetection,
    setup: VoiceSetup,
    now_ms: u64,
) -> Box<dyn SimulatedVoice> {
    let settings = OpenAiSettings {
        turn_detection,
        ..settings(model.url())
    };
    let provider = OpenAiProvider::new(settings, publicly(), true);
    let model = Arc::clone(model);
    let open_line = Box::new(move || Box::new(model.line()) as _);
    let machine = provider.machine(setup);
    Box::new(SimulatedSession::new(machine, open_line, now_ms))
}

fn settings(url: String) -> OpenAiSettings {
    OpenAiSettings {
        url,
        api_key: KEY.to_owned(),
        model: MODEL.to_owned(),
        transcription_model: TRANSCRIPTION_MODEL.to_owned(),
        turn_detection: TurnDetection::Server,
        prices: Prices::default(),
    }
}

fn call_with(settings: OpenAiSettings) -> Call {
    Call::with(&OpenAiProvider::new(settings, publicly(), true))
}

/// A call after its greeting.
async fn greeted(model: &FakeOpenAi) -> Call {
    let mut call = call_with(settings(model.url()));
    call.until_turn_over("the greeting").await;
    call
}

fn says(text: &str, milliseconds: u64) -> RealtimeReaction {
    RealtimeReaction::Say {
        text: text.to_owned(),
        milliseconds,
    }
}
