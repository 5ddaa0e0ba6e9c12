//! DTMF keys as tones in the audio, for callers without RFC 4733 events (ITU-T Q.23, Q.24).
//!
//! A key counts once two blocks in a row have its tones, and ends once two have not. So every tone of 40 ms is found, none under
//! 25 ms counts, and a tone with a short dropout is one key. Speech has tones too, but hardly ever two alone, of similar and
//! constant strength, for so long.

/// 2·cos of the low and high tones at 16 kHz, with 14 fractional bits.
pub const LOW_TONES: [i64; 4] = [31_548, 31_281, 30_951, 30_556];
pub const HIGH_TONES: [i64; 4] = [29_144, 28_361, 27_409, 26_258];

const KEYS: [[char; 4]; 4] = [
    ['1', '2', '3', 'A'],
    ['4', '5', '6', 'B'],
    ['7', '8', '9', 'C'],
    ['*', '0', '#', 'D'],
];
/// 12.75 ms at 16 kHz: three blocks fit into 40 ms, two of them whole wherever they begin.
const BLOCK: usize = 204;
/// The mean square of the softest tones: about -46 dBFS.
const SOFTEST: i64 = 164 * 164;
/// The least part of a block's energy that is in its two tones, in percent.
const PURITY: i64 = 79;
/// The largest ratio of the energies of both tones (8 dB), and the least of the tones to the others of their groups.
const TWIST: (i64, i64) = (63, 10);
/// The largest ratio of the energies of two blocks (1 dB). A voice rises and falls.
const STEADY: (i64, i64) = (126, 100);

/// Finds keys in the audio of one caller.
#[derive(Debug, Default)]
pub struct ToneDetector {
    /// Samples that do not fill a block yet.
    pending: Vec<i16>,
    last: Option<TonePair>,
    pressed: Option<char>,
}

/// The tones of one block.
#[derive(Debug, Clone, Copy)]
struct TonePair {
    key: char,
    /// The energy of the whole block.
    energy: i64,
}

impl TonePair {
    fn continues(&self, before: &Self) -> bool {
        let (least, most) = (
            self.energy.min(before.energy),
            self.energy.max(before.energy),
        );
        self.key == before.key && most * STEADY.1 <= least * STEADY.0
    }
}

impl ToneDetector {
    /// Skips a loss. A block begins behind it, so that the cross-fade there spoils one block and not two, which would end a key.
    pub fn skip(&mut self) {
        self.pending.clear();
    }

    /// Adds samples of 16 kHz, and reports the keys that they press.
    pub fn hear(&mut self, samples: &[i16], mut press: impl FnMut(char)) {
        self.pending.extend_from_slice(samples);
        let whole = self.pending.len() / BLOCK * BLOCK;
        for block in self.pending[..whole].chunks_exact(BLOCK) {
            let found = tones(block);
            let is_other = |tones: Option<TonePair>| tones.map(|it| it.key) != self.pressed;
            if is_other(found) && is_other(self.last) {
                let pair = found.zip(self.last);
                let steady = pair.filter(|(now, before)| now.continues(before));
                self.pressed = steady.map(|(now, _)| now.key);
                self.pressed.into_iter().for_each(&mut press);
            }
            self.last = found;
        }
        self.pending.drain(..whole);
    }
}

/// The tones of a key, if they fill this block.
fn tones(block: &[i16]) -> Option<TonePair> {
    let energy: i64 = block.iter().map(|sample| i64::from(*sample).pow(2)).sum();
    if energy < SOFTEST * BLOCK as i64 {
        return None;
    }
    let (row, low) = strongest(block, LOW_TONES)?;
    let (column, high) = strongest(block, HIGH_TONES)?;
    let is_pure = (low + high) * 100 >= energy * PURITY;
    let is_twisted = is_far_above(low, high) || is_far_above(high, low);
    (is_pure && !is_twisted).then(|| TonePair {
        key: KEYS[row][column],
        energy,
    })
}

/// The strongest tone of a group, if it stands out.
fn strongest(block: &[i16], group: [i64; 4]) -> Option<(usize, i64)> {
    let energies = group.map(|tone| tone_energy(block, tone));
    let (at, best) = energies.into_iter().enumerate().max_by_key(|(_, it)| *it)?;
    let mut others = energies.iter().enumerate().filter(|(n, _)| *n != at);
    others
        .all(|(_, other)| is_far_above(best, *other))
        .then_some((at, best))
}

fn is_far_above(this: i64, that: i64) -> bool {
    this * TWIST.1 > that * TWIST.0
}

/// The energy of one tone (Goertzel), in the scale of the samples' energy.
pub fn tone_energy(samples: &[i16], coefficient: i64) -> i64 {
    let (mut last, mut before) = (0_i64, 0_i64);
    for sample in samples {
        let next = i64::from(*sample) + ((coefficient * last) >> 14) - before;
        before = last;
        last = next;
    }
    let power = last * last + before * before - ((coefficient * last) >> 14) * before;
    power * 2 / samples.len().max(1) as i64
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_arithmetic, reason = "tones are made with sines")]

    use std::f64::consts::TAU;

    use super::{KEYS, ToneDetector};
    use crate::media::{fir::Resampler, g711::Law};

    const LOW: [f64; 4] = [697.0, 770.0, 852.0, 941.0];
    const HIGH: [f64; 4] = [1_209.0, 1_336.0, 1_477.0, 1_633.0];
    /// 1.6 s of "Halo, saya mau tanya …" by espeak-ng, 8 kHz, A-law.
    const SPEECH: &[u8] = include_bytes!("activity/speech.al");

    /// Two tones of these amplitudes, between silences of 60 ms.
    fn tone_pair(low: (f64, f64), high: (f64, f64), ms: usize) -> Vec<i16> {
        let at = |n: usize| {
            let sine = |(hertz, amplitude): (f64, f64)| {
                amplitude * (TAU * hertz * n as f64 / 16_000.0).sin()
            };
            (sine(low) + sine(high)) as i16
        };
        let mut samples = vec![0; 960];
        samples.extend((0..ms * 16).map(at));
        samples.resize(samples.len() + 960, 0);
        samples
    }

    /// The keys in these samples, which come in frames from this sample on.
    fn keys_from(samples: &[i16], from: usize) -> String {
        let (mut detector, mut keys) = (ToneDetector::default(), String::new());
        for frame in samples[from..].chunks(320) {
            detector.hear(frame, |key| keys.push(key));
        }
        keys
    }

    fn every_key(mut of: impl FnMut(f64, f64) -> Vec<i16>, found: bool, what: &str) {
        for (row, low) in LOW.into_iter().enumerate() {
            for (column, high) in HIGH.into_iter().enumerate() {
                let samples = of(low, high);
                let key = KEYS[row][column].to_string();
                let expected = if found { key.as_str() } else { "" };
                for from in [0, 40, 80, 120, 160, 200] {
                    assert_eq!(
                        keys_from(&samples, from),
                        expected,
                        "{what}: {key} from {from}"
                    );
                }
            }
        }
    }

    #[test]
    fn tones_of_40_ms_and_more_are_one_key() {
        for ms in [40, 45, 60, 100, 150, 1_000] {
            let of = |low, high| tone_pair((low, 6_000.0), (high, 6_000.0), ms);
            every_key(of, true, &format!("{ms} ms"));
        }
        for ms in [5, 10, 20] {
            let of = |low, high| tone_pair((low, 6_000.0), (high, 6_000.0), ms);
            every_key(of, false, &format!("{ms} ms"));
        }
    }

    #[test]
    fn loud_and_soft_tones_are_found() {
        for (amplitude, found) in [
            (16_000.0, true),
            (300.0, true),
            (200.0, true),
            (50.0, false),
        ] {
            let of = |low, high| tone_pair((low, amplitude), (high, amplitude), 60);
            every_key(of, found, &format!("amplitude {amplitude}"));
        }
    }

    /// One tone may be louder, as on a long line.
    #[test]
    fn twist_is_allowed_up_to_a_limit() {
        for (decibels, found) in [
            (-12.0, false),
            (-6.0, true),
            (4.0, true),
            (6.0, true),
            (12.0, false),
        ] {
            let louder = 3_000.0 * 10_f64.powf(decibels / 20.0);
            let of = |low, high| tone_pair((low, 3_000.0), (high, louder), 60);
            every_key(of, found, &format!("twist of {decibels} dB"));
        }
    }

    #[test]
    fn tones_may_be_off_by_one_and_a_half_percent_and_not_by_more_than_three_and_a_half() {
        for (factor, found) in [(0.985, true), (1.015, true), (0.95, false), (1.05, false)] {
            let of = |low: f64, high: f64| {
                tone_pair((low * factor, 5_000.0), (high * factor, 5_000.0), 60)
            };
            every_key(of, found, &format!("frequency × {factor}"));
        }
    }

    #[test]
    fn tones_survive_g_711_and_some_noise() {
        let of = |low, high| {
            let mut noise = 1_u32;
            let mut noisy = tone_pair((low, 4_000.0), (high, 4_000.0), 50);
            for sample in &mut noisy {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *sample += (noise >> 23) as i16 - 256;
            }
            let (mut bytes, mut narrow) = (Vec::new(), Vec::new());
            Law::Mu.encode(&noisy, &mut bytes);
            Law::Mu.decode(&bytes, &mut narrow);
            narrow
        };
        every_key(of, true, "noise");
    }

    #[test]
    fn the_same_key_counts_again_after_a_pause_and_not_after_a_dropout() {
        let press = || tone_pair((770.0, 6_000.0), (1_336.0, 6_000.0), 60);
        let twice = [press(), press()].concat();
        assert_eq!(keys_from(&twice, 0), "55");
        let mut dropped = tone_pair((770.0, 6_000.0), (1_336.0, 6_000.0), 200);
        dropped[2_400..2_480].fill(0);
        assert_eq!(keys_from(&dropped, 0), "5");
    }

    fn speech() -> Vec<i16> {
        let mut narrow = Vec::new();
        Law::A.decode(SPEECH, &mut narrow);
        narrow
    }

    /// Voices of several pitches, alone and at once.
    #[test]
    fn speech_presses_no_keys() {
        let narrow = speech();
        let mut wide = Vec::new();
        Resampler::from_8_to_16().run(&narrow, &mut wide);
        for step in 50..200 {
            // From half to twice the pitch.
            let resampled = (0..wide.len() * 100 / step - 1).map(|n| wide[n * step / 100]);
            let voice: Vec<i16> = resampled.collect();
            for gain in [1, 3] {
                let louder: Vec<i16> = voice.iter().map(|it| it.saturating_mul(gain)).collect();
                assert_eq!(keys_from(&louder, 0), "", "pitch {step}, gain {gain}");
            }
            let babble = voice.iter().zip(&wide).map(|(a, b)| a / 2 + b / 2);
            let babble: Vec<i16> = babble.collect();
            assert_eq!(keys_from(&babble, 0), "", "babble {step}");
        }
    }

    /// A voice that hits two tones by chance rises or falls meanwhile.
    #[test]
    fn tones_that_rise_or_fall_press_no_keys() {
        let of = |low, high| {
            let mut swelling = tone_pair((low, 8_000.0), (high, 8_000.0), 100);
            let silence = 960;
            for (n, sample) in swelling.iter_mut().enumerate() {
                // 6 dB in 25 ms.
                let periods = (n.saturating_sub(silence)) as f64 / 400.0;
                *sample = (f64::from(*sample) * 0.5_f64.powf(periods)) as i16;
            }
            swelling
        };
        every_key(of, false, "falling");
        let rising = |low, high| of(low, high).into_iter().rev().collect();
        every_key(rising, false, "rising");
    }

    #[test]
    fn single_tones_and_noise_press_no_keys() {
        for hertz in (200..4_000).step_by(7) {
            let single = tone_pair((f64::from(hertz), 8_000.0), (0.0, 0.0), 100);
            assert_eq!(keys_from(&single, 0), "", "{hertz} Hz");
            // The ring, dial and busy tones of the world.
            let dual = tone_pair((f64::from(hertz), 8_000.0), (440.0, 8_000.0), 100);
            assert_eq!(keys_from(&dual, 0), "", "440 and {hertz} Hz");
        }
        let mut state = 7_u32;
        let mut noise = Vec::new();
        for _ in 0..160_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.push((state >> 16) as u16 as i16 / 4);
        }
        assert_eq!(keys_from(&noise, 0), "");
    }
}
