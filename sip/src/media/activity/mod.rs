//! Voice activity detection (VAD): the earshot detector judges frames of 16 ms, and several frames decide, so that a click is not
//! a word.
//!
//! After silence, the detector mistakes hiss and DTMF tones for voice, so both are filtered out by simpler signs.

use std::fmt;

use earshot::Detector;

use super::dtmf_tones::{HIGH_TONES, LOW_TONES, tone_energy};
use crate::leg::VOICE_HANG_OVER_MS;

/// The detector's frame: 16 ms at 16 kHz.
const FRAME: usize = 256;
/// Frames of voice that begin speech. Any 96 ms of voice contain five whole frames.
const STARTS: u32 = 5;
/// The longest time from the beginning of speech until it is noticed.
pub const NOTICED_MS: u64 = 96;
/// Frames without voice that end speech.
const ENDS: u32 = (VOICE_HANG_OVER_MS / 16) as u32;
/// The detector's own threshold of voice.
const VOICE: f32 = 0.5;
/// The same for a voice that goes on: music and quiet ends of words waver.
const STILL_VOICE: f32 = 0.35;
/// Threshold of loudness: below −50 dBFS (mean of squares) it is background or line noise.
const SOFTEST: i64 = 104 * 104;
/// Changes of sign per frame (1.5 kHz) from which a frame is more hiss than voice.
const HISS: usize = 48;

/// The detector's state for one caller.
pub struct Activity {
    detector: Box<Detector>,
    /// Samples that do not fill a frame yet.
    pending: Vec<i16>,
    speaking: bool,
    /// Consecutive frames that contradict `speaking`.
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
pub enum VoiceChange {
    Started,
    Ended,
}

/// Verdict on one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Voice,
    /// As loud as voice and similar to it, but hiss or a key.
    Doubtful,
    /// Voice of the agent that comes back.
    Echo,
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
    /// Adds 20 ms at 16 kHz. `is_echo`: voice in them is not the caller's.
    pub fn hear(&mut self, samples: &[i16], is_echo: bool) -> Option<VoiceChange> {
        self.pending.extend_from_slice(samples);
        let mut change = None;
        let mut taken = 0;
        while let Some(frame) = self.pending.get(taken..taken + FRAME) {
            taken += FRAME;
            let least = if self.speaking { STILL_VOICE } else { VOICE };
            let like_voice = self.detector.predict_i16(frame) >= least;
            let verdict = match verdict(like_voice, frame) {
                Verdict::Voice if is_echo => Verdict::Echo,
                verdict => verdict,
            };
            change = self.count(verdict).or(change);
        }
        self.pending.drain(..taken);
        change
    }

    /// The caller speaks.
    pub fn is_speaking(&self) -> bool {
        self.speaking
    }

    fn count(&mut self, verdict: Verdict) -> Option<VoiceChange> {
        let voice = verdict == Verdict::Voice;
        if verdict == Verdict::Echo && self.speaking {
            // A caller's words may be hidden in the echo, so they do not end, and need not begin again after it.
            return None;
        }
        if voice == self.speaking {
            // A hissed consonant may be part of a word that begins. So may be an echo, under which the word is not heard.
            self.against = match verdict {
                Verdict::Echo => self.against,
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
            VoiceChange::Started
        } else {
            VoiceChange::Ended
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

/// Most of the energy is in two DTMF tones, one of each group, and neither is a mere overtone.
fn is_key(frame: &[i16], energy: i64) -> bool {
    let strongest = |tones: [i64; 4]| tones.into_iter().map(|tone| tone_energy(frame, tone)).max();
    let (low, high) = (
        strongest(LOW_TONES).unwrap_or(0),
        strongest(HIGH_TONES).unwrap_or(0),
    );
    low + high > energy * 6 / 10 && low.min(high) > energy / 20
}

#[cfg(test)]
mod tests;
