//! Conversations of browsers with the simulated model.

use std::time::Instant;

use dikala_testkit::gemini::FakeGemini;

use super::{
    conversation::{have, says, world},
    sounds::spoken,
};
use crate::support::{prelude::*, tenant::text, web_call::TestBrowser};

const GREETING: &str =
    "Halo, ini Kopi Senja, toko kopi di Bandung. Ada yang bisa saya bantu hari ini?";
const GREETING_MS: usize = 4_000;
/// Noticed after 96 ms of voice, and a busy machine adds to that.
const CLEARED: Duration = Duration::from_millis(600);

async fn call(world: &TestWorld) -> TestBrowser {
    let path = format!("/agents/{}/web-calls", world.tenant.agent);
    let made = world.tenant.api.post(&path, json!({})).await.expect(201);
    TestBrowser::open(&text(&made, "url"))
        .await
        .expect("a socket")
}

/// The model does not take the caller's words for an interruption, so the agent says all of its sentence.
#[actix_web::test]
async fn a_caller_silences_the_agent_at_once_and_hears_the_rest() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let model = FakeGemini::start();
    model.is_deaf(true);
    model.answer([says(GREETING, GREETING_MS as u64)]);
    let Some((world, _)) = world(&model, WorldSetup::new().minutes(20)).await else {
        return;
    };
    let browser = call(&world).await;
    let id = browser.ready().await;
    browser.hears_ms(1_000).await;
    browser.say(&spoken("id+f2", "Tunggu sebentar", 16_000));
    let began = Instant::now();
    browser.counts("clear", 1).await;
    assert!(began.elapsed() < CLEARED, "{:?}", began.elapsed());
    let heard = browser.speech_ms();
    assert!(heard < GREETING_MS, "{heard}");
    // Speech that the browser dropped comes again, and the turn is over once all was played.
    let said = json!(GREETING);
    let is_whole = |it: &Value| it["type"] == "turn" && it["final"] == true && it["text"] == said;
    browser.hears("all of the greeting", is_whole).await;
    let heard = browser.speech_ms();
    assert!(heard > GREETING_MS, "{heard}");
    browser.send(&json!({"type": "hangup"}));
    browser.ended().await;
    world.event("call.transcript", &id).await;
    let transcript = world
        .tenant
        .api
        .get(&format!("/calls/{id}/transcript"))
        .await
        .expect(200);
    assert_eq!(transcript["turns"][0]["text"], GREETING, "{transcript}");
}

/// An answer to spoken words, and the time until it.
#[actix_web::test]
#[ignore = "needs a machine of its own: fifty calls in real time"]
async fn fifty_browsers_talk_at_once() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let model = FakeGemini::start();
    // More than are asked for, because on a slow machine the guard asks the model again.
    let turns = [
        (says("Halo!", 600), 50),
        (says("Dua kopi, baik.", 900), 100),
    ];
    model.answer(
        turns
            .into_iter()
            .flat_map(|(turn, times)| vec![turn; times]),
    );
    let Some((world, _)) = world(&model, WorldSetup::new().minutes(200)).await else {
        return;
    };
    // The first of them are silent until the last has come, longer than the default.
    let agent = format!("/agents/{}", world.tenant.agent);
    let patient = json!({"conversation": {"reminderAfterSeconds": 120}});
    world.tenant.api.patch(&agent, patient).await.expect(200);
    let mut browsers = Vec::new();
    for _ in 0..50 {
        browsers.push(call(&world).await);
    }
    let words = spoken("id", "Dua kopi susu", 16_000);
    for browser in &browsers {
        browser.ready().await;
        browser.hears_ms(550).await;
        browser.say(&words);
    }
    for browser in &browsers {
        browser
            .hears("the answer", |it| {
                it["type"] == "turn" && it["text"] == "Dua kopi, baik." && it["final"] == true
            })
            .await;
        browser.send(&json!({"type": "hangup"}));
        assert_eq!(browser.ended().await.0, "normal");
    }
    let calls = world
        .tenant
        .api
        .get("/calls?channel=web&limit=100")
        .await
        .expect(200);
    assert_eq!(calls["calls"].as_array().unwrap().len(), 50);
    assert_eq!(model.broken_rules(), [""; 0]);
    world.assert_ledger_is_exact();
}
