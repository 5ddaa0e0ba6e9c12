//! The process's clock follows the wall clock: not when that jumps, slowly when it drifts. Pure.
//!
//! A timeline starts with the wall clock and runs on the monotonic clock. A step of the wall clock (it was set) is
//! noted but not followed, so no interval between two instants changes. Drift is followed at [`SLEW_PPM_MAX`] at
//! most, until it is gone; an interval is then wrong by half a millisecond a second.
//!
//! If several processes share a database, the database's clock takes the wall clock's place: the timeline starts with
//! it and follows its drift. So the processes agree on the time, whatever their machines' clocks show.

/// Maximum rate of following a drift, in parts per million of the elapsed time: 1.8 s an hour.
pub(super) const SLEW_PPM_MAX: i64 = 500;
/// A larger difference that appears between two readings of the wall clock is a step, in microseconds.
pub(super) const STEP_US_MIN: i64 = 500_000;
/// Pause between two readings of the wall clock, in microseconds of monotonic time.
pub(super) const LOOK_EVERY_US: i64 = 1_000_000;
/// The rate is chosen so that a drift would be gone after this time, if the maximum allows, in seconds.
const FOLLOW_WITHIN_S: i64 = 64;
/// Maximum lead of another machine's clock that counts as set correctly, in milliseconds.
const AHEAD_MS_MAX: i64 = 60_000;
/// Maximum age of the date of a message that was not delayed, and its maximum lead, in milliseconds.
const FRESH_MS_MAX: i64 = 2_000;
const FRESH_AHEAD_MS_MAX: i64 = 200;
const MILLION: i64 = 1_000_000;

/// The timeline of a process. All values are in microseconds: `mono` of a monotonic clock, `wall` since the Unix
/// epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    /// The last reading of the wall clock: both clocks, and this clock's time.
    looked_mono: i64,
    looked_wall: i64,
    shown: i64,
    /// This clock's speed relative to the monotonic clock.
    rate_ppm: i64,
    /// The sum of the wall clock's steps; if another clock is followed, the wall clock's lead over this one.
    stepped: i64,
    /// The wall clock was set since the start.
    was_set: bool,
    /// The followed clock's lead over the wall clock. None: the wall clock itself is followed.
    ahead: Option<i64>,
}

impl Timeline {
    /// A timeline that starts with the wall clock and follows it.
    pub(super) fn new(mono: i64, wall: i64) -> Self {
        Self {
            looked_mono: mono,
            looked_wall: wall,
            shown: wall,
            rate_ppm: 0,
            stepped: 0,
            was_set: false,
            ahead: None,
        }
    }

    /// A timeline that starts with another clock and follows that one.
    pub(super) fn beginning_at(mono: i64, wall: i64, database_time: i64) -> Self {
        Self {
            shown: database_time,
            stepped: wall.saturating_sub(database_time),
            ahead: Some(database_time.saturating_sub(wall)),
            ..Self::new(mono, wall)
        }
    }

    /// Compares with the followed clock, which shows `theirs` now. The timeline does not jump.
    pub(super) fn compare(&mut self, mono: i64, wall: i64, database_time: i64) -> Option<i64> {
        let step = self.look(mono, wall);
        if self.ahead.is_some() {
            self.ahead = Some(database_time.saturating_sub(wall));
            self.aim();
        }
        step
    }

    /// The time at a reading of the monotonic clock.
    pub(super) fn at(&self, mono: i64) -> i64 {
        let passed = mono.saturating_sub(self.looked_mono).max(0);
        // Whole seconds and the rest apart, so that years do not overflow.
        let slewed = passed / MILLION * self.rate_ppm + passed % MILLION * self.rate_ppm / MILLION;
        self.shown.saturating_add(passed).saturating_add(slewed)
    }

    /// True if a reading of the wall clock is due.
    pub(super) fn wants_a_look(&self, mono: i64) -> bool {
        mono.saturating_sub(self.looked_mono) >= LOOK_EVERY_US
    }

    /// Compares with the wall clock. Returns its step since the last reading, if there was one.
    pub(super) fn look(&mut self, mono: i64, wall: i64) -> Option<i64> {
        let now = self.at(mono);
        let passed = mono.saturating_sub(self.looked_mono).max(0);
        let jump = wall.saturating_sub(self.looked_wall).saturating_sub(passed);
        let step = (jump.saturating_abs() > STEP_US_MIN).then_some(jump);
        self.was_set |= step.is_some();
        self.shown = now;
        self.looked_mono = self.looked_mono.max(mono);
        self.looked_wall = wall;
        match &mut self.ahead {
            Some(ahead) => {
                *ahead = ahead.saturating_sub(step.unwrap_or(0));
                self.stepped = wall.saturating_sub(now);
            }
            None => self.stepped = self.stepped.saturating_add(step.unwrap_or(0)),
        }
        self.aim();
        step
    }

    /// Sets the speed so that the difference from the followed clock vanishes.
    fn aim(&mut self) {
        let followed = match self.ahead {
            Some(ahead) => self.looked_wall.saturating_add(ahead),
            None => self.looked_wall.saturating_sub(self.stepped),
        };
        let drift = followed.saturating_sub(self.shown);
        self.rate_ppm = (drift / FOLLOW_WITHIN_S).clamp(-SLEW_PPM_MAX, SLEW_PPM_MAX);
    }

    /// The wall clock's lead over this one since it was set, or since the start, in microseconds; negative if it
    /// lags.
    pub(super) fn stepped(&self) -> i64 {
        self.stepped
    }

    /// True if the wall clock was set since the start.
    pub(super) fn was_set(&self) -> bool {
        self.was_set
    }
}

/// The wall clock's difference from this clock, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WallLead {
    /// Negative: the wall clock lags.
    pub(super) ms: i64,
    /// The wall clock was set since the start, so other clocks may have followed it at any time since then.
    pub(super) was_set: bool,
}

/// The time of something that another clock dates `at`, in milliseconds. The other clock may show the wall clock's time or
/// this clock's, so there are two readings:
/// - The later reading that is not in the future is the plausible one.
/// - A lead that was there from the start is as a rule that of this machine alone. The reading by it counts only if the date
///   would be in the future otherwise, or is fresh by it. So the old date of a correct clock is taken as it is. One of a clock
///   that is as wrong as this machine's cannot be told from it.
/// - A date up to [`AHEAD_MS_MAX`] in the future means now: that clock is fast.
/// - A date in the future by both readings means now.
/// - For a difference smaller than a step, the date is taken as it is: the difference changes constantly, and with it
///   the dates within one call.
pub(super) fn plausible(at: i64, now: i64, wall: WallLead) -> i64 {
    let is_past = |at: i64| at <= now.saturating_add(AHEAD_MS_MAX);
    let is_step = wall.ms.saturating_abs().saturating_mul(1_000) > STEP_US_MIN;
    let by_wall = at.saturating_sub(wall.ms);
    let age = now.saturating_sub(by_wall);
    let is_fresh = (-FRESH_AHEAD_MS_MAX..=FRESH_MS_MAX).contains(&age);
    let counts = is_step && (wall.was_set || is_fresh || !is_past(at));
    [Some(at), counts.then_some(by_wall)]
        .into_iter()
        .flatten()
        .filter(|at| is_past(*at))
        .map(|at| at.min(now))
        .max()
        .unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WALL: i64 = 1_800_000_000 * MILLION;
    const HOUR: i64 = 3_600 * MILLION;

    #[test]
    fn it_begins_with_the_wall_clock_and_runs_with_the_monotonic_one() {
        let timeline = Timeline::new(7, WALL);
        for passed in [0, 1, 999_999, MILLION, 50 * 365 * 24 * HOUR] {
            assert_eq!(timeline.at(7 + passed), WALL + passed);
        }
        assert_eq!(timeline.at(0), WALL, "it never goes back");
    }

    #[test]
    fn a_step_is_told_and_not_followed() {
        for step in [HOUR, -HOUR, 600_000, -600_000, 40 * 365 * 24 * HOUR] {
            let mut timeline = Timeline::new(0, WALL);
            assert_eq!(timeline.look(MILLION, WALL + MILLION), None);
            assert_eq!(
                timeline.look(2 * MILLION, WALL + 2 * MILLION + step),
                Some(step)
            );
            assert_eq!(timeline.stepped(), step);
            for second in 3..7_200 {
                let passed = second * MILLION;
                assert_eq!(timeline.look(passed, WALL + passed + step), None);
                assert_eq!(timeline.at(passed), WALL + passed);
            }
            // An operator notices and sets it back.
            assert_eq!(timeline.look(HOUR * 3, WALL + HOUR * 3), Some(-step));
            assert_eq!(timeline.stepped(), 0);
        }
    }

    #[test]
    fn a_drift_is_followed_until_it_is_gone() {
        let mut timeline = Timeline::new(0, WALL);
        // 400 ms at once is no step yet; at 500 ppm, following it takes over 800 s.
        let ahead = 400_000;
        for second in 1..2_000 {
            let passed = second * MILLION;
            assert_eq!(timeline.look(passed, WALL + passed + ahead), None);
        }
        let behind = WALL + 2_000 * MILLION + ahead - timeline.at(2_000 * MILLION);
        assert!((0..1_000).contains(&behind), "{behind} µs behind");
        // A crystal that is 40 ppm slow is followed permanently.
        let mut timeline = Timeline::new(0, WALL);
        for second in 1..100_000 {
            let passed = second * MILLION;
            assert_eq!(timeline.look(passed, WALL + passed + 40 * second), None);
        }
        let passed = 100_000 * MILLION;
        let behind = WALL + passed + 40 * 100_000 - timeline.at(passed);
        assert!((0..10_000).contains(&behind), "{behind} µs behind");
    }

    /// Two processes of one database, on machines whose clocks are an hour apart; one clock is set meanwhile.
    #[test]
    fn who_follows_another_clock_shows_what_that_shows() {
        for off in [HOUR, -HOUR, 3] {
            let database_time = WALL;
            let mut timeline = Timeline::beginning_at(0, WALL + off, database_time);
            assert_eq!((timeline.at(0), timeline.stepped()), (database_time, off));
            // The followed clock runs 40 ppm faster than this machine's.
            let mut wall = WALL + off;
            for second in 1..4_000_i64 {
                let passed = second * MILLION;
                let set = if second == 2_000 { HOUR } else { 0 };
                wall += MILLION + set;
                if second % 5 == 0 {
                    let told = timeline.compare(passed, wall, database_time + passed + 40 * second);
                    assert_eq!(told, (set != 0).then_some(set), "{second}");
                } else {
                    assert_eq!(timeline.look(passed, wall), None);
                }
                let apart = timeline.at(passed) - (database_time + passed + 40 * second);
                assert!(apart.abs() < 10_000, "{apart} µs apart at {second}");
                assert_eq!(timeline.stepped(), wall - timeline.at(passed));
            }
        }
    }

    /// After a failover the database may run on a machine with another time: intervals stay as they are.
    #[test]
    fn a_jump_of_the_followed_clock_is_no_jump_of_this_one() {
        let mut timeline = Timeline::beginning_at(0, WALL, WALL);
        for second in 1..100 {
            let passed = second * MILLION;
            assert_eq!(
                timeline.compare(passed, WALL + passed, WALL + passed + HOUR),
                None
            );
            let most = passed + passed / MILLION * SLEW_PPM_MAX;
            assert!((WALL + passed..=WALL + most).contains(&timeline.at(passed)));
        }
    }

    #[test]
    fn what_others_date_is_read_with_the_clock_that_makes_sense() {
        let (now, hour) = (10_000_000, 3_600_000);
        for (at, stepped, expected) in [
            (now - 5, 0, now - 5),
            (now + 5, 0, now),
            (now - 300_000, 0, now - 300_000),
            // The wall clock was set forward: a bridge on this machine, and one elsewhere that is unaffected.
            (now + hour - 300_000, hour, now - 300_000),
            (now - 300_000, hour, now - 300_000),
            // The wall clock was set back.
            (now - hour - 300_000, -hour, now - 300_000),
            (now - 300_000, -hour, now - 300_000),
            (now + 2 * hour, hour, now),
            (now + hour, -hour, now),
            // Two clocks never agree to the millisecond.
            (now - hour + 1, -hour, now),
            (now + hour + 1, hour, now),
            // The difference between two clocks varies from one comparison to the next.
            (now - 8_000, -3, now - 8_000),
            (now - 8_000, 3, now - 8_000),
        ] {
            let wall = WallLead {
                ms: stepped,
                was_set: true,
            };
            assert_eq!(plausible(at, now, wall), expected, "{at} {stepped}");
        }
    }

    /// A machine whose clock was wrong when the process started, beside a database whose clock is right.
    #[test]
    fn a_lead_from_the_start_does_not_change_the_old_dates_of_correct_clocks() {
        let (now, hour) = (10_000_000, 3_600_000);
        for (at, ms, expected) in [
            // A bridge elsewhere, with the right time.
            (now - 122_000, -5_000, now - 122_000),
            (now - 122_000, -60_000, now - 122_000),
            (now - 2_000, -60_000, now - 2_000),
            (now - 3_000, -5_000, now - 3_000),
            (now - 122_000, 5_000, now - 122_000),
            (now - 122_000, hour, now - 122_000),
            (now - 7_200_000, -hour, now - 7_200_000),
            // A bridge on this machine.
            (now - 5_100, -5_000, now - 100),
            (now - hour - 100, -hour, now - 100),
            (now + hour - 100, hour, now - 100),
            (now + hour - 300_000, hour, now - 300_000),
        ] {
            let wall = WallLead { ms, was_set: false };
            assert_eq!(plausible(at, now, wall), expected, "{at} {ms}");
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Happening {
        Passes(i64),
        Steps(i64),
        Drifts(i64),
    }

    fn happenings() -> impl Strategy<Value = Vec<Happening>> {
        let one = prop_oneof![
            4 => (0..20 * MILLION).prop_map(Happening::Passes),
            1 => (-HOUR * 24..HOUR * 24).prop_map(Happening::Steps),
            1 => (-2_000..2_000_i64).prop_map(Happening::Drifts),
        ];
        prop::collection::vec(one, 1..80)
    }

    type Look = fn(&mut Timeline, i64, i64);

    fn looks(timeline: &mut Timeline, mono: i64, wall: i64) {
        timeline.look(mono, wall);
    }

    /// Whatever the wall clock does, a measured interval is right within the slew rate.
    fn measures(happenings: &[Happening], look: Look) -> Result<(), String> {
        let (mut mono, mut wall) = (0, WALL);
        let mut timeline = Timeline::new(mono, wall);
        let mut seen = vec![(mono, timeline.at(mono))];
        for happening in happenings {
            match *happening {
                Happening::Passes(us) => {
                    mono += us;
                    wall += us;
                }
                Happening::Steps(us) => wall += us,
                Happening::Drifts(us) => wall += us,
            }
            if timeline.wants_a_look(mono) {
                look(&mut timeline, mono, wall);
            }
            seen.push((mono, timeline.at(mono)));
        }
        for (from, began) in &seen {
            for (to, ended) in &seen {
                let (passed, measured) = (to - from, ended - began);
                // One microsecond a reading for rounding.
                let allowed = passed / MILLION * SLEW_PPM_MAX + SLEW_PPM_MAX + seen.len() as i64;
                if passed >= 0 && (measured < 0 || (measured - passed).abs() > allowed) {
                    return Err(format!("{passed} µs were measured as {measured}"));
                }
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn no_step_changes_a_measured_time(happenings in happenings()) {
            let measured = measures(&happenings, looks);
            prop_assert!(measured.is_ok(), "{measured:?}");
        }

        #[test]
        fn what_is_plausible_has_happened(
            at in 0..9_000_i64, now in 0..9_000_i64, ms in -9_000..9_000_i64, was_set: bool
        ) {
            let placed = plausible(at, now, WallLead { ms, was_set });
            prop_assert!(placed <= now);
            prop_assert!([at, at - ms, now].contains(&placed));
        }
    }

    #[test]
    fn a_clock_that_follows_steps_is_caught() {
        let story = [
            Happening::Passes(MILLION),
            Happening::Steps(HOUR),
            Happening::Passes(MILLION),
        ];
        let follows: Look = |timeline, mono, wall| *timeline = Timeline::new(mono, wall);
        assert!(measures(&story, follows).is_err());
        assert_eq!(measures(&story, looks), Ok(()));
    }
}
