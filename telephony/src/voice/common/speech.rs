//! The agent's speech, from the text of a message to pieces for the call.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::exchange::SessionEffect;
use crate::voice::VoiceEvent;

/// 100 ms. A message may hold a minute, and the channels to the phone count pieces.
const PIECE_SAMPLES: usize = dikala_sip::leg::SPEECH_RATE as usize / 10;

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes 16-bit little-endian samples in base64.
#[derive(Debug, Default)]
pub(in crate::voice) struct SpeechDecoder {
    /// The odd byte of a piece of audio that ended within a sample; the next piece of the turn completes it.
    half_sample: Option<u8>,
}

impl SpeechDecoder {
    /// The samples of the next piece; none if it cannot be read.
    pub(in crate::voice) fn decode(&mut self, data: &str) -> Vec<i16> {
        let mut bytes = Vec::from_iter(self.half_sample.take());
        bytes.extend(BASE64.decode(data).unwrap_or_default());
        let (pairs, half) = bytes.as_chunks();
        self.half_sample = half.first().copied();
        pairs.iter().map(|two| i16::from_le_bytes(*two)).collect()
    }

    /// The turn has ended: half a sample belongs to nothing.
    pub(in crate::voice) fn forget(&mut self) {
        self.half_sample = None;
    }
}

/// Tells samples in pieces. Joins what one message has in many parts, since each piece is work for the call.
pub(in crate::voice) fn tell_audio<S>(samples: &[i16], effects: &mut Vec<SessionEffect<S>>) {
    for piece in samples.chunks(PIECE_SAMPLES) {
        match effects.last_mut() {
            Some(SessionEffect::Tell(VoiceEvent::Audio(last)))
                if last.len() + piece.len() <= PIECE_SAMPLES =>
            {
                last.extend_from_slice(piece);
            }
            _ => effects.push(SessionEffect::Tell(VoiceEvent::Audio(piece.to_vec()))),
        }
    }
}
