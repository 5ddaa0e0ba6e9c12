//! Detects pauses of this process. What it reads after one may have waited, and its sender may be gone. So a sign of life
//! counts for the time before the pause. Pure.

use std::collections::VecDeque;

use dikala_entities::Millis;

/// Interval of the periodic check.
pub(super) const LOOK_EVERY_MS: i64 = 250;
/// A longer interval between checks is a pause.
const STOOD_STILL_MS: i64 = 1_000;
/// After that time everything that waited has been read.
const SETTLES_MS: i64 = 2_000;
/// Number of remembered pauses.
const REMEMBERED: usize = 64;

/// Detects pauses of this process. Without the periodic check none is ever reported.
#[derive(Debug, Default)]
pub(super) struct Attention {
    looked_at: Option<Millis>,
    /// The pauses, oldest first.
    stills: VecDeque<Still>,
}

/// A pause, or several without known activity between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Still {
    /// Until this time, input was read when it arrived.
    from: Millis,
    settled_at: Millis,
}

impl Attention {
    /// The periodic check.
    pub(super) fn look(&mut self, now: Millis) {
        self.sign_at(now);
        self.looked_at = self.looked_at.max(Some(now));
    }

    /// The time to record for a sign of life read now.
    pub(super) fn sign_at(&mut self, now: Millis) -> Millis {
        if let Some(looked_at) = self.looked_at.filter(|looked_at| now > *looked_at) {
            if now.since(looked_at) > STOOD_STILL_MS {
                self.stood_still(looked_at, now.plus_ms(SETTLES_MS));
            }
            self.looked_at = Some(now);
        }
        self.counts_for(now)
    }

    fn stood_still(&mut self, from: Millis, settled_at: Millis) {
        match self.stills.back_mut() {
            // Nothing is known of the time between the two.
            Some(last) if from < last.settled_at => last.settled_at = settled_at,
            _ => self.stills.push_back(Still { from, settled_at }),
        }
        if self.stills.len() > REMEMBERED {
            self.stills.pop_front();
        }
    }

    fn counts_for(&self, now: Millis) -> Millis {
        match self.stills.back() {
            Some(still) if now < still.settled_at => now.min(still.from),
            _ => now,
        }
    }

    /// True if what is read now may have waited.
    pub(super) fn is_settling(&self, now: Millis) -> bool {
        let last = self.stills.back();
        last.is_some_and(|still| now < still.settled_at)
    }

    /// Milliseconds since `at` in which this process may not have heard a bridge.
    pub(super) fn unheard_ms_since(&self, at: Millis) -> i64 {
        let since = |still: &Still| still.settled_at.since(still.from.max(at)).max(0);
        self.stills.iter().map(since).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Millis = Millis::from_i64(1_768_447_800_000);

    /// The recorded times of signs of life read at these milliseconds after the start. It checks every 250 ms except during
    /// pauses, before or after reading at the same time.
    fn counted<const N: usize>(
        still: &[(i64, i64)],
        read: [i64; N],
        looks_first: bool,
    ) -> [i64; N] {
        let mut attention = Attention::default();
        let stands_still = |at| still.iter().any(|(from, to)| (*from..*to).contains(&at));
        let mut counted = read.map(|_| 0);
        for at in (0..120_000).filter(|at| !stands_still(*at)) {
            let now = BEGAN.plus_ms(at);
            let looks = at % LOOK_EVERY_MS == 0 || still.iter().any(|(_, to)| *to == at);
            if looks && looks_first {
                attention.look(now);
            }
            if let Some(which) = read.iter().position(|read| *read == at) {
                counted[which] = attention.sign_at(now).since(BEGAN);
            }
            if looks && !looks_first {
                attention.look(now);
            }
        }
        counted
    }

    #[test]
    fn what_waited_counts_for_the_moment_before() {
        for looks_first in [true, false] {
            for (still, read, counts) in [
                // No pause, or one so short that a busy machine explains it.
                (&[][..], [1_000, 60_001, 90_000], [1_000, 60_001, 90_000]),
                (
                    &[(5_100, 5_900)],
                    [5_000, 5_900, 6_000],
                    [5_000, 5_900, 6_000],
                ),
                (
                    &[(5_100, 11_000)],
                    [5_050, 11_000, 12_999],
                    [5_050, 5_050, 5_050],
                ),
                (
                    &[(5_100, 11_000)],
                    [11_001, 13_000, 13_001],
                    [5_000, 13_000, 13_001],
                ),
                (
                    &[(5_100, 65_000)],
                    [5_099, 65_000, 68_000],
                    [5_099, 5_099, 68_000],
                ),
                // A second pause before what waited is read, and one long after.
                (
                    &[(5_100, 11_000), (12_000, 20_000)],
                    [11_500, 20_500, 22_000],
                    [5_000, 5_000, 22_000],
                ),
                (
                    &[(5_100, 11_000), (14_000, 20_000)],
                    [13_500, 20_500, 22_000],
                    [13_500, 13_750, 22_000],
                ),
            ] {
                assert_eq!(
                    counted(still, read, looks_first),
                    counts,
                    "{still:?}, looks first: {looks_first}"
                );
            }
        }
    }

    #[test]
    fn who_does_not_look_says_nothing_of_it() {
        let mut attention = Attention::default();
        for at in [0, 60_000, 600_000] {
            let now = BEGAN.plus_ms(at);
            assert_eq!(attention.sign_at(now), now);
        }
        assert_eq!(attention.unheard_ms_since(Millis::MIN), 0);
        assert!(!attention.is_settling(BEGAN));
    }

    /// A thread reads the clock before a pause and reports it after others have gone on.
    #[test]
    fn time_does_not_go_back() {
        let mut attention = Attention::default();
        attention.look(BEGAN);
        attention.look(BEGAN.plus_ms(10_000));
        assert_eq!(attention.sign_at(BEGAN.plus_ms(100)), BEGAN);
        assert_eq!(attention.sign_at(BEGAN.plus_ms(11_000)), BEGAN);
        assert_eq!(attention.unheard_ms_since(BEGAN), 12_000);
    }

    /// The silence of a lost bridge exceeds the unheard time, however many pauses there are.
    #[test]
    fn only_the_time_in_which_it_was_deaf_is_given_back() {
        let mut attention = Attention::default();
        let mut now = BEGAN;
        for _ in 0..1_000 {
            for _ in 0..40 {
                attention.look(now);
                now = now.plus_ms(LOOK_EVERY_MS);
            }
            now = now.plus_ms(1_500);
        }
        attention.look(now);
        assert!(attention.is_settling(now) && !attention.is_settling(now.plus_ms(SETTLES_MS)));
        // Per cycle of 11.5 s: the pause of 1.5 s, the time to settle, and up to one check before.
        let since = now.plus_ms(-60_000);
        let unheard = attention.unheard_ms_since(since);
        assert!((18_000..24_000).contains(&unheard), "{unheard}");
        assert!(attention.stills.len() <= REMEMBERED);
    }
}
