//! Latencies of the model's voice, of its interruption and of its return, measured in the received audio.

use std::{sync::atomic::Ordering, time::Instant};

use dikala_testkit::gemini::{self, Act, FakeGemini};

use super::{
    conversation::unheeding,
    faults::{BridgeThread, greeted},
};
use crate::support::{prelude::*, tenant::text};

/// 1.6 s of speech in G.711 A-law.
const SPEECH: &[u8] = include_bytes!("../../../sip/src/media/activity/speech.al");

#[actix_web::test]
async fn the_agent_is_heard_within_50_ms_of_what_the_model_sends() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    // A busy machine may be late now and then; only the shortest time counts.
    let mut quickest = Duration::MAX;
    for count in 2..12 {
        let from = phone.audio.packets();
        let sent = Instant::now();
        model.act(unheeding(200));
        phone.audio.hears(count, |it| it.is_over).await;
        let (_, first) = phone.audio.tones(from);
        quickest = quickest.min(first.unwrap() - sent);
        if quickest <= Duration::from_millis(50) {
            break;
        }
    }
    assert!(quickest <= Duration::from_millis(50), "{quickest:?}");
}

#[actix_web::test]
async fn an_agent_who_is_not_interrupted_goes_on_where_it_was() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    model.answer([gemini::ModelReaction::Nothing]);
    model.act(unheeding(6_000));
    phone.audio.hears(2, |it| it.packets >= 30).await;
    phone.audio.say(SPEECH);
    phone.audio.hears(2, |it| it.is_over).await;
    // Each break adds a packet in which the tone fades; a busy machine may cause one more break.
    let whole = eventually("all of it to be heard", async || {
        let heard = phone.audio.utterances();
        let packets = heard.iter().skip(1).map(|it| it.packets).sum::<usize>();
        let is_over = heard.len() > 2 && heard.last()?.is_over;
        (is_over && packets >= 294).then_some(packets)
    })
    .await;
    assert!(whole <= 302, "{whole} packets of 300");
    let silent = phone.audio.silence_before(3);
    assert!(
        (25..=100).contains(&silent),
        "{silent} packets are no 700 ms"
    );
    assert_eq!(model.broken_rules(), Vec::<String>::new());
}

/// Ten minutes of speech. Played and queued audio is less than a minute, two long messages are being handled, and
/// socket buffers hold ten megabytes, which are three minutes.
#[rstest]
#[case(100)]
#[case(20_000)]
#[actix_web::test]
async fn of_a_model_that_talks_far_ahead_no_more_is_read_than_half_a_minute(#[case] piece_ms: u64) {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    let milliseconds = 600_000;
    model.act(Act::BeginIn {
        milliseconds,
        piece_ms,
    });
    phone.audio.hears(2, |it| it.packets >= 500).await;
    let unsent = model.connections()[0].unsent.load(Ordering::Relaxed);
    let sent = milliseconds - unsent as u64 * piece_ms;
    assert!(sent <= 400_000, "{sent} ms were taken");
    phone.hang_up().await;
}

/// The model's notice of its interruption is queued behind more than half a minute of earlier speech.
#[actix_web::test]
async fn a_model_that_talks_far_ahead_can_be_interrupted() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    model.answer([gemini::ModelReaction::Nothing]);
    model.act(Act::Begin {
        milliseconds: 80_000,
    });
    phone.audio.hears(2, |it| it.packets >= 100).await;
    let from = phone.audio.packets();
    phone.audio.say(SPEECH);
    phone.audio.hears(2, |it| it.is_over).await;
    model.act(unheeding(1_000));
    eventually("the next sentence to end", async || {
        let heard = phone.audio.utterances();
        (heard.len() > 2 && heard.last()?.is_over).then_some(())
    })
    .await;
    let (tones, _) = phone.audio.tones(from);
    assert!(tones <= 750, "the caller heard {tones} packets after that");
    phone.hang_up().await;
}

#[actix_web::test]
async fn a_command_to_hang_up_waits_two_seconds_for_what_is_being_said() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let model = FakeGemini::start();
    let bridge = BridgeThread::start(&world, &model, |_| ());
    let phone = greeted(&world, bridge.edge()).await;
    model.act(Act::Begin {
        milliseconds: 20_000,
    });
    phone.audio.hears(2, |it| it.packets >= 5).await;
    let id = text(&world.tenant.calls().await[0], "id");
    let from = phone.audio.packets();
    let path = format!("/calls/{id}/hangup");
    assert_eq!(world.tenant.api.post(&path, json!({})).await.status, 202);
    let told = phone.audio.packets();
    phone.hung_up().await;
    let (since, told) = (phone.audio.tones(from).0, phone.audio.tones(told).0);
    assert!(since >= 80, "cut after {since} packets");
    assert!(told <= 300, "went on for {told} packets");
    let call = world.tenant.call_over(&id).await;
    let seen = ["hangupReason", "hangupInitiator"].map(|field| call[field].clone());
    assert_eq!(json!(seen), json!(["requested", "tenant"]));
    world.assert_ledger_is_exact();
}
