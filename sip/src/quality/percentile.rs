//! The 95th percentile of jitter, from counts of whole milliseconds. Pure.

/// Values from this one on count as one.
const CLASSES: usize = 256;

/// Counts of jitter values.
#[derive(Debug)]
pub struct JitterSamples(Box<[u32; CLASSES]>);

impl Default for JitterSamples {
    fn default() -> Self {
        Self(Box::new([0; CLASSES]))
    }
}

impl JitterSamples {
    pub fn add(&mut self, ms: u32) {
        let class = usize::try_from(ms).map_or(CLASSES - 1, |ms| ms.min(CLASSES - 1));
        self.0[class] = self.0[class].saturating_add(1);
    }

    /// The lowest value that 95 % of all do not exceed, in milliseconds, at most 255; `None` without values.
    pub fn p95(&self) -> Option<u32> {
        let all: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let wanted = (95 * all).div_ceil(100).max(1);
        let mut seen = 0;
        let class = self.0.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        class.and_then(|class| u32::try_from(class).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_twentieth_does_not_count() {
        let of = |values: &[u32]| {
            let mut samples = JitterSamples::default();
            values.iter().for_each(|ms| samples.add(*ms));
            samples.p95()
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some(7));
        assert_eq!(of(&(1..=100).collect::<Vec<_>>()), Some(95));
        assert_eq!(of(&[vec![2; 95], vec![900; 5]].concat()), Some(2));
        assert_eq!(of(&[vec![2; 94], vec![900; 6]].concat()), Some(255));
    }
}
