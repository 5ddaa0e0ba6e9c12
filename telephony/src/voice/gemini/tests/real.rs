//! Tests with the real service, for owners of a paid key:
//!
//! ```sh
//! DIKALA_LIVE_TESTS=1 GEMINI_API_KEY=… cargo test -p dikala-telephony gemini::tests::real -- --ignored --nocapture
//! ```
//!
//! `DIKALA_LIVE_MODEL` names another model. `DIKALA_LIVE_FRAMES` is a file that gets every message of both directions, a line
//! each, without audio, handles and the key, to compare with the fake. These tests have never been run.

use std::{fs::OpenOptions, io::Write, path::PathBuf, sync::Arc};

use dikala_testkit::gemini::FakeGemini as Model;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::{accept_async, tungstenite::Message};

use super::{call_with, settings};
use crate::{
    settings::GeminiSettings,
    voice::{
        VoiceEvent, VoiceInput,
        common::{
            connect,
            tests::{milliseconds, publicly, said, shown},
        },
        gemini::{MODEL, URL, check, endpoint},
    },
};

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The settings, if the tests are requested.
fn wanted() -> Option<GeminiSettings> {
    if variable("DIKALA_LIVE_TESTS").as_deref() != Some("1") {
        eprintln!("skipped: DIKALA_LIVE_TESTS is not 1");
        return None;
    }
    let model = variable("DIKALA_LIVE_MODEL");
    let mut settings = settings(URL.to_owned(), model.as_deref().unwrap_or(MODEL));
    settings.api_key = variable("GEMINI_API_KEY").expect("GEMINI_API_KEY");
    Some(settings)
}

/// A proxy between session and service that records the messages. Returns the settings of a session through it.
async fn recorded(settings: GeminiSettings, file: PathBuf) -> GeminiSettings {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    let through = GeminiSettings {
        url,
        ..settings.clone()
    };
    let (settings, file) = (Arc::new(settings), Arc::new(file));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(relay(stream, settings.clone(), file.clone()));
        }
    });
    through
}

async fn relay(stream: TcpStream, settings: Arc<GeminiSettings>, file: Arc<PathBuf>) {
    let mut near = accept_async(stream).await.unwrap();
    let mut far = connect(&endpoint(&settings), &publicly(), None)
        .await
        .unwrap();
    loop {
        let passed = tokio::select! {
            Some(Ok(message)) = near.next() => {
                write_down(&file, "→", &message);
                far.send(message).await
            }
            Some(Ok(message)) = far.next() => {
                write_down(&file, "←", &message);
                near.send(message).await
            }
            else => return,
        };
        if passed.is_err() {
            return;
        }
    }
}

fn write_down(file: &PathBuf, direction: &str, message: &Message) {
    let line = match message {
        Message::Text(_) | Message::Binary(_) => {
            let kind = if message.is_binary() {
                "binary"
            } else {
                "text"
            };
            let read = serde_json::from_slice::<Value>(&message.clone().into_data());
            let shown = read.map_or_else(|_| "no JSON".to_owned(), |it| redacted(it).to_string());
            format!("{direction} {kind} {shown}")
        }
        other => format!("{direction} {other:?}"),
    };
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Replaces audio and handles by their lengths.
fn redacted(message: Value) -> Value {
    match message {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| {
                let hidden = matches!(
                    name.as_str(),
                    "data" | "newHandle" | "handle" | "new_handle" | "sessionId"
                );
                let value = match value.as_str() {
                    Some(text) if hidden => json!(format!("{} characters", text.len())),
                    _ => redacted(value),
                };
                (name, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(redacted).collect()),
        other => other,
    }
}

/// A greeting, a function call, and the answer.
async fn converse(settings: GeminiSettings) {
    let mut call = call_with(settings);
    let greeting = call
        .until("the greeting", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert!(milliseconds(&greeting) > 300, "{:?}", shown(&greeting));
    let words = said(&greeting).to_lowercase();
    assert!(words.contains("senja"), "{words}");
    let note = "The caller asks in writing: where is order 1001? Look it up with check_order";
    call.say(VoiceInput::Text(note.to_owned())).await;
    let id = call.wish().await;
    let outcome = json!({"arrivesInMinutes": 20});
    call.outcome(&id, outcome).await;
    call.until("the answer", |it| *it == VoiceEvent::TurnOver)
        .await;
    assert!(
        call.heard
            .iter()
            .any(|it| matches!(it, VoiceEvent::Usage(_)))
    );
}

#[tokio::test]
#[ignore = "needs a key, and costs money"]
async fn the_real_model_takes_a_setup() {
    if let Some(settings) = wanted() {
        println!("{}", check(&settings, &publicly()).await.unwrap());
    }
}

#[tokio::test]
#[ignore = "needs a key, and costs money"]
async fn the_real_model_greets_and_calls_a_function() {
    let Some(settings) = wanted() else {
        return;
    };
    converse(match variable("DIKALA_LIVE_FRAMES") {
        Some(file) => recorded(settings, file.into()).await,
        None => settings,
    })
    .await;
}

#[tokio::test]
async fn what_is_recorded_holds_neither_audio_nor_handles() {
    let model = Model::start();
    model.answer([
        dikala_testkit::gemini::ModelReaction::Say {
            text: "Kopi Senja, selamat pagi!".to_owned(),
            milliseconds: 400,
        },
        dikala_testkit::gemini::ModelReaction::Call {
            name: "check_order".to_owned(),
            arguments: json!({"orderId": "1001"}),
        },
    ]);
    let folder = dikala_testkit::folder();
    let file = folder.path().join("frames.jsonl");
    converse(recorded(settings(model.url(), MODEL), file.clone()).await).await;
    let text = std::fs::read_to_string(&file).unwrap();
    for shown in [
        "→ text {\"setup\"",
        "← binary {\"setupComplete\"",
        "toolResponse",
        "6400 characters",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!text.contains("handle-1") && !text.contains(dikala_testkit::gemini::KEY));
    assert!(
        text.lines().all(|line| line.len() < 4_000),
        "audio is left out"
    );
}
