//! Words are voice; silence, noise, keys, clicks and tones are not.
#![expect(clippy::float_arithmetic, reason = "tones are made with sines")]

use std::f64::consts::TAU;

use super::{Activity, VoiceChange};
use crate::media::{fir::Resampler, g711::Law};

/// 1.6 s of "Halo, saya mau tanya …" by espeak-ng, 8 kHz, A-law.
const SPEECH: &[u8] = include_bytes!("speech.al");

fn speech() -> Vec<i16> {
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    Law::A.decode(SPEECH, &mut narrow);
    Resampler::from_8_to_16().run(&narrow, &mut wide);
    wide
}

/// The changes noticed in these samples, with their milliseconds.
fn noticed(samples: &[i16]) -> Vec<(usize, VoiceChange)> {
    let mut activity = Activity::default();
    let frames = samples.chunks(320).enumerate();
    frames
        .filter_map(|(n, frame)| Some(((n + 1) * 20, activity.hear(frame, false)?)))
        .collect()
}

fn tones(hertz: &[f64], amplitude: f64, count: usize) -> Vec<i16> {
    let at = |n: usize| {
        let sines = hertz
            .iter()
            .map(|hertz| (TAU * hertz * n as f64 / 16_000.0).sin());
        (amplitude * sines.sum::<f64>()) as i16
    };
    (0..count).map(at).collect()
}

fn noise(amplitude: i64, count: usize) -> Vec<i16> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let value = i64::try_from(state >> 40).expect("24 bits") - (1 << 23);
        i16::try_from((value * amplitude) >> 23).expect("16 bits")
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn words_begin_and_end() {
    let mut samples = noise(20, 8_000);
    let onset = samples.len() / 16;
    samples.extend(speech());
    samples.extend(noise(20, 16_000));
    let noticed = noticed(&samples);
    let Some((at, VoiceChange::Started)) = noticed.first() else {
        panic!("{noticed:?}");
    };
    assert!(
        *at > onset + 90 && *at < onset + 250,
        "{at} after {onset}: {noticed:?}"
    );
    assert_eq!(
        noticed.last().map(|(_, change)| *change),
        Some(VoiceChange::Ended),
        "{noticed:?}"
    );
}

/// Tried at the start, and after half a second of a quiet line.
fn never_noticed(samples: &[i16], what: &str) {
    assert_eq!(noticed(samples), [], "{what}");
    let mut after = noise(20, 8_000);
    after.extend_from_slice(samples);
    assert_eq!(noticed(&after), [], "{what} after silence");
}

#[test]
fn what_is_no_voice_is_not_taken_for_it() {
    never_noticed(&[0; 32_000], "silence");
    for amplitude in [30, 300, 3_000, 20_000] {
        never_noticed(&noise(amplitude, 24_000), &format!("noise of {amplitude}"));
        let mut narrow = Vec::new();
        Resampler::from_8_to_16().run(&noise(amplitude, 12_000), &mut narrow);
        never_noticed(&narrow, &format!("a line's noise of {amplitude}"));
    }
    for low in [697.0, 770.0, 852.0, 941.0] {
        for high in [1_209.0, 1_336.0, 1_477.0, 1_633.0] {
            never_noticed(
                &tones(&[low, high], 6_000.0, 6_400),
                &format!("{low} + {high} Hz"),
            );
        }
    }
    let mut clicks = vec![0; 32_000];
    for at in (1_000..32_000).step_by(4_000) {
        clicks[at..at + 160].copy_from_slice(&noise(20_000, 160));
    }
    never_noticed(&clicks, "clicks");
}

/// The detector recognises a vowel from its second frame on.
#[test]
fn a_word_that_sets_in_hard_is_noticed_at_once() {
    let speech = speech();
    let mut waits: Vec<usize> = [1_500, 3_000, 5_000, 14_000, 16_000]
        .into_iter()
        .map(|vowel| {
            let mut samples = vec![0; 8_000];
            samples.extend_from_slice(&speech[vowel..]);
            noticed(&samples).first().expect("noticed").0 - 500
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[2] <= 100 && waits[4] <= 120, "{waits:?}");
}

#[test]
fn a_word_too_short_to_be_one_is_not_noticed() {
    let speech = speech();
    let loud = speech
        .iter()
        .position(|sample| sample.unsigned_abs() > 4_000)
        .expect("speech");
    let mut samples = vec![0; 8_000];
    samples.extend(&speech[loud..loud + 800]);
    samples.extend(vec![0; 8_000]);
    assert_eq!(noticed(&samples), []);
}

#[test]
fn speech_too_soft_to_be_meant_is_not_noticed() {
    let far: Vec<i16> = speech().into_iter().map(|sample| sample / 200).collect();
    assert_eq!(noticed(&far), []);
}

/// A sentence by espeak-ng at 16 kHz, without silence around it. `None` if the programs are missing and not required.
fn spoken(sentence: &str) -> Option<Vec<i16>> {
    let folder = dikala_testkit::folder();
    let trim = ["silence", "1", "0.01", "2%", "reverse"];
    let made = ["words.wav", "-r", "8000", "-c", "1", "words.al"];
    let sox = [&made[..], &trim, &trim].concat();
    let speak = ["-v", "id", "-w", "words.wav", sentence];
    for (program, arguments) in [("espeak-ng", &speak[..]), ("sox", &sox)] {
        let mut command = std::process::Command::new(program);
        let done = command.args(arguments).current_dir(folder.path()).status();
        if !done.is_ok_and(|status| status.success()) {
            let is_required = std::env::var("DIKALA_REQUIRE_SIP").is_ok_and(|value| value == "1");
            assert!(!is_required, "{program} does not work");
            eprintln!("skipped: {program} does not work");
            return None;
        }
    }
    let packed = std::fs::read(folder.path().join("words.al")).ok()?;
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    Law::A.decode(&packed, &mut narrow);
    Resampler::from_8_to_16().run(&narrow, &mut wide);
    Some(wide)
}

#[test]
fn a_sentence_with_commas_is_one_turn_which_ends_after_its_last_word() {
    for sentence in [
        "Selamat pagi, saya mau menanyakan pesanan saya, nomor empat dua tujuh.",
        "Apakah bisa dikirim hari ini, sebelum jam lima sore?",
        "Kemarin sudah saya bayar, tetapi belum sampai, jadi tolong dicek dulu.",
        "Baik, terima kasih banyak, sampai jumpa.",
    ] {
        let Some(words) = spoken(sentence) else {
            return;
        };
        let mut samples = noise(20, 8_000);
        samples.extend(words);
        let over = samples.len() / 16;
        samples.extend(noise(20, 16_000));
        let noticed = noticed(&samples);
        println!("{sentence} 500 to {over} ms: {noticed:?}");
        let [(began, VoiceChange::Started), (ended, VoiceChange::Ended)] = noticed[..] else {
            panic!("{noticed:?}");
        };
        assert!((590..800).contains(&began), "{began}");
        // Soft last sounds are no voice.
        assert!(
            (over + 250..over + 500).contains(&ended),
            "{ended} of {over}"
        );
    }
}
