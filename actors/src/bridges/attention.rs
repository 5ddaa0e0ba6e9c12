//! When this process stood still. What it reads after that may have waited for it, and its sender be gone since: it counts for the
//! moment at which the process was last there. Pure.

use dikala_entities::Millis;

/// So often it is looked whether time goes on.
pub(super) const LOOK_EVERY_MS: i64 = 250;
/// Who did not look for longer than that stood still.
const STOOD_STILL_MS: i64 = 1_000;
/// After that long all that waited is read.
const SETTLES_MS: i64 = 2_000;

/// What one process noticed of the time. Who never looks by himself never stands still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attention {
    looked_at: Option<Millis>,
    still: Option<Still>,
}

/// The last time that it stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Still {
    /// What was read until then was read when it came.
    from: Millis,
    settled_at: Millis,
}

impl Attention {
    /// It looks, as it does regularly.
    pub(super) fn look(&mut self, now: Millis) {
        self.sign_at(now);
        self.looked_at = self.looked_at.max(Some(now));
    }

    /// The moment for which a sign of life counts that is read now.
    pub(super) fn sign_at(&mut self, now: Millis) -> Millis {
        if let Some(looked_at) = self.looked_at.filter(|looked_at| now > *looked_at) {
            if now.since(looked_at) > STOOD_STILL_MS {
                self.still = Some(Still {
                    // Nothing is known of the time since the last one, where that was a moment ago.
                    from: self.counts_for(looked_at),
                    settled_at: now.plus_ms(SETTLES_MS),
                });
            }
            self.looked_at = Some(now);
        }
        self.counts_for(now)
    }

    fn counts_for(&self, now: Millis) -> Millis {
        match self.still {
            Some(still) if now < still.settled_at => now.min(still.from),
            _ => now,
        }
    }

    /// Until when it may not have heard somebody who was there.
    pub(super) fn settled_at(&self) -> Option<Millis> {
        self.still.map(|still| still.settled_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Millis = Millis::from_i64(1_768_447_800_000);

    /// What signs count for that are read so many milliseconds after the beginning, one after the other. It looks every 250 ms, but
    /// for the time between these two, and looks first, or finds something to read first.
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
                // Nothing happened, or so little that a busy machine explains it.
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
                // Once more before what waited is read; and long after.
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
        assert_eq!(attention.settled_at(), None);
    }

    /// A thread that read the clock before it stood still, and says so after others have gone on.
    #[test]
    fn time_does_not_go_back() {
        let mut attention = Attention::default();
        attention.look(BEGAN);
        attention.look(BEGAN.plus_ms(10_000));
        assert_eq!(attention.sign_at(BEGAN.plus_ms(100)), BEGAN);
        assert_eq!(attention.sign_at(BEGAN.plus_ms(11_000)), BEGAN);
        assert_eq!(attention.settled_at(), Some(BEGAN.plus_ms(12_000)));
    }
}
