//! Sessions over real connections, with a strict fake server that misbehaves as told.

mod conversation;
mod faults;
pub(crate) mod simulated;

use dikala_testkit::pipeline::{FakePipeline, KEY, MODEL};

use super::PipelineProvider;
use crate::{
    settings::{EndpointSettings, PipelineSettings, Prices},
    voice::common::tests::{Call, milliseconds as heard_ms, publicly},
};

fn settings(url: &str) -> PipelineSettings {
    let endpoint = EndpointSettings {
        url: url.to_owned(),
        api_key: KEY.to_owned(),
        model: MODEL.to_owned(),
    };
    PipelineSettings {
        stt: endpoint.clone(),
        llm: endpoint.clone(),
        tts: endpoint,
        voice: "tone".to_owned(),
        prices: Prices::default(),
    }
}

fn call_with(settings: &PipelineSettings) -> Call {
    Call::with(&PipelineProvider::new(settings, &publicly(), true))
}

/// A call after its greeting.
async fn greeted(server: &FakePipeline) -> Call {
    let mut call = call_with(&settings(&server.url()));
    call.until_turn_over("the greeting").await;
    call
}

impl Call {
    /// Listens to the end of the last answer, and speaks, with the end as the phone's side notices it.
    async fn speak_up(&mut self, milliseconds: u64) {
        use crate::voice::VoiceInput::Activity;
        let before = self
            .heard
            .split_last()
            .map_or(&[][..], |(_, before)| before);
        let turns = before.rsplit(|it| *it == crate::voice::VoiceEvent::TurnOver);
        let length = turns.take(1).map(heard_ms).sum::<usize>();
        tokio::time::sleep(std::time::Duration::from_millis(length as u64)).await;
        self.say(Activity { speaks: true }).await;
        self.audio(milliseconds, 3_000).await;
        self.audio(400, 0).await;
        self.say(Activity { speaks: false }).await;
    }
}
