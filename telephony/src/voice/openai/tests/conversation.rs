//! Conversations without faults.

use dikala_testkit::openai::{
    FakeOpenAi, MODEL, RealtimeAct, RealtimeConnection, RealtimeReaction,
};
use serde_json::{Value, json};

use super::{call_with, greeted, says, settings};
use crate::{
    settings::TurnDetection,
    voice::{
        VoiceEvent, VoiceInput,
        common::tests::{milliseconds, order, publicly, said, shown},
        openai::check,
    },
};

/// Waits until the model has got an event of this type.
async fn sent(model: &FakeOpenAi, kind: &str) -> Value {
    let found = |all: &[RealtimeConnection]| all.last()?.of_type(kind).pop();
    model.wait(kind, found).await
}

#[tokio::test]
async fn the_agent_greets_answers_and_calls_functions() {
    let model = FakeOpenAi::start();
    let mut call = call_with(settings(model.url()));
    let greeting = call.until_turn_over("the greeting").await;
    assert_eq!(greeting[0], VoiceEvent::Ready);
    assert_eq!(said(&greeting), "Kopi Senja, selamat pagi!");
    assert_eq!(milliseconds(&greeting), 400);

    let orders = ["1001", "1002"].map(|id| ("check_order".to_owned(), order(id)));
    model.answer([RealtimeReaction::Call(orders.to_vec())]);
    call.speak(600).await;
    let (first, second) = (call.wish().await, call.wish().await);
    call.outcome(&second, json!({"arrivesInMinutes": 30})).await;
    call.outcome(&first, json!({"arrivesInMinutes": 20})).await;
    // The first turn is that of the calls.
    call.until_turn_over("the calls").await;
    let answer = call.until_turn_over("the answer").await;
    assert!(
        said(&answer).contains("arrivesInMinutes"),
        "{:?}",
        shown(&answer)
    );

    let usage = call
        .heard
        .iter()
        .filter(|it| matches!(it, VoiceEvent::Usage(_)));
    assert_eq!(usage.count(), 3, "one with each response");
    let connections = model.connections();
    assert_eq!((connections.len(), model.broken_rules()), (1, vec![]));
    assert_eq!(connections[0].query, format!("model={MODEL}"));
    assert_eq!(connections[0].function_outputs().len(), 2);
    assert_eq!(
        connections[0].of_type("response.create").len(),
        2,
        "the greeting, and one for both"
    );
    assert!(
        (895..=900).contains(&connections[0].audio_ms),
        "{}",
        connections[0].audio_ms
    );
}

/// Truncating more than was received silences the model (pipecat#3677, twilio-python#22).
#[tokio::test]
async fn an_interrupted_answer_ends_where_it_was_heard() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    model.act(RealtimeAct::Begin {
        milliseconds: 20_000,
    });
    call.until("speech", |it| matches!(it, VoiceEvent::Audio(_)))
        .await;
    call.audio(200, 3_000).await;
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    // The greeting, and a part of the answer.
    call.say(VoiceInput::Interrupted { played_ms: 1_650 }).await;
    let cut = sent(&model, "conversation.item.truncate").await;
    assert_eq!(cut["audio_end_ms"], 1_250);
    call.audio(300, 0).await;
    assert_eq!(call.answer().await, "I heard 200 ms of voice.");
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// An item of which nothing was played cannot be truncated (livekit#6158).
#[tokio::test]
async fn an_answer_that_was_not_heard_is_forgotten() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    model.answer([says("Never heard.", 400)]);
    call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
        .await;
    call.until_turn_over("an answer").await;
    model.act(RealtimeAct::SpeechStarted);
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    call.say(VoiceInput::Interrupted { played_ms: 400 }).await;
    sent(&model, "conversation.item.delete").await;
    assert_eq!(
        model.connections()[0].of_type("conversation.item.truncate"),
        [Value::Null; 0]
    );
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// livekit#6244.
#[tokio::test]
async fn what_the_model_says_after_an_interruption_is_not_heard() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    model.act(RealtimeAct::Begin { milliseconds: 400 });
    call.until("speech", |it| matches!(it, VoiceEvent::Audio(_)))
        .await;
    model.act(RealtimeAct::SpeechStarted);
    model.act(RealtimeAct::Late { milliseconds: 400 });
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    model.act(RealtimeAct::SpeechStopped);
    let since = call
        .until("the next answer", |it| {
            matches!(it, VoiceEvent::AgentSaid(_))
        })
        .await;
    assert_eq!(
        milliseconds(&since),
        400,
        "the next answer alone: {:?}",
        shown(&since)
    );
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// Some servers send an answer's words before its speech.
#[tokio::test]
async fn words_before_the_speech_are_interrupted_like_others() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    model.answer([RealtimeReaction::WordsFirst {
        text: "It comes in twenty minutes.".to_owned(),
        milliseconds: 4_000,
    }]);
    call.speak(300).await;
    // The caller speaks into the greeting, which was heard.
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    call.say(VoiceInput::Interrupted { played_ms: 400 }).await;
    let is_word = |it: &VoiceEvent| matches!(it, VoiceEvent::AgentSaid(_));
    let before = call.until("the words", is_word).await;
    assert_eq!(milliseconds(&before), 0, "{:?}", shown(&before));
    let since = call.until_turn_over("the answer").await;
    assert_eq!(milliseconds(&since), 4_000);
    call.audio(200, 3_000).await;
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    call.say(VoiceInput::Interrupted { played_ms: 1_000 }).await;
    sent(&model, "conversation.item.truncate").await;
    let cut = model.connections()[0].of_type("conversation.item.truncate");
    assert_eq!(cut[0]["audio_end_ms"], 1_000);
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// livekit#5642.
#[tokio::test]
async fn an_interruption_before_there_is_an_answer_is_nothing() {
    let model = FakeOpenAi::start();
    model.answer([RealtimeReaction::Nothing]);
    let mut call = call_with(settings(model.url()));
    call.until("the session", |it| *it == VoiceEvent::Ready)
        .await;
    sent(&model, "response.create").await;
    call.speak(300).await;
    let since = call.until_turn_over("an answer").await;
    assert!(
        !since.contains(&VoiceEvent::Interrupted),
        "{:?}",
        shown(&since)
    );
}

#[tokio::test]
async fn keys_and_notes_reach_the_model_as_words() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    call.say(VoiceInput::Keys("the caller pressed 4 2 #".to_owned()))
        .await;
    call.until_turn_over("an answer").await;
    call.say(VoiceInput::Goodbye(
        "The call ends in 30 s: say goodbye".to_owned(),
    ))
    .await;
    let since = call.until_turn_over("a goodbye").await;
    assert_eq!(said(&since), "say goodbye");
    let texts = model.connections()[0].texts();
    let texts: Vec<&str> = texts[1..].iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "the caller pressed 4 2 #",
            "[The call ends in 30 s: say goodbye]"
        ]
    );
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_summary_is_written_and_heard_by_nobody() {
    let model = FakeOpenAi::start();
    let mut call = greeted(&model).await;
    // The answer that is running is stopped first.
    model.act(RealtimeAct::Begin {
        milliseconds: 1_000,
    });
    call.until("speech", |it| matches!(it, VoiceEvent::Audio(_)))
        .await;
    model.answer([says("The caller wanted an order.", 400)]);
    call.say(VoiceInput::Summarise).await;
    let since = call
        .until("the summary", |it| matches!(it, VoiceEvent::Summary(_)))
        .await;
    let summary = "The caller wanted an order.".to_owned();
    assert_eq!(since.last(), Some(&VoiceEvent::Summary(summary)));
    assert!(since.contains(&VoiceEvent::Summarising));
    assert_eq!(said(&since), "");
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn turns_of_ones_own_are_committed_and_answered() {
    let model = FakeOpenAi::start();
    let mut own = settings(model.url());
    own.turn_detection = TurnDetection::Own;
    let mut call = call_with(own);
    call.until_turn_over("the greeting").await;
    assert_eq!(
        model.connections()[0].session["audio"]["input"]["turn_detection"],
        Value::Null
    );
    call.audio(1_000, 0).await;
    call.say(VoiceInput::Activity { speaks: true }).await;
    call.audio(1_000, 4_000).await;
    call.say(VoiceInput::Activity { speaks: false }).await;
    call.audio(600, 0).await;
    let words = call.answer().await;
    assert!(words.starts_with("I heard"), "{words}");
    let connection = &model.connections()[0];
    assert_eq!(connection.of_type("input_audio_buffer.commit").len(), 1);
    let sent_ms = connection.audio_ms;
    assert!(sent_ms <= 1_300, "silence is not sent: {sent_ms}");
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_server_of_ones_own_needs_no_key_and_no_model() {
    let model = FakeOpenAi::start();
    model.takes_no_key();
    let mut keyless = settings(model.url());
    keyless.api_key.clear();
    check(&keyless, &publicly()).await.unwrap();
    let mut call = call_with(keyless);
    call.until_turn_over("the greeting").await;
    let words = check(&settings(model.url()), &publicly())
        .await
        .unwrap_err();
    assert!(words.contains("401"), "{words}");
}

#[tokio::test]
async fn a_check_says_whether_the_model_takes_a_session() {
    let model = FakeOpenAi::start();
    let good = settings(model.url());
    let words = check(&good, &publicly()).await.unwrap();
    assert!(
        words.starts_with("gpt-realtime-2.1 takes a session"),
        "{words}"
    );
    let mut unknown = good.clone();
    unknown.model = "gpt-0".to_owned();
    let words = check(&unknown, &publicly()).await.unwrap_err();
    assert!(words.contains("model_not_found"), "{words}");
    let mut bad = good.clone();
    bad.api_key = "wrong-key".to_owned();
    let words = check(&bad, &publicly()).await.unwrap_err();
    assert!(
        words.contains("401") && !words.contains("wrong-key"),
        "{words}"
    );
    let mut nowhere = good.clone();
    nowhere.url = "ws://127.0.0.1:9".to_owned();
    let words = check(&nowhere, &publicly()).await.unwrap_err();
    assert!(words.contains("nothing answers"), "{words}");
    let mut keyless = settings(crate::voice::openai::URL.to_owned());
    keyless.api_key.clear();
    let words = check(&keyless, &publicly()).await.unwrap_err();
    assert!(words.contains("OPENAI_API_KEY"), "{words}");
    assert!(model.connections().iter().all(|it| it.events.is_empty()));
}
