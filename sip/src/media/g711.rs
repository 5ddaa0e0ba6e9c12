//! G.711, A-law and µ-law.

use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Law {
    A,
    Mu,
}

impl Law {
    pub fn decode(self, bytes: &[u8], out: &mut Vec<i16>) {
        match self {
            Self::A => out.extend(bytes.iter().map(|byte| decode_alaw(*byte))),
            Self::Mu => out.extend(bytes.iter().map(|byte| decode_ulaw(*byte))),
        }
    }

    pub fn encode(self, samples: &[i16], out: &mut Vec<u8>) {
        match self {
            Self::A => out.extend(samples.iter().map(|sample| encode_alaw(*sample))),
            Self::Mu => out.extend(samples.iter().map(|sample| encode_ulaw(*sample))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Law;

    fn decoded(law: Law, byte: u8) -> i16 {
        let mut out = Vec::new();
        law.decode(&[byte], &mut out);
        out[0]
    }

    /// G.711, tables 1a and 2a: the decoder's outputs at the ends of the segments, scaled to 16 bits.
    #[test]
    fn the_values_of_the_recommendation() {
        let a = [
            (0xd5, 8),
            (0x55, -8),
            (0xaa, 32_256),
            (0x2a, -32_256),
            (0xc5, 264),
            (0xf5, 528),
            (0xe5, 1_056),
            (0x95, 2_112),
        ];
        for (byte, sample) in a {
            assert_eq!(decoded(Law::A, byte), sample, "A {byte:#x}");
        }
        let mu = [
            (0xff, 0),
            (0x7f, 0),
            (0x80, 32_124),
            (0x00, -32_124),
            (0xef, 132),
            (0xdf, 396),
            (0xcf, 924),
            (0x8f, 16_764),
        ];
        for (byte, sample) in mu {
            assert_eq!(decoded(Law::Mu, byte), sample, "mu {byte:#x}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        for law in [Law::A, Law::Mu] {
            for byte in 0..=u8::MAX {
                let mut back = Vec::new();
                law.encode(&[decoded(law, byte)], &mut back);
                // µ-law has a negative zero.
                assert!(
                    back == [byte] || (byte == 0x7f && back == [0xff]),
                    "{law:?} {byte:#x}"
                );
            }
        }
    }

    #[test]
    fn every_sample_is_near() {
        for law in [Law::A, Law::Mu] {
            for sample in i16::MIN..=i16::MAX {
                let mut bytes = Vec::new();
                law.encode(&[sample], &mut bytes);
                let error = (i32::from(decoded(law, bytes[0])) - i32::from(sample)).abs();
                let allowed = i32::from(sample).abs() / 16 + 16;
                assert!(error <= allowed.min(700), "{law:?} {sample}: {error}");
            }
        }
    }
}
