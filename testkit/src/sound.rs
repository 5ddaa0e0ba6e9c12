//! Generates tones and detects voice.

use base64::{Engine, engine::general_purpose::STANDARD};

/// Samples per millisecond of outgoing audio.
const SAID: u64 = 24;
/// Mean magnitude from which a piece counts as voice.
const VOICE: u64 = 400;

/// A tone of 500 Hz of this length, in base64.
pub(crate) fn tone(milliseconds: u64) -> String {
    let samples = 0..milliseconds * SAID;
    let wave = samples.map(|at| if at % 48 < 24 { 8_000_i16 } else { -8_000 });
    let bytes: Vec<u8> = wave.flat_map(i16::to_le_bytes).collect();
    STANDARD.encode(bytes)
}

/// A piece's length in milliseconds, and whether it contains voice. `rate` is in samples per millisecond. `None` if it is no 16-bit
/// audio.
pub(crate) fn heard(data: &str, rate: u64) -> Option<(u64, bool)> {
    let bytes = STANDARD.decode(data).ok()?;
    let (samples, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() || samples.is_empty() {
        return None;
    }
    let magnitudes = samples
        .iter()
        .map(|two| u64::from(i16::from_le_bytes(*two).unsigned_abs()));
    let count = samples.len() as u64;
    Some((count / rate, magnitudes.sum::<u64>() / count > VOICE))
}
