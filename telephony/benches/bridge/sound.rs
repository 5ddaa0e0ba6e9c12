//! The prepared audio of both ends.

use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};
use base64::{Engine, engine::general_purpose::STANDARD};
use dikala_sip::{
    leg::{CALLER_RATE, SPEECH_RATE},
    settings::Codec,
};
use opus_rs::{Application, OpusDecoder, OpusEncoder};
use serde_json::json;

/// Samples in 20 ms of G.711.
const NARROW: usize = 160;
/// Samples in 20 ms that the phone encodes with Opus, and decodes from it.
const WIDE: usize = SPEECH_RATE as usize / 50;
const DECODED: usize = CALLER_RATE as usize / 50;
/// Threshold of loudness: only marks exceed it.
const LOUD: u16 = 4_000;
/// The same for a decoder's floats.
const LOUD_FLOAT: f32 = 0.122;
/// Packets per second.
pub const SECOND: usize = 50;
/// Packets of a mark: too short to be detected as a word.
const MARK: usize = 2;

/// The caller's audio, a second of packets each: soft noise, and the same beginning with a mark.
#[derive(Debug)]
pub struct CallerAudio {
    pub noise: Vec<Vec<u8>>,
    pub marked: Vec<Vec<u8>>,
}

impl CallerAudio {
    pub fn new(codec: Codec) -> Self {
        let mut random = 1_u32;
        let mut encode = encoder(codec);
        let mut second = |marks: usize| {
            let packet = |at: usize| {
                let count = if codec == Codec::Opus { WIDE } else { NARROW };
                let frame: Vec<i16> = match at < marks {
                    true => tone(count, count / 10),
                    false => (0..count).map(|_| noise(&mut random)).collect(),
                };
                encode(&frame)
            };
            (0..SECOND).map(packet).collect()
        };
        Self {
            noise: second(0),
            marked: second(MARK),
        }
    }
}

fn encoder(codec: Codec) -> impl FnMut(&[i16]) -> Vec<u8> {
    let mut opus = OpusEncoder::new(SPEECH_RATE as i32, 1, Application::Voip).unwrap();
    move |frame| match codec {
        Codec::Pcma => frame.iter().map(|sample| encode_alaw(*sample)).collect(),
        Codec::Pcmu => frame.iter().map(|sample| encode_ulaw(*sample)).collect(),
        Codec::G722 => unreachable!("it is not measured"),
        Codec::Opus => {
            let mut packet = [0; 1_500];
            let length = opus.encode_i16(frame, WIDE, &mut packet).unwrap();
            packet[..length].to_vec()
        }
    }
}

/// Below the threshold of voice detection.
fn noise(random: &mut u32) -> i16 {
    *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    i16::try_from(*random >> 26).unwrap() - 32
}

fn tone(count: usize, wave: usize) -> Vec<i16> {
    let sample = |at| if at % wave < wave / 2 { 8_000 } else { -8_000 };
    (0..count).map(sample).collect()
}

/// The decoder of a phone.
pub enum PhoneDecoder {
    Pcma,
    Pcmu,
    Opus(Box<OpusDecoder>),
}

impl PhoneDecoder {
    pub fn new(codec: Codec) -> Self {
        match codec {
            Codec::Pcma => Self::Pcma,
            Codec::Pcmu => Self::Pcmu,
            Codec::G722 => unreachable!("it is not measured"),
            Codec::Opus => Self::Opus(Box::new(OpusDecoder::new(CALLER_RATE as i32, 1).unwrap())),
        }
    }

    pub fn is_loud(&mut self, payload: &[u8]) -> bool {
        let is_loud = |sample: i16| sample.unsigned_abs() >= LOUD;
        match self {
            Self::Pcma => payload.iter().any(|byte| is_loud(decode_alaw(*byte))),
            Self::Pcmu => payload.iter().any(|byte| is_loud(decode_ulaw(*byte))),
            Self::Opus(decoder) => {
                let mut samples = [0.0; DECODED];
                let decoded = decoder.decode(payload, DECODED, &mut samples);
                let count = decoded.unwrap_or_default();
                samples[..count]
                    .iter()
                    .any(|sample| sample.abs() >= LOUD_FLOAT)
            }
        }
    }
}

/// True if a message with the caller's audio contains a mark.
pub fn is_loud(message: &str) -> bool {
    let Some((_, rest)) = message.split_once("\"data\":\"") else {
        return false;
    };
    let data = rest.split('"').next().unwrap_or_default();
    let bytes = STANDARD.decode(data).unwrap();
    let (samples, _) = bytes.as_chunks::<2>();
    let mut samples = samples.iter().map(|two| i16::from_le_bytes(*two));
    samples.any(|sample| sample.unsigned_abs() >= LOUD)
}

/// A mark of the model, as its message.
pub fn model_mark() -> Vec<u8> {
    said(&tone(SPEECH_RATE as usize / 1_000 * 40, 48))
}

/// A tenth of a second of the model's voice, as its message: pulses of 120 Hz through a resonance at 700 Hz, similar to an "ah".
pub fn model_voice() -> Vec<u8> {
    let (mut last, mut before) = (0_i32, 0_i32);
    let sample = |at: u32| {
        let pulse = if at.is_multiple_of(SPEECH_RATE / 120) {
            3_000
        } else {
            0
        };
        let now = pulse + ((31_252 * last - 15_416 * before) >> 14);
        (before, last) = (last, now);
        i16::try_from(now.clamp(-20_000, 20_000)).unwrap()
    };
    let samples: Vec<i16> = (0..SPEECH_RATE / 10).map(sample).collect();
    said(&samples)
}

fn said(samples: &[i16]) -> Vec<u8> {
    let bytes: Vec<u8> = samples.iter().flat_map(|one| one.to_le_bytes()).collect();
    let audio = json!({"mimeType": "audio/pcm;rate=24000", "data": STANDARD.encode(bytes)});
    let turn = json!({"parts": [{"inlineData": audio}]});
    let message = json!({"serverContent": {"modelTurn": turn}});
    message.to_string().into_bytes()
}
