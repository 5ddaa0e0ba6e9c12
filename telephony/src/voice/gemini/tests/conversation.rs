//! Conversations without faults.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use dikala_testkit::{
    certificate,
    gemini::{Act, FakeGemini as Model, ModelConnection, ModelReaction},
    tls,
};
use rstest::rstest;
use serde_json::json;
use tokio::time::timeout;

use super::{call_with, greeted, settings};
use crate::{
    trust::Trust,
    voice::{
        VoiceEvent, VoiceInput,
        common::tests::{NEVER, milliseconds, order, publicly, said, shown},
        gemini::check,
    },
};

const TIME_LEFT: Duration = Duration::from_secs(20);

fn calls(name: &str) -> ModelReaction {
    ModelReaction::Call {
        name: name.to_owned(),
        arguments: order("1001"),
    }
}

fn says(text: &str) -> ModelReaction {
    ModelReaction::Say {
        text: text.to_owned(),
        milliseconds: 400,
    }
}

#[rstest]
#[case("gemini-3.8-live")]
#[case("gemini-3.1-flash-live-preview")]
#[case("models/gemini-2.5-flash-native-audio-latest")]
#[tokio::test]
async fn the_agent_greets_answers_and_calls_functions(#[case] name: &str) {
    let model = Model::start();
    let mut call = call_with(settings(model.url(), name));
    let greeting = call
        .until("the greeting", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert_eq!(greeting[0], VoiceEvent::Ready);
    assert_eq!(said(&greeting), "Kopi Senja, selamat pagi!");
    assert_eq!(milliseconds(&greeting), 400);

    model.answer([calls("check_order")]);
    call.speak(600).await;
    let id = call.wish().await;
    assert!(
        call.heard
            .contains(&VoiceEvent::CallerSaid("heard 600 ms of voice".to_owned()))
    );
    call.outcome(&id, json!({"arrivesInMinutes": 20})).await;
    let answer = call
        .until("the answer", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert!(
        said(&answer).contains("arrivesInMinutes"),
        "{:?}",
        shown(&answer)
    );

    let usage = call
        .heard
        .iter()
        .filter(|it| matches!(it, VoiceEvent::Usage(_)));
    assert_eq!(usage.count(), 2, "one with each turn that was spoken");
    let connections = model.connections();
    assert_eq!((connections.len(), model.broken_rules()), (1, vec![]));
    assert_eq!(
        (connections[0].shortest_ms, connections[0].longest_ms),
        (20, 20)
    );
    assert_eq!(connections[0].audio_ms, 900);
}

#[tokio::test]
async fn talk_goes_on_while_a_function_runs() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.answer([calls("check_order"), says("One moment.")]);
    call.speak(300).await;
    let id = call.wish().await;
    call.speak(300).await;
    assert_eq!(call.answer().await, "One moment.");
    call.outcome(&id, json!({"arrivesInMinutes": 20})).await;
    call.until("the answer", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn the_caller_interrupts() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.act(Act::Begin {
        milliseconds: 20_000,
    });
    call.until("speech", |it| matches!(it, VoiceEvent::Audio(_)))
        .await;
    call.audio(200, 3_000).await;
    call.until("the interruption", |it| *it == VoiceEvent::Interrupted)
        .await;
    call.until("the end of the turn", |it| *it == VoiceEvent::TurnOver)
        .await;
}

#[tokio::test]
async fn keys_and_notes_reach_the_model_as_words() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    call.say(VoiceInput::Keys("the caller pressed 4 2 #".to_owned()))
        .await;
    call.until("an answer", |it| *it == VoiceEvent::TurnOver)
        .await;
    call.say(VoiceInput::Goodbye(
        "The call ends in 30 s: say goodbye".to_owned(),
    ))
    .await;
    call.until("a goodbye", |it| *it == VoiceEvent::TurnOver)
        .await;
    let texts = model.connections()[0].texts();
    assert_eq!(
        texts[1..],
        [
            "the caller pressed 4 2 #",
            "[The call ends in 30 s: say goodbye]"
        ]
    );
}

#[tokio::test]
async fn a_goaway_costs_no_audio() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    // A busy machine may be late now and then; one round in time proves the promise.
    let mut shortest = Duration::MAX;
    for round in 1..=4 {
        let before = Instant::now();
        model.act(Act::GoAway {
            time_left: TIME_LEFT,
        });
        let since = call
            .until("the resumption", |it| *it == VoiceEvent::Reconnected)
            .await;
        assert!(!since.contains(&VoiceEvent::Away), "{:?}", shown(&since));
        assert!(
            before.elapsed() < TIME_LEFT,
            "it waits for nothing, and not for the end"
        );
        call.speak(300).await;
        assert_eq!(
            call.answer().await,
            "I heard 300 ms of voice.",
            "round {round}"
        );
        let connections = model.connections();
        assert_eq!(connections.len(), round + 1);
        assert!(connections[round].handle().is_some());
        let silent =
            connections[round].set_up.unwrap() - connections[round - 1].over.unwrap_or(before);
        shortest = shortest.min(silent);
    }
    assert!(shortest < Duration::from_millis(300), "{shortest:?}");
    assert_eq!(model.broken_rules(), [""; 0]);
    let heard: u64 = model.connections().iter().map(|it| it.audio_ms).sum();
    assert_eq!(heard, 4 * 600);
}

#[tokio::test]
async fn a_goaway_waits_for_a_function_that_runs() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.answer([calls("check_order")]);
    call.speak(300).await;
    let id = call.wish().await;
    model.act(Act::GoAway {
        time_left: Duration::from_secs(20),
    });
    model
        .wait("the next socket", |all| (all.len() == 2).then_some(()))
        .await;
    assert!(timeout(NEVER, call.session.heard.recv()).await.is_err());
    call.outcome(&id, json!({"minutes": 20})).await;
    call.until("the resumption", |it| *it == VoiceEvent::Reconnected)
        .await;
    let connections = model.connections();
    assert_eq!(connections[0].function_responses().len(), 1);
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_summary_is_said_to_nobody_else() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.answer([says("The caller wanted an order.")]);
    call.say(VoiceInput::Summarise).await;
    let since = call
        .until("the summary", |it| matches!(it, VoiceEvent::Summary(_)))
        .await;
    assert_eq!(
        since.last(),
        Some(&VoiceEvent::Summary(
            "The caller wanted an order.".to_owned()
        ))
    );
    assert_eq!(milliseconds(&since), 0);
    assert!(
        since.iter().any(|it| matches!(it, VoiceEvent::Usage(_))),
        "it is paid for"
    );
}

#[tokio::test]
async fn a_call_that_does_not_listen_still_speaks() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    // Three minutes of speech, far more than all queues hold.
    model.act(Act::Begin {
        milliseconds: 200_000,
    });
    let speaking = call.audio(10_000, 0);
    timeout(Duration::from_secs(30), speaking)
        .await
        .expect("it is taken");
    // The model cannot continue, because its socket is not read.
    let unsent = || model.connections()[0].unsent.load(Relaxed);
    let some = |all: &[ModelConnection]| (all[0].unsent.load(Relaxed) > 0).then_some(());
    model.wait("speech that is not sent", some).await;
    let mut before = usize::MAX;
    while before != unsent() {
        before = unsent();
        tokio::time::sleep(NEVER).await;
    }
    assert!(before > 0);
    let since = call
        .until("all of the speech", {
            let heard = AtomicUsize::new(0);
            move |it| {
                let pieces = usize::from(matches!(it, VoiceEvent::Audio(_)));
                heard.fetch_add(pieces, Relaxed) + pieces == 2_000
            }
        })
        .await;
    assert_eq!(milliseconds(&since), 200_000);
}

#[tokio::test]
async fn the_socket_is_closed_with_the_session() {
    let model = Model::start();
    let call = greeted(&model).await;
    drop(call);
    model.wait("the end", |all| all[0].over).await;
    assert_eq!(model.broken_rules(), [""; 0]);
}

/// A private server with a certificate of a private authority.
#[tokio::test]
async fn a_model_behind_tls_is_spoken_to_where_its_authority_is_trusted() {
    let model = Model::start();
    let plain = url::Url::parse(&model.url()).unwrap();
    let plain = plain.socket_addrs(|| None).unwrap()[0];
    let front = tls::front("127.0.0.1", plain).await;
    let url = model
        .url()
        .replacen("ws://", "wss://", 1)
        .replace(&plain.to_string(), &front.to_string());
    let settings = settings(url, "gemini-3.8-live");
    let words = check(&settings, &publicly()).await.unwrap_err();
    assert!(words.contains("cannot be trusted"), "{words}");
    let authority = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authority.path(), certificate::AUTHORITY).unwrap();
    let trust = Trust::new(Some(authority.path())).unwrap();
    check(&settings, &trust).await.unwrap();
}

#[tokio::test]
async fn a_check_says_whether_the_model_takes_a_session() {
    let model = Model::start();
    let good = settings(model.url(), "gemini-3.8-live");
    let words = check(&good, &publicly()).await.unwrap();
    assert!(
        words.starts_with("gemini-3.8-live takes a session"),
        "{words}"
    );
    let mut bad = good.clone();
    bad.api_key = "wrong-key".to_owned();
    let words = check(&bad, &publicly()).await.unwrap_err();
    assert!(
        words.contains("API key not valid") && !words.contains("wrong-key"),
        "{words}"
    );
    let unknown = settings(model.url(), "gemini-0");
    assert!(
        check(&unknown, &publicly())
            .await
            .unwrap_err()
            .contains("not found")
    );
    let mut nowhere = good.clone();
    nowhere.url = "ws://127.0.0.1:9".to_owned();
    let words = check(&nowhere, &publicly()).await.unwrap_err();
    assert!(words.contains("nothing answers"), "{words}");
    let mut keyless = settings(crate::voice::gemini::URL.to_owned(), "gemini-3.8-live");
    keyless.api_key.clear();
    let words = check(&keyless, &publicly()).await.unwrap_err();
    assert!(words.contains("GEMINI_API_KEY"), "{words}");
    assert_eq!(model.connections()[0].messages.len(), 0);
}

#[tokio::test]
async fn a_model_of_ones_own_needs_no_key() {
    let model = Model::start();
    model.takes_no_key();
    let mut keyless = settings(model.url(), "gemini-3.8-live");
    keyless.api_key.clear();
    check(&keyless, &publicly()).await.unwrap();
    let mut call = call_with(keyless);
    call.until("the greeting", |it| *it == VoiceEvent::TurnOver)
        .await;
    // With a key it is not accepted: without one, nothing is appended to the address.
    let words = check(&settings(model.url(), "gemini-3.8-live"), &publicly()).await;
    assert!(words.unwrap_err().contains("API key not valid"));
}
