//! Calls with sounds beside the agent's speech, through each provider: what a loudspeaker returns, babble and music do not silence
//! the agent, and a caller does.
#![expect(clippy::float_arithmetic, reason = "levels are measured with it")]

mod late_words;

use std::{net::SocketAddr, process::Command, sync::LazyLock, time::Instant};

use dikala_testkit::{
    gemini::{self, FakeGemini},
    openai::{self, FakeOpenAi, RealtimeReaction},
    pipeline::{self, Endpoint, FakePipeline, ServerReaction},
};
use futures_util::future::join_all;

use super::{
    audio::{HeardSound, PACKET_MS, coded},
    conversation::{have, says},
    phone::TestPhone,
    room::Room,
    trunk,
};
use crate::support::{prelude::*, tenant::text};

const GREETING: &str = "Halo, ini Kopi Senja, dengan Ayu.";
const SENTENCE: &str =
    "Toko kami buka setiap hari dari jam delapan pagi sampai jam sembilan malam.";
/// Later words of the simulated models.
const REST: &str = "Sampai jam sembilan malam.";
/// Speech of a character.
const PER_CHARACTER_MS: usize = 52;
/// The root mean square of the agent's speech: −26 dBFS, as on telephone lines.
const AGENT_LEVEL: f64 = 1_600.0;
/// The part of the sentence that is heard before other sounds begin, in packets.
const BEFORE: usize = 1_000 / PACKET_MS;
/// After this silence all was said. The longest echo has come back by then, and its voice would be noticed.
const OVER: usize = 500 / PACKET_MS;
/// Nothing takes longer.
const LONGEST: Duration = Duration::from_secs(20);
/// A longer time without a packet is a stall of the machine.
const STALL: Duration = Duration::from_millis(300);
/// A shorter pause is none.
const PAUSE: usize = 300 / PACKET_MS;
/// The difference to the length of speech: a pause begins and ends in the middle of packets.
const NEAR: usize = 4;
/// The longest pause beside a noise: 3 s and what a busy machine adds, and with a pipeline 4 s.
const NOISE: usize = 3_500 / PACKET_MS;
const NOISE_PIPELINE: usize = 4_000 / PACKET_MS;
/// The longest time from a caller's first word until the agent is silent.
const STOPPED: usize = 400 / PACKET_MS;

/// Sounds of a test, made once.
static SOUNDS: LazyLock<Sounds> = LazyLock::new(Sounds::make);

struct Sounds {
    /// Samples of 16 bits at 24 kHz.
    agent: Vec<u8>,
    /// A caller in G.711 A-law, 3 dB softer than the agent.
    caller: Vec<u8>,
    /// At 8 kHz, 15 dB softer than the agent.
    babble: Vec<i16>,
    music: Vec<i16>,
}

impl Sounds {
    fn make() -> Self {
        let background = AGENT_LEVEL * factor(-15.0);
        let mut agent = at_level(&spoken("id", SENTENCE, 24_000), AGENT_LEVEL);
        // Some noise even in its pauses: silence is what the bridge sends in place of speech.
        for (sample, noise) in agent.iter_mut().zip(noise()) {
            *sample += noise;
        }
        let caller = spoken("id+f2", "Tunggu sebentar", 8_000);
        let caller = at_level(&caller, AGENT_LEVEL * factor(-3.0));
        Self {
            agent: agent.iter().flat_map(|it| it.to_le_bytes()).collect(),
            caller: caller.iter().map(|it| coded(i32::from(*it))).collect(),
            babble: at_level(&babble(), background),
            music: at_level(&music(), background),
        }
    }
}

fn factor(decibels: f64) -> f64 {
    10_f64.powf(decibels / 20.0)
}

/// The same at this root mean square of its voiced frames.
fn at_level(samples: &[i16], level: f64) -> Vec<i16> {
    let energy = |frame: &[i16]| frame.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>() / 160.0;
    let frames = samples.chunks_exact(160).map(energy);
    let voiced: Vec<f64> = frames.filter(|energy| *energy > 10_816.0).collect();
    let factor = level / (voiced.iter().sum::<f64>() / voiced.len() as f64).sqrt();
    let scaled = |it: &i16| (f64::from(*it) * factor) as i16;
    samples.iter().map(scaled).collect()
}

/// Spoken words at this rate, without silence around them.
pub(super) fn spoken(voice: &str, words: &str, rate: usize) -> Vec<i16> {
    let folder = dikala_testkit::folder();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let done = command.args(arguments).current_dir(folder.path()).status();
        assert!(done.unwrap().success(), "{program}");
    };
    let slowly = ["-s", "150", "-w", "words.wav"];
    run(
        "espeak-ng",
        &[&["-v", voice], &slowly[..], &[words]].concat(),
    );
    let rate = rate.to_string();
    let made = ["-D", "words.wav", "-r", &rate, "-c", "1", "words.s16"];
    let trim = ["silence", "1", "0.01", "1%", "reverse"];
    run("sox", &[&made[..], &trim[..], &trim[..]].concat());
    let bytes = std::fs::read(folder.path().join("words.s16")).unwrap();
    let (samples, _) = bytes.as_chunks::<2>();
    samples.iter().map(|it| i16::from_le_bytes(*it)).collect()
}

/// Faint noise, always the same.
fn noise() -> impl Iterator<Item = i16> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as i16 % 60
    })
}

/// Six people who talk at once, without end.
fn babble() -> Vec<i16> {
    let voices = ["id", "id+f1", "id+m3", "id+f3", "id+m5", "id+f4"];
    let words = [
        "Tadi malam hujannya deras sekali sampai jalanan banjir",
        "Besok kita berangkat pagi supaya tidak terlambat",
        "Anak saya baru masuk sekolah minggu lalu",
        "Harga cabai naik lagi padahal baru turun",
        "Kemarin saya ketemu dia di pasar dekat stasiun",
        "Coba tanya bapak yang duduk di sebelah sana",
    ];
    let mut all = vec![0_i16; 8_000 * 10];
    for (talker, (voice, words)) in voices.iter().zip(words).enumerate() {
        let words = at_level(&spoken(voice, words, 8_000), 500.0);
        let words = words.iter().cycle().skip(talker * 3_000);
        for (sum, sample) in all.iter_mut().zip(words) {
            *sum += sample;
        }
    }
    all
}

/// Chords of harmonics that change each second, with a beat each half.
fn music() -> Vec<i16> {
    let chords = [
        [220.0, 277.2, 329.6],
        [196.0, 246.9, 293.7],
        [174.6, 220.0, 261.6],
    ];
    let sample = |(at, noise): (usize, i16)| {
        let seconds = at as f64 / 8_000.0;
        let beat = seconds % 0.5;
        let tones = chords[seconds as usize % 3].iter().flat_map(|hertz| {
            (1..5).map(move |n| {
                let turns = hertz * f64::from(n) * seconds;
                (turns * std::f64::consts::TAU).sin() / f64::from(n)
            })
        });
        let drum = if beat < 0.06 {
            f64::from(noise) * 30.0
        } else {
            0.0
        };
        (tones.sum::<f64>() * 1_500.0 * (0.5 + 0.5 * (-beat * 6.0).exp()) + drum) as i16
    };
    noise().take(8_000 * 9).enumerate().map(sample).collect()
}

/// A sound beside the agent's speech.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    /// Its own speech, after this time and with this many thousandths of its amplitude.
    Echo {
        delay_ms: usize,
        thousandths: i32,
    },
    Babble,
    Music,
    Caller,
}

const ALL: [Beside; 5] = [
    Beside::Echo {
        delay_ms: 100,
        // −20 dB.
        thousandths: 100,
    },
    Beside::Echo {
        delay_ms: 260,
        // −10 dB.
        thousandths: 316,
    },
    Beside::Babble,
    Beside::Music,
    Beside::Caller,
];

enum Model {
    Gemini(FakeGemini),
    OpenAi(FakeOpenAi),
    Pipeline(FakePipeline),
}

impl Model {
    /// With the reactions to the greeting and to a key of each call.
    fn gemini() -> Self {
        let model = FakeGemini::start();
        model.speaks(&SOUNDS.agent);
        let said = [GREETING, SENTENCE].map(|text| says(text, length_ms(text)));
        model.answer(said.into_iter().flat_map(|it| vec![it; ALL.len()]));
        Self::Gemini(model)
    }

    fn openai() -> Self {
        let model = FakeOpenAi::start();
        model.speaks(&SOUNDS.agent);
        let said = [GREETING, SENTENCE, REST, REST].map(|text| RealtimeReaction::Say {
            text: text.to_owned(),
            milliseconds: length_ms(text),
        });
        model.answer(said.into_iter().flat_map(|it| vec![it; ALL.len()]));
        Self::OpenAi(model)
    }

    fn pipeline() -> Self {
        let server = FakePipeline::start();
        LazyLock::force(&SOUNDS);
        server.work_with(ears, mouth);
        let said = [SENTENCE, REST, REST].map(ServerReaction::Text);
        let said = said.into_iter().flat_map(|it| vec![it; ALL.len()]);
        server.react(Endpoint::Llm, said);
        Self::Pipeline(server)
    }

    /// Each key below `telephony`, and its value.
    fn settings(&self) -> Vec<(String, String)> {
        let (provider, url, key, model) = match self {
            Self::Gemini(model) => ("gemini", model.url(), gemini::KEY, "gemini-3.8-live"),
            Self::OpenAi(model) => ("openai", model.url(), openai::KEY, openai::MODEL),
            Self::Pipeline(server) => ("pipeline", server.url(), pipeline::KEY, pipeline::MODEL),
        };
        let parts: &[&str] = match self {
            Self::Pipeline(_) => &["pipeline.stt", "pipeline.llm", "pipeline.tts"],
            Self::Gemini(_) | Self::OpenAi(_) => &[provider],
        };
        let of_part = |part: &&str| {
            [("url", &url[..]), ("api_key", key), ("model", model)]
                .map(|(key, value)| (format!("{part}.{key}"), value.to_owned()))
        };
        let mut settings = vec![("voice.provider".to_owned(), provider.to_owned())];
        settings.extend(parts.iter().flat_map(of_part));
        settings
    }

    fn broken_rules(&self) -> Vec<String> {
        match self {
            Self::Gemini(model) => model.broken_rules(),
            Self::OpenAi(model) => model.broken_rules(),
            Self::Pipeline(server) => server.broken_rules(),
        }
    }
}

/// Recognises the caller's words, and none in babble and music.
fn ears(wav: &[u8]) -> String {
    let (samples, _) = wav[44..].as_chunks::<2>();
    let magnitude = |it: &[u8; 2]| u64::from(i16::from_le_bytes(*it).unsigned_abs());
    let loud = |frame: &&[[u8; 2]]| frame.iter().map(magnitude).sum::<u64>() > 320 * 600;
    let is_caller = samples.chunks_exact(320).filter(loud).count() >= 10;
    String::from(if is_caller { "Tunggu sebentar." } else { "" })
}

fn mouth(text: &str) -> Vec<u8> {
    let bytes = usize::try_from(length_ms(text)).unwrap() * 48;
    SOUNDS.agent[..bytes.min(SOUNDS.agent.len())].to_vec()
}

fn length_ms(text: &str) -> u64 {
    (text.chars().count() * PER_CHARACTER_MS) as u64
}

fn packets(text: &str) -> usize {
    text.chars().count() * PER_CHARACTER_MS / PACKET_MS
}

/// A server with a phone listener at this address.
async fn world(model: &Model) -> Option<(TestWorld, SocketAddr)> {
    let mut installation = Installation::migrated(Sqlite)?;
    let edge = SocketAddr::from(([127, 0, 0, 1], dikala_testkit::free_port()));
    let file = trunk(&installation);
    installation.set("config", &file);
    installation.set("telephony.enabled", "true");
    installation.set("telephony.sip.listen", &format!("udp://{edge}"));
    for (key, value) in model.settings() {
        installation.set(&format!("telephony.{key}"), &value);
    }
    let setup = WorldSetup::new().minutes(100);
    Some((TestWorld::on(installation, setup).await, edge))
}

/// A call in which a sentence is heard beside a sound.
struct CallWithSound {
    beside: Beside,
    id: String,
    phone: TestPhone,
    /// Packets that it had heard before it asked.
    from: usize,
}

impl CallWithSound {
    async fn ring(world: &TestWorld, edge: SocketAddr, beside: Beside) -> Self {
        let mut phone = TestPhone::new(edge, &world.tenant.did).await;
        if let Beside::Echo {
            delay_ms,
            thousandths,
        } = beside
        {
            phone.audio.enter(Room::returning(delay_ms, thousandths));
        }
        phone.answered().await;
        let id = text(&world.tenant.calls().await[0], "id");
        Self {
            beside,
            id,
            phone,
            from: 0,
        }
    }

    /// Waits until the sound is as wanted, and over, or until it never will be.
    async fn hears(&self, wanted: impl Fn(&HeardSound) -> bool) -> HeardSound {
        let started = Instant::now();
        eventually("all to be heard", async || {
            let heard = self.phone.audio.sound(self.from);
            let is_over = heard.silence >= OVER && wanted(&heard);
            (is_over || started.elapsed() > LONGEST).then_some(heard)
        })
        .await
    }

    /// Hears the greeting, in which a return is measured. A busy machine that stalls meanwhile may take it for a voice.
    async fn is_greeted(&self) {
        self.hears(|it| it.packets + NEAR >= packets(GREETING))
            .await;
    }

    /// Asks for the sentence, and waits until it begins.
    async fn asks(&mut self) {
        let audio = &self.phone.audio;
        self.from = audio.packets();
        audio.press(&[1, 11]);
        self.hears_packets(1).await;
    }

    async fn hears_packets(&self, count: usize) {
        eventually("the sentence to begin", async || {
            let heard = self.phone.audio.sound(self.from);
            (heard.packets >= count).then_some(())
        })
        .await;
    }

    /// Hears the sentence beside the sound. Returns how much was heard before it as well, in packets.
    async fn hears_the_sentence(&self) -> (usize, HeardSound) {
        let audio = &self.phone.audio;
        self.hears_packets(BEFORE).await;
        let before = audio.sound(self.from).packets;
        match self.beside {
            Beside::Echo { .. } => {}
            Beside::Babble => audio.enter(Room::with(SOUNDS.babble.clone())),
            Beside::Music => audio.enter(Room::with(SOUNDS.music.clone())),
            Beside::Caller => audio.say(&SOUNDS.caller),
        }
        let heard = self.hears(|it| match self.beside {
            Beside::Echo { .. } => it.packets + NEAR >= packets(SENTENCE),
            _ => it.pause >= PAUSE && it.packets >= it.before + PAUSE,
        });
        let heard = heard.await;
        self.phone.hang_up().await;
        (before, heard)
    }

    /// The turns of its transcript: whose, the words, and true for one that was cut off.
    async fn turns(&self, world: &TestWorld) -> Vec<(String, String, bool)> {
        world.event("call.transcript", &self.id).await;
        let path = format!("/calls/{}/transcript", self.id);
        let transcript = world.tenant.api.get(&path).await.expect(200);
        let turns = transcript["turns"].as_array().unwrap().iter();
        let turns = turns.map(|turn| {
            let is_cut = turn["interrupted"] == true;
            (text(turn, "role"), text(turn, "text"), is_cut)
        });
        turns.collect()
    }

    /// The deviation from what is promised, in words.
    async fn fault(
        &self,
        world: &TestWorld,
        (before, heard): (usize, HeardSound),
        is_pipeline: bool,
    ) -> Option<String> {
        // The greeting and the key come first.
        let turns: Vec<_> = self.turns(world).await.into_iter().skip(2).collect();
        let whole = ("agent".to_owned(), SENTENCE.to_owned(), false);
        let rest = ("agent".to_owned(), REST.to_owned(), false);
        let is_whole = heard.packets.abs_diff(packets(SENTENCE)) <= NEAR && turns == [whole];
        let is_right = match (self.beside, &turns[..]) {
            (Beside::Echo { .. }, _) => is_whole && heard.pause < PAUSE,
            (Beside::Babble | Beside::Music, [first, others @ ..]) if is_pipeline => {
                let is_noticed = (PAUSE..=NOISE_PIPELINE).contains(&heard.pause);
                is_noticed && is_cut(first) && *others == [rest]
            }
            (Beside::Babble | Beside::Music, _) => {
                is_whole && (PAUSE..=NOISE).contains(&heard.pause)
            }
            (Beside::Caller, [first, caller, agent]) => {
                let is_quick = heard.before <= before + STOPPED;
                is_quick && is_cut(first) && caller.0 == "caller" && agent.0 == "agent"
            }
            (Beside::Caller, _) => false,
        };
        (!is_right).then(|| format!("beside {:?}: {heard:?}, {turns:?}", self.beside))
    }
}

/// It is the beginning of the sentence.
fn is_cut((role, said, is_cut): &(String, String, bool)) -> bool {
    let begins = SENTENCE.starts_with(said.trim()) && said.len() < SENTENCE.len();
    role == "agent" && begins && *is_cut
}

/// The faults of five calls at once, and true if the machine stalled meanwhile.
async fn converse(model: &Model) -> Option<(Vec<String>, bool)> {
    let (world, edge) = world(model).await?;
    let agent = json!({"greetingText": GREETING, "language": "id"});
    world.tenant.change_agent(agent).await;
    let mut calls = Vec::new();
    for beside in ALL {
        calls.push(CallWithSound::ring(&world, edge, beside).await);
    }
    join_all(calls.iter().map(CallWithSound::is_greeted)).await;
    // One after the other: their speech comes at once, which is much work for a program that was built for tests.
    for call in &mut calls {
        call.asks().await;
    }
    let heard = join_all(calls.iter().map(CallWithSound::hears_the_sentence)).await;
    let is_pipeline = matches!(model, Model::Pipeline(_));
    let mut faults = model.broken_rules();
    for (call, heard) in calls.iter().zip(heard) {
        faults.extend(call.fault(&world, heard, is_pipeline).await);
    }
    let stalls = calls.iter().map(|call| call.phone.audio.longest_stall());
    Some((faults, stalls.max() > Some(STALL)))
}

#[rstest]
#[case::gemini(Model::gemini)]
#[case::openai(Model::openai)]
#[case::pipeline(Model::pipeline)]
#[ignore = "needs a machine of its own: five calls in real time"]
#[actix_web::test]
async fn a_caller_interrupts_the_agent_and_no_other_sound_does(#[case] model: fn() -> Model) {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    // A machine without time for its calls says nothing about them.
    for is_last in [false, true] {
        let Some((faults, has_stalled)) = converse(&model()).await else {
            return;
        };
        if faults.is_empty() {
            return;
        }
        assert!(has_stalled && !is_last, "{faults:#?}");
    }
}
