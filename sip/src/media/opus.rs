//! Opus, mono: decoded to 16 kHz, encoded from 24 kHz.
#![expect(
    clippy::float_arithmetic,
    reason = "the decoder gives floats; they are made samples here and go nowhere else"
)]

use std::fmt;

use opus_rs::{Application, OpusDecoder, OpusEncoder};

use super::Error;
use crate::leg::{CALLER_RATE, SPEECH_RATE};

/// The longest packet, 120 ms (RFC 6716, section 3.2).
const DECODED_MAX: usize = CALLER_RATE as usize * 120 / 1_000;
/// Samples in 20 ms at the encoder's rate.
pub const FRAME: usize = SPEECH_RATE as usize / 50;
/// Enough for wideband speech with forward error correction.
const BITRATE: i32 = 28_000;
const COMPLEXITY: i32 = 5;
/// The loss that the error correction is tuned for.
const EXPECTED_LOSS_PERCENT: i32 = 5;
const PACKET_MAX: usize = 400;

pub struct Decoder {
    inner: OpusDecoder,
    pcm: Vec<f32>,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            inner: OpusDecoder::new(CALLER_RATE as i32, 1).map_err(Error::Opus)?,
            pcm: vec![0.0; DECODED_MAX],
        })
    }

    /// Appends the samples of a packet and returns their number; 0 if it is not Opus.
    pub fn decode(&mut self, packet: &[u8], out: &mut Vec<i16>) -> usize {
        self.run(out, |decoder, pcm| decoder.decode(packet, DECODED_MAX, pcm))
    }

    /// Appends `count` concealment samples. The last of them come from the error correction in the next packet.
    pub fn conceal(&mut self, count: usize, next: Option<&[u8]>, out: &mut Vec<i16>) -> usize {
        // The decoder conceals multiples of 2.5 ms.
        let count = (count / 40 * 40).min(DECODED_MAX);
        if count == 0 {
            return 0;
        }
        self.run(out, |decoder, pcm| {
            decoder.decode_fec(next.unwrap_or_default(), count, &mut pcm[..count])
        })
    }

    fn run(
        &mut self,
        out: &mut Vec<i16>,
        decode: impl FnOnce(&mut OpusDecoder, &mut [f32]) -> Result<usize, &'static str>,
    ) -> usize {
        let Self { inner, pcm } = self;
        let count = decode(inner, pcm).unwrap_or(0).min(DECODED_MAX);
        out.extend(
            self.pcm[..count]
                .iter()
                .map(|sample| (sample * 32_768.0).round() as i16),
        );
        count
    }
}

pub struct Encoder {
    inner: OpusEncoder,
    packet: [u8; PACKET_MAX],
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    pub fn new() -> Result<Self, Error> {
        let mut inner =
            OpusEncoder::new(SPEECH_RATE as i32, 1, Application::Voip).map_err(Error::Opus)?;
        inner.bitrate_bps = BITRATE;
        inner.complexity = COMPLEXITY;
        inner.use_inband_fec = true;
        inner.packet_loss_perc = EXPECTED_LOSS_PERCENT;
        Ok(Self {
            inner,
            packet: [0; PACKET_MAX],
        })
    }

    /// Appends the packet of a frame of 10 or 20 ms.
    pub fn encode(&mut self, frame: &[i16], out: &mut Vec<u8>) -> Result<(), Error> {
        let length = self
            .inner
            .encode_i16(frame, frame.len(), &mut self.packet)
            .map_err(Error::Opus)?;
        out.extend_from_slice(&self.packet[..length]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::{Decoder, Encoder, FRAME};

    fn packets(count: usize) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::new().expect("an encoder");
        let tone = |n: usize| {
            let angle = TAU * n as f64 / 24_000.0;
            (6_000.0 * (angle * 220.0).sin() + 3_000.0 * (angle * 880.0).sin()) as i16
        };
        (0..count)
            .map(|packet| {
                let frame: Vec<i16> = (packet * FRAME..(packet + 1) * FRAME).map(tone).collect();
                let mut out = Vec::new();
                encoder.encode(&frame, &mut out).expect("a packet");
                out
            })
            .collect()
    }

    fn energy(samples: &[i16]) -> i64 {
        let sum: i64 = samples.iter().map(|sample| i64::from(*sample).pow(2)).sum();
        sum / samples.len().max(1) as i64
    }

    #[test]
    fn what_is_encoded_at_24_khz_is_heard_at_16() {
        let mut decoder = Decoder::new().expect("a decoder");
        let mut heard = Vec::new();
        for packet in packets(50) {
            assert!(packet.len() < 200, "{} bytes", packet.len());
            assert_eq!(decoder.decode(&packet, &mut heard), 320);
        }
        // Amplitudes of 6,000 and 3,000: half their squares.
        let energy = energy(&heard[8_000..]);
        assert!((15_000_000..30_000_000).contains(&energy), "{energy}");
    }

    #[test]
    fn what_is_lost_is_made_up() {
        let packets = packets(50);
        let mut decoder = Decoder::new().expect("a decoder");
        let mut heard = Vec::new();
        for (n, packet) in packets.iter().enumerate() {
            if n == 40 {
                let from = heard.len();
                assert_eq!(decoder.conceal(320, Some(&packets[41]), &mut heard), 320);
                assert!(
                    energy(&heard[from..]) > 3_000_000,
                    "{}",
                    energy(&heard[from..])
                );
            } else {
                decoder.decode(packet, &mut heard);
            }
        }
        assert_eq!(heard.len(), 50 * 320);
        assert_eq!(decoder.conceal(330, None, &mut heard), 320);
        assert_eq!(decoder.conceal(39, None, &mut heard), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn packets_that_were_tampered_with_are_heard_or_dropped(hits in proptest::collection::vec((0_usize..20, 0_usize..200, any::<u8>(), 0_usize..400), 1..40)) {
            let packets = packets(20);
            let mut decoder = Decoder::new().expect("a decoder");
            for (which, at, with, length) in hits {
                let mut packet = packets[which].clone();
                let at = at % packet.len();
                packet[at] ^= with;
                packet.resize(if length < 300 { packet.len() } else { length - 300 }, with);
                let mut out = Vec::new();
                let count = decoder.decode(&packet, &mut out);
                prop_assert_eq!(out.len(), count);
                decoder.conceal(320, Some(&packet), &mut out);
            }
        }

        #[test]
        fn any_bytes_are_heard_or_dropped(rubbish in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..12)) {
            let mut decoder = Decoder::new().expect("a decoder");
            for packet in rubbish {
                let mut out = Vec::new();
                let count = decoder.decode(&packet, &mut out);
                prop_assert_eq!(out.len(), count);
                decoder.conceal(320, Some(&packet), &mut out);
            }
        }
    }
}
