//! Whole conversations with the simulated model over a real phone; utterances are detected in the received audio.

use std::{net::SocketAddr, process::Command, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_sip::settings::{ListenAddress, SipTransport, Trunk};
use dikala_telephony::{
    bridge::TelephonyBridge,
    settings::{self, Prices, Voice},
};
use dikala_testkit::gemini::{self, Act, FakeGemini};

use super::{
    audio::{PACKET_MS, Utterance},
    phone::TestPhone,
    trunk,
};
use crate::support::{prelude::*, tenant::text};

const GREETING: &str = "Selamat datang di Kopi Senja, ada yang bisa dibantu?";
const RESULT: &str = "Pesanan Anda tiba dua puluh lima menit lagi.";
const GOODBYE: &str = "Terima kasih, sampai jumpa!";
const SUMMARY: &str = "Penelepon menanyakan pesanan 427.";
/// Prices in rupiah per million tokens.
const PRICES: [(&str, u64); 4] = [
    ("text_in", 1_000_000),
    ("audio_in", 10_000_000),
    ("text_out", 2_000_000),
    ("audio_out", 100_000_000),
];

/// The model's reaction: a text and its length.
pub(super) fn says(text: &str, milliseconds: u64) -> gemini::ModelReaction {
    let text = text.to_owned();
    gemini::ModelReaction::Say { text, milliseconds }
}

/// Cost of turns with these lengths. The simulated model bills 100 text and 20 audio tokens per turn, and 25 per
/// second of speech.
fn cost(turns_ms: &[u64]) -> u64 {
    let said: u64 = turns_ms.iter().map(|ms| ms / 40).sum();
    turns_ms.len() as u64 * (100 + 20 * 10) + said * 100
}

/// True if these programs are installed; fails the test if they are required.
pub(super) fn have(programs: &[&str]) -> bool {
    let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    let Some(missing) = programs.iter().find(missing) else {
        return true;
    };
    let required = std::env::var("DIKALA_REQUIRE_SIP").is_ok_and(|value| value == "1");
    assert!(!required, "{missing} is not installed");
    eprintln!("skipped: {missing} is not installed");
    false
}

/// Spoken Indonesian in G.711 A-law, without leading silence.
pub(super) fn spoken(words: &str) -> Vec<u8> {
    let folder = dikala_testkit::folder();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let done = command.args(arguments).current_dir(folder.path()).status();
        assert!(done.unwrap().success(), "{program}");
    };
    run("espeak-ng", &["-v", "id", "-w", "words.wav", words]);
    let trim = ["silence", "1", "0.01", "2%"];
    let made = ["words.wav", "-r", "8000", "-c", "1", "words.al"];
    run("sox", &[&made[..], &trim[..]].concat());
    std::fs::read(folder.path().join("words.al")).unwrap()
}

/// A server with a phone listener at this address and the simulated model.
pub async fn world(model: &FakeGemini, setup: WorldSetup) -> Option<(TestWorld, SocketAddr)> {
    let mut installation = Installation::migrated(Sqlite)?;
    let edge = SocketAddr::from(([127, 0, 0, 1], dikala_testkit::free_port()));
    let file = trunk(&installation);
    installation.set("config", &file);
    for (key, value) in [
        ("telephony.enabled", "true"),
        ("telephony.sip.listen", &format!("udp://{edge}")),
        ("telephony.gemini.url", &model.url()),
        ("telephony.gemini.api_key", gemini::KEY),
    ] {
        installation.set(key, value);
    }
    for (kind, price) in PRICES {
        let key = format!("telephony.gemini.idr_per_million.{kind}");
        installation.set(&key, &price.to_string());
    }
    Some((TestWorld::on(installation, setup).await, edge))
}

/// Waits for the end of an utterance, and asserts its length.
pub(super) async fn hears(phone: &TestPhone, count: usize, milliseconds: u64) {
    let heard = phone.audio.hears(count, |it| it.is_over).await;
    let difference = heard
        .milliseconds()
        .abs_diff(usize::try_from(milliseconds).unwrap());
    assert!(
        difference <= 3 * PACKET_MS,
        "{heard:?} of {milliseconds} ms"
    );
}

/// An utterance that the model does not know of, so that only the bridge can interrupt it.
pub fn unheeding(milliseconds: usize) -> Act {
    let samples = (0..milliseconds * 24).map(|at| if at % 48 < 24 { 8_000_i16 } else { -8_000 });
    let bytes: Vec<u8> = samples.flat_map(i16::to_le_bytes).collect();
    let audio = json!({"mimeType": "audio/pcm;rate=24000", "data": STANDARD.encode(bytes)});
    let turn = json!({"modelTurn": {"parts": [{"inlineData": audio}]}});
    Act::Message(json!({"serverContent": turn}))
}

/// Interrupts an utterance. Returns how long the caller had spoken when its last packet arrived, in milliseconds.
async fn interrupts(model: &FakeGemini, phone: &TestPhone, words: &[u8]) -> usize {
    let count = phone.audio.utterances().len() + 1;
    // The model does not notice the interruption itself, so only the bridge can be quick.
    model.act(unheeding(6_000));
    phone.audio.hears(count, |it| it.packets >= 30).await;
    model.answer([gemini::ModelReaction::Nothing]);
    phone.audio.say(words);
    let heard: Utterance = phone.audio.hears(count, |it| it.is_over).await;
    model.act(Act::Interrupted);
    phone.audio.said().await;
    // It stays silent for longer than the time in which the model must confirm the interruption.
    phone.audio.hears_packets(phone.audio.packets(), 75).await;
    assert_eq!(phone.audio.utterances()[count - 1..], [heard]);
    heard.spoken * PACKET_MS
}

/// The turns of a transcript: role and text.
pub(super) fn turns(transcript: &Value) -> Vec<(String, String)> {
    let turns = transcript["turns"].as_array().unwrap().iter();
    turns
        .map(|turn| (text(turn, "role"), text(turn, "text")))
        .collect()
}

#[actix_web::test]
async fn a_caller_who_speaks_indonesian_is_served_from_greeting_to_goodbye() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let model = FakeGemini::start();
    let Some((world, edge)) = world(&model, WorldSetup::new().minutes(10)).await else {
        return;
    };
    let tenant = &world.tenant;
    super::with_a_function(&world).await;
    let agent = json!({"language": "id", "greetingText": GREETING, "voiceId": "Kore"});
    tenant.change_agent(agent).await;
    let arguments = json!({"orderId": "427"});
    let name = "check_order".to_owned();
    model.answer([
        says(GREETING, 1_200),
        gemini::ModelReaction::Call { name, arguments },
        says(RESULT, 900),
    ]);

    let phone = TestPhone::call(edge, &tenant.did).await;
    hears(&phone, 1, 1_200).await;
    let setup = model.connections()[0].setup.clone();
    let speech = &setup["generationConfig"]["speechConfig"];
    assert_eq!(speech["languageCode"], "id-ID");
    assert!(model.connections()[0].texts()[0].contains(GREETING));

    let question = spoken("Di mana pesanan saya nomor empat dua tujuh");
    phone.audio.say(&question);
    let order = world.receiver.wait_for("/order", 1).await;
    let shown = ["function-secret", "show", "--tenant", &tenant.id];
    order[0].assert_signed(&text(&world.server.cli(&shown), "secret"));
    let id = text(&tenant.calls().await[0], "id");
    let body =
        json!({"callId": id, "functionName": "check_order", "parameters": {"orderId": "427"}});
    assert_eq!(order[0].json(), body);
    hears(&phone, 2, 900).await;
    let heard_ms = model.connections()[0].voice_ms;
    let said_ms = question.len() as u64 / 8;
    assert!(
        (said_ms / 2..=said_ms).contains(&heard_ms),
        "{heard_ms} of {said_ms} ms"
    );

    // A busy machine may be late now and then; only the shortest time counts.
    let stop = spoken("Aduh tunggu");
    let mut quickest_ms = usize::MAX;
    for _ in 0..4 {
        quickest_ms = quickest_ms.min(interrupts(&model, &phone, &stop).await);
        if quickest_ms <= 100 {
            break;
        }
    }
    assert!(quickest_ms <= 100, "silent after {quickest_ms} ms of voice");

    model.answer([says(GOODBYE, 1_500)]);
    // 4 2 7 #
    phone.audio.press(&[4, 2, 7, 11]);
    let count = phone.audio.utterances().len() + 1;
    phone.audio.hears(count, |it| it.packets >= 5).await;
    model.answer([says(SUMMARY, 100)]);
    model.act(Act::Call {
        id: None,
        name: "end_call".to_owned(),
        arguments: json!({}),
    });
    let bye = phone.hung_up().await;
    assert!(bye.contains("The agent ended the call."), "{bye}");
    hears(&phone, count, 1_500).await;
    assert_eq!(model.broken_rules(), Vec::<String>::new());

    in_the_books(&world, &id, cost(&[1_200, 900, 1_500, 100])).await;
}

/// Settings of a separate bridge with this model, for callers on this machine.
pub fn settings(model: &FakeGemini) -> settings::BridgeSettings {
    let price = |kind| PRICES.iter().find(|(name, _)| *name == kind).unwrap().1 * 1_000;
    let gemini = settings::GeminiSettings {
        url: model.url(),
        api_key: gemini::KEY.to_owned(),
        model: "gemini-3.8-live".to_owned(),
        prices: Prices {
            text_in: price("text_in"),
            audio_in: price("audio_in"),
            text_out: price("text_out"),
            audio_out: price("audio_out"),
            ..Prices::default()
        },
    };
    let mut settings = super::settings();
    settings.voice = Voice::gemini(gemini);
    settings.sip.listen = vec![ListenAddress {
        transport: SipTransport::Udp,
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
    }];
    settings.sip.trunks = vec![Trunk {
        name: "here".to_owned(),
        addresses: vec!["127.0.0.0/8".parse().unwrap()],
        ..Trunk::default()
    }];
    settings
}

/// A bridge whose clock is behind by this time, so that no test has to talk for a minute.
async fn late_bridge(world: &TestWorld, model: &FakeGemini, behind: Duration) -> TelephonyBridge {
    let behind = i64::try_from(behind.as_millis()).unwrap();
    let clock = Arc::new(move || SystemClock.now().plus_ms(-behind));
    TelephonyBridge::start(&settings(model), super::service(world), clock)
        .await
        .unwrap()
}

#[actix_web::test]
async fn a_caller_whose_credit_ends_hears_goodbye() {
    let setup = WorldSetup::new()
        .minutes(1)
        .set("calls.warn_before_seconds", 6);
    let world = world!(Sqlite, setup);
    let tenant = &world.tenant;
    let model = FakeGemini::start();
    model.answer([says(GREETING, 600), says(GOODBYE, 900)]);
    // 14 s of the minute are left, so the warning comes before the agent asks whether the caller is there.
    let bridge = late_bridge(&world, &model, Duration::from_secs(46)).await;
    let phone = TestPhone::call(bridge.addresses()[0].address, &tenant.did).await;
    hears(&phone, 1, 600).await;
    // Usage that is reported outside of a turn counts as well.
    let tokens = |modality: &str, count: u64| json!([{"modality": modality, "tokenCount": count}]);
    model.act(Act::Message(json!({"usageMetadata": {
        "promptTokenCount": 3_000, "promptTokensDetails": tokens("AUDIO", 3_000),
        "responseTokenCount": 50, "responseTokensDetails": tokens("TEXT", 50),
    }})));
    let bye = phone.hung_up().await;
    assert!(bye.contains("The credit is used up."), "{bye}");
    hears(&phone, 2, 900).await;
    let texts = model.connections()[0].texts();
    assert!(
        texts[1].contains("no more time can be paid for"),
        "{texts:?}"
    );

    let id = text(&tenant.calls().await[0], "id");
    let call = tenant.call_over(&id).await;
    let seen = ["status", "hangupReason"].map(|field| call[field].clone());
    assert_eq!(json!(seen), json!(["ended", "credits_exhausted"]));
    assert_eq!(call["aiCostIdr"], cost(&[600, 900]) + 3_000 * 10 + 50 * 2);
    assert_eq!(
        (tenant.billed(&id).await, tenant.credits().await),
        (Some(1), (0, 1, 1))
    );
    assert_eq!(
        world.event("call.ended", &id).await.data["aiCostIdr"],
        call["aiCostIdr"]
    );
    assert_eq!(model.broken_rules(), Vec::<String>::new());
    bridge.stop().await;
    world.assert_ledger_is_exact();
}

async fn in_the_books(world: &TestWorld, id: &str, cost: u64) {
    let tenant = &world.tenant;
    let call = tenant.call_over(id).await;
    let seen = ["status", "hangupReason", "hangupInitiator", "callerNumber"];
    let seen = seen.map(|field| call[field].clone());
    assert_eq!(
        json!(seen),
        json!(["ended", "normal", "agent", "+6281234567890"])
    );
    assert_eq!(call["aiCostIdr"], cost, "{call}");
    let kinds = world.kinds(id, "call.transcript").await;
    assert_eq!(
        kinds,
        [
            "call.started",
            "call.answered",
            "function.called",
            "call.ended",
            "call.transcript"
        ]
    );
    assert_eq!(tenant.call(id).await["transcriptSummary"], SUMMARY);
    let path = format!("/calls/{id}/transcript");
    let transcript = tenant.api.get(&path).await.expect(200);
    let told = turns(&transcript);
    let of = |role: &str| {
        let of_role = told.iter().filter(|(who, _)| who == role);
        of_role.map(|(_, text)| text.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of("agent"), [GREETING, RESULT, GOODBYE]);
    assert_eq!(of("tool"), ["check_order", "end_call"]);
    let caller = of("caller");
    assert!(caller[0].starts_with("heard "), "{caller:?}");
    assert_eq!(caller.last(), Some(&"the caller pressed 4 2 7 #"));
    assert_eq!(tenant.billed(id).await, Some(1));
    assert_eq!(tenant.credits().await, (9, 10, 1));
    world.assert_ledger_is_exact();
}
