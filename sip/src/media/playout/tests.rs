//! No speech is lost, repeated or cut off hard.

use proptest::prelude::*;

use super::{MARKS_MAX, Playout, PlayoutRate};

const RATES: [PlayoutRate; 3] = [PlayoutRate::Narrow, PlayoutRate::Wide, PlayoutRate::Full];

fn frame(playout: &mut Playout) -> (Vec<i16>, Vec<u64>) {
    let (mut out, mut marks) = (Vec::new(), Vec::new());
    playout.frame(&mut out, |mark| marks.push(mark));
    (out, marks)
}

/// Samples of constant level, this many milliseconds at 24 kHz.
fn level(ms: usize) -> Vec<i16> {
    vec![10_000; ms * 24]
}

fn loud(samples: &[i16]) -> bool {
    samples
        .iter()
        .all(|sample| (9_900..10_100).contains(sample))
}

fn steepest(samples: &[i16]) -> u16 {
    samples
        .windows(2)
        .map(|pair| pair[1].abs_diff(pair[0]))
        .max()
        .unwrap_or(0)
}

#[test]
fn silence_is_frames_too() {
    for rate in RATES {
        let (out, marks) = frame(&mut Playout::new(rate));
        assert_eq!((out, marks), (vec![0; rate.frame()], vec![]));
    }
}

#[test]
fn pause_keeps_the_place() {
    for rate in RATES {
        let mut playout = Playout::new(rate);
        // Every sample has its own level.
        let ramp: Vec<i16> = (0..24 * 200).map(|n| 5_000 + n * 2).collect();
        playout.say(&ramp);
        let mut heard = Vec::new();
        for _ in 0..3 {
            heard.extend(frame(&mut playout).0);
        }
        let before = *heard.last().expect("a sample");
        playout.pause();
        for _ in 0..5 {
            heard.extend(frame(&mut playout).0);
        }
        assert!(
            heard[heard.len() - 4 * rate.frame()..]
                .iter()
                .all(|sample| *sample == 0)
        );
        playout.go_on();
        let after = frame(&mut playout).0;
        let behind_fade = after[rate.fade()];
        let passed = i32::try_from(rate.fade()).expect("small") * 48
            / i32::try_from(rate.per_ms()).expect("small");
        assert!(
            (i32::from(behind_fade) - i32::from(before) - passed).abs() < 60,
            "{before} {behind_fade}"
        );
        heard.extend(after);
        // The filter's response to the hard beginning is ignored.
        heard.drain(..rate.frame());
        assert!(steepest(&heard) < 500, "{}", steepest(&heard));
    }
}

#[test]
fn flush_says_what_was_heard_and_does_not_click() {
    for rate in RATES {
        let mut playout = Playout::new(rate);
        playout.say(&level(1_000));
        playout.mark(7);
        let mut heard = Vec::new();
        for _ in 0..10 {
            heard.extend(frame(&mut playout).0);
        }
        let mut gone = Vec::new();
        let played = playout.flush(|mark| gone.push(mark));
        assert_eq!((played, gone), (205, vec![7]));
        heard.extend(frame(&mut playout).0);
        heard.drain(..rate.frame());
        assert!(steepest(&heard) < 500, "{}", steepest(&heard));
        assert_eq!(frame(&mut playout).0, vec![0; rate.frame()]);
        assert_eq!(playout.flush(|_| ()), 205, "nothing more");
    }
}

#[test]
fn flush_while_paused_says_what_was_heard_before() {
    let mut playout = Playout::new(PlayoutRate::Narrow);
    playout.say(&level(1_000));
    for _ in 0..10 {
        frame(&mut playout);
    }
    playout.pause();
    for _ in 0..20 {
        frame(&mut playout);
    }
    assert_eq!(playout.flush(|_| ()), 200);
    assert_eq!(frame(&mut playout).0, vec![0; 160]);
    playout.say(&level(40));
    frame(&mut playout);
    assert!(
        loud(&frame(&mut playout).0[..100]),
        "what is said next is played"
    );
}

#[test]
fn marks_come_with_the_last_sample_before_them() {
    for rate in RATES {
        let mut playout = Playout::new(rate);
        playout.mark(1);
        playout.say(&level(40));
        playout.mark(2);
        playout.say(&level(10));
        playout.mark(3);
        let marks: Vec<Vec<u64>> = (0..4).map(|_| frame(&mut playout).1).collect();
        assert_eq!(marks, [vec![1], vec![2], vec![3], vec![]]);
    }
}

#[test]
fn half_a_minute_is_enough() {
    for rate in RATES {
        let mut playout = Playout::new(rate);
        for second in 0..30 {
            assert!(playout.wants_more(), "{second}");
            playout.say(&level(1_000));
        }
        assert!(!playout.wants_more());
        frame(&mut playout);
        assert!(playout.wants_more());
    }
    let mut playout = Playout::new(PlayoutRate::Narrow);
    (0..MARKS_MAX as u64).for_each(|mark| playout.mark(mark));
    assert!(!playout.wants_more());
}

#[test]
fn a_change_of_rate_keeps_what_waits() {
    for (from, to) in [
        (PlayoutRate::Narrow, PlayoutRate::Full),
        (PlayoutRate::Full, PlayoutRate::Narrow),
        (PlayoutRate::Narrow, PlayoutRate::Wide),
        (PlayoutRate::Wide, PlayoutRate::Narrow),
        (PlayoutRate::Wide, PlayoutRate::Full),
        (PlayoutRate::Full, PlayoutRate::Wide),
    ] {
        let mut playout = Playout::new(from);
        playout.say(&level(200));
        playout.mark(5);
        for _ in 0..5 {
            frame(&mut playout);
        }
        playout.change(to);
        let rest: Vec<_> = (0..5).map(|_| frame(&mut playout)).collect();
        assert!(loud(&rest[2].0), "{:?}", rest[2].0);
        assert_eq!(rest[4].1, [5]);
        assert_eq!(frame(&mut playout).0, vec![0; to.frame()]);
        assert_eq!(playout.flush(|_| ()), 200);
    }
}

/// A stall of the line brings many packets at once.
#[test]
fn live_audio_waits_for_120_ms_at_most_and_the_newest_is_kept() {
    for rate in RATES {
        let mut playout = Playout::new(rate);
        for _ in 0..30 {
            playout.say_live(&vec![-10_000; 480]);
        }
        for _ in 0..3 {
            playout.say_live(&level(20));
        }
        let heard: Vec<_> = (0..20).map(|_| frame(&mut playout).0).collect();
        let is_silent = |frame: &Vec<i16>| frame.iter().all(|sample| *sample == 0);
        let played = heard.iter().filter(|frame| !is_silent(frame)).count();
        assert!((2..=6).contains(&played), "{played}");
        assert_eq!(heard.iter().position(|frame| !is_silent(frame)), Some(2));
        assert!(heard.iter().any(|frame| loud(frame)), "the newest is heard");
    }
}

#[test]
fn live_audio_does_not_cut_a_sentence_short() {
    let mut playout = Playout::new(PlayoutRate::Narrow);
    playout.say(&level(1_000));
    let mut heard = Vec::new();
    for _ in 0..60 {
        playout.say_live(&vec![-10_000; 480]);
        heard.push(frame(&mut playout).0);
    }
    assert!(heard[1..50].iter().all(|frame| loud(frame)));
    let is_live = |frame: &Vec<i16>| frame.iter().all(|it| (-10_100..-9_900).contains(it));
    assert!(heard[54..].iter().all(is_live));
}

#[test]
fn speech_replaces_live_audio_and_counts_alone() {
    for rate in RATES {
        let mut playout = Playout::new(rate);
        let mut heard = Vec::new();
        for _ in 0..10 {
            playout.say_live(&level(20));
            heard.extend(frame(&mut playout).0);
        }
        playout.say(&vec![-10_000; 24 * 200]);
        for _ in 0..5 {
            heard.extend(frame(&mut playout).0);
        }
        let end = &heard[9 * rate.frame()..11 * rate.frame()];
        assert!(steepest(end) < 1_000, "{rate:?}: a click");
        let is_said = |sample: &i16| (-10_100..-9_900).contains(sample);
        assert!(heard[12 * rate.frame()..].iter().all(is_said), "{rate:?}");
        let played_ms = playout.flush(|_| {});
        assert!((80..=85).contains(&played_ms), "{rate:?}: {played_ms} ms");
    }
}

#[test]
fn live_audio_that_comes_unevenly_has_no_gaps() {
    let mut playout = Playout::new(PlayoutRate::Narrow);
    let mut heard = Vec::new();
    for tick in 0..100 {
        // After a while some packets come 40 ms late, with the next.
        let arrived = match tick {
            20.. if tick % 4 == 2 => 3,
            20.. if tick % 4 != 3 => 0,
            _ => 1,
        };
        for _ in 0..arrived {
            playout.say_live(&level(20));
        }
        heard.push(frame(&mut playout).0);
    }
    assert!(heard[6..].iter().all(|frame| loud(frame)));
}

#[test]
fn late_audio_is_cut_out_without_a_click() {
    for rate in RATES {
        let mut playout = Playout::new(rate);
        let mut heard = Vec::new();
        // A slow rise, of which a part will be missing.
        let rise: Vec<i16> = (0..24 * 20 * 60).map(|n| n - 14_400).collect();
        let mut frames = rise.chunks(24 * 20);
        for tick in 0..40 {
            let burst = if tick == 20 { 10 } else { 1 };
            for said in frames.by_ref().take(burst) {
                playout.say_live(said);
            }
            heard.extend(frame(&mut playout).0);
        }
        let jump = i32::from(heard[39 * rate.frame()]) - i32::from(heard[6 * rate.frame()]);
        assert!(jump > 480 * 36, "a part is cut out: {jump}");
        heard.drain(..6 * rate.frame());
        assert!(steepest(&heard) < 200, "{}", steepest(&heard));
    }
}

proptest! {
    #[test]
    fn every_sample_is_played_once_and_in_order(
        pieces in proptest::collection::vec((0_usize..2_000, 0_usize..4, any::<bool>()), 1..40),
    ) {
        let mut playout = Playout::new(PlayoutRate::Full);
        let (mut said, mut heard) = (Vec::new(), Vec::new());
        for (mark, (count, frames, pause)) in pieces.into_iter().enumerate() {
            let from = said.len();
            // Never zero, so that silence is distinguishable from speech.
            said.extend((from..from + count).map(|n| (n % 20_000) as i16 + 10_000));
            playout.say(&said[from..]);
            playout.mark(mark as u64);
            for _ in 0..frames {
                let (out, _) = frame(&mut playout);
                heard.extend(out);
            }
            if pause {
                playout.pause();
                frame(&mut playout);
                frame(&mut playout);
                playout.go_on();
            }
        }
        while !playout.waiting.is_empty() {
            heard.extend(frame(&mut playout).0);
        }
        let heard: Vec<i16> = heard.into_iter().filter(|sample| *sample != 0).collect();
        prop_assert_eq!(heard.len(), said.len());
        let changed = heard.iter().zip(&said).filter(|(heard, said)| heard != said).count();
        let fades = heard.iter().zip(&said).all(|(heard, said)| heard <= said);
        prop_assert!(fades && changed <= said.len());
        prop_assert_eq!(playout.left, said.len() as u64);
    }
}

#[test]
fn played_speech_is_counted_for_the_whole_call() {
    let mut playout = Playout::new(PlayoutRate::Narrow);
    let play = |playout: &mut Playout, frames: usize| {
        for _ in 0..frames {
            frame(playout);
        }
    };
    // The queue runs dry, and its silence does not count.
    playout.say(&level(100));
    play(&mut playout, 20);
    playout.say(&level(200));
    play(&mut playout, 5);
    let about = |played_ms: u64, expected: u64| {
        assert!(
            (expected..=expected + 6).contains(&played_ms),
            "{played_ms} ms instead of {expected}"
        );
    };
    about(playout.flush(|_| {}), 200);
    // Neither do flushed speech, a pause, live audio and another rate.
    playout.say_live(&level(100));
    play(&mut playout, 10);
    playout.say(&level(300));
    playout.pause();
    play(&mut playout, 10);
    playout.go_on();
    playout.change(PlayoutRate::Full);
    play(&mut playout, 5);
    let played_ms = playout.flush(|_| {});
    assert!((300..=318).contains(&played_ms), "{played_ms} ms");
    assert_eq!(playout.flush(|_| {}), played_ms);
}
