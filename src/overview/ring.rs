//! The samples of the last seconds in a fixed-size buffer. Pure.

use std::collections::VecDeque;

use super::{
    counters::{CounterWindow, WINDOW_MS},
    sample::OverviewSample,
};

/// Maximum number of samples: one per second of the window, and some for extra samples.
const SAMPLES: usize = 32;

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
        let begin = after.at.plus_ms(-WINDOW_MS);
        let in_it = self.0.iter().find(|sample| sample.at >= begin);
        let before = in_it.filter(|sample| sample.at < after.at)?;
        Some(SampleWindow { before, after })
    }
}

impl<'a> SampleWindow<'a> {
    /// The increase of a counter.
    pub fn grew(self, count: impl Fn(&OverviewSample) -> u64) -> i64 {
        let grew = count(self.after).saturating_sub(count(self.before));
        i64::try_from(grew).unwrap_or(i64::MAX)
    }

    /// The window of the figures' counters.
    pub fn counters(self) -> CounterWindow<'a> {
        CounterWindow {
            before: &self.before.counters,
            after: &self.after.counters,
        }
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
    fn the_window_is_the_last_ten_seconds() {
        let mut ring = SampleRing::default();
        for second in 0..2_000_i64 {
            ring.push(OverviewSample {
                requests: second.unsigned_abs(),
                ..sample(second * 1_000)
            });
        }
        assert_eq!(ring.0.len(), SAMPLES);
        let next = OverviewSample {
            requests: 2_000,
            ..sample(2_000_000)
        };
        let window = ring.window(&next).expect("ten seconds");
        assert_eq!(window.grew(|sample| sample.requests), 10);
        // A clock that went back clears the ring.
        ring.push(sample(0));
        assert_eq!(ring.0.len(), 1);
        assert!(ring.window(&next).is_none());
    }
}
