//! Seeds that must hold, planted bugs that must be found, and longer runs on request.

use std::time::{Duration, Instant};

use super::{Flaw, InjectedFault, SharedBase, SimulationResult, SimulationSetting, play, smallest};

/// Number of seeds in the plain tests.
const SEEDS: u64 = 48;
/// A planted bug is found within this many seeds.
const FOUND_WITHIN: u64 = 100;

/// Fails with all that is needed to reproduce the failure.
fn expect_whole(base: &SharedBase, setting: &SimulationSetting) -> SimulationResult {
    let came = play(base, setting, None, false);
    if let Some(breach) = &came.breach {
        let least = smallest(base, setting, None);
        panic!(
            "seed {} breaks after {} ms: {breach}\n{setting:?}\nagain, with its story:\n  {}\nthe least that breaks:\n  {}",
            setting.seed,
            came.at,
            setting.again(),
            least.again()
        );
    }
    came
}

#[actix::test]
async fn whatever_befalls_nodes_nothing_is_lost_or_done_twice() {
    let base = SharedBase::new().await;
    let mut all = SimulationResult::default();
    for seed in 0..SEEDS {
        let came = expect_whole(&base, &SimulationSetting::of(seed));
        all.calls += came.calls;
        all.answered += came.answered;
        all.moved += came.moved;
    }
    // Otherwise the simulations tried nothing.
    assert!(all.answered * 2 > all.calls, "{all:?}");
    assert!(all.moved * 10 > all.calls, "{all:?}");
}

#[actix::test]
async fn the_same_seed_is_the_same_again() {
    let base = SharedBase::new().await;
    for seed in [1, 2, 3] {
        let setting = SimulationSetting::of(seed);
        let [one, two] = [false, false].map(|tells| play(&base, &setting, None, tells));
        assert_eq!(one, two);
    }
}

/// Faults that some bugs need to show; other bugs need none.
fn shown_by(flaw: Flaw) -> &'static [InjectedFault] {
    match flaw {
        Flaw::UnfencedCalls => &[
            InjectedFault::Pauses,
            InjectedFault::Moves,
            InjectedFault::SlowStore,
        ],
        Flaw::UnversionedAccounts => &[InjectedFault::SlowStore],
        Flaw::WrittenAgain => &[InjectedFault::LostAnswers],
        Flaw::LeasesCutShort => &[InjectedFault::Cuts],
        Flaw::OpenedTwice => &[
            InjectedFault::Messages,
            InjectedFault::Moves,
            InjectedFault::SlowStore,
        ],
        Flaw::RecordedBlindly => &[
            InjectedFault::Pauses,
            InjectedFault::Receivers,
            InjectedFault::SlowStore,
        ],
        Flaw::AnsweredEarly => &[InjectedFault::Crashes, InjectedFault::Outages],
        Flaw::ToldAfterwards => &[InjectedFault::LostAnswers],
        _ => &[],
    }
}

#[actix::test]
async fn every_planted_bug_is_found() {
    let base = SharedBase::new().await;
    for flaw in Flaw::ALL {
        let found = (0..FOUND_WITHIN).find_map(|seed| {
            let mut setting = SimulationSetting::of(seed);
            setting.faults.extend(shown_by(flaw));
            let breach = play(&base, &setting, Some(flaw), false).breach?;
            // Without the bug the setting holds.
            expect_whole(&base, &setting);
            Some((seed, breach))
        });
        let (seed, breach) = found.unwrap_or_else(|| panic!("{flaw:?} is not found"));
        println!("{flaw:?} is found by seed {seed}: {breach}");
    }
}

fn asked<T: std::str::FromStr>(name: &str) -> Option<T> {
    let said = std::env::var(format!("DIKALA_SIMULATION_{name}")).ok()?;
    Some(
        said.parse()
            .unwrap_or_else(|_| panic!("DIKALA_SIMULATION_{name}={said}")),
    )
}

/// `DIKALA_SIMULATION_SEED` runs one seed and prints its log. `DIKALA_SIMULATION_SEEDS` or
/// `DIKALA_SIMULATION_MINUTES` run that many, from `DIKALA_SIMULATION_FROM` on. Without them it runs for one minute.
#[actix::test]
#[ignore = "for as long as somebody wants: .ci/slow, and by hand"]
async fn for_as_long_as_asked() {
    let base = SharedBase::new().await;
    if let Some(seed) = asked("SEED") {
        let mut setting = SimulationSetting::of(seed);
        if let Some(faults) = asked::<String>("FAULTS") {
            let named = faults.split(',').filter(|word| !word.is_empty());
            setting.faults = named
                .map(|word| {
                    word.parse::<InjectedFault>()
                        .unwrap_or_else(|error| panic!("{error}"))
                })
                .collect();
        }
        setting.calls = asked("CALLS").unwrap_or(setting.calls);
        let came = play(&base, &setting, None, true);
        came.log.iter().for_each(|line| println!("{line}"));
        assert_eq!(came.breach, None, "{setting:?}");
        return;
    }
    let minutes: u64 = asked("MINUTES").unwrap_or(1);
    let seeds: Option<u64> = asked("SEEDS");
    let (from, began) = (asked("FROM").unwrap_or(SEEDS), Instant::now());
    let (mut all, mut played) = (SimulationResult::default(), 0);
    for seed in from.. {
        let is_enough = match seeds {
            Some(seeds) => played >= seeds,
            None => began.elapsed() > Duration::from_secs(60 * minutes),
        };
        if is_enough {
            break;
        }
        let came = expect_whole(&base, &SimulationSetting::of(seed));
        played += 1;
        all.at += came.at;
        all.calls += came.calls;
        all.answered += came.answered;
        all.moved += came.moved;
        all.minutes += came.minutes;
        all.attempts += came.attempts;
        all.questions += came.questions;
    }
    println!("{played} seeds from {from} on: {all:?}");
}
