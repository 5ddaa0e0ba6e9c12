//! The ring tone for a caller while a person is called: 425 Hz, 1 s on and 4 s off (ITU-T E.180, supplement 2: most of Europe and
//! Indonesia). The tone that warns joined callers of the end: two beeps of 1,400 Hz, the frequency of the same list's warning
//! tones. And the soft one for a caller who waits for a function: two beeps of 440 Hz.
#![expect(
    clippy::float_arithmetic,
    reason = "a sine; it is made samples here and goes nowhere else"
)]

use std::f64::consts::TAU;

use crate::leg::SPEECH_RATE;

const HERTZ: f64 = 425.0;
/// About -15 dBm0, softer than speech.
const AMPLITUDE: f64 = 4_000.0;
/// Frames of 20 ms. The tone begins and ends at a zero of the sine.
const ON_FRAMES: usize = 50;
const CYCLE_FRAMES: usize = 250;

/// A ring tone, with the frames that were played.
#[derive(Debug, Default)]
pub struct RingTone {
    frames: usize,
}

impl RingTone {
    /// Adds the next 20 ms of the tone to a frame.
    pub fn add_to(&mut self, frame: &mut [i16]) {
        let at = self.frames % CYCLE_FRAMES;
        self.frames = at + 1;
        if at >= ON_FRAMES {
            return;
        }
        let step = TAU * HERTZ / (50 * frame.len()) as f64;
        for (n, sample) in (at * frame.len()..).zip(frame) {
            let tone = (AMPLITUDE * (step * n as f64).sin()).round() as i16;
            *sample = sample.saturating_add(tone);
        }
    }
}

/// Length of a beep and of the pause between two, in samples: 200 ms. Both tones end at a zero of their sine.
const BEEP_SAMPLES: usize = SPEECH_RATE as usize / 5;
const WARNING_HERTZ: f64 = 1_400.0;
const WAITING_HERTZ: f64 = 440.0;
/// About -25 dBm0.
const SOFT_AMPLITUDE: f64 = 1_300.0;

/// Two beeps, 0.6 s in all, at [`SPEECH_RATE`].
pub fn warning_tone() -> Vec<i16> {
    two_beeps(WARNING_HERTZ, AMPLITUDE)
}

/// Two soft beeps, 0.6 s in all, at [`SPEECH_RATE`].
pub fn waiting_tone() -> Vec<i16> {
    two_beeps(WAITING_HERTZ, SOFT_AMPLITUDE)
}

fn two_beeps(hertz: f64, amplitude: f64) -> Vec<i16> {
    let step = TAU * hertz / f64::from(SPEECH_RATE);
    let beep = (0..BEEP_SAMPLES).map(|n| (amplitude * (step * n as f64).sin()).round() as i16);
    let pause = std::iter::repeat_n(0, BEEP_SAMPLES);
    beep.clone().chain(pause).chain(beep).collect()
}

#[cfg(test)]
mod tests {
    use super::{BEEP_SAMPLES, RingTone, waiting_tone, warning_tone};

    #[test]
    fn a_signal_is_two_beeps() {
        for (tone, loudness, step) in [(warning_tone(), 3_000, 1_600), (waiting_tone(), 1_200, 160)]
        {
            let loud = |samples: &[i16]| samples.iter().any(|it| it.unsigned_abs() > loudness);
            let parts: Vec<bool> = tone.chunks(BEEP_SAMPLES).map(loud).collect();
            assert_eq!(parts, [true, false, true]);
            let steepest = tone.windows(2).map(|two| two[1].abs_diff(two[0])).max();
            assert!(steepest < Some(step), "a click: {steepest:?}");
        }
    }

    #[test]
    fn it_sounds_for_one_second_of_five() {
        for frame in [160, 320, 480] {
            let mut tone = RingTone::default();
            let mut samples = Vec::new();
            for _ in 0..500 {
                let mut next = vec![0; frame];
                tone.add_to(&mut next);
                samples.extend(next);
            }
            let second = 50 * frame;
            for (n, second) in samples.chunks(second).enumerate() {
                let crossings = second.windows(2).filter(|two| two[0] < 0 && two[1] >= 0);
                let hertz = crossings.count();
                assert_eq!(hertz >= 424, n % 5 == 0, "second {n}: {hertz} Hz");
                assert!(hertz <= 425, "second {n}: {hertz} Hz");
            }
            let steepest = samples.windows(2).map(|two| two[1].abs_diff(two[0])).max();
            assert!(steepest < Some(1_400), "a click: {steepest:?}");
        }
    }
}
