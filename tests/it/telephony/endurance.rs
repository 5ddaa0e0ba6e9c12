//! Many concurrent calls for minutes: callers ask, functions answer, agents are interrupted, calls end and others begin.
//!
//! By default it runs for a minute, to show that it works. The long form also checks latency and growth, with the installed
//! program on an idle machine:
//!
//! ```sh
//! DIKALA_ENDURANCE_MINUTES=10 DIKALA_ENDURANCE_CALLS=50 DIKALA_PROGRAM=$PWD/target/release/dikala \
//!   cargo test --test it endurance -- --ignored --nocapture
//! ```

use std::{
    net::SocketAddr,
    rc::Rc,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use dikala_testkit::gemini::{FakeGemini, ModelConnection, ModelReaction};
use futures_util::future::join_all;

use super::{
    PATIENCE,
    audio::{PacketFlow, Utterance},
    conversation::{have, says, spoken, world},
    phone::TestPhone,
};
use crate::support::{prelude::*, scrape::Scrape, tenant::text};

/// Number of questions per call, each followed by an interruption of the answer.
const ROUNDS: usize = 3;
/// Number of callers that stay in one call until the end.
const STAYING: usize = 2;
/// Number of minutes from which the long form's checks apply.
const LONG: u64 = 5;
/// A busy machine loses parts of a sentence. A caller without a reaction says it again after this time.
const SAYS_AGAIN_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Sizes {
    minutes: u64,
    calls: usize,
}

/// A number from the environment, or the default.
fn number(name: &str, usual: u64) -> u64 {
    let given = std::env::var(format!("DIKALA_ENDURANCE_{name}"));
    given.map_or(usual, |given| given.parse().unwrap())
}

/// A caller's speech.
struct Words {
    question: Vec<u8>,
    interruption: Vec<u8>,
}

struct Stage {
    edge: SocketAddr,
    did: String,
    words: Words,
    until: Instant,
    calls: AtomicUsize,
    /// Sentences that callers said again.
    said_again: AtomicUsize,
}

/// The agent's script: a greeting, then rounds of a function, its long result, and a reaction to the interruption.
fn script() -> Vec<ModelReaction> {
    let call = |name: &str, arguments| ModelReaction::Call {
        name: name.to_owned(),
        arguments,
    };
    let round = [
        call("check_order", json!({"orderId": "427"})),
        says(
            "Pesanan Anda sedang dalam perjalanan dan tiba nanti.",
            6_000,
        ),
        says("Ya, silakan.", 800),
    ];
    let mut script = vec![says("Selamat datang di Kopi Senja.", 1_000)];
    script.extend((0..ROUNDS).flat_map(|_| round.clone()));
    script.push(call("end_call", json!({})));
    script
}

/// The agent has hung up.
struct HungUp;

/// Waits until a further utterance satisfies a condition; returns whether one did in time. The agent may hang up before the
/// caller has finished: if the phone pauses within a sentence, one question counts as two.
async fn hears_within(
    time: Duration,
    phone: &TestPhone,
    before: usize,
    wanted: impl Fn(&Utterance) -> bool,
) -> Result<bool, HungUp> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        let heard = phone.audio.utterances();
        if heard.len() > before && heard.last().is_some_and(&wanted) {
            return Ok(true);
        }
        if phone.hung_up_within(Duration::from_millis(50)).await {
            return Err(HungUp);
        }
    }
    Ok(false)
}

async fn hears(
    phone: &TestPhone,
    before: usize,
    wanted: impl Fn(&Utterance) -> bool,
) -> Result<(), HungUp> {
    let heard = hears_within(PATIENCE, phone, before, wanted).await?;
    let utterances = phone.audio.utterances();
    assert!(heard, "after {before} nothing more than {utterances:?}");
    Ok(())
}

/// Says a sentence until the agent reacts, three times at most.
async fn says_until_heard(
    phone: &TestPhone,
    sentence: &[u8],
    said_again: &AtomicUsize,
) -> Result<(), HungUp> {
    let before = phone.audio.utterances().len();
    let reacts = |it: &Utterance| it.packets >= 15;
    for _ in 0..2 {
        phone.audio.say(sentence);
        if hears_within(SAYS_AGAIN_AFTER, phone, before, reacts).await? {
            return Ok(());
        }
        said_again.fetch_add(1, Relaxed);
    }
    phone.audio.say(sentence);
    hears(phone, before, reacts).await
}

/// Talks until the script ends.
async fn talk(phone: &TestPhone, stage: &Stage) -> Result<(), HungUp> {
    hears(phone, 0, |it| it.is_over).await?;
    for _ in 0..ROUNDS {
        for sentence in [&stage.words.question, &stage.words.interruption] {
            says_until_heard(phone, sentence, &stage.said_again).await?;
        }
        // The caller listens to the reaction to the interruption.
        let before = phone.audio.utterances().len() - 1;
        hears(phone, before, |it| it.is_over).await?;
    }
    Ok(())
}

/// One call. The caller hangs up in every other call, the agent in the others.
async fn call(stage: &Stage, hangs_up: bool) -> PacketFlow {
    let phone = TestPhone::call(stage.edge, &stage.did).await;
    match talk(&phone, stage).await {
        Err(HungUp) => {}
        Ok(()) if hangs_up => phone.hang_up().await,
        Ok(()) => {
            phone.audio.say(&stage.words.question);
            phone.hung_up().await;
        }
    }
    phone.audio.flow()
}

async fn caller(stage: Rc<Stage>, number: usize) -> Vec<PacketFlow> {
    let mut flows = Vec::new();
    // Callers start one after the other.
    tokio::time::sleep(Duration::from_millis(50) * u32::try_from(number).unwrap()).await;
    while Instant::now() < stage.until {
        let count = stage.calls.fetch_add(1, Relaxed);
        if number >= STAYING {
            flows.push(call(&stage, count.is_multiple_of(2)).await);
            continue;
        }
        let phone = TestPhone::call(stage.edge, &stage.did).await;
        tokio::time::sleep_until(stage.until.into()).await;
        phone.hang_up().await;
        flows.push(phone.audio.flow());
    }
    flows
}

/// The resident memory, in KiB.
fn memory(world: &TestWorld) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", world.server.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.unwrap().trim().trim_end_matches(" kB");
    resident.parse().unwrap()
}

/// Samples the memory every ten seconds while calls run.
async fn watched(world: &TestWorld, until: Instant) -> Vec<u64> {
    let mut seen = Vec::new();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_secs(10)).await;
        seen.push(memory(world));
    }
    seen
}

#[actix_web::test]
#[ignore = "a minute, or as many as DIKALA_ENDURANCE_MINUTES says; `.ci/slow` runs it"]
async fn many_talk_at_once_for_minutes() {
    if !have(&["espeak-ng", "sox"]) {
        return;
    }
    let sizes = Sizes {
        minutes: number("MINUTES", 1),
        calls: usize::try_from(number("CALLS", 10)).unwrap(),
    };
    let model = FakeGemini::start();
    model.script(script());
    let setup = WorldSetup::new().minutes(1_000_000).concurrent_calls(1_000);
    let Some((world, edge)) = world(&model, setup).await else {
        return;
    };
    super::with_a_function(&world).await;
    let longest = json!({"maxCallDurationMinutes": sizes.minutes + 2, "language": "id"});
    world.tenant.change_agent(longest).await;
    let until = Instant::now() + Duration::from_secs(60 * sizes.minutes);
    let stage = Rc::new(Stage {
        edge,
        did: world.tenant.did.clone(),
        words: Words {
            question: spoken("Di mana pesanan saya nomor empat dua tujuh"),
            interruption: spoken("Aduh tunggu"),
        },
        until,
        calls: AtomicUsize::new(0),
        said_again: AtomicUsize::new(0),
    });
    let callers: Vec<_> = (0..sizes.calls)
        .map(|number| actix_web::rt::spawn(caller(stage.clone(), number)))
        .collect();
    let memory = watched(&world, until).await;
    let mut flows = Vec::new();
    for caller in join_all(callers).await {
        flows.extend(caller.unwrap());
    }
    assert_eq!(flows.len(), stage.calls.load(Relaxed));
    assert_eq!(model.broken_rules(), Vec::<String>::new());
    nothing_is_open(&world).await;
    all_is_billed(&world, flows.len()).await;
    all_is_answered(&world, &model.connections(), flows.len() - STAYING);
    let is_long = sizes.minutes >= LONG;
    let again = stage.said_again.load(Relaxed);
    println!("{again} sentences said again");
    assert!(!is_long || again == 0);
    look_at_the_audio(&flows, &model.connections(), is_long);
    look_at_the_ticks(&world, is_long).await;
    look_at_the_memory(&memory, is_long);
}

async fn nothing_is_open(world: &TestWorld) {
    eventually("all calls to be over", async || {
        let scrape = Scrape::of(&world.server.operator).await;
        let open = ["dikala_calls_active", "dikala_telephony_calls_active"];
        let open = open.iter().flat_map(|name| &scrape.metrics[*name].series);
        open.map(|series| series.value)
            .all(|count| count == 0.0)
            .then_some(())
    })
    .await;
}

async fn all_is_billed(world: &TestWorld, count: usize) {
    let calls = world.tenant.calls().await;
    assert_eq!(calls.len(), count);
    let transactions = world.tenant.transactions().await;
    let mut sum = 0;
    for call in &calls {
        let how = ["status", "hangupReason"].map(|field| text(call, field));
        assert_eq!(how, ["ended", "normal"], "{call}");
        let talked = call["talkTimeSeconds"].as_i64().unwrap();
        let minutes = (talked + 59).div_euclid(60).max(1);
        let of_call = transactions.iter().filter(|it| it["callId"] == call["id"]);
        let billed: Vec<_> = of_call.map(|it| it["minutes"].as_i64().unwrap()).collect();
        assert_eq!(billed, [-minutes], "{call}");
        sum += minutes;
    }
    assert_eq!(world.tenant.credits().await.2, sum);
    world.assert_ledger_is_exact();
    println!("{count} calls, {sum} minutes");
}

/// Asserts that every invoked function was requested from its endpoint once.
fn all_is_answered(world: &TestWorld, connections: &[ModelConnection], talks: usize) {
    let asked = world.receiver.received("/order").len();
    let answers = connections
        .iter()
        .flat_map(ModelConnection::function_responses);
    let answered = answers.filter(|it| it["name"] == "check_order").count();
    println!("{asked} functions asked, {answered} answered");
    assert!(answered >= talks, "{answered} in {talks} calls");
    // A hang-up may leave an invocation without an answer.
    assert!((answered..=answered + talks / 10).contains(&asked));
}

/// Asserts that neither side received more or less audio than the time allows.
fn look_at_the_audio(flows: &[PacketFlow], connections: &[ModelConnection], is_long: bool) {
    let (mut drifted, mut missing) = (0, 0);
    for flow in flows {
        drifted = drifted.max(flow.told_ms.abs_diff(flow.lasted_ms));
        let due = usize::try_from(flow.told_ms / 20).unwrap() + 1;
        missing += due.abs_diff(flow.packets);
    }
    let packets: usize = flows.iter().map(|flow| flow.packets).sum();
    let longest = flows.iter().map(|flow| flow.lasted_ms).max().unwrap();
    println!(
        "callers: {packets} packets, {missing} missing; at most {drifted} ms between clock and timestamps in {longest} ms"
    );
    let mut apart = 0;
    for connection in connections {
        let lasted = connection.over.unwrap() - connection.set_up.unwrap();
        let lasted = u64::try_from(lasted.as_millis()).unwrap();
        apart = apart.max(lasted.abs_diff(connection.audio_ms));
    }
    println!("model: at most {apart} ms between a connection's time and the audio in it");
    // After the caller has gone, a connection is asked for a summary, for at most three seconds.
    assert!(apart <= 4_500, "{apart}");
    if is_long {
        assert!(drifted <= 200, "{drifted}");
        assert!(missing * 100 <= packets, "{missing} of {packets}");
    }
}

async fn look_at_the_ticks(world: &TestWorld, is_long: bool) {
    let scrape = Scrape::of(&world.server.operator).await;
    let [all, late] = ["ticks", "late_ticks"]
        .map(|kind| scrape.value(&format!("dikala_telephony_{kind}_total"), &[]) as u64);
    println!("{late} of {all} ticks late");
    assert!(!is_long || late * 100 < all, "{late} of {all}");
}

fn look_at_the_memory(seen: &[u64], is_long: bool) {
    println!(
        "resident every ten seconds, in MB: {:?}",
        seen.iter().map(|kib| kib / 1_024).collect::<Vec<_>>()
    );
    if is_long {
        // Caches have filled in the first fifth.
        let most = |part: &[u64]| part.iter().copied().max().unwrap();
        let (early, late) = (
            most(&seen[..seen.len() / 5]),
            most(&seen[seen.len() * 4 / 5..]),
        );
        assert!(late <= early + early / 10, "from {early} to {late} KiB");
    }
}
