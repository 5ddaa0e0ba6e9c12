//! Sessions over real sockets, with a strict fake model that misbehaves as told.

mod conversation;
mod faults;
mod real;

use dikala_testkit::gemini::{FakeGemini, KEY};

use super::{GeminiProvider, MODEL};
use crate::{
    settings::{self, Prices},
    voice::common::tests::{Call, publicly},
};

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
