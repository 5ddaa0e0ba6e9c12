//! The bits are those of the recommendation, and any bytes are heard.

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::{G722Decoder, G722Encoder};

fn random(seed: u32) -> impl Iterator<Item = u32> {
    let next = |state: &u32| Some(state.wrapping_mul(1_103_515_245).wrapping_add(12_345));
    std::iter::successors(Some(seed), next).skip(1)
}

/// Two seconds of a saw and noise, from full scale to near silence.
fn samples() -> Vec<i16> {
    let sample = |(n, noise): (i32, u32)| {
        let noise = i32::from((noise >> 16) as u16 as i16) >> (n / 2_000 % 16);
        let saw = ((n * 601) % 32_768 - 16_384) >> (n / 4_000 % 12);
        ((noise + saw) >> 1) as i16
    };
    (0..32_000).zip(random(1)).map(sample).collect()
}

fn digest(bytes: impl IntoIterator<Item = u8>) -> String {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    hex::encode(Sha256::digest(bytes))
}

fn decoded(bytes: &[u8]) -> Vec<i16> {
    let mut out = Vec::new();
    G722Decoder::default().decode(bytes, &mut out);
    out
}

fn encoded(samples: &[i16]) -> Vec<u8> {
    let mut out = Vec::new();
    G722Encoder::default().encode(samples, &mut out);
    out
}

/// The digests are those of the same input in libg722 (the Python package G722 1.2.8).
#[test]
fn the_bits_are_those_of_libg722() {
    let bytes = encoded(&samples());
    assert_eq!(
        digest(bytes.iter().copied()),
        "27477b3d4b7d4c7e54476cff96d5b70cc967bd98d955e73ffe49fe27ba105302"
    );
    let flat = |samples: Vec<i16>| digest(samples.into_iter().flat_map(i16::to_le_bytes));
    assert_eq!(
        flat(decoded(&bytes)),
        "008e4023640786dc10d794e743c673c3db9e74616e837f834dd114e68c4e05b8"
    );
    let rubbish: Vec<u8> = random(7).take(32_000).map(|n| (n >> 24) as u8).collect();
    assert_eq!(
        flat(decoded(&rubbish)),
        "2a5a988e760dfee27b65f3e77747451bfd7ed51b2cfd2441239dc76b8c2abc6f"
    );
}

/// A tone of 5 kHz needs the higher band.
#[test]
fn tones_of_both_bands_are_heard_as_loud_as_they_were() {
    for half in [1, 2, 8, 40] {
        let square = |n: usize| {
            if (n / half).is_multiple_of(2) {
                8_000
            } else {
                -8_000
            }
        };
        let said: Vec<i16> = (0..16_000).map(square).collect();
        let heard = decoded(&encoded(&said));
        let energy = |samples: &[i16]| samples.iter().map(|it| i64::from(*it).pow(2)).sum::<i64>();
        let (before, after) = (energy(&said[8_000..]), energy(&heard[8_000..]));
        // At 8 kHz the filter lets half of it pass.
        assert!(
            after > before / 3 && after < before * 5 / 4,
            "{half}: {before} {after}"
        );
    }
}

proptest! {
    #[test]
    fn any_samples_and_any_bytes_are_taken(
        samples in proptest::collection::vec(prop_oneof![any::<i16>(), Just(i16::MIN), Just(i16::MAX)], 0..2_000),
        bytes in proptest::collection::vec(any::<u8>(), 0..1_000),
    ) {
        prop_assert_eq!(encoded(&samples).len(), samples.len() / 2);
        prop_assert_eq!(decoded(&bytes).len(), bytes.len() * 2);
    }
}
