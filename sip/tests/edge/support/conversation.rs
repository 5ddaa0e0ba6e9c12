//! Both sides of a call hear a tone: the phone plays 440 Hz, and the edge echoes it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{PATIENCE, Recording, TestEdge, eventually, pitch};

fn is_tone(pitch: usize) -> bool {
    (420..460).contains(&pitch)
}

/// The phone hears the tone, from now on. `rate`: that of its recording.
pub async fn hears_the_tone(heard: &Recording, rate: usize) {
    heard.forgets();
    eventually("the phone hears the tone", || is_tone(heard.pitch(rate))).await;
}

/// The edge and the phone of this caller hear the tone, from now on.
pub async fn both_hear(bench: &TestEdge, caller: &str, heard: &Recording, rate: usize) {
    let audio = || bench.of(caller).map_or_else(Vec::new, |call| call.audio);
    let before = audio().len();
    eventually("the edge hears the tone", || {
        let audio = audio();
        audio.len() >= before + 16_000 && is_tone(pitch(&audio, 16_000))
    })
    .await;
    hears_the_tone(heard, rate).await;
}

/// Asks a phone once a second until this holds: phones refuse while an earlier request is open.
pub async fn urged(what: &str, holds: impl Fn() -> bool, mut ask: impl FnMut()) {
    let begun = Instant::now();
    let mut next = begun;
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never came: {what}");
        if next <= Instant::now() {
            ask();
            next += Duration::from_secs(1);
        }
        sleep(Duration::from_millis(10)).await;
    }
}
