//! A person speaks Indonesian into the microphone of a real browser, and hears the agent.

use std::path::Path;

use dikala_testkit::gemini::FakeGemini;

use super::{
    conversation::{have, says, world},
    sounds::spoken,
};
use crate::{
    browser::{enter, invited},
    support::{browser::Browser, prelude::*, tenant::text},
};

const RATE: u32 = 16_000;
const GREETING: &str =
    "Halo, ini Kopi Senja, toko kopi di Bandung. Ada yang bisa saya bantu hari ini?";
/// The greeting is longer than the caller's patience.
const GREETING_MS: u64 = 12_000;
const PATIENCE_MS: u32 = 4_000;
/// Longest time until playback is silent.
const SILENT_WITHIN_MS: u32 = 150;
/// Records what the page plays: the loudness every 10 ms, and the times at which it is told to drop speech.
const RECORD: &str = "
    window.played = []; window.cleared = [];
    document.addEventListener('click', () => { window.pressed ??= performance.now(); }, { capture: true });
    const connect = AudioNode.prototype.connect;
    AudioNode.prototype.connect = function (target, ...rest) {
      if (target instanceof AudioDestinationNode) {
        const meter = new AnalyserNode(this.context, { fftSize: 256 });
        const samples = new Float32Array(256);
        connect.call(this, meter);
        setInterval(() => {
          meter.getFloatTimeDomainData(samples);
          played.push([performance.now(), Math.max(...samples.map(Math.abs))]);
        }, 10);
      }
      return connect.call(this, target, ...rest);
    };
    const Socket = WebSocket;
    window.WebSocket = class extends Socket {
      constructor(...all) {
        super(...all);
        this.addEventListener('message', ({ data }) => {
          if (typeof data === 'string' && JSON.parse(data).type === 'clear') cleared.push(performance.now());
        });
      }
    };";

/// A WAV file of mono 16-bit samples.
fn write_wav(file: &Path, samples: &[i16]) {
    let bytes: Vec<u8> = samples.iter().flat_map(|it| it.to_le_bytes()).collect();
    let length = u32::try_from(bytes.len()).unwrap();
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((36 + length).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    for half in [1_u16, 1] {
        wav.extend(half.to_le_bytes());
    }
    wav.extend(RATE.to_le_bytes());
    wav.extend((2 * RATE).to_le_bytes());
    for half in [2_u16, 16] {
        wav.extend(half.to_le_bytes());
    }
    wav.extend(b"data");
    wav.extend(length.to_le_bytes());
    wav.extend(bytes);
    std::fs::write(file, wav).unwrap();
}

#[actix_web::test]
async fn a_spoken_word_silences_the_agent_and_is_answered() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let folder = dikala_testkit::folder();
    let file = folder.path().join("heard.wav");
    let mut heard = vec![0_i16; (RATE * PATIENCE_MS / 1_000) as usize];
    heard.extend(spoken("id+f2", "Saya mau dua kopi susu", RATE as usize));
    heard.extend(vec![0; 30 * RATE as usize]);
    write_wav(&file, &heard);
    let Some(browser) = Browser::open_with("en", Some(&file)).await else {
        return;
    };
    let model = FakeGemini::start();
    model.answer([says(GREETING, GREETING_MS), says("Dua kopi, baik.", 1_500)]);
    let Some((world, _)) = world(&model, WorldSetup::new().minutes(20)).await else {
        return;
    };
    enter(&browser, &invited(&world, "rina@example.com"), "Sign in").await;
    let page = format!(
        "{}/dashboard/agents/{}",
        world.server.http, world.tenant.agent
    );
    browser.go(&page).await;
    browser.run(RECORD).await;
    browser.press("Talk").await;
    browser.see("Dua kopi, baik.").await;
    browser.see("interrupted").await;
    // The answer is heard, too.
    let loud = "const [at] = cleared; return played.some(([time, peak]) => time > at + 500 && peak > 0.02)";
    eventually("the sound of the answer", async || {
        browser.run(loud).await.as_bool().filter(|is| *is)
    })
    .await;
    let before =
        "const [at] = cleared; return played.some(([time, peak]) => time < at && peak > 0.02)";
    assert_eq!(
        browser.run(before).await,
        json!(true),
        "the greeting is heard"
    );
    // The caller still speaks then, so nothing else is played.
    let late = format!(
        "const [at] = cleared; return played.filter(([time, peak]) => time > at + {SILENT_WITHIN_MS} && time < at + 500 && peak > 0.001)"
    );
    assert_eq!(
        browser.run(&late).await,
        json!([]),
        "sound after the interruption"
    );
    let first = "return played.find(([time, peak]) => peak > 0.02)[0] - pressed";
    println!(
        "first sound after the press: {} ms",
        browser.run(first).await
    );
    browser.press("Hang up").await;
    browser.see("Call hung up").await;
    let calls = world.tenant.calls().await;
    let call = world.tenant.call_over(&text(&calls[0], "id")).await;
    assert_eq!(
        (&call["channel"], &call["interruptions"]),
        (&json!("web"), &json!(1))
    );
    assert_eq!(model.broken_rules(), [""; 0]);
    world.assert_ledger_is_exact();
}
