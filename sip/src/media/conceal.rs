//! Packet loss concealment for G.711 and G.722: repeats the last pitch period and fades it out within 60 ms (after G.711, appendix I).

/// Samples remembered: two of the longest periods. This and all lengths below are for 8 kHz.
const PAST: usize = 320;
/// Pitch range, 400 Hz to 50 Hz: shorter periods are overtones.
const LAG_MIN: usize = 20;
const LAG_MAX: usize = 160;
/// Samples after which fading begins and ends.
const FULL: usize = 80;
const GONE: usize = 480;
/// Cross-fade from concealment to real samples (4 ms).
const OVERLAP: usize = 32;

/// The concealment of one stream.
#[derive(Debug)]
pub struct Concealer {
    /// The sample rate in multiples of 8 kHz.
    scale: usize,
    past: Vec<i16>,
    /// The period that is repeated.
    period: Vec<i16>,
    /// Concealment samples since the last real one.
    made: usize,
}

impl Concealer {
    pub fn at_8_khz() -> Self {
        Self::new(1)
    }

    pub fn at_16_khz() -> Self {
        Self::new(2)
    }

    fn new(scale: usize) -> Self {
        Self {
            scale,
            past: vec![0; PAST * scale],
            period: Vec::with_capacity(LAG_MAX * scale),
            made: 0,
        }
    }

    /// Remembers received samples, and cross-fades their beginning with the concealment before.
    pub fn received(&mut self, samples: &mut [i16]) {
        if self.made > 0 {
            let overlap = (OVERLAP * self.scale).min(samples.len());
            for (n, sample) in samples[..overlap].iter_mut().enumerate() {
                *sample = blend(self.next(), *sample, n + 1, overlap + 1);
            }
            self.made = 0;
        }
        let past = self.past.len();
        if samples.len() >= past {
            self.past.copy_from_slice(&samples[samples.len() - past..]);
        } else {
            self.past.copy_within(samples.len().., 0);
            self.past[past - samples.len()..].copy_from_slice(samples);
        }
    }

    /// Appends this many concealment samples.
    pub fn lost(&mut self, count: usize, out: &mut Vec<i16>) {
        if self.made == 0 {
            self.find_period();
        }
        for _ in 0..count {
            let sample = self.next();
            out.push(sample);
        }
    }

    fn next(&mut self) -> i16 {
        let sample = self.period[self.made % self.period.len()];
        let gain = GONE.saturating_sub(self.made / self.scale).min(GONE - FULL);
        self.made += 1;
        blend(0, sample, gain, GONE - FULL)
    }

    /// Finds the last period, and blends its end into its beginning.
    fn find_period(&mut self) {
        let lag = pitch(&self.past, self.scale);
        let begins = self.past.len() - lag;
        self.period.clear();
        self.period.extend_from_slice(&self.past[begins..]);
        let quarter = lag / 4;
        let before = &self.past[begins - quarter..begins];
        let bent = &mut self.period[lag - quarter..];
        for (n, (sample, before)) in bent.iter_mut().zip(before).enumerate() {
            *sample = blend(*sample, *before, n + 1, quarter + 1);
        }
    }
}

/// Linear interpolation at `n / all`.
fn blend(from: i16, to: i16, n: usize, all: usize) -> i16 {
    let (n, all) = (n as i32, all as i32);
    ((i32::from(from) * (all - n) + i32::from(to) * n) / all) as i16
}

/// The lag with the highest autocorrelation.
fn pitch(past: &[i16], scale: usize) -> usize {
    let (min, max) = (LAG_MIN * scale, LAG_MAX * scale);
    let last = &past[past.len() - max..];
    let likeness = |lag: usize| {
        let earlier = &past[past.len() - max - lag..past.len() - lag];
        let product: i64 = last
            .iter()
            .zip(earlier)
            .map(|(a, b)| i64::from(*a) * i64::from(*b))
            .sum();
        let energy: i64 = earlier.iter().map(|b| i64::from(*b) * i64::from(*b)).sum();
        // The square of at most 320 · 2³⁰ fits into `i128`. It is divided by the energy, to normalise it.
        let product = i128::from(product.max(0));
        product * product / i128::from(energy.max(1))
    };
    (min..=max).max_by_key(|lag| likeness(*lag)).unwrap_or(max)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_arithmetic, reason = "sines are what is listened to")]

    use proptest::prelude::*;

    use super::{Concealer, GONE};

    fn tone(count: usize) -> Vec<i16> {
        // 150 Hz with an overtone, like a voice.
        let at = |n: usize| {
            let angle = std::f64::consts::TAU * 150.0 * n as f64 / 8_000.0;
            (8_000.0 * angle.sin() + 3_000.0 * (3.0 * angle).sin()) as i16
        };
        (0..count).map(at).collect()
    }

    #[test]
    fn a_voice_goes_on_as_it_was_and_fades() {
        let all = tone(1_600);
        let mut concealer = Concealer::at_8_khz();
        concealer.received(&mut all[..640].to_vec());
        let mut made = Vec::new();
        concealer.lost(GONE + 10, &mut made);
        for (made, real) in made.iter().zip(&all[640..720]) {
            assert!(
                (i32::from(*made) - i32::from(*real)).abs() < 2_500,
                "{made} for {real}"
            );
        }
        assert!(made[GONE..].iter().all(|sample| *sample == 0));
        let loudest = |part: &[i16]| part.iter().map(|sample| sample.unsigned_abs()).max();
        assert!(loudest(&made[..80]) > loudest(&made[200..280]));
        assert!(loudest(&made[200..280]) > loudest(&made[360..440]));
    }

    #[test]
    fn no_step_is_larger_than_in_the_voice_itself() {
        let all = tone(1_600);
        let steepest = |samples: &[i16]| {
            samples
                .windows(2)
                .map(|pair| (i32::from(pair[1]) - i32::from(pair[0])).abs())
                .max()
                .unwrap_or(0)
        };
        let mut concealer = Concealer::at_8_khz();
        let mut heard = all[..640].to_vec();
        concealer.received(&mut heard.clone());
        concealer.lost(160, &mut heard);
        let mut after = all[800..].to_vec();
        concealer.received(&mut after);
        heard.extend(after);
        assert!(
            steepest(&heard) <= steepest(&all) * 3 / 2,
            "{} of {}",
            steepest(&heard),
            steepest(&all)
        );
    }

    #[test]
    fn at_16_khz_a_voice_sounds_as_it_does_at_8() {
        let all = tone(1_600);
        let twice = |samples: &[i16]| -> Vec<i16> {
            samples.iter().flat_map(|sample| [*sample; 2]).collect()
        };
        let (mut narrow, mut wide) = (Concealer::at_8_khz(), Concealer::at_16_khz());
        narrow.received(&mut all[..640].to_vec());
        wide.received(&mut twice(&all[..640]));
        let (mut made, mut made_wide) = (Vec::new(), Vec::new());
        narrow.lost(GONE, &mut made);
        wide.lost(2 * GONE, &mut made_wide);
        for (made, wide) in made.iter().zip(made_wide.chunks(2)) {
            assert!(made.abs_diff(wide[0]) < 1_500, "{made} {wide:?}");
        }
    }

    proptest! {
        #[test]
        fn any_samples_and_any_losses_are_made_up(
            parts in proptest::collection::vec((proptest::collection::vec(any::<i16>(), 0..500), 0_usize..600), 0..8),
        ) {
            let mut concealer = Concealer::at_8_khz();
            for (mut samples, lost) in parts {
                concealer.received(&mut samples);
                let mut made = Vec::new();
                concealer.lost(lost, &mut made);
                prop_assert_eq!(made.len(), lost);
            }
        }
    }
}
