//! Generates tones and detects voice.

use base64::{Engine, engine::general_purpose::STANDARD};

/// Samples per millisecond of outgoing audio.
const SAID: u64 = 24;
/// Mean magnitude from which a piece counts as voice.
const VOICE: u64 = 400;

/// A tone of 500 Hz of this length, in base64.
pub(crate) fn tone(milliseconds: u64) -> String {
    STANDARD.encode(tone_bytes(milliseconds))
}

/// The first of a recording, of this length and in pieces of that one, in base64.
pub(crate) fn recorded(recording: &[u8], milliseconds: u64, piece_ms: u64) -> Vec<String> {
    let bytes = |milliseconds: u64| usize::try_from(milliseconds * SAID).unwrap() * 2;
    let first = &recording[..bytes(milliseconds).min(recording.len())];
    let pieces = first.chunks(bytes(piece_ms));
    pieces.map(|piece| STANDARD.encode(piece)).collect()
}

/// Silence of this length, in base64.
pub(crate) fn silence(milliseconds: u64) -> String {
    let bytes = usize::try_from(milliseconds * SAID).unwrap() * 2;
    STANDARD.encode(vec![0; bytes])
}

/// The tone as bytes.
pub(crate) fn tone_bytes(milliseconds: u64) -> Vec<u8> {
    let samples = 0..milliseconds * SAID;
    let wave = samples.map(|at| if at % 48 < 24 { 8_000_i16 } else { -8_000 });
    wave.flat_map(i16::to_le_bytes).collect()
}

/// A piece of audio contains voice.
pub(crate) fn is_voice(samples: &[i16]) -> bool {
    let magnitudes = samples.iter().map(|it| u64::from(it.unsigned_abs()));
    magnitudes.sum::<u64>() / (samples.len() as u64).max(1) > VOICE
}

/// A piece's length in milliseconds, and whether it contains voice. `rate` is in samples per millisecond. `None` if it is no 16-bit
/// audio.
pub(crate) fn heard(data: &str, rate: u64) -> Option<(u64, bool)> {
    let bytes = STANDARD.decode(data).ok()?;
    let (samples, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() || samples.is_empty() {
        return None;
    }
    let samples: Vec<i16> = samples.iter().map(|two| i16::from_le_bytes(*two)).collect();
    Some((samples.len() as u64 / rate, is_voice(&samples)))
}
