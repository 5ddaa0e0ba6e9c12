//! The prepared audio of both ends.

use base64::{Engine, engine::general_purpose::STANDARD};
use dikala_telephony::{
    AGENT_RATE,
    media::{g711::Law, opus},
    settings::Codec,
};
use serde_json::json;

/// Samples in 20 ms of G.711.
const NARROW: usize = 160;
/// Threshold of loudness: only marks exceed it.
const LOUD: u16 = 4_000;
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
                let count = if codec == Codec::Opus {
                    opus::FRAME
                } else {
                    NARROW
                };
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
    let mut opus = opus::Encoder::new().unwrap();
    move |frame| {
        let mut packet = Vec::new();
        match codec {
            Codec::Pcma => Law::A.encode(frame, &mut packet),
            Codec::Pcmu => Law::Mu.encode(frame, &mut packet),
            Codec::Opus => opus.encode(frame, &mut packet).unwrap(),
        }
        packet
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
#[derive(Debug)]
pub enum PhoneDecoder {
    G711(Law),
    Opus(Box<opus::Decoder>),
}

impl PhoneDecoder {
    pub fn new(codec: Codec) -> Self {
        match codec {
            Codec::Pcma => Self::G711(Law::A),
            Codec::Pcmu => Self::G711(Law::Mu),
            Codec::Opus => Self::Opus(Box::new(opus::Decoder::new().unwrap())),
        }
    }

    pub fn is_loud(&mut self, payload: &[u8]) -> bool {
        let mut samples = Vec::with_capacity(2 * NARROW);
        match self {
            Self::G711(law) => law.decode(payload, &mut samples),
            Self::Opus(decoder) => drop(decoder.decode(payload, &mut samples)),
        }
        samples.iter().any(|sample| sample.unsigned_abs() >= LOUD)
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
    said(&tone(AGENT_RATE as usize / 1_000 * 40, 48))
}

/// A tenth of a second of the model's voice, as its message: pulses of 120 Hz through a resonance at 700 Hz, similar to an "ah".
pub fn model_voice() -> Vec<u8> {
    let (mut last, mut before) = (0_i32, 0_i32);
    let sample = |at: u32| {
        let pulse = if at.is_multiple_of(AGENT_RATE / 120) {
            3_000
        } else {
            0
        };
        let now = pulse + ((31_252 * last - 15_416 * before) >> 14);
        (before, last) = (last, now);
        i16::try_from(now.clamp(-20_000, 20_000)).unwrap()
    };
    let samples: Vec<i16> = (0..AGENT_RATE / 10).map(sample).collect();
    said(&samples)
}

fn said(samples: &[i16]) -> Vec<u8> {
    let bytes: Vec<u8> = samples.iter().flat_map(|one| one.to_le_bytes()).collect();
    let audio = json!({"mimeType": "audio/pcm;rate=24000", "data": STANDARD.encode(bytes)});
    let turn = json!({"parts": [{"inlineData": audio}]});
    let message = json!({"serverContent": {"modelTurn": turn}});
    message.to_string().into_bytes()
}
