//! Conversations without faults.

use std::time::{Duration, Instant};

use dikala_testkit::pipeline::{Endpoint, FakePipeline, ReceivedCall, ServerReaction};
use rstest::rstest;
use serde_json::{Value, json};

use super::{call_with, greeted, settings};
use crate::voice::{
    Usage, VoiceEvent, VoiceInput,
    common::tests::{milliseconds, order, publicly, said, shown},
    pipeline::{check, complete},
};

/// The promise for servers that answer at once, and what a busy machine may add.
const FIRST_SOUND: Duration = Duration::from_millis(400);

fn usage(heard: &[VoiceEvent]) -> Usage {
    let mut sum = Usage::default();
    for told in heard {
        if let VoiceEvent::Usage(usage) = told {
            sum.text_in += usage.text_in;
            sum.cached_in += usage.cached_in;
            sum.text_out += usage.text_out;
            sum.milliseconds += usage.milliseconds;
            sum.characters += usage.characters;
        }
    }
    sum
}

#[tokio::test]
async fn the_agent_greets_answers_and_calls_functions() {
    let server = FakePipeline::start();
    let mut call = call_with(&settings(&server.url()));
    let greeting = call.until_turn_over("the greeting").await;
    assert_eq!(greeting[0], VoiceEvent::Ready);
    assert_eq!(said(&greeting).trim(), "Kopi Senja, selamat pagi!");
    assert_eq!(milliseconds(&greeting), 25 * 20);
    assert_eq!(server.calls(Endpoint::Llm).len(), 0);

    call.speak_up(600).await;
    let answer = call.until_turn_over("the answer").await;
    assert_eq!(said(&answer).trim(), "I heard: A voice of 600 ms.");
    let heard = VoiceEvent::CallerSaid("A voice of 600 ms. ".to_owned());
    assert!(answer.contains(&heard), "{:?}", shown(&answer));

    let orders = ["1001", "1002"].map(|id| ("check_order", order(id)));
    let calls = ServerReaction::Call("Saya periksa dulu.", orders.to_vec());
    server.react(Endpoint::Llm, [calls]);
    call.speak_up(600).await;
    let (first, second) = (call.wish().await, call.wish().await);
    call.outcome(&second, json!({"arrivesInMinutes": 30})).await;
    call.outcome(&first, json!({"arrivesInMinutes": 20})).await;
    let words = call.until_turn_over("the announcement").await;
    assert_eq!(said(&words).trim(), "Saya periksa dulu.");
    let answer = call.until_turn_over("the answer").await;
    assert!(
        said(&answer).contains("arrivesInMinutes"),
        "{:?}",
        shown(&answer)
    );

    let asked = server.calls(Endpoint::Llm);
    assert_eq!(asked.len(), 3, "one request for both outcomes");
    let tools = asked[0].body["tools"].as_array().map(Vec::len);
    assert_eq!(tools, Some(3));
    let spoken = server.calls(Endpoint::Tts);
    let characters: usize = spoken
        .iter()
        .map(|it| it.body["input"].as_str().unwrap().chars().count())
        .sum();
    assert_eq!(spoken[0].body["voice"], "tone");
    let heard = server.calls(Endpoint::Stt);
    assert_eq!(heard[0].body["language"], "id");
    assert_eq!(
        usage(&call.heard),
        Usage {
            text_in: 3 * 36,
            cached_in: 3 * 64,
            text_out: 3 * 10,
            milliseconds: heard.iter().map(|it| it.audio_ms).sum(),
            characters: characters as u64,
            ..Usage::default()
        }
    );
    assert_eq!(server.broken_rules(), [""; 0]);
    assert!(server.connections() < 6, "connections are used again");
}

/// From the model's first clause to the first sound, with servers that answer at once.
#[tokio::test]
async fn the_first_sound_follows_the_first_clause_within_400_ms() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
            .await;
        call.until("speech", |it| matches!(it, VoiceEvent::Audio(_)))
            .await;
        let asked = server.calls(Endpoint::Llm).pop().unwrap();
        slowest = slowest.max(Instant::now() - asked.at);
        call.until_turn_over("an answer").await;
    }
    println!("the slowest first sound came after {slowest:?}");
    assert!(slowest < FIRST_SOUND, "{slowest:?}");
}

/// Requests are cancelled by closing their connections.
#[tokio::test]
async fn an_interruption_ends_the_requests() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    server.react(Endpoint::Tts, [ServerReaction::Stall]);
    call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
        .await;
    call.until("speech", |it| matches!(it, VoiceEvent::Audio(_)))
        .await;
    call.say(VoiceInput::Activity { speaks: true }).await;
    call.audio(1_000, 3_000).await;
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    call.say(VoiceInput::Interrupted { played_ms: 550 }).await;
    call.audio(400, 0).await;
    call.say(VoiceInput::Activity { speaks: false }).await;
    assert!(call.answer().await.contains("A voice of 1000 ms"));
    let cancelled = |all: &[ReceivedCall]| all[1].cancelled;
    server
        .wait("the end of the speech", Endpoint::Tts, cancelled)
        .await;
    let asked = server.calls(Endpoint::Llm).pop().unwrap();
    // 50 ms of the answer were heard, less than a word.
    assert_eq!(
        asked.body["messages"][2]["content"], "Kopi Senja, selamat pagi!",
        "{:#}",
        asked.body
    );
    assert_eq!(server.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_caller_who_goes_on_ends_a_request_that_is_not_answered_yet() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    server.react(Endpoint::Llm, [ServerReaction::Silence]);
    call.speak_up(600).await;
    let asked = |all: &[ReceivedCall]| all.first().map(|_| ());
    server.wait("a request", Endpoint::Llm, asked).await;
    call.say(VoiceInput::Activity { speaks: true }).await;
    let cancelled = |all: &[ReceivedCall]| all[0].cancelled;
    server
        .wait("the end of the request", Endpoint::Llm, cancelled)
        .await;
    call.audio(400, 3_000).await;
    call.audio(400, 0).await;
    call.say(VoiceInput::Activity { speaks: false }).await;
    let both = "A voice of 600 ms. A voice of 400 ms.";
    assert!(call.answer().await.contains(both));
    assert_eq!(server.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_goodbye_is_said_before_the_call_is_ended() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    let goodbye = ServerReaction::Call("Sampai jumpa!", vec![("end_call", json!({}))]);
    server.react(Endpoint::Llm, [goodbye]);
    call.say(VoiceInput::Goodbye("The call ends: say goodbye".to_owned()))
        .await;
    let id = call.wish().await;
    assert!(said(&call.heard).ends_with("Sampai jumpa! "));
    call.outcome(&id, json!({"ending": "soon"})).await;
    call.until_turn_over("the end").await;
    assert_eq!(
        server.calls(Endpoint::Llm).len(),
        1,
        "nothing is said after it"
    );
}

#[tokio::test]
async fn a_summary_is_written_and_heard_by_nobody() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    server.react(
        Endpoint::Llm,
        [ServerReaction::Text("An order. It is on its way.")],
    );
    call.say(VoiceInput::Summarise).await;
    let since = call
        .until("the summary", |it| matches!(it, VoiceEvent::Summary(_)))
        .await;
    let summary = VoiceEvent::Summary("An order. It is on its way.".to_owned());
    assert_eq!(since.last(), Some(&summary));
    assert!(since.contains(&VoiceEvent::Summarising));
    assert_eq!(milliseconds(&since), 0);
    assert_eq!(server.calls(Endpoint::Llm)[0].body.get("tools"), None);
    assert_eq!(server.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn servers_of_ones_own_need_no_key_and_no_voice() {
    let server = FakePipeline::start();
    server.takes_no_key();
    server.refuses_usage();
    let mut settings = settings(&server.url());
    for endpoint in [&mut settings.stt, &mut settings.llm, &mut settings.tts] {
        endpoint.api_key.clear();
    }
    settings.voice.clear();
    let mut call = call_with(&settings);
    call.until_turn_over("the greeting").await;
    call.speak_up(600).await;
    assert!(call.answer().await.contains("600 ms"));
    assert_eq!(usage(&call.heard).text_in, 0, "it tells no usage");
    assert_eq!(server.calls(Endpoint::Tts)[0].body.get("voice"), None);
    assert_eq!(server.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_check_says_what_is_wrong_with_each_endpoint() {
    let server = FakePipeline::start();
    let good = settings(&server.url());
    let told = check(&good, &publicly()).await;
    assert!(told.iter().all(Result::is_ok), "{told:?}");
    assert_eq!(told.len(), 3);

    let mut bad = good.clone();
    bad.stt.api_key = "wrong-key".to_owned();
    bad.llm.url = format!("{}/v2/x", server.url());
    bad.tts.url = "http://127.0.0.1:9".to_owned();
    let told = check(&bad, &publicly()).await;
    for (told, expected) in told.iter().zip([
        [
            "telephony.pipeline.stt: ",
            "401",
            "telephony.pipeline.stt.api_key",
        ],
        [
            "telephony.pipeline.llm: ",
            "404",
            "telephony.pipeline.llm.url",
        ],
        [
            "telephony.pipeline.tts: ",
            "nothing answers",
            "telephony.pipeline.tts.url",
        ],
    ]) {
        let words = told.as_ref().unwrap_err();
        assert!(expected.iter().all(|it| words.contains(it)), "{words}");
        assert!(!words.contains("wrong-key"), "{words}");
    }
    let mut keyless = good;
    keyless.llm.url = "https://api.openai.com".to_owned();
    keyless.llm.api_key.clear();
    server.react(Endpoint::Tts, [ServerReaction::Mp3]);
    server.react(Endpoint::Stt, [ServerReaction::Status(302, "", None)]);
    let told = check(&keyless, &publicly()).await;
    let words: Vec<&String> = told.iter().map(|it| it.as_ref().unwrap_err()).collect();
    assert!(
        words[0].contains("redirect") && words[0].contains("stt.url"),
        "{words:?}"
    );
    assert!(words[1].contains("there is no key"), "{words:?}");
    assert!(words[2].contains("it sends MP3"), "{words:?}");
    assert_eq!(server.broken_rules(), [""; 0]);
}

/// Piper's voices have 22,050 Hz, and their servers send files.
#[tokio::test]
async fn a_wav_file_is_spoken_at_its_own_rate() {
    let server = FakePipeline::start();
    server.react(Endpoint::Tts, [ServerReaction::Wav]);
    let mut call = call_with(&settings(&server.url()));
    let greeting = call.until_turn_over("the greeting").await;
    assert_eq!(said(&greeting).trim(), "Kopi Senja, selamat pagi!");
    let length = milliseconds(&greeting);
    assert!((495..=500).contains(&length), "{length}");
}

#[rstest]
#[case("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/audio/speech")]
#[case("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/audio/speech")]
#[case("https://api.openai.com/v1", "https://api.openai.com/v1/audio/speech")]
#[case(
    "https://api.groq.com/openai/v1/",
    "https://api.groq.com/openai/v1/audio/speech"
)]
#[case("http://[::1]:1/v1/audio/speech", "http://[::1]:1/v1/audio/speech")]
#[case(
    "https://x/v1?api-version=1",
    "https://x/v1/audio/speech?api-version=1"
)]
#[case("nonsense", "nonsense")]
fn an_address_is_completed(#[case] given: &str, #[case] expected: &str) {
    assert_eq!(complete(given, "/audio/speech"), expected);
}

/// The name of an agent's voice goes before that of the settings.
#[tokio::test]
async fn an_agent_speaks_with_its_own_voice() {
    use crate::voice::{Provider, VoiceSetup, common::tests::agent, pipeline::PipelineProvider};
    let server = FakePipeline::start();
    let provider = PipelineProvider::new(&settings(&server.url()), &publicly(), true);
    let mut agent = agent();
    agent.voice_name = Some("siti".to_owned());
    let session = provider.open(VoiceSetup {
        call_id: "call_test".to_owned(),
        agent,
        circumstances: String::new(),
        so_far: Vec::new(),
        is_answer_cut: false,
    });
    session.spoken.send(VoiceInput::Greet).await.unwrap();
    let voice = |all: &[ReceivedCall]| all.first().map(|it| it.body["voice"].clone());
    let voice: Value = server.wait("speech", Endpoint::Tts, voice).await;
    assert_eq!(voice, "siti");
}
