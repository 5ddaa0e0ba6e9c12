//! Calls whose agent hears, thinks and speaks over a pipeline, over a real phone.

use std::{net::SocketAddr, process::Command};

use dikala_testkit::pipeline::{Endpoint, FakePipeline, KEY, MODEL, ServerReaction};

use super::{
    audio::PACKET_MS,
    conversation::{have, spoken},
    phone::TestPhone,
    trunk,
};
use crate::support::{prelude::*, scrape::Scrape, tenant::text};

const GREETING: &str = "Selamat datang di Kopi Senja.";
/// Prices in rupiah per million units.
const PRICES: [(&str, u64); 5] = [
    ("seconds", 50_000_000),
    ("text_in", 1_000_000),
    ("cached_in", 500_000),
    ("text_out", 2_000_000),
    ("characters", 1_000_000),
];
/// Sound of one character of the simulated speech.
const PER_CHARACTER_MS: usize = 20;
/// The sentences that the real ears know: with all of English, they understand others in the same sound.
const GRAMMAR: &str = "#JSGF V1.0; grammar phone; public <said> = what time do you open today | i would like to order a coffee | \
     please connect me to a person | thank you and goodbye ;";

/// A server with a phone listener at this address and the simulated endpoints, and the scripted voice behind them.
async fn world(server: &FakePipeline) -> Option<(TestWorld, SocketAddr)> {
    let mut installation = Installation::migrated(Sqlite)?;
    let edge = SocketAddr::from(([127, 0, 0, 1], dikala_testkit::free_port()));
    let file = trunk(&installation);
    installation.set("config", &file);
    for (key, value) in [
        ("telephony.enabled", "true"),
        ("telephony.sip.listen", &format!("udp://{edge}")),
        ("telephony.voice.provider", "pipeline"),
        ("telephony.voice.fallback", "scripted"),
        ("telephony.pipeline.tts.voice", "tone"),
    ] {
        installation.set(key, value);
    }
    for part in ["stt", "llm", "tts"] {
        for (key, value) in [
            ("url", &server.url()[..]),
            ("api_key", KEY),
            ("model", MODEL),
        ] {
            installation.set(&format!("telephony.pipeline.{part}.{key}"), value);
        }
    }
    for (unit, price) in PRICES {
        let key = format!("telephony.pipeline.idr_per_million.{unit}");
        installation.set(&key, &price.to_string());
    }
    let setup = WorldSetup::new().minutes(10);
    Some((TestWorld::on(installation, setup).await, edge))
}

#[actix_web::test]
async fn a_caller_is_served_by_a_pipeline_from_greeting_to_goodbye() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let server = FakePipeline::start();
    let Some((world, edge)) = world(&server).await else {
        return;
    };
    let tenant = &world.tenant;
    super::with_a_function(&world).await;
    let agent = json!({"language": "id", "greetingText": GREETING});
    tenant.change_agent(agent).await;
    let order = vec![("check_order", json!({"orderId": "427"}))];
    server.react(
        Endpoint::Llm,
        [
            ServerReaction::Call("Saya periksa.", order),
            ServerReaction::Text("Dua puluh lima menit lagi."),
            ServerReaction::Call("Sampai jumpa!", vec![("end_call", json!({}))]),
            ServerReaction::Text("Penelepon menanyakan pesanan 427."),
        ],
    );
    let question = "Di mana pesanan saya nomor empat dua tujuh?";
    server.react(Endpoint::Stt, [ServerReaction::Text(question)]);

    let phone = TestPhone::call(edge, &tenant.did).await;
    let hears = async |count: usize, text: &str| {
        let heard = phone.audio.hears(count, |it| it.is_over).await;
        let expected = text.chars().count() * PER_CHARACTER_MS;
        let difference = heard.milliseconds().abs_diff(expected);
        assert!(difference <= 3 * PACKET_MS, "{heard:?} of {expected} ms");
    };
    hears(1, GREETING).await;
    phone
        .audio
        .say(&spoken("Di mana pesanan saya nomor empat dua tujuh"));
    world.receiver.wait_for("/order", 1).await;
    let asked = server.calls(Endpoint::Llm);
    assert_eq!(asked[0].last_message(), question);
    let answered = server.wait("the answer", Endpoint::Llm, |all| all.get(1).cloned());
    let outcome = answered.await.body["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(outcome["role"], "tool");
    assert!(
        outcome["content"].as_str().unwrap().contains("25"),
        "{outcome}"
    );
    let tones = |ms: usize| ms / PACKET_MS;
    let said = [GREETING, "Saya periksa.", "Dua puluh lima menit lagi."];
    let all: usize = said
        .iter()
        .map(|text| text.chars().count() * PER_CHARACTER_MS)
        .sum();
    eventually("the answer", async || {
        (phone.audio.tones(0).0 + 6 >= tones(all)).then_some(())
    })
    .await;
    // 4 2 7 #
    phone.audio.press(&[4, 2, 7, 11]);
    let bye = phone.hung_up().await;
    assert!(bye.contains("The agent ended the call."), "{bye}");

    let id = text(&tenant.calls().await[0], "id");
    let call = tenant.call_over(&id).await;
    world.event("call.transcript", &id).await;
    let call = tenant
        .api
        .get(&format!("/calls/{}", call["id"].as_str().unwrap()))
        .await
        .expect(200);
    assert_eq!(call["voiceProvider"], "pipeline", "{call}");
    assert_eq!(
        call["transcriptSummary"],
        "Penelepon menanyakan pesanan 427."
    );
    let heard_ms: u64 = server
        .calls(Endpoint::Stt)
        .iter()
        .map(|it| it.audio_ms)
        .sum();
    let characters: u64 = server
        .calls(Endpoint::Tts)
        .iter()
        .map(|it| it.body["input"].as_str().unwrap().chars().count() as u64)
        .sum();
    let asked = server.calls(Endpoint::Llm).len() as u64;
    assert_eq!(asked, 4);
    // The summary may come after the cost was reported with the end.
    let costs = [3, 4].map(|asked| {
        let tokens = asked * (36 + 64 / 2 + 10 * 2);
        (heard_ms * 50 + 500) / 1_000 + tokens + characters
    });
    let cost = call["aiCostIdr"].as_u64().unwrap();
    assert!(costs.contains(&cost), "{cost} is none of {costs:?}");
    let transcript = tenant
        .api
        .get(&format!("/calls/{id}/transcript"))
        .await
        .expect(200);
    for said in said
        .iter()
        .chain(&[question, "the caller pressed 4 2 7 #", "Sampai jumpa!"])
    {
        assert!(
            transcript.to_string().contains(said),
            "{said:?} is not in {transcript}"
        );
    }
    assert_eq!(server.broken_rules(), Vec::<String>::new());
}

#[actix_web::test]
async fn another_voice_takes_over_when_an_endpoint_fails_and_later_calls_try_again() {
    let server = FakePipeline::start();
    let Some((world, edge)) = world(&server).await else {
        return;
    };
    let tenant = &world.tenant;
    super::with_a_function(&world).await;
    tenant.change_agent(json!({"greetingText": GREETING})).await;
    let refused = ServerReaction::Status(401, "invalid_api_key", None);
    server.react(Endpoint::Llm, [refused]);
    let phone = TestPhone::call(edge, &tenant.did).await;
    phone.audio.hears(1, |it| it.is_over).await;
    let from = phone.audio.packets();
    phone.audio.press(&[1, 11]);
    eventually("the scripted voice", async || {
        (!phone.audio.sentences(from).is_empty()).then_some(())
    })
    .await;
    phone.hang_up().await;
    let id = text(&tenant.calls().await[0], "id");
    let call = tenant.call_over(&id).await;
    assert_eq!(call["voiceProvider"], "scripted", "{call}");
    // The voice that was replaced has spoken the greeting.
    assert_eq!(call["aiCostIdr"], GREETING.chars().count(), "{call}");
    let scrape = Scrape::of(&world.server.operator).await;
    let counted = r#"dikala_voice_failovers_total{provider="scripted"} 1"#;
    assert!(scrape.text.contains(counted), "{}", scrape.text);

    let phone = TestPhone::call(edge, &tenant.did).await;
    phone.audio.hears(1, |it| it.is_over).await;
    let from = phone.audio.packets();
    phone.audio.press(&[1, 11]);
    eventually("the pipeline's answer", async || {
        (phone.audio.tones(from).0 > 10).then_some(())
    })
    .await;
    phone.hang_up().await;
    let newest = text(&tenant.calls().await[0], "id");
    assert_eq!(tenant.call_over(&newest).await["voiceProvider"], "pipeline");
    assert_eq!(server.broken_rules(), Vec::<String>::new());
}

fn run(folder: &std::path::Path, program: &str, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(program);
    let done = command
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    done.stdout
}

/// pocketsphinx writes down a file.
fn ears(wav: &[u8]) -> String {
    let folder = dikala_testkit::folder();
    std::fs::write(folder.path().join("heard.wav"), wav).unwrap();
    std::fs::write(folder.path().join("phone.gram"), GRAMMAR).unwrap();
    // The wide beams are slower, and find the sentence in telephone speech.
    let beams = ["-beam", "1e-80", "-wbeam", "1e-60", "-pbeam", "1e-80"];
    let file = ["-jsgf", "phone.gram", "-infile", "heard.wav"];
    let text = run(
        folder.path(),
        "pocketsphinx_continuous",
        &[&beams[..], &file[..]].concat(),
    );
    String::from_utf8_lossy(&text).trim().replace('\n', " ")
}

/// espeak-ng speaks: samples at 24 kHz.
fn mouth(text: &str) -> Vec<u8> {
    let folder = dikala_testkit::folder();
    run(
        folder.path(),
        "espeak-ng",
        &["-v", "en-us", "-s", "130", "-w", "said.wav", text],
    );
    let raw = [
        "said.wav", "-r", "24000", "-c", "1", "-b", "16", "-e", "signed", "-t", "raw", "said.raw",
    ];
    run(folder.path(), "sox", &raw);
    std::fs::read(folder.path().join("said.raw")).unwrap()
}

/// English in G.711 A-law.
fn english(words: &str) -> Vec<u8> {
    let folder = dikala_testkit::folder();
    run(
        folder.path(),
        "espeak-ng",
        &["-v", "en-us", "-s", "130", "-w", "words.wav", words],
    );
    run(
        folder.path(),
        "sox",
        &["words.wav", "-r", "8000", "-c", "1", "words.al"],
    );
    std::fs::read(folder.path().join("words.al")).unwrap()
}

#[actix_web::test]
async fn a_caller_is_understood_by_real_ears_and_answered_by_a_real_mouth() {
    if !have(&["espeak-ng", "sox"]) || !has_ears() {
        return;
    }
    let server = FakePipeline::start();
    server.work_with(ears, mouth);
    let Some((world, edge)) = world(&server).await else {
        return;
    };
    let tenant = &world.tenant;
    let agent = json!({"language": "en", "greetingText": "Good morning, this is the coffee shop."});
    tenant.change_agent(agent).await;
    server.react(
        Endpoint::Llm,
        [ServerReaction::Text("One coffee is on its way.")],
    );
    let phone = TestPhone::call(edge, &tenant.did).await;
    let is_said = async |count: usize| {
        // A sentence is over after a second without sound.
        eventually("the agent's words", async || {
            let begun = phone.audio.sentences(0).len();
            (begun >= count && phone.audio.silent_ms() >= 1_000).then_some(())
        })
        .await;
    };
    is_said(1).await;
    let before = phone.audio.loud_ms();
    phone.audio.say(&english("i would like to order a coffee"));
    is_said(2).await;

    let asked = server.calls(Endpoint::Llm);
    assert_eq!(asked[0].last_message(), "i would like to order a coffee");
    let answer_ms = mouth("One coffee is on its way.").len() / 48;
    let heard_ms = phone.audio.loud_ms() - before;
    assert!(
        (answer_ms / 3..=answer_ms + 200).contains(&heard_ms),
        "{heard_ms} of {answer_ms} ms are heard"
    );
    phone.hang_up().await;
    let id = text(&tenant.calls().await[0], "id");
    tenant.call_over(&id).await;
    world.event("call.transcript", &id).await;
    let transcript = tenant.api.get(&format!("/calls/{id}/transcript")).await;
    let transcript = transcript.expect(200).to_string();
    for said in [
        "i would like to order a coffee",
        "One coffee is on its way.",
    ] {
        assert!(transcript.contains(said), "{transcript}");
    }
    assert_eq!(server.broken_rules(), Vec::<String>::new());
}

/// True if pocketsphinx has its English model; fails the test if it is required.
fn has_ears() -> bool {
    let model = std::path::Path::new("/usr/share/pocketsphinx/model/en-us");
    // Without the model there is no such program either.
    let program = match model.exists() {
        true => "pocketsphinx_continuous",
        false => "pocketsphinx-en-us",
    };
    have(&[program])
}
