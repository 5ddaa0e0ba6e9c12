//! Recorded speech that comes back, with callers, babble and music over it.

use audio_codec_algorithms::{AdpcmImaState, decode_adpcm_ima};

use super::EchoGuard;
use crate::media::{
    activity::{Activity, VoiceChange},
    fir::Resampler,
    g711::Law,
};

/// Sentences by espeak-ng, 8 kHz, IMA ADPCM: four are the agent's, three a caller's.
const AGENT: [&[u8]; 4] = [
    include_bytes!("../../../../telephony/voices/id/greeting.ima"),
    include_bytes!("../../../../telephony/voices/id/question.ima"),
    include_bytes!("../../../../telephony/voices/en/sorry.ima"),
    include_bytes!("../../../../telephony/voices/id/goodbye.ima"),
];
const CALLER: [&[u8]; 3] = [
    include_bytes!("../../../../telephony/voices/id/sorry.ima"),
    include_bytes!("../../../../telephony/voices/en/question.ima"),
    include_bytes!("../../../../telephony/voices/en/greeting.ima"),
];
/// The root mean square of the agent's speech, about −20 dBFS.
const AGENT_LEVEL: f64 = 3_000.0;
/// The samples of a millisecond.
const MS: usize = 8;

fn sentence(packed: &[u8]) -> Vec<i16> {
    let mut state = AdpcmImaState::new();
    let halves = packed.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves
        .map(|half| decode_adpcm_ima(half, &mut state))
        .collect()
}

/// The same at this root mean square of its voiced frames.
fn at_level(samples: &[i16], level: f64) -> Vec<i16> {
    let energy = |frame: &[i16]| frame.iter().map(|it| f64::from(*it).powi(2)).sum::<f64>() / 160.0;
    let frames = samples.chunks_exact(160).map(energy);
    let voiced: Vec<f64> = frames.filter(|energy| *energy > 10_816.0).collect();
    let factor = level / (voiced.iter().sum::<f64>() / voiced.len() as f64).sqrt();
    scaled(samples, factor)
}

fn scaled(samples: &[i16], factor: f64) -> Vec<i16> {
    let one = |sample: &i16| (f64::from(*sample) * factor) as i16;
    samples.iter().map(one).collect()
}

fn factor(decibels: f64) -> f64 {
    10_f64.powf(decibels / 20.0)
}

/// Half a second of silence, and 13 s of sentences.
fn agent() -> Vec<i16> {
    let mut all = vec![0; 500 * MS];
    for packed in AGENT {
        all.extend(at_level(&sentence(packed), AGENT_LEVEL));
        all.extend([0; 250 * MS]);
    }
    all
}

/// A voice that is this much higher and faster.
fn higher(samples: &[i16], hundredths: usize) -> Vec<i16> {
    (0..samples.len() * 100 / hundredths)
        .map(|at| samples[at * hundredths / 100])
        .collect()
}

fn caller(n: usize, decibels: f64) -> Vec<i16> {
    let words = higher(&sentence(CALLER[n % 3]), 88 + 12 * (n / 3));
    let begins = words.iter().position(|it| it.unsigned_abs() > 1_000);
    at_level(
        &words[begins.expect("speech")..],
        AGENT_LEVEL * factor(decibels),
    )
}

fn mix(into: &mut [i16], what: &[i16], at_ms: usize) {
    for (one, other) in into[at_ms * MS..].iter_mut().zip(what) {
        *one = one.saturating_add(*other);
    }
}

/// Line noise of about −66 dBFS.
fn line(samples: usize) -> Vec<i16> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((state >> 40) as i64 - (1 << 23)) * 30) >> 23
    };
    (0..samples).map(|_| next() as i16).collect()
}

fn through_g711(samples: &[i16]) -> Vec<i16> {
    let (mut bytes, mut decoded) = (Vec::new(), Vec::new());
    Law::A.encode(samples, &mut bytes);
    Law::A.decode(&bytes, &mut decoded);
    decoded
}

/// One packet in a hundred is lost, and the one before is heard in its place.
fn with_loss(mut samples: Vec<i16>) -> Vec<i16> {
    for at in (37..samples.len() / 160).step_by(100) {
        samples.copy_within((at - 1) * 160..at * 160, at * 160);
    }
    samples
}

/// A line that returns the agent's speech.
#[derive(Debug, Clone, Copy)]
struct ReturningLine {
    delay_ms: usize,
    decibels: f64,
    /// G.711 both ways, packet loss and noise.
    is_poor: bool,
}

impl ReturningLine {
    fn of(self, agent: &[i16]) -> Vec<i16> {
        let returned = scaled(agent, factor(self.decibels));
        let mut line = match self.is_poor {
            true => line(agent.len()),
            false => vec![0; agent.len()],
        };
        match self.is_poor {
            true => mix(
                &mut line,
                &with_loss(through_g711(&returned)),
                self.delay_ms,
            ),
            false => mix(&mut line, &returned, self.delay_ms),
        }
        line
    }
}

fn poor(delay_ms: usize, decibels: f64) -> ReturningLine {
    ReturningLine {
        delay_ms,
        decibels,
        is_poor: true,
    }
}

/// When a voice was reported, in milliseconds.
fn starts(agent: &[i16], line: &[i16]) -> Vec<usize> {
    let (mut guard, mut activity) = (EchoGuard::default(), Activity::default());
    let mut heard = Vec::new();
    Resampler::from_8_to_16().run(line, &mut heard);
    let frames = agent.chunks_exact(160).zip(heard.chunks_exact(320));
    let mut starts = Vec::new();
    for (n, (sent, heard)) in frames.enumerate() {
        guard.sent(sent, n as u64 * 20);
        let is_echo = guard.heard(heard, n as u64 * 20);
        if activity.hear(heard, is_echo) == Some(VoiceChange::Started) {
            starts.push((n + 1) * 20);
        }
    }
    starts
}

#[test]
fn returned_speech_is_no_voice() {
    let agent = agent();
    for delay_ms in [20, 60, 150, 300, 480] {
        for decibels in [-6.0, -10.0, -15.0, -20.0, -26.0, -32.0] {
            for is_poor in [false, true] {
                let line = ReturningLine {
                    delay_ms,
                    decibels,
                    is_poor,
                };
                assert_eq!(starts(&agent, &line.of(&agent)), [0; 0], "{line:?}");
            }
        }
    }
}

/// A room of 250 ms: the sound decays, and is coloured.
#[test]
fn the_reverberation_of_a_room_is_no_voice() {
    let agent = agent();
    let reflections: Vec<(usize, f64)> = (0..60)
        .map(|n| {
            (
                n * 33 + n * n % 17,
                (-6.9 * f64::from(n as u32) / 60.0).exp(),
            )
        })
        .collect();
    let mut room = vec![0; agent.len()];
    for (n, (at, strength)) in reflections.iter().enumerate() {
        let sign = if n * 7 % 3 == 0 { -0.3 } else { 0.3 };
        let reflected = scaled(&agent, strength * sign);
        for (sum, sample) in room[*at..].iter_mut().zip(&reflected) {
            *sum += sample;
        }
    }
    for (delay_ms, decibels) in [(60, -10.0), (150, -20.0)] {
        let mut line = line(agent.len());
        let returned = at_level(&room, AGENT_LEVEL * factor(decibels));
        mix(&mut line, &returned, delay_ms);
        assert_eq!(starts(&agent, &line), [0; 0], "{decibels} dB");
    }
}

/// How much later these callers are noticed over the agent than without it, in order.
fn delays(
    echo: Option<ReturningLine>,
    decibels: f64,
    begin_ms: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let agent = agent();
    let mut delays: Vec<usize> = (0..9)
        .map(|n| {
            let begins = begin_ms(n);
            let noticed = |agent: &[i16], mut line: Vec<i16>| {
                mix(&mut line, &caller(n, decibels), begins);
                let starts = starts(agent, &line);
                let noticed = starts.into_iter().find(|at| *at >= begins);
                noticed.unwrap_or_else(|| panic!("caller {n} at {begins} ms over {echo:?}"))
            };
            let over = match echo {
                Some(echo) => echo.of(&agent),
                None => line(agent.len()),
            };
            let alone = noticed(&vec![0; agent.len()], line(agent.len()));
            noticed(&agent, over).saturating_sub(alone)
        })
        .collect();
    delays.sort_unstable();
    delays
}

#[test]
fn a_caller_who_speaks_over_the_agent_is_noticed() {
    let later = |n: usize| 3_000 + n * 730;
    for echo in [
        None,
        Some(poor(60, -15.0)),
        Some(poor(300, -20.0)),
        Some(poor(150, -26.0)),
    ] {
        let delays = delays(echo, -10.0, later);
        let most = if echo.is_none() { 0 } else { 120 };
        assert!(delays[4] <= 20 && delays[8] <= most, "{echo:?}: {delays:?}");
    }
}

/// All nine, and all but the one whose first word is hidden longest.
#[test]
fn a_caller_who_speaks_over_a_strong_return_is_noticed() {
    let later = |n: usize| 3_000 + n * 730;
    for (delay_ms, echo, caller, eight, nine) in [
        (150, -10.0, 0.0, 0, 60),
        (300, -10.0, -6.0, 120, 360),
        (300, -6.0, 0.0, 80, 320),
    ] {
        let echo = poor(delay_ms, echo);
        let delays = delays(Some(echo), caller, later);
        let held = delays[7] <= eight && delays[8] <= nine;
        assert!(held, "{caller} dB over {echo:?}: {delays:?}");
    }
}

/// Words that set in with the agent's cannot be told from a return until both differ.
#[test]
fn a_caller_who_speaks_before_any_return_is_measured_is_noticed() {
    // The agent begins after 500 ms.
    let early = |n: usize| 560 + n * 90;
    for echo in [None, Some(poor(60, -15.0)), Some(poor(300, -20.0))] {
        let delays = delays(echo, -10.0, early);
        assert!(delays[4] <= 200 && delays[8] <= 800, "{echo:?}: {delays:?}");
    }
}

/// Chords of harmonics that change each second, with a beat each half.
fn music(samples: usize) -> Vec<i16> {
    let chords = [
        [220.0, 277.2, 329.6],
        [196.0, 246.9, 293.7],
        [174.6, 220.0, 261.6],
    ];
    let noise = line(samples);
    let sample = |at: usize| {
        let seconds = at as f64 / 8_000.0;
        let beat = seconds % 0.5;
        let tones = chords[seconds as usize % 3].iter().flat_map(|hertz| {
            (1..5).map(move |n| {
                let turns = hertz * f64::from(n) * seconds;
                (turns * std::f64::consts::TAU).sin() / f64::from(n)
            })
        });
        let drum = if beat < 0.06 {
            f64::from(noise[at]) * 60.0
        } else {
            0.0
        };
        (tones.sum::<f64>() * 1_500.0 * (0.5 + 0.5 * (-beat * 6.0).exp()) + drum) as i16
    };
    (0..samples).map(sample).collect()
}

/// Babble and music count as voice once, and do not begin again with each sentence of the agent.
#[test]
fn babble_and_music_are_one_voice_at_most() {
    let agent = agent();
    let mut babble = vec![0; agent.len()];
    for talker in 0..6 {
        let words: Vec<i16> = (0..9)
            .flat_map(|n| caller((n * 4 + talker * 5) % 9, -10.0))
            .collect();
        mix(&mut babble, &words[talker * 900 * MS..], 0);
    }
    let background = AGENT_LEVEL * factor(-15.0);
    let babble = at_level(&babble, background);
    let music = at_level(&music(agent.len()), background);
    for (what, sound) in [("babble", &babble), ("music", &music)] {
        for echo in [None, Some(poor(60, -20.0)), Some(poor(150, -10.0))] {
            let mut line = match echo {
                Some(echo) => echo.of(&agent),
                None => line(agent.len()),
            };
            mix(&mut line, sound, 0);
            let starts = starts(&agent, &line);
            assert!(starts.len() <= 1, "{what} over {echo:?}: {starts:?}");
        }
    }
}

#[test]
fn nothing_is_gated_while_the_agent_is_silent() {
    let agent = agent();
    let mut guard = EchoGuard::default();
    let words = sentence(CALLER[0]);
    let is_echo = |guard: &mut EchoGuard, at_ms: u64| {
        let mut frames = words.chunks_exact(160).zip((at_ms..).step_by(20));
        frames.any(|(frame, at_ms)| guard.heard(frame, at_ms))
    };
    assert!(!is_echo(&mut guard, 0), "nothing was sent yet");
    // A loud return is measured, and the agent ends.
    let mut at_ms = 10_000;
    for frame in agent.chunks_exact(160) {
        guard.sent(frame, at_ms);
        guard.heard(frame, at_ms);
        at_ms += 20;
    }
    assert!(
        !is_echo(&mut guard, at_ms + 400),
        "its last 250 ms are silent"
    );
}

#[test]
fn a_return_that_is_gone_is_forgotten() {
    let agent: Vec<i16> = [agent(), agent()].concat();
    let echo = poor(60, -6.0).of(&agent);
    let mut line = line(agent.len());
    // The phone leaves its loudspeaker after 6 s.
    line[..6_000 * MS].copy_from_slice(&echo[..6_000 * MS]);
    for n in 0..4 {
        mix(&mut line, &caller(n, -14.0), 12_000 + n * 3_000);
    }
    let mut guard = EchoGuard::default();
    let (mut before, mut after) = (0, 0);
    for (n, (sent, heard)) in (0..).zip(agent.chunks_exact(160).zip(line.chunks_exact(160))) {
        guard.sent(sent, n * 20);
        let is_echo = u32::from(guard.heard(heard, n * 20));
        match n * 20 {
            ..6_000 => before += is_echo,
            12_000.. => after += is_echo,
            _ => {}
        }
    }
    assert!(before > 200 && after == 0, "{before} {after}");
}

#[test]
fn packets_that_come_late_are_compared_with_what_was_sent_then() {
    let agent = agent();
    let mut guard = EchoGuard::default();
    let frames: Vec<&[i16]> = agent.chunks_exact(160).collect();
    // Half a second of packets comes at once, again and again.
    let mut unexplained = 0;
    for (burst, sent) in frames.chunks(25).enumerate() {
        let begins = burst as u64 * 500;
        for (frame, at_ms) in sent.iter().zip((begins..).step_by(20)) {
            guard.sent(frame, at_ms);
        }
        for (frame, at_ms) in sent.iter().zip((begins..).step_by(20)) {
            let returned = scaled(frame, 0.2);
            let is_loud = returned.iter().any(|it| it.unsigned_abs() > 500);
            let is_echo = guard.heard(&returned, at_ms);
            // The return is measured in the first seconds.
            unexplained += u32::from(burst >= 4 && is_loud && !is_echo);
        }
    }
    assert_eq!(unexplained, 0);
}

#[test]
fn a_guard_is_small() {
    assert!(size_of::<EchoGuard>() < 4_096);
}
