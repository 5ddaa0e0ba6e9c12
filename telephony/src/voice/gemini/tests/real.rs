//! The real service, for those who have a key and pay for it:
//!
//! ```sh
//! DIKALA_LIVE_TESTS=1 GEMINI_API_KEY=… cargo test -p dikala-telephony gemini::tests::real -- --ignored --nocapture
//! ```
//!
//! `DIKALA_LIVE_MODEL` names another model, `DIKALA_LIVE_FRAMES` a file that gets what came, a line each, without audio, handles and keys.
//! It has never been run.

use std::io::Write;

use serde_json::json;

use super::{Call, milliseconds, said, settings, shown};
use crate::voice::{
    Heard, Spoken,
    gemini::{MODEL, URL, check},
};

/// The settings of somebody who wants this; none says why.
fn wanted() -> Option<crate::settings::Gemini> {
    let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.is_empty());
    if variable("DIKALA_LIVE_TESTS").as_deref() != Some("1") {
        eprintln!("skipped: DIKALA_LIVE_TESTS is not 1");
        return None;
    }
    let model = variable("DIKALA_LIVE_MODEL");
    let mut settings = settings(URL.to_owned(), model.as_deref().unwrap_or(MODEL));
    settings.api_key = variable("GEMINI_API_KEY").expect("GEMINI_API_KEY");
    Some(settings)
}

/// Keeps what was heard, for the next version of the fake.
fn record(heard: &[Heard]) {
    let Ok(path) = std::env::var("DIKALA_LIVE_FRAMES") else {
        return;
    };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    for line in shown(heard) {
        writeln!(file, "{line}").unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a key, and costs money"]
async fn the_real_model_takes_a_setup() {
    if let Some(settings) = wanted() {
        println!("{}", check(&settings).await.unwrap());
    }
}

#[tokio::test]
#[ignore = "needs a key, and costs money"]
async fn the_real_model_greets_and_calls_a_function() {
    let Some(settings) = wanted() else {
        return;
    };
    let mut call = Call::with(settings);
    let greeting = call
        .until("the greeting", |it| *it == Heard::TurnOver)
        .await;
    record(&greeting);
    assert!(milliseconds(&greeting) > 300, "{:?}", shown(&greeting));
    assert!(
        said(&greeting).to_lowercase().contains("senja"),
        "{}",
        said(&greeting)
    );
    let note = "The caller asks in writing: where is order 1001? Look it up with check_order";
    call.say(Spoken::Text(note.to_owned())).await;
    let id = call.wish().await;
    call.outcome(&id, json!({"output": {"arrivesInMinutes": 20}}))
        .await;
    call.until("the answer", |it| *it == Heard::TurnOver).await;
    record(&call.heard);
    assert!(call.heard.iter().any(|it| matches!(it, Heard::Usage(_))));
}
