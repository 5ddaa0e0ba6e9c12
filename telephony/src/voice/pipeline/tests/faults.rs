//! Faults of the servers, and what the call notices of them.

use dikala_testkit::pipeline::{Endpoint, FakePipeline, ServerReaction};
use rstest::rstest;
use serde_json::json;

use super::{call_with, greeted, settings};
use crate::voice::{
    VoiceEvent, VoiceInput,
    common::tests::{milliseconds, said, shown},
};

fn is_lost(heard: &VoiceEvent) -> bool {
    matches!(heard, VoiceEvent::Lost(_))
}

/// One failure of each endpoint is not noticed but by a pause.
#[rstest]
#[case(Endpoint::Stt, ServerReaction::Status(500, "server_error", None))]
#[case(
    Endpoint::Stt,
    ServerReaction::Status(429, "rate_limit_exceeded", Some(1))
)]
#[case(Endpoint::Stt, ServerReaction::Cut)]
#[case(Endpoint::Llm, ServerReaction::Status(500, "server_error", None))]
#[case(
    Endpoint::Llm,
    ServerReaction::Status(429, "rate_limit_exceeded", Some(1))
)]
#[case(Endpoint::Llm, ServerReaction::Events(vec![json!({"error": {"code": 502}})]))]
#[case(Endpoint::Llm, ServerReaction::Events(vec![json!(7)]))]
#[case(Endpoint::Tts, ServerReaction::Status(503, "", None))]
#[case(Endpoint::Tts, ServerReaction::Empty)]
#[case(Endpoint::Tts, ServerReaction::Silence)]
#[tokio::test]
async fn a_failure_is_tried_once_more(#[case] endpoint: Endpoint, #[case] fault: ServerReaction) {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    server.react(endpoint, [fault]);
    call.speak_up(600).await;
    let answer = call.until_turn_over("the answer").await;
    assert_eq!(said(&answer).trim(), "I heard: A voice of 600 ms.");
    let at = |wanted| answer.iter().position(|it| *it == wanted);
    if endpoint != Endpoint::Stt || at(VoiceEvent::Away).is_some() {
        assert!(
            at(VoiceEvent::Away) < at(VoiceEvent::Reconnected),
            "{:?}",
            shown(&answer)
        );
    }
    assert_eq!(server.broken_rules(), [""; 0]);
}

#[rstest]
#[case(Endpoint::Stt, ServerReaction::Status(401, "invalid_api_key", None), 1)]
#[case(Endpoint::Llm, ServerReaction::Status(404, "model_not_found", None), 1)]
#[case(
    Endpoint::Llm,
    ServerReaction::Status(429, "insufficient_quota", Some(1)),
    1
)]
#[case(Endpoint::Llm, ServerReaction::Status(429, "", Some(3_600)), 1)]
#[case(Endpoint::Tts, ServerReaction::Status(403, "", None), 1)]
#[case(Endpoint::Tts, ServerReaction::Status(307, "", None), 1)]
#[case(Endpoint::Tts, ServerReaction::Mp3, 2)]
#[case(Endpoint::Stt, ServerReaction::Endless, 2)]
#[case(Endpoint::Llm, ServerReaction::Cut, 2)]
#[tokio::test]
async fn what_stays_ends_the_voice(
    #[case] endpoint: Endpoint,
    #[case] fault: ServerReaction,
    #[case] attempts: usize,
) {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    let before = server.calls(endpoint).len();
    server.react(endpoint, vec![fault; 10]);
    call.speak_up(600).await;
    let since = call.until("the end", is_lost).await;
    let Some(VoiceEvent::Lost(words)) = since.last() else {
        panic!("{:?}", shown(&since));
    };
    let name = match endpoint {
        Endpoint::Stt => "telephony.pipeline.stt",
        Endpoint::Llm => "telephony.pipeline.llm",
        Endpoint::Tts => "telephony.pipeline.tts",
    };
    assert!(
        words.contains(name) && !words.contains("key-of-the-fake"),
        "{words}"
    );
    assert_eq!(call.session.heard.recv().await, None, "nothing follows");
    assert_eq!(server.calls(endpoint).len() - before, attempts, "{words}");
}

#[tokio::test]
async fn endless_speech_is_cut_after_a_minute() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    server.react(Endpoint::Tts, [ServerReaction::Endless]);
    call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
        .await;
    let since = call.until_turn_over("the answer").await;
    assert_eq!(milliseconds(&since), 60_000);
}

#[tokio::test]
async fn an_endless_answer_is_cut() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    server.react(Endpoint::Llm, [ServerReaction::Endless]);
    call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
        .await;
    let since = call.until_turn_over("the answer").await;
    let length = said(&since).chars().count();
    assert!((1_000..4_500).contains(&length), "{length}");
}

/// A server that is not there is found out by the greeting.
#[tokio::test]
async fn a_server_that_is_away_ends_the_voice() {
    let mut call = call_with(&settings("http://127.0.0.1:9"));
    let since = call.until("the end", is_lost).await;
    assert!(
        matches!(since.last(), Some(VoiceEvent::Lost(words)) if words.contains("nothing answers")),
        "{since:?}"
    );
}

/// A fault behind the last part of an answer makes no second one.
#[tokio::test]
async fn what_follows_an_answer_does_not_matter() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    server.react(
        Endpoint::Llm,
        [ServerReaction::Events(vec![
            json!({"choices": [{"delta": {"content": "It is here."}, "finish_reason": "stop"}]}),
            json!({"usage": "much"}),
        ])],
    );
    call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
        .await;
    let answer = call.until_turn_over("the answer").await;
    assert_eq!(said(&answer).trim(), "It is here.");
    assert!(!answer.contains(&VoiceEvent::Away), "{:?}", shown(&answer));
    assert_eq!(server.calls(Endpoint::Llm).len(), 1);
}

#[tokio::test]
async fn odd_events_end_nothing() {
    let server = FakePipeline::start();
    let mut call = greeted(&server).await;
    let text = |text: &str| json!({"choices": [{"delta": {"content": text}}]});
    server.react(
        Endpoint::Llm,
        [ServerReaction::Events(vec![
            json!({}),
            json!({"choices": null, "usage": {"prompt_tokens": null}}),
            json!({"choices": [{"delta": {"reasoning_content": "hm", "tool_calls": null}}]}),
            json!({"choices": [{"delta": {"tool_calls": [{"function": {"name": null}}]}}]}),
            text("It is"),
            json!({"choices": [{"index": 1}], "error": null, "new": [1, 2]}),
            text(" here."),
        ])],
    );
    call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
        .await;
    assert_eq!(call.answer().await.trim(), "It is here.");
}
