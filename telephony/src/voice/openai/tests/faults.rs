//! Faults of the model, and what the call notices of them.

use dikala_testkit::openai::{FakeOpenAi, RealtimeAct, RealtimeBegin, RealtimeReaction};
use rstest::rstest;
use serde_json::json;
use tokio::time::timeout;

use super::{call_with, greeted, says, settings};
use crate::voice::{
    VoiceEvent, VoiceInput,
    common::tests::{NEVER, publicly, said, shown},
    openai::check,
};

fn is_lost(heard: &VoiceEvent) -> bool {
    matches!(heard, VoiceEvent::Lost(_))
}

#[rstest]
#[case(RealtimeAct::Cut)]
#[case(RealtimeAct::Close { code: 1001, reason: "Your session hit the maximum duration of 60 minutes." })]
#[case(RealtimeAct::Close { code: 1011, reason: "internal error" })]
#[case(RealtimeAct::Error { code: "session_expired" })]
#[case(RealtimeAct::Answer(RealtimeReaction::Fail("rate_limit_exceeded")))]
#[case(RealtimeAct::Text("x".repeat(5 * 1024 * 1024)))]
#[tokio::test]
async fn a_lost_session_is_begun_again_with_what_was_said(#[case] fault: RealtimeAct) {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    call.speak(300).await;
    assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    let is_answering = fault == RealtimeAct::Answer(RealtimeReaction::Fail("rate_limit_exceeded"));
    model.act(fault);
    let since = call
        .until("the next session", |it| *it == VoiceEvent::Reconnected)
        .await;
    assert!(since.contains(&VoiceEvent::Away), "{:?}", shown(&since));
    if is_answering {
        let words = call.answer().await;
        assert!(words.contains("go on where"), "{words}");
    }
    call.speak(300).await;
    assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    let texts = model.connections()[1].texts();
    let texts: Vec<(&str, &str)> = texts
        .iter()
        .map(|(role, text)| (&role[..], &text[..]))
        .collect();
    let history = [
        ("assistant", "Kopi Senja, selamat pagi!"),
        // It came after the answer, and stands where the caller began (livekit#6616).
        ("user", "heard 300 ms of voice"),
        ("assistant", "I heard 300 ms of voice."),
    ];
    assert_eq!(texts[..3], history);
    assert_eq!(texts.len() > 3, is_answering, "{texts:?}");
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// agents-js#977: items that were restored have no audio.
#[tokio::test]
async fn what_was_restored_is_never_truncated() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    model.act(RealtimeAct::Cut);
    call.until("the next session", |it| *it == VoiceEvent::Reconnected)
        .await;
    model.act(RealtimeAct::SpeechStarted);
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    call.say(VoiceInput::Interrupted { played_ms: 100 }).await;
    model.act(RealtimeAct::SpeechStopped);
    call.until_turn_over("an answer").await;
    let connection = &model.connections()[1];
    assert!(connection.of_type("conversation.item.truncate").is_empty());
    assert!(connection.of_type("conversation.item.delete").is_empty());
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// livekit#6352: an error that stays must not loop.
#[rstest]
#[case(RealtimeBegin::Error("insufficient_quota"))]
#[case(RealtimeBegin::Error("invalid_api_key"))]
#[case(RealtimeBegin::Error("model_not_found"))]
#[case(RealtimeBegin::Status(401))]
#[tokio::test]
async fn a_fatal_error_is_told_once_and_at_once(#[case] begin: RealtimeBegin) {
    let model = FakeOpenAi::start();
    model.begin(vec![begin; 20]);
    let mut call = call_with(settings(model.url()));
    call.until("the end", is_lost).await;
    assert_eq!(call.session.heard.recv().await, None, "nothing follows");
    assert_eq!(model.connections().len(), 1);
}

#[rstest]
#[case(RealtimeAct::Error { code: "insufficient_quota" })]
#[case(RealtimeAct::Answer(RealtimeReaction::Fail("insufficient_quota")))]
#[case(RealtimeAct::Close { code: 3000, reason: "invalid_request_error.invalid_api_key" })]
#[tokio::test]
async fn a_fatal_error_in_a_call_is_told_at_once(#[case] fault: RealtimeAct) {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    model.act(fault);
    let since = call.until("the end", is_lost).await;
    assert!(!since.contains(&VoiceEvent::Reconnected));
    assert_eq!(model.connections().len(), 1);
}

#[tokio::test]
async fn a_server_that_takes_only_a_part_of_the_terms_is_talked_to() {
    let model = FakeOpenAi::start();
    model.begin(vec![RealtimeBegin::RefuseUpdate("unknown_parameter"); 2]);
    check(&settings(model.url()), &publicly()).await.unwrap();
    let mut call = call_with(settings(model.url()));
    let since = call.until_turn_over("the greeting").await;
    assert_eq!(said(&since), "Kopi Senja, selamat pagi!");
    let connections = model.connections();
    assert_eq!(connections.len(), 2);
    assert!(connections[1].session.get("truncation").is_none());
}

#[tokio::test]
async fn a_server_that_begins_no_session_is_given_up() {
    let model = FakeOpenAi::start();
    model.begin(vec![RealtimeBegin::Silence; 8]);
    let mut call = call_with(settings(model.url()));
    let since = call.until("the end", is_lost).await;
    assert!(
        matches!(&since[..], [VoiceEvent::Lost(words)] if words.contains("8 s")),
        "{since:?}"
    );
}

#[tokio::test]
async fn the_names_of_the_beta_are_understood() {
    let model = FakeOpenAi::start();
    model.begin([RealtimeBegin::BetaNames]);
    let mut call = call_with(settings(model.url()));
    let since = call.until_turn_over("the greeting").await;
    assert_eq!(said(&since), "Kopi Senja, selamat pagi!");
    assert!(since.iter().any(|it| matches!(it, VoiceEvent::Audio(_))));
    model.answer([says("Written.", 0)]);
    call.say(VoiceInput::Summarise).await;
    let since = call
        .until("the summary", |it| matches!(it, VoiceEvent::Summary(_)))
        .await;
    assert_eq!(
        since.last(),
        Some(&VoiceEvent::Summary("Written.".to_owned()))
    );
}

/// AVA: some models answer in writing although speech was agreed.
#[tokio::test]
async fn an_answer_in_writing_is_asked_for_in_speech() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    let written = RealtimeReaction::Write("It comes soon.".to_owned());
    model.answer([written, says("It comes soon.", 400)]);
    call.speak(300).await;
    assert_eq!(call.answer().await, "It comes soon.");
    let connection = &model.connections()[0];
    assert_eq!(connection.of_type("conversation.item.delete").len(), 1);
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// sip-to-ai#12.
#[tokio::test]
async fn a_gateway_that_answers_only_within_the_conversation_sums_up() {
    let model = FakeOpenAi::start();
    model.begin([RealtimeBegin::OnlyWithin]);
    let mut call = greeted(&model).await;
    model.answer([says("An order.", 0)]);
    call.say(VoiceInput::Summarise).await;
    let since = call
        .until("the summary", |it| matches!(it, VoiceEvent::Summary(_)))
        .await;
    assert_eq!(
        since.last(),
        Some(&VoiceEvent::Summary("An order.".to_owned()))
    );
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn nothing_that_cannot_be_read_ends_the_call() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    for fault in [
        RealtimeAct::Text("{".to_owned()),
        RealtimeAct::Text("null".to_owned()),
        RealtimeAct::Text("[[[[[[".repeat(1_000)),
        RealtimeAct::Event(
            json!({"type": "rate_limits.updated", "rate_limits": [{"name": "tokens"}]}),
        ),
        RealtimeAct::Event(json!({"type": "response.done", "response": "odd"})),
        RealtimeAct::Event(json!({"type": "response.done"})),
        RealtimeAct::Event(json!({"type": "response.output_audio.delta", "delta": "!!!"})),
        RealtimeAct::Event(json!({"type": "response.output_item.done", "item": null})),
        RealtimeAct::Event(json!({"type": "error"})),
        RealtimeAct::Event(json!({"type": "session.created"})),
        RealtimeAct::Event(json!({"type": "something.new", "delta": {}})),
    ] {
        model.act(fault);
    }
    call.speak(300).await;
    assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    assert!(
        timeout(NEVER, call.session.heard.recv()).await.is_err(),
        "all is quiet"
    );
    assert_eq!(model.connections().len(), 1);
}
