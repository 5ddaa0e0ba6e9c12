//! Measures what a call costs the bridge, and the delays it adds: section "Figures" of `docs/telephony.md`.
//!
//! `cargo bench -p dikala-telephony --bench bridge [-- --calls 200 --seconds 30]`. The bridge is a separate process, started and
//! measured by this one. Phones, model and service are here, over sockets of the loopback interface. The model is a simple one
//! with prepared messages: a strict fake would take CPU time from the bridge.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

mod bridge;
mod figures;
mod flood;
mod model;
mod phones;
mod service;
mod sound;
mod stage;

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use dikala_sip::settings::Codec;
use tokio::{runtime::Handle, time::sleep};

use self::{
    bridge::BridgeProcess,
    figures::{FigureRow, MeasuredTimes, hundredths},
    flood::{Flood, RATE},
    phones::Phones,
    stage::{MarkDirection, TrafficMode, TrafficState},
};

/// The same allocator as the real program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Interval between new calls: 20 a second.
const BETWEEN_CALLS: Duration = Duration::from_millis(50);
/// After this time the model's speech is played, and new calls talk like the others.
const SETTLED: Duration = Duration::from_secs(7);
/// Number of calls with Opus, which takes more CPU time.
const OPUS_CALLS: usize = 50;
/// Number of calls that begin during a flood.
const FLOODED_CALLS: usize = 100;

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
    let calls = usize::try_from(option("--calls", 200)).unwrap().max(2);
    let measured = Duration::from_secs(option("--seconds", 30));
    println!("{}", machine());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let found = [(Codec::Pcma, calls), (Codec::Opus, calls.min(OPUS_CALLS))]
        .map(|(codec, calls)| runtime.block_on(measure(codec, calls, measured)));
    let flooded = runtime.block_on(measure_flooded(calls.min(FLOODED_CALLS)));
    figures::print(&[found.concat(), vec![flooded]].concat());
}

/// The CPU, and its load from elsewhere.
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

/// The measurements of one codec.
struct CodecFigures {
    /// In millionths of a core.
    cpu: u64,
    memory_silent_kib: u64,
    memory_kib: u64,
    /// All ticks, and the late ones.
    ticks: (u64, u64),
    packets: (u64, u64),
    answers: MeasuredTimes,
}

async fn measure(codec: Codec, calls: usize, measured: Duration) -> Vec<FigureRow> {
    let stage = TrafficState::new(calls);
    let service = service::start().await;
    let model = model::start(stage.clone()).await;
    let bridge = BridgeProcess::start(service, model, codec);
    let phones = Phones::new(&Handle::current(), stage.clone(), codec, bridge.edge);
    let found = talk(&stage, bridge, phones, measured).await;
    rows(&found, &stage, codec)
}

/// The time until the answer, while forged calls of another trunk come.
async fn measure_flooded(calls: usize) -> FigureRow {
    let stage = TrafficState::new(calls);
    let service = service::start().await;
    let model = model::start(stage.clone()).await;
    let bridge = BridgeProcess::start(service, model, Codec::Pcma);
    let phones = Phones::new(&Handle::current(), stage, Codec::Pcma, bridge.edge);
    let flood = Flood::start(bridge.edge);
    // Until forged calls give their lines back as fast as others take them.
    sleep(SETTLED).await;
    let mut answers = MeasuredTimes::default();
    let mut ringing = Vec::new();
    for number in 0..calls {
        sleep(BETWEEN_CALLS).await;
        ringing.push(tokio::spawn(phones.clone().call(number)));
    }
    for call in ringing {
        answers.add(call.await.unwrap());
    }
    drop(flood);
    phones.hang_up().await;
    FigureRow {
        what: format!("INVITE to 200, at 20 calls and {RATE} forged ones a second"),
        measured: answers.words(),
        unit: "ms p50/p99/max",
        goal: Some(("≤ 150.0", answers.at(99) <= 150_000)),
    }
}

async fn talk(
    stage: &TrafficState,
    mut bridge: BridgeProcess,
    phones: Phones,
    measured: Duration,
) -> CodecFigures {
    let calls = stage.calls();
    // A first call pays the one-time costs.
    phones.clone().call(0).await;
    sleep(Duration::from_secs(2)).await;
    let memory_before = bridge.memory_kib();
    let mut answers = MeasuredTimes::default();
    let mut ringing = Vec::new();
    for number in 1..calls {
        sleep(BETWEEN_CALLS).await;
        ringing.push(tokio::spawn(phones.clone().call(number)));
    }
    for call in ringing {
        answers.add(call.await.unwrap());
    }
    sleep(Duration::from_secs(1)).await;
    let grown = |bridge: &BridgeProcess| {
        let grown = bridge.memory_kib().saturating_sub(memory_before);
        grown / (calls as u64 - 1).max(1)
    };
    let memory_silent_kib = grown(&bridge);
    stage.be(TrafficMode::Talk);
    sleep(SETTLED).await;

    let (began, cpu, before) = (Instant::now(), bridge.cpu_us(), bridge.ticks());
    phones.watch(true);
    sleep(measured).await;
    phones.watch(false);
    let cpu = u128::from(bridge.cpu_us() - cpu) * 1_000_000;
    let cpu = cpu / began.elapsed().as_micros() / calls as u128;
    let (memory_kib, after) = (grown(&bridge), bridge.ticks());

    stage.be(TrafficMode::Quiet);
    sleep(SETTLED).await;
    stage.be(TrafficMode::Marks);
    sleep(measured).await;
    stage.be(TrafficMode::Quiet);
    sleep(Duration::from_secs(1)).await;
    let packets = phones.packets();
    phones.hang_up().await;
    CodecFigures {
        cpu: u64::try_from(cpu).unwrap(),
        memory_silent_kib,
        memory_kib,
        ticks: (after.0 - before.0, after.1 - before.1),
        packets,
        answers,
    }
}

fn rows(found: &CodecFigures, stage: &TrafficState, codec: Codec) -> Vec<FigureRow> {
    let name = format!("{codec:?}, {} calls", stage.calls());
    let row = |what: &str, measured, unit, goal, reached| FigureRow {
        what: format!("{name}: {what}"),
        measured,
        unit,
        goal: (codec == Codec::Pcma).then_some((goal, reached)),
    };
    let memory = |what, kib| {
        let measured = hundredths(kib * 100 / 1_024);
        row(what, measured, "MB", "≤ 0.30", kib * 10 <= 3 * 1_024)
    };
    let late = |what, (all, late): (u64, u64)| {
        let measured = hundredths(late * 10_000 / all.max(1));
        row(what, measured, "% of all", "< 1.00", late * 100 < all)
    };
    let times = |what, times: &MeasuredTimes, goal, goal_us| {
        let reached = times.at(99) <= goal_us;
        row(what, times.words(), "ms p50/p99/max", goal, reached)
    };
    vec![
        row(
            "processor for a call",
            hundredths(found.cpu / 100),
            "% of a core",
            "≤ 0.40",
            found.cpu <= 4_000,
        ),
        memory(
            "memory for a call, before the agent has spoken",
            found.memory_silent_kib,
        ),
        memory("memory for a call", found.memory_kib),
        late("ticks more than 20 ms late, at the bridge", found.ticks),
        late("packets more than 20 ms late, at the phone", found.packets),
        times(
            "delay from the caller's mouth to the model's ear",
            &stage.delays(MarkDirection::ToModel),
            "≤ 60.0",
            60_000,
        ),
        times(
            "delay from the model's mouth to the caller's ear",
            &stage.delays(MarkDirection::ToPhone),
            "≤ 60.0",
            60_000,
        ),
        times(
            "INVITE to 200, at 20 calls a second",
            &found.answers,
            "≤ 150.0",
            150_000,
        ),
        times(
            "200 to the agent's first sound",
            &stage.delays(MarkDirection::FirstWords),
            "≤ 700.0",
            700_000,
        ),
    ]
}
