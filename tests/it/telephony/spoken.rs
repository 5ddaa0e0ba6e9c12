//! Spoken Indonesian over real calls, through each provider: a turn ends where the caller has finished a sentence.

use std::sync::Arc;

use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::VoiceProvider;
use dikala_telephony::{
    bridge::TelephonyBridge,
    settings::{
        BridgeSettings, EndpointSettings, OpenAiSettings, PipelineSettings, Prices, TurnDetection,
        Voice,
    },
};
use dikala_testkit::{
    gemini::FakeGemini,
    openai::{self, FakeOpenAi},
    pipeline::{self, Endpoint, FakePipeline, ServerReaction},
};

use super::{
    conversation::{have, hears, settings, spoken, turns},
    phone::TestPhone,
};
use crate::support::{prelude::*, tenant::text};

/// Sentences without a pause, because the simulated models end a turn after 300 ms.
const SENTENCES: [&str; 3] = [
    "Di mana pesanan saya nomor empat dua tujuh",
    "Apakah bisa dikirim sebelum jam lima",
    "Baik terima kasih banyak",
];
/// The length of an answer of the simulated models.
const ANSWER_MS: u64 = 400;

/// Says each sentence, hears an answer to each, and hangs up. The transcript has one turn for each: how long it was, after these
/// words.
async fn converse(world: &TestWorld, settings: &BridgeSettings, heard_as: &str) {
    let clock = Arc::new(|| SystemClock.now());
    let bridge = TelephonyBridge::start(settings, super::service(world), clock)
        .await
        .unwrap();
    let phone = TestPhone::call(bridge.addresses()[0].address, &world.tenant.did).await;
    hears(&phone, 1, ANSWER_MS).await;
    let mut lengths = Vec::new();
    for (at, sentence) in SENTENCES.iter().enumerate() {
        let words = spoken(sentence);
        lengths.push(words.len() / 8);
        phone.audio.say(&words);
        hears(&phone, at + 2, ANSWER_MS).await;
    }
    phone.hang_up().await;
    let id = text(&world.tenant.calls().await[0], "id");
    world.event("call.transcript", &id).await;
    let path = format!("/calls/{id}/transcript");
    let transcript = turns(&world.tenant.api.get(&path).await.expect(200));
    let of = |role: &str| {
        let turns = transcript.iter().filter(|(who, _)| who == role);
        turns.map(|(_, said)| said.clone()).collect::<Vec<_>>()
    };
    let heard = of("caller");
    assert_eq!((heard.len(), of("agent").len()), (3, 4), "{transcript:?}");
    for (said, length) in heard.iter().zip(lengths) {
        let ms = said
            .strip_prefix(heard_as)
            .and_then(|it| it.split(' ').next());
        let ms: usize = ms.and_then(|ms| ms.parse().ok()).expect("a length");
        assert!((length / 2..=length).contains(&ms), "{said} of {length} ms");
    }
    bridge.stop().await;
}

#[actix_web::test]
async fn whole_sentences_are_turns_with_gemini() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    converse(&world, &settings(&model), "heard ").await;
    assert_eq!(model.broken_rules(), Vec::<String>::new());
}

#[rstest]
#[case::the_servers(TurnDetection::Server)]
#[case::the_bridges(TurnDetection::Own)]
#[actix_web::test]
async fn whole_sentences_are_turns_with_openai(#[case] turn_detection: TurnDetection) {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeOpenAi::start();
    let openai = OpenAiSettings {
        url: model.url(),
        api_key: openai::KEY.to_owned(),
        model: openai::MODEL.to_owned(),
        transcription_model: "gpt-4o-mini-transcribe".to_owned(),
        turn_detection,
        prices: Prices::default(),
    };
    let voice = Voice {
        provider: VoiceProvider::Openai,
        openai: Some(openai),
        ..Voice::default()
    };
    let gemini = FakeGemini::start();
    let settings = BridgeSettings {
        voice,
        ..settings(&gemini)
    };
    converse(&world, &settings, "heard ").await;
    let commits = model.connections()[0].of_type("input_audio_buffer.commit");
    let expected = match turn_detection {
        TurnDetection::Own => SENTENCES.len(),
        TurnDetection::Server | TurnDetection::Semantic => 0,
    };
    assert_eq!(commits.len(), expected);
    assert_eq!(model.broken_rules(), Vec::<String>::new());
}

#[actix_web::test]
async fn whole_sentences_are_turns_with_a_pipeline() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let agent = json!({"greetingText": null, "language": "id"});
    world.tenant.change_agent(agent).await;
    let server = FakePipeline::start();
    // Of 20 characters, each with 20 ms of sound.
    let answer = "Baik, saya catat ya.";
    let answers = std::iter::repeat_n(ServerReaction::Text(answer), SENTENCES.len() + 1);
    server.react(Endpoint::Llm, answers);
    let endpoint = EndpointSettings {
        url: server.url(),
        api_key: pipeline::KEY.to_owned(),
        model: pipeline::MODEL.to_owned(),
    };
    let pipeline = PipelineSettings {
        stt: endpoint.clone(),
        llm: endpoint.clone(),
        tts: endpoint,
        voice: "tone".to_owned(),
        prices: Prices::default(),
    };
    let voice = Voice {
        provider: VoiceProvider::Pipeline,
        pipeline: Some(pipeline),
        ..Voice::default()
    };
    let gemini = FakeGemini::start();
    let settings = BridgeSettings {
        voice,
        ..settings(&gemini)
    };
    converse(&world, &settings, "A voice of ").await;
    let transcriptions = server.calls(Endpoint::Stt);
    assert_eq!(transcriptions.len(), SENTENCES.len());
    assert!(transcriptions.iter().all(|it| it.body["language"] == "id"));
    assert_eq!(server.broken_rules(), Vec::<String>::new());
}
