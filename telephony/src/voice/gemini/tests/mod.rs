//! Sessions over real sockets, with a strict fake model that misbehaves as told.

mod conversation;
mod faults;
mod real;

use std::sync::Arc;

use dikala_testkit::gemini::{FakeGemini, KEY};

use super::{GeminiProvider, MODEL};
use crate::{
    settings::{self, Prices},
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
    model: &Arc<FakeGemini>,
    setup: VoiceSetup,
    now_ms: u64,
) -> Box<dyn SimulatedVoice> {
    let provider = GeminiProvider::new(settings(model.url(), MODEL), publicly(), true);
    let model = Arc::clone(model);
    let open_line = Box::new(move || Box::new(model.line()) as _);
    let machine = provider.machine(setup);
    Box::new(SimulatedSession::new(machine, open_line, now_ms))
}

fn settings(url: String, model: &str) -> settings::GeminiSettings {
    settings::GeminiSettings {
        url,
        api_key: KEY.to_owned(),
        model: model.to_owned(),
        prices: Prices::default(),
    }
}

fn call_with(settings: settings::GeminiSettings) -> Call {
    Call::with(&GeminiProvider::new(settings, publicly(), true))
}

fn new_call(model: &FakeGemini) -> Call {
    call_with(settings(model.url(), MODEL))
}

/// A call after its greeting.
async fn greeted(model: &FakeGemini) -> Call {
    let mut call = new_call(model);
    call.until_turn_over("the greeting").await;
    call
}
