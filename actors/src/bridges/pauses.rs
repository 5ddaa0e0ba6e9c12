//! Detects pauses of this process. What it reads after one may have waited, and its sender may be gone. So a sign of life
//! counts for the time before the pause. Pure.

use std::collections::VecDeque;

use dikala_entities::Millis;

/// Interval of the periodic check.
pub(super) const CHECK_EVERY_MS: i64 = 250;
/// A longer interval between checks is a pause.
const PAUSE_MS_MIN: i64 = 1_000;
/// After that time everything that waited has been read.
const SETTLES_MS: i64 = 2_000;
/// Number of remembered pauses.
const REMEMBERED: usize = 64;

/// Detects pauses of this process. Without the periodic check none is ever reported.
#[derive(Debug, Default)]
pub(super) struct PauseDetector {
    checked_at: Option<Millis>,
    /// The pauses, oldest first.
    pauses: VecDeque<Pause>,
}

/// A pause, or several without known activity between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pause {
    /// Until this time, input was read when it arrived.
    from: Millis,
    settled_at: Millis,
}

impl PauseDetector {
    /// The periodic check.
    pub(super) fn check(&mut self, now: Millis) {
        self.sign_at(now);
        self.checked_at = self.checked_at.max(Some(now));
    }

    /// The time to record for a sign of life read now.
    pub(super) fn sign_at(&mut self, now: Millis) -> Millis {
        if let Some(checked_at) = self.checked_at.filter(|checked_at| now > *checked_at) {
            if now.since(checked_at) > PAUSE_MS_MIN {
                self.record(checked_at, now.plus_ms(SETTLES_MS));
            }
            self.checked_at = Some(now);
        }
        self.counts_for(now)
    }

    fn record(&mut self, from: Millis, settled_at: Millis) {
        match self.pauses.back_mut() {
            // Nothing is known of the time between the two.
            Some(last) if from < last.settled_at => last.settled_at = settled_at,
            _ => self.pauses.push_back(Pause { from, settled_at }),
        }
        if self.pauses.len() > REMEMBERED {
            self.pauses.pop_front();
        }
    }

    fn counts_for(&self, now: Millis) -> Millis {
        match self.pauses.back() {
            Some(pause) if now < pause.settled_at => now.min(pause.from),
            _ => now,
        }
    }

    /// True if what is read now may have waited.
    pub(super) fn is_settling(&self, now: Millis) -> bool {
        let last = self.pauses.back();
        last.is_some_and(|pause| now < pause.settled_at)
    }

    /// Milliseconds since `at` in which this process may not have heard a bridge.
    pub(super) fn unheard_ms_since(&self, at: Millis) -> i64 {
        let since = |pause: &Pause| pause.settled_at.since(pause.from.max(at)).max(0);
        self.pauses.iter().map(since).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Millis = Millis::from_i64(1_768_447_800_000);

    /// The recorded times of signs of life read at these milliseconds after the start. It checks every 250 ms except during
    /// pauses, before or after reading at the same time.
    fn counted<const N: usize>(
        pause: &[(i64, i64)],
        read: [i64; N],
        checks_first: bool,
    ) -> [i64; N] {
        let mut detector = PauseDetector::default();
        let is_paused = |at| pause.iter().any(|(from, to)| (*from..*to).contains(&at));
        let mut counted = read.map(|_| 0);
        for at in (0..120_000).filter(|at| !is_paused(*at)) {
            let now = BEGAN.plus_ms(at);
            let checks = at % CHECK_EVERY_MS == 0 || pause.iter().any(|(_, to)| *to == at);
            if checks && checks_first {
                detector.check(now);
            }
            if let Some(which) = read.iter().position(|read| *read == at) {
                counted[which] = detector.sign_at(now).since(BEGAN);
            }
            if checks && !checks_first {
                detector.check(now);
            }
        }
        counted
    }

    #[test]
    fn input_that_waited_counts_for_the_time_before_the_pause() {
        for checks_first in [true, false] {
            for (pause, read, counts) in [
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
                    counted(pause, read, checks_first),
                    counts,
                    "{pause:?}, checks first: {checks_first}"
                );
            }
        }
    }

    #[test]
    fn without_the_periodic_check_no_pause_is_reported() {
        let mut detector = PauseDetector::default();
        for at in [0, 60_000, 600_000] {
            let now = BEGAN.plus_ms(at);
            assert_eq!(detector.sign_at(now), now);
        }
        assert_eq!(detector.unheard_ms_since(Millis::MIN), 0);
        assert!(!detector.is_settling(BEGAN));
    }

    /// A thread reads the clock before a pause and reports it after others have gone on.
    #[test]
    fn time_does_not_go_back() {
        let mut detector = PauseDetector::default();
        detector.check(BEGAN);
        detector.check(BEGAN.plus_ms(10_000));
        assert_eq!(detector.sign_at(BEGAN.plus_ms(100)), BEGAN);
        assert_eq!(detector.sign_at(BEGAN.plus_ms(11_000)), BEGAN);
        assert_eq!(detector.unheard_ms_since(BEGAN), 12_000);
    }

    /// The silence of a lost bridge exceeds the unheard time, however many pauses there are.
    #[test]
    fn only_unheard_time_is_excused() {
        let mut detector = PauseDetector::default();
        let mut now = BEGAN;
        for _ in 0..1_000 {
            for _ in 0..40 {
                detector.check(now);
                now = now.plus_ms(CHECK_EVERY_MS);
            }
            now = now.plus_ms(1_500);
        }
        detector.check(now);
        assert!(detector.is_settling(now) && !detector.is_settling(now.plus_ms(SETTLES_MS)));
        // Per cycle of 11.5 s: the pause of 1.5 s, the time to settle, and up to one check before.
        let since = now.plus_ms(-60_000);
        let unheard = detector.unheard_ms_since(since);
        assert!((18_000..24_000).contains(&unheard), "{unheard}");
        assert!(detector.pauses.len() <= REMEMBERED);
    }
}
