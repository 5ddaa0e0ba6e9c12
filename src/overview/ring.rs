//! The samples of the last ten minutes in a fixed-size buffer. Pure.

use std::collections::VecDeque;

use dikala_actors::runtime::histogram::Distribution;

use super::sample::OverviewSample;

/// Number of steps in a figure's history.
pub const STEPS: usize = 60;
/// Duration of a step, in milliseconds.
pub const STEP_MS: i64 = 10_000;
/// Maximum number of samples: one per second, and some for extra samples.
const SAMPLES: usize = 620;
/// Time for which a sample is valid, in milliseconds.
const STANDS_MS: i64 = 5_000;

#[derive(Debug, Default)]
pub struct SampleRing(VecDeque<OverviewSample>);

/// Two samples and the time between them.
#[derive(Clone, Copy, Debug)]
pub struct SampleWindow<'a> {
    before: &'a OverviewSample,
    after: &'a OverviewSample,
}

impl SampleRing {
    /// Adds a sample and drops the oldest if necessary.
    pub fn push(&mut self, sample: OverviewSample) {
        // The clock went back, for example after the machine slept.
        if self.0.back().is_some_and(|last| last.at > sample.at) {
            self.0.clear();
        }
        if self.0.len() >= SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn last(&self) -> Option<&OverviewSample> {
        self.0.back()
    }

    /// The window that ends with `after`, a sample that is not in the ring yet.
    pub fn window<'a>(&'a self, after: &'a OverviewSample) -> Option<SampleWindow<'a>> {
        let begin = after.at.plus_ms(-STEP_MS);
        let in_it = self.0.iter().find(|sample| sample.at >= begin);
        let before = in_it.filter(|sample| sample.at < after.at)?;
        Some(SampleWindow { before, after })
    }

    /// Per step, oldest first: the sample at its end, and the window over it.
    pub fn steps(&self) -> Vec<(Option<&OverviewSample>, Option<SampleWindow<'_>>)> {
        let Some(last) = self.last() else {
            return vec![(None, None); STEPS];
        };
        let ends = (0..STEPS).rev().map(|back| {
            let back = i64::try_from(back).unwrap_or(0).saturating_mul(STEP_MS);
            last.at.plus_ms(-back)
        });
        ends.map(|end| {
            let at_end = self.at(end);
            let before = self.at(end.plus_ms(-STEP_MS));
            let window = before
                .zip(at_end)
                .filter(|(before, after)| before.at < after.at);
            let window = window.map(|(before, after)| SampleWindow { before, after });
            (at_end, window)
        })
        .collect()
    }

    /// The sample that was valid at a time.
    fn at(&self, moment: dikala_entities::Millis) -> Option<&OverviewSample> {
        let next = self.0.partition_point(|sample| sample.at <= moment);
        let sample = self.0.get(next.checked_sub(1)?)?;
        (moment.since(sample.at) < STANDS_MS).then_some(sample)
    }
}

impl SampleWindow<'_> {
    /// The increase of a counter.
    pub fn grew(self, count: impl Fn(&OverviewSample) -> u64) -> i64 {
        let grew = count(self.after).saturating_sub(count(self.before));
        i64::try_from(grew).unwrap_or(i64::MAX)
    }

    /// The increase per second, in thousandths.
    pub fn per_second(self, count: impl Fn(&OverviewSample) -> u64) -> i64 {
        let ms = self.after.at.since(self.before.at).max(1);
        self.grew(count).saturating_mul(1_000_000) / ms
    }

    /// The distribution of the values within the window.
    pub fn distributed(self, of: impl Fn(&OverviewSample) -> &Distribution) -> Distribution {
        of(self.after).minus(of(self.before))
    }

    /// The increase of an actor's counter.
    fn grew_of_actor(self, name: &str, count: impl Fn(&super::sample::ActorSample) -> u64) -> i64 {
        self.grew(|sample| {
            let of_it = sample.actors.iter().find(|actor| actor.name == name);
            of_it.map_or(0, &count)
        })
    }

    /// Rate of lost messages of an actor, in thousandths per second.
    pub fn lost_rate(self, name: &str) -> i64 {
        let ms = self.after.at.since(self.before.at).max(1);
        let lost = self.grew_of_actor(name, |actor| actor.lost);
        lost.saturating_mul(1_000_000) / ms
    }

    /// Rate of handled messages of an actor, in thousandths per second.
    pub fn rate_of_actor(self, name: &str) -> i64 {
        let ms = self.after.at.since(self.before.at).max(1);
        self.grew_of_actor(name, |actor| actor.handled)
            .saturating_mul(1_000_000)
            / ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::sample::tests::sample;

    #[test]
    fn nothing_is_known_of_a_time_that_nobody_looked_at() {
        let mut ring = SampleRing::default();
        assert!(ring.steps().iter().all(|(state, _)| state.is_none()));
        for second in 0..=12_i64 {
            ring.push(OverviewSample {
                over: second.unsigned_abs(),
                ..sample(second * 1_000)
            });
        }
        let steps = ring.steps();
        assert_eq!(steps.len(), STEPS);
        let window = steps[STEPS - 1].1.expect("ten seconds");
        assert_eq!(window.grew(|sample| sample.over), 10);
        assert_eq!(window.per_second(|sample| sample.over), 1_000);
        assert!(steps[STEPS - 2].0.is_some() && steps[STEPS - 2].1.is_none());
        assert!(steps[STEPS - 3].0.is_none());
    }

    #[test]
    fn it_stays_as_long_as_it_is() {
        let mut ring = SampleRing::default();
        for n in 0..2_000 {
            ring.push(sample(n * 1_000));
        }
        assert_eq!(ring.0.len(), SAMPLES);
        assert!(ring.steps().iter().all(|(_, window)| window.is_some()));
        // A clock that went back clears the ring.
        ring.push(sample(0));
        assert_eq!(ring.0.len(), 1);
    }
}
