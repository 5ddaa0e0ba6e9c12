//! Whether the caller speaks: earshot's verdict on every 16 ms, taken together so that clicks are not taken for words.
//!
//! After silence, the detector takes hissing and the tones of keys for voice; both are known by simpler signs.

use std::fmt;

use earshot::Detector;

/// What the detector looks at: 16 ms at 16 kHz.
const FRAME: usize = 256;
/// So many frames of voice begin speech; wherever 96 ms of it begin, five whole ones are among them.
const STARTS: u32 = 5;
/// How long somebody has spoken at most when it is noticed.
pub const NOTICED_MS: u64 = 96;
/// 400 ms without voice end it.
const ENDS: u32 = 25;
/// The detector's own line between voice and the rest.
const VOICE: f32 = 0.5;
/// Softer than −50 dBFS (as the mean of squares) is a neighbour or the line.
const SOFTEST: i64 = 104 * 104;
/// So many changes of sign (1.5 kHz) have more hiss than voice.
const HISS: usize = 48;
/// 2·cos of the low and the high tones of keys at 16 kHz, with 14 bits after the point.
const LOW_TONES: [i64; 4] = [31_548, 31_281, 30_951, 30_556];
const HIGH_TONES: [i64; 4] = [29_144, 28_361, 27_409, 26_258];

/// One caller.
pub struct Activity {
    detector: Box<Detector>,
    /// What is not yet a frame.
    pending: Vec<i16>,
    speaking: bool,
    /// How many frames speak for the other state.
    against: u32,
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activity")
            .field("speaking", &self.speaking)
            .field("against", &self.against)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Started,
    Ended,
}

/// What 16 ms are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Voice,
    /// Loud as voice and like it, but noise or a key.
    Doubtful,
    Nothing,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            detector: Box::new(Detector::default()),
            pending: Vec::with_capacity(2 * FRAME),
            speaking: false,
            against: 0,
        }
    }
}

impl Activity {
    /// Hears 20 ms at 16 kHz.
    pub fn hear(&mut self, samples: &[i16]) -> Option<Change> {
        self.pending.extend_from_slice(samples);
        let mut change = None;
        let mut taken = 0;
        while let Some(frame) = self.pending.get(taken..taken + FRAME) {
            taken += FRAME;
            let like_voice = self.detector.predict_i16(frame) >= VOICE;
            change = self.count(verdict(like_voice, frame)).or(change);
        }
        self.pending.drain(..taken);
        change
    }

    fn count(&mut self, verdict: Verdict) -> Option<Change> {
        let voice = verdict == Verdict::Voice;
        if voice == self.speaking {
            // A hissed consonant may stand within a word that begins.
            self.against = match verdict {
                Verdict::Doubtful => self.against.saturating_sub(1),
                Verdict::Voice | Verdict::Nothing => 0,
            };
            return None;
        }
        self.against += 1;
        if self.against < if voice { STARTS } else { ENDS } {
            return None;
        }
        self.against = 0;
        self.speaking = voice;
        Some(if voice {
            Change::Started
        } else {
            Change::Ended
        })
    }
}

fn verdict(like_voice: bool, frame: &[i16]) -> Verdict {
    let energy: i64 = frame.iter().map(|sample| i64::from(*sample).pow(2)).sum();
    if !like_voice || energy <= SOFTEST * FRAME as i64 {
        return Verdict::Nothing;
    }
    let turns = frame
        .windows(2)
        .filter(|pair| (pair[0] < 0) != (pair[1] < 0))
        .count();
    if turns >= HISS || is_key(frame, energy) {
        return Verdict::Doubtful;
    }
    Verdict::Voice
}

/// Whether most of the energy is that of two tones, one of each group, and neither is a mere overtone.
fn is_key(frame: &[i16], energy: i64) -> bool {
    let strongest = |tones: [i64; 4]| tones.into_iter().map(|tone| tone_energy(frame, tone)).max();
    let (low, high) = (
        strongest(LOW_TONES).unwrap_or(0),
        strongest(HIGH_TONES).unwrap_or(0),
    );
    low + high > energy * 6 / 10 && low.min(high) > energy / 20
}

/// The energy of one tone (Goertzel), as its samples alone would have it.
fn tone_energy(frame: &[i16], coefficient: i64) -> i64 {
    let (mut last, mut before) = (0_i64, 0_i64);
    for sample in frame {
        let next = i64::from(*sample) + ((coefficient * last) >> 14) - before;
        before = last;
        last = next;
    }
    let power = last * last + before * before - ((coefficient * last) >> 14) * before;
    power * 2 / FRAME as i64
}

#[cfg(test)]
mod tests;
