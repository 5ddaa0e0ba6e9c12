//! The caller's audio that waits for a connection to the model.

use std::collections::VecDeque;

use dikala_sip::leg::CALLER_RATE;

/// At most 3 s are kept: an answer to older speech would no longer fit.
const MOST: usize = CALLER_RATE as usize * 3;
/// One message carries 40 ms at most.
const STEP: usize = CALLER_RATE as usize / 25;

#[derive(Debug, Default)]
pub(in crate::voice) struct HeldAudio {
    samples: VecDeque<i16>,
}

impl HeldAudio {
    pub(in crate::voice) fn push(&mut self, samples: &[i16]) {
        let samples = &samples[samples.len().saturating_sub(MOST)..];
        let beyond = (self.samples.len() + samples.len()).saturating_sub(MOST);
        self.samples.drain(..beyond);
        self.samples.extend(samples);
    }

    /// Takes everything, in steps, oldest first.
    pub(in crate::voice) fn take(&mut self) -> Vec<Vec<i16>> {
        let samples: Vec<i16> = std::mem::take(&mut self.samples).into();
        steps(&samples)
    }
}

/// Splits audio into pieces that fit into a message.
pub(in crate::voice) fn steps(samples: &[i16]) -> Vec<Vec<i16>> {
    samples.chunks(STEP).map(<[i16]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::HeldAudio;

    #[test]
    fn the_newest_three_seconds_are_kept_in_order() {
        let mut held = HeldAudio::default();
        for second in 0..5 {
            held.push(&vec![second; 16_000]);
        }
        let steps = held.take();
        assert!(steps.iter().all(|step| step.len() <= 640));
        let samples: Vec<i16> = steps.concat();
        assert_eq!(samples.len(), 48_000);
        assert_eq!((samples[0], samples[47_999]), (2, 4));
        assert!(held.take().is_empty());
        held.push(&vec![7; 100_000]);
        assert_eq!(held.take().concat().len(), 48_000);
    }
}
