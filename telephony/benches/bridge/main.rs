//! What a call costs the bridge, and how much later everything is because of it: section "Figures" of `docs/telephony.md`.
//!
//! `cargo bench -p dikala-telephony --bench bridge [-- --calls 200 --seconds 30]`. The bridge is a process of its own, which this one
//! starts and looks at from outside; phones, model and engine are here, and everybody talks over sockets of the loopback interface.
//! The model is a plain one, which says what it has ready: a strict fake would take the processors from the bridge.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod bridge;
mod engine;
mod figures;
mod model;
mod phones;
mod sound;
mod stage;

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use dikala_telephony::settings::Codec;
use tokio::{runtime::Handle, time::sleep};

use self::{
    bridge::Bridge,
    figures::{Row, Times, hundredths},
    phones::Phones,
    stage::{Manner, Stage},
};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A call every so often: 20 in a second.
const BETWEEN_CALLS: Duration = Duration::from_millis(50);
/// What the model has said is played by then, and calls that have just begun talk like the others.
const SETTLED: Duration = Duration::from_secs(7);
/// Calls with Opus, which takes more of the processor.
const OPUS_CALLS: usize = 50;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == bridge::ROLE) {
        bridge::serve(&arguments[1..]);
        return;
    }
    // `cargo test --all-targets` runs this file too, without the flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let option = |name: &str, usual: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(usual, |at| arguments[at + 1].parse().unwrap())
    };
    let calls = usize::try_from(option("--calls", 200)).unwrap();
    let measured = Duration::from_secs(option("--seconds", 30));
    println!("{}", machine());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let found = [(Codec::Pcma, calls), (Codec::Opus, calls.min(OPUS_CALLS))]
        .map(|(codec, calls)| runtime.block_on(measure(codec, calls, measured)));
    figures::print(&found.concat());
}

/// What all of it runs on, and how much else it has to do.
fn machine() -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let cpu = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores of {}, Linux {}, load {}",
        cpu.unwrap_or_default().trim_start_matches(['\t', ' ', ':']),
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or_default()
    )
}

async fn measure(codec: Codec, calls: usize, measured: Duration) -> Vec<Row> {
    let stage = Stage::new(calls);
    let engine = engine::start().await;
    let model = model::start(stage.clone()).await;
    let mut bridge = Bridge::start(engine, model, codec);
    let phones = Phones::new(&Handle::current(), stage.clone(), codec, bridge.edge);
    // Whatever the first call of all needs is no matter of each.
    phones.clone().call(0).await;
    sleep(Duration::from_secs(2)).await;
    let memory_before = bridge.memory_kib();
    let mut answers = Times::default();
    let mut ringing = Vec::new();
    for number in 1..calls {
        sleep(BETWEEN_CALLS).await;
        ringing.push(tokio::spawn(phones.clone().call(number)));
    }
    for call in ringing {
        answers.add(call.await.unwrap());
    }
    sleep(Duration::from_secs(1)).await;
    let grown = |bridge: &Bridge| {
        let grown = bridge.memory_kib().saturating_sub(memory_before);
        grown / (calls as u64 - 1).max(1)
    };
    let memory_silent = grown(&bridge);
    stage.be(Manner::Talk);
    sleep(SETTLED).await;

    let (began, cpu, ticks) = (Instant::now(), bridge.cpu_us(), bridge.ticks());
    phones.watch(true);
    sleep(measured).await;
    phones.watch(false);
    let cpu = bridge.cpu_us() - cpu;
    let cpu = u128::from(cpu) * 1_000_000 / began.elapsed().as_micros() / calls as u128;
    let memory = grown(&bridge);
    let now = bridge.ticks();
    let (ticks, late) = (now.0 - ticks.0, now.1 - ticks.1);
    let (packets, packets_late) = phones.packets();

    stage.be(Manner::Quiet);
    sleep(SETTLED).await;
    stage.be(Manner::Marks);
    sleep(measured).await;
    stage.be(Manner::Quiet);
    sleep(Duration::from_secs(1)).await;
    phones.hang_up().await;
    drop(bridge);

    let name = format!("{codec:?}, {calls} calls");
    let (to_model, to_phone) = stage.delays();
    let row = |what: &str, measured, unit, goal, reached| Row {
        what: format!("{name}: {what}"),
        measured,
        unit,
        goal: (codec == Codec::Pcma).then_some((goal, reached)),
    };
    let share = |late: u64, all: u64| late * 10_000 / all.max(1);
    vec![
        row(
            "processor for a call",
            hundredths(u64::try_from(cpu).unwrap() / 100),
            "% of a core",
            "≤ 0.40",
            cpu <= 4_000,
        ),
        row(
            "memory for a call to which nobody has spoken yet",
            hundredths(memory_silent * 100 / 1_024),
            "MB",
            "≤ 0.30",
            memory_silent * 10 <= 3 * 1_024,
        ),
        row(
            "memory for a call",
            hundredths(memory * 100 / 1_024),
            "MB",
            "≤ 0.30",
            memory * 10 <= 3 * 1_024,
        ),
        row(
            "ticks more than 20 ms late, at the bridge",
            hundredths(share(late, ticks)),
            "% of all",
            "< 1.00",
            share(late, ticks) < 100,
        ),
        row(
            "packets more than 20 ms late, at the phone",
            hundredths(share(packets_late, packets)),
            "% of all",
            "< 1.00",
            share(packets_late, packets) < 100,
        ),
        row(
            "added from the caller's mouth to the model's ear",
            to_model.words(),
            "ms p50/p99/max",
            "≤ 60.0",
            to_model.at(99) <= 60_000,
        ),
        row(
            "added from the model's mouth to the caller's ear",
            to_phone.words(),
            "ms p50/p99/max",
            "≤ 60.0",
            to_phone.at(99) <= 60_000,
        ),
        row(
            "INVITE to 200, at 20 calls a second",
            answers.words(),
            "ms p50/p99/max",
            "≤ 150.0",
            answers.at(99) <= 150_000,
        ),
    ]
}
