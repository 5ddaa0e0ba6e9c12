//! Detects speech by loudness alone.

/// Mean level of a loud step: far above line noise, far below speech.
const LOUD_MEAN: u64 = 400;
/// The least duration of a word, and of the silence that ends it.
const WORD_MS: u64 = 200;
const PAUSE_MS: u64 = 800;
/// Samples per millisecond.
const PER_MS: u64 = dikala_sip::leg::CALLER_RATE as u64 / 1_000;

#[derive(Debug, Default)]
pub(super) struct SpeechDetector {
    loud_ms: u64,
    quiet_ms: u64,
    is_in_word: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpeechActivity {
    Nothing,
    /// The caller has begun to speak.
    Began,
    /// The caller has spoken, and is silent.
    Ended,
}

impl SpeechDetector {
    pub(super) fn listen(&mut self, samples: &[i16]) -> SpeechActivity {
        let count = samples.len() as u64;
        let sum: u64 = samples.iter().map(|at| u64::from(at.unsigned_abs())).sum();
        let ms = count / PER_MS;
        if sum >= LOUD_MEAN * count.max(1) {
            self.loud_ms += ms;
            self.quiet_ms = 0;
        } else {
            self.quiet_ms += ms;
            if self.quiet_ms >= WORD_MS {
                self.loud_ms = 0;
            }
        }
        if !self.is_in_word && self.loud_ms >= WORD_MS {
            self.is_in_word = true;
            return SpeechActivity::Began;
        }
        if self.is_in_word && self.quiet_ms >= PAUSE_MS {
            *self = Self::default();
            return SpeechActivity::Ended;
        }
        SpeechActivity::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(steps: &[(i16, usize)]) -> Vec<SpeechActivity> {
        let mut detector = SpeechDetector::default();
        let steps = steps
            .iter()
            .flat_map(|(loudness, ms)| std::iter::repeat_n(*loudness, ms / 20));
        steps
            .map(|loudness| detector.listen(&[loudness; 320]))
            .filter(|sound| *sound != SpeechActivity::Nothing)
            .collect()
    }

    #[test]
    fn words_are_heard_and_noise_is_not() {
        let word = [SpeechActivity::Began, SpeechActivity::Ended];
        assert_eq!(heard(&[(0, 500), (3_000, 600), (20, 1_000)]), word);
        // A breath between syllables does not end a word.
        assert_eq!(
            heard(&[(3_000, 300), (0, 300), (3_000, 300), (0, 900)]),
            word
        );
        assert!(heard(&[(150, 5_000)]).is_empty());
        assert!(heard(&[(9_000, 60), (0, 500), (9_000, 60), (0, 2_000)]).is_empty());
    }
}
