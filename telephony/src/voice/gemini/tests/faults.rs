//! Faults of the model, and what the call notices of them.

use std::time::{Duration, Instant};

use dikala_testkit::gemini::{Act, Begin, FakeGemini as Model, KEY, ModelReaction};
use rstest::rstest;
use serde_json::json;
use tokio::time::timeout;

use super::{call_with, greeted, new_call, settings};
use crate::voice::{
    VoiceEvent, VoiceInput,
    common::tests::{NEVER, order, said, shown},
};

fn call_of(id: &str) -> Act {
    Act::Call {
        id: Some(id.to_owned()),
        name: "check_order".to_owned(),
        arguments: order("1001"),
    }
}

#[rstest]
#[case(Act::Cut)]
#[case(Act::Close { code: 1007, reason: "Request contains an invalid argument." })]
#[case(Act::Close { code: 1008, reason: "policy" })]
#[case(Act::Close { code: 1011, reason: "Deadline expired before operation could complete." })]
#[case(Act::Text("x".repeat(5 * 1024 * 1024)))]
#[tokio::test]
async fn a_lost_connection_is_resumed(#[case] fault: Act) {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.act(fault);
    let since = call
        .until("the resumption", |it| *it == VoiceEvent::Reconnected)
        .await;
    assert_eq!(since.first(), Some(&VoiceEvent::Away));
    call.speak(300).await;
    assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    let connections = model.connections();
    assert!(connections[1].handle().is_some());
    assert_eq!(connections[1].texts(), [""; 0], "it does not greet again");
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn nothing_that_cannot_be_read_ends_the_call() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    for fault in [
        Act::Text("{".to_owned()),
        Act::Text("null".to_owned()),
        Act::Text("[[[[[[".repeat(1000)),
        Act::Binary(vec![0xff, 0, 1]),
        Act::Message(json!({"serverContent": {"modelTurn": {"parts": []}}})),
        Act::Message(
            json!({"serverContent": {"modelTurn": {"parts": [{}, {"inlineData": {}}, {"inlineData": null}]}}}),
        ),
        Act::Message(json!({"serverContent": {"modelTurn": "odd"}})),
        Act::Message(json!({"toolCall": {"functionCalls": [{}]}})),
        Act::Message(json!({"toolCallCancellation": {"ids": ["never-asked"]}})),
        Act::Message(json!({"goAway": {"timeLeft": "soon"}, "somethingNew": [1, 2, 3]})),
    ] {
        model.act(fault);
    }
    // The last one was a `goAway`.
    call.until("the resumption", |it| *it == VoiceEvent::Reconnected)
        .await;
    let spoken = json!({"serverContent": {"outputTranscription": {"text": "in pieces"}, "turnComplete": true}});
    model.act(Act::Fragments {
        message: spoken,
        bytes: 7,
    });
    let since = call
        .until("a turn in fragments", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert_eq!(said(&since), "in pieces");
    assert!(!call.heard.iter().any(|it| matches!(
        it,
        VoiceEvent::Tool { .. } | VoiceEvent::ToolCancelled { .. }
    )));
}

/// Of 12 MiB over two connections, 8 are read at once. The test waits for a lower limit, which a slow machine cannot miss.
#[tokio::test]
async fn a_model_that_floods_its_call_is_read_slowly() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    let began = Instant::now();
    let ignored = json!({"unknown": "x".repeat(3 * 1024 * 1024)}).to_string();
    for is_last in [false, true] {
        for _ in 0..2 {
            model.act(Act::Text(ignored.clone()));
        }
        let interrupted = json!({"serverContent": {"interrupted": true}});
        model.act(Act::Message(interrupted));
        call.until("the end of the flood", |it| *it == VoiceEvent::Interrupted)
            .await;
        if !is_last {
            model.act(Act::Cut);
            call.until("the resumption", |it| *it == VoiceEvent::Reconnected)
                .await;
        }
    }
    assert!(began.elapsed() > Duration::from_secs(3));
}

#[tokio::test]
async fn a_forgotten_handle_begins_anew_with_what_was_said() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    call.speak(300).await;
    assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    model.act(Act::Forget);
    model.act(Act::Cut);
    call.until("another session", |it| *it == VoiceEvent::Reconnected)
        .await;
    let since = call
        .until("its first words", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert!(!said(&since).contains("Kopi Senja"), "{:?}", shown(&since));
    let connections = model.connections();
    assert_eq!(connections.len(), 3);
    assert_eq!(
        (connections[1].handle().is_some(), connections[2].handle()),
        (true, None)
    );
    let history = connections[2].messages[0]["clientContent"]["turns"].clone();
    let spoken: Vec<_> = (0..3)
        .map(|at| (&history[at]["role"], &history[at]["parts"][0]["text"]))
        .collect();
    assert_eq!(
        json!(spoken),
        json!([
            ["model", "Kopi Senja, selamat pagi!"],
            ["user", "heard 300 ms of voice"],
            ["model", "I heard 300 ms of voice."]
        ])
    );
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_session_without_handles_goes_on_too() {
    let model = Model::start();
    model.begin([Begin::WithoutHandles]);
    let mut call = greeted(&model).await;
    model.act(Act::GoAway {
        time_left: Duration::from_secs(1),
    });
    call.until("another session", |it| *it == VoiceEvent::Reconnected)
        .await;
    let connections = model.connections();
    assert_eq!(connections[1].handle(), None);
    model
        .wait("what was said", |all| all[1].messages.first().cloned())
        .await;
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_function_is_carried_out_once_however_often_the_model_asks() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.act(call_of("a"));
    assert_eq!(call.wish().await, "a");
    model.act(Act::Cut);
    call.until("the resumption", |it| *it == VoiceEvent::Reconnected)
        .await;
    // The model is resumed from before its call, and repeats it.
    model.act(call_of("b"));
    model.answer([ModelReaction::Nothing]);
    call.say(VoiceInput::Text("still there?".to_owned())).await;
    model.wait("the words", |all| all[1].texts().pop()).await;
    call.outcome("a", json!({"minutes": 20})).await;
    let answers = model
        .wait("an answer", |all| {
            Some(all[1].function_responses()).filter(|it| !it.is_empty())
        })
        .await;
    assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!("b")));
    call.until("words of it", |it| *it == VoiceEvent::TurnOver)
        .await;
    // On the next connection the outcome is known.
    model.act(Act::Cut);
    call.until("the resumption", |it| *it == VoiceEvent::Reconnected)
        .await;
    model.act(call_of("c"));
    let answers = model
        .wait("an answer", |all| {
            Some(all[2].function_responses()).filter(|it| !it.is_empty())
        })
        .await;
    assert_eq!(answers[0]["response"], json!({"output": {"minutes": 20}}));
    let wishes = call
        .heard
        .iter()
        .filter(|it| matches!(it, VoiceEvent::Tool { .. }));
    assert_eq!((wishes.count(), model.broken_rules()), (1, vec![]));
}

#[tokio::test]
async fn an_outcome_that_comes_while_the_model_is_away_is_not_lost() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.act(call_of("a"));
    call.wish().await;
    // The state after the call can be resumed: the model knows of it.
    model.act(Act::Say {
        text: "One moment.".to_owned(),
        milliseconds: 100,
    });
    call.until("its words", |it| *it == VoiceEvent::TurnOver)
        .await;
    // The handle comes right after; the cut is behind it.
    model.begin([Begin::Slowly(Duration::from_millis(500))]);
    model.act(Act::Cut);
    call.until("the fault", |it| *it == VoiceEvent::Away).await;
    call.outcome("a", json!({"minutes": 20})).await;
    call.say(VoiceInput::Keys("the caller pressed 1".to_owned()))
        .await;
    call.audio(200, 0).await;
    let connections = model
        .wait("all of it", |all| {
            let one = all.get(1)?;
            (one.messages.len() >= 2 && one.audio_ms >= 200).then(|| all.to_vec())
        })
        .await;
    assert_eq!(connections[1].function_responses()[0]["id"], "a");
    assert_eq!(connections[1].texts(), ["the caller pressed 1"]);
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn a_cancelled_function_is_not_answered() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.act(call_of("a"));
    call.wish().await;
    model.act(Act::Cancel { id: "a".to_owned() });
    let ids = vec!["a".to_owned()];
    call.until("the cancellation", |it| {
        *it == VoiceEvent::ToolCancelled { ids: ids.clone() }
    })
    .await;
    call.outcome("a", json!({"minutes": 20})).await;
    call.speak(300).await;
    call.answer().await;
    assert!(model.connections()[0].function_responses().is_empty());
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[rstest]
#[case(Begin::Status(503))]
#[case(Begin::Close(1011, "Service is unavailable."))]
#[case(Begin::Slowly(Duration::from_secs(1)))]
#[tokio::test]
async fn a_beginning_that_fails_is_tried_again(#[case] begin: Begin) {
    let model = Model::start();
    model.begin([begin.clone(), begin]);
    let mut call = new_call(&model);
    let since = call
        .until("the greeting", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert_eq!(since[0], VoiceEvent::Ready);
    assert_eq!(said(&since), "Kopi Senja, selamat pagi!");
}

#[rstest]
#[case(Begin::Close(1008, "no access to the model"), "no access to the model")]
#[case(Begin::Status(403), "403")]
#[tokio::test]
async fn what_is_refused_three_times_is_lost(#[case] begin: Begin, #[case] why: &str) {
    let model = Model::start();
    model.begin(vec![begin; 3]);
    let mut call = new_call(&model);
    let since = call
        .until("the end", |it| matches!(it, VoiceEvent::Lost(_)))
        .await;
    assert!(
        matches!(&since[..], [VoiceEvent::Lost(words)] if words.contains(why)),
        "{since:?}"
    );
    assert_eq!(call.session.heard.recv().await, None);
}

#[tokio::test]
async fn a_model_that_is_silent_at_the_setup_is_lost_after_eight_seconds() {
    let model = Model::start();
    model.begin(vec![Begin::Silence; 3]);
    let mut call = new_call(&model);
    let began = tokio::time::Instant::now();
    call.until("the end", |it| matches!(it, VoiceEvent::Lost(_)))
        .await;
    assert!(began.elapsed() >= Duration::from_secs(8));
}

#[tokio::test]
async fn a_model_that_closes_again_and_again_is_resumed_each_time() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    for number in 1..=5 {
        model.act(Act::Close {
            code: 1011,
            reason: "Internal error encountered.",
        });
        call.until("the resumption", |it| *it == VoiceEvent::Reconnected)
            .await;
        // The handle comes right after the setup.
        model.wait("the setup", |all| all.get(number)?.set_up).await;
        call.speak(300).await;
        assert_eq!(call.answer().await, "I heard 300 ms of voice.");
    }
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn connections_that_bring_nothing_end_the_call() {
    let model = Model::start();
    model.begin(vec![Begin::WithoutHandles; 5]);
    let mut call = greeted(&model).await;
    model.answer(vec![ModelReaction::Nothing; 5]);
    for _ in 0..3 {
        model.act(Act::Cut);
        call.until("the next session", |it| *it == VoiceEvent::Reconnected)
            .await;
    }
    model.act(Act::Cut);
    let since = call
        .until("the end", |it| matches!(it, VoiceEvent::Lost(_)))
        .await;
    assert!(
        matches!(since.last(), Some(VoiceEvent::Lost(words)) if words.contains("brought nothing"))
    );
}

#[tokio::test]
async fn a_resumption_whose_setup_takes_three_seconds_goes_on() {
    let model = Model::start();
    let mut call = greeted(&model).await;
    model.begin([Begin::Slowly(Duration::from_secs(3))]);
    model.act(Act::Cut);
    call.until("the resumption", |it| *it == VoiceEvent::Reconnected)
        .await;
    assert_eq!(model.connections().len(), 2);
    assert_eq!(model.broken_rules(), [""; 0]);
}

#[tokio::test]
async fn no_words_hold_the_key() {
    let model = Model::start();
    let mut bad = settings(model.url(), "gemini-3.8-live");
    bad.api_key = "a-key-that-nobody-knows".to_owned();
    let mut call = call_with(bad.clone());
    let since = call
        .until("the end", |it| matches!(it, VoiceEvent::Lost(_)))
        .await;
    let words = format!("{since:?} {bad:?}");
    assert!(
        words.contains("API key not valid") && !words.contains("a-key-that"),
        "{words}"
    );
    let mut nowhere = settings("ws://127.0.0.1:9/x".to_owned(), "gemini-3.8-live");
    nowhere.api_key = KEY.to_owned();
    let mut call = call_with(nowhere);
    let since = call
        .until("the end", |it| matches!(it, VoiceEvent::Lost(_)))
        .await;
    assert!(!format!("{since:?}").contains(KEY), "{since:?}");
}

#[tokio::test]
async fn a_silent_model_is_no_fault() {
    let model = Model::start();
    model.answer([ModelReaction::Nothing]);
    let mut call = new_call(&model);
    call.until("the beginning", |it| *it == VoiceEvent::Ready)
        .await;
    call.audio(5_000, 0).await;
    assert!(timeout(NEVER, call.session.heard.recv()).await.is_err());
    model
        .wait("the audio", |all| (all[0].audio_ms == 5_000).then_some(()))
        .await;
}
