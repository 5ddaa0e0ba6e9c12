//! The consequences of an attempt: delivered, retried or failed for good, and a webhook disabled after failing too
//! long. Pure.

use dikala_entities::Millis;

use crate::outbound::{Exchange, Failure, retry_after_ms};

/// The waits before the second, third … attempt: 5 s, 30 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h, 24 h.
pub const DEFAULT_SCHEDULE_SECONDS: [i64; 10] = [
    5, 30, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400,
];
/// Maximum jitter added to a wait, in thousandths, so that failed deliveries do not come back all at once.
pub const JITTER_PERMILLE_MAX: i64 = 200;
/// Consecutive failed deliveries that disable a webhook …
pub const DISABLE_AFTER_FAILED: i64 = 10;
/// … once they span this time, in milliseconds: five days.
pub const DISABLE_AFTER_MS: i64 = 5 * 24 * 3_600 * 1_000;

/// The reason stored with a webhook after a 410.
pub const REASON_GONE: &str = "The endpoint answered 410 Gone.";
/// The reason stored with a webhook after days of failure.
pub const REASON_FAILING: &str = "Ten deliveries in a row failed over five days without a success.";

/// The consequence of an attempt for its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptVerdict {
    Delivered,
    /// The next attempt is due at this time.
    Retry {
        at: Millis,
    },
    GivenUp,
    /// Failed for good, and the endpoint wants no more deliveries.
    Gone,
}

/// The operator's retry schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    waits_ms: Vec<i64>,
}

impl Schedule {
    /// A schedule of these waits in seconds; a negative one counts as 0.
    pub fn from_seconds(waits: &[i64]) -> Self {
        let ms = |seconds: &i64| (*seconds).max(0).saturating_mul(1_000);
        Self {
            waits_ms: waits.iter().map(ms).collect(),
        }
    }

    /// The verdict on attempt `number` (the first is 1), which ended `now` with `result`. `jitter_permille` is a
    /// random number from 0 to [`JITTER_PERMILLE_MAX`].
    pub fn verdict(
        &self,
        number: i64,
        result: &Result<Exchange, Failure>,
        now: Millis,
        jitter_permille: i64,
    ) -> AttemptVerdict {
        let asked_ms = match result {
            Ok(Exchange {
                status: 200..=299, ..
            }) => return AttemptVerdict::Delivered,
            Ok(answer) if answer.is_gone() => return AttemptVerdict::Gone,
            Ok(Exchange {
                status: 429 | 503,
                retry_after: Some(header),
                ..
            }) => retry_after_ms(header, now).unwrap_or(0),
            Ok(_) | Err(_) => 0,
        };
        self.again(number, asked_ms, now, jitter_permille)
    }

    /// The verdict on a failed attempt whose endpoint asked for a wait of `asked_ms`.
    pub fn again(
        &self,
        number: i64,
        asked_ms: i64,
        now: Millis,
        jitter_permille: i64,
    ) -> AttemptVerdict {
        let step = usize::try_from(number - 1).unwrap_or(0);
        let Some(wait_ms) = self.waits_ms.get(step).copied() else {
            return AttemptVerdict::GivenUp;
        };
        let longest_ms = self.waits_ms.get(step + 1).copied().unwrap_or(wait_ms);
        let wait_ms = asked_ms.clamp(wait_ms, longest_ms.max(wait_ms));
        let jitter = jitter_permille.clamp(0, JITTER_PERMILLE_MAX);
        let later_ms = wait_ms.saturating_mul(jitter) / 1_000;
        AttemptVerdict::Retry {
            at: now.plus_ms(wait_ms.saturating_add(later_ms)),
        }
    }
}

/// A webhook's recent failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Deliveries that failed for good since the last success.
    pub failed_in_row: i64,
    /// The first failed attempt since the last success.
    pub failing_since: Option<Millis>,
}

impl Health {
    /// The health after another attempt, which ended `at` with `verdict`.
    #[must_use]
    pub fn after(self, verdict: AttemptVerdict, at: Millis) -> Self {
        let failing_since = Some(self.failing_since.unwrap_or(at));
        match verdict {
            AttemptVerdict::Delivered => Self::default(),
            AttemptVerdict::Retry { .. } => Self {
                failing_since,
                ..self
            },
            AttemptVerdict::GivenUp | AttemptVerdict::Gone => Self {
                failed_in_row: self.failed_in_row.saturating_add(1),
                failing_since,
            },
        }
    }

    /// The reason to disable the webhook now, if there is one.
    pub fn disabled_reason(self, last: AttemptVerdict, now: Millis) -> Option<&'static str> {
        if last == AttemptVerdict::Gone {
            return Some(REASON_GONE);
        }
        let long = self
            .failing_since
            .is_some_and(|since| now.since(since) >= DISABLE_AFTER_MS);
        let often = self.failed_in_row >= DISABLE_AFTER_FAILED;
        (last == AttemptVerdict::GivenUp && long && often).then_some(REASON_FAILING)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::outbound::ErrorKind;

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    fn default_schedule() -> Schedule {
        Schedule::from_seconds(&DEFAULT_SCHEDULE_SECONDS)
    }

    type Came = Result<Exchange, Failure>;

    const BROKEN: Came = Err(Failure::without_answer(ErrorKind::Reset));

    fn answered(status: u16, retry_after: Option<&str>) -> Came {
        Ok(Exchange {
            status,
            retry_after: retry_after.map(str::to_owned),
            body: Vec::new(),
            truncated: false,
            cut: false,
        })
    }

    fn wait_ms(number: i64, ended: &Came, jitter: i64) -> Option<i64> {
        match default_schedule().verdict(number, ended, NOW, jitter) {
            AttemptVerdict::Retry { at } => Some(at.since(NOW)),
            _ => None,
        }
    }

    #[test]
    fn the_schedule_is_the_documented_one() {
        for (number, seconds) in (1..).zip(DEFAULT_SCHEDULE_SECONDS) {
            assert_eq!(wait_ms(number, &BROKEN, 0), Some(seconds * 1_000));
            assert_eq!(
                wait_ms(number, &answered(500, None), 200),
                Some(seconds * 1_200)
            );
        }
        let last = default_schedule().verdict(11, &BROKEN, NOW, 0);
        assert_eq!(last, AttemptVerdict::GivenUp);
    }

    #[test]
    fn a_status_decides() {
        for status in [200, 201, 204, 299] {
            let verdict = default_schedule().verdict(11, &answered(status, None), NOW, 0);
            assert_eq!(verdict, AttemptVerdict::Delivered, "{status}");
        }
        let gone = default_schedule().verdict(1, &answered(410, None), NOW, 0);
        assert_eq!(gone, AttemptVerdict::Gone);
        for status in [100, 301, 302, 307, 400, 401, 404, 429, 500, 503] {
            assert!(wait_ms(1, &answered(status, None), 0).is_some(), "{status}");
        }
    }

    #[test]
    fn retry_after_is_honoured_up_to_the_next_step() {
        for (status, number, header, seconds) in [
            (429, 1, "10", 10),
            (503, 1, " 10 ", 10),
            (429, 1, "2", 5),
            (429, 1, "30", 30),
            (429, 1, "3600", 30),
            (429, 10, "999999", 86_400),
            (500, 1, "10", 5),
            (429, 1, "soon", 5),
            (429, 1, "-5", 5),
            (429, 1, "99999999999999999999", 5),
            (429, 1, "Thu, 15 Jan 2026 03:30:20 GMT", 20),
            (429, 1, "Thu, 15 Jan 2026 03:29:20 GMT", 5),
            (429, 1, "Thu, 99 Jan 2026 03:29:20 GMT", 5),
        ] {
            let wait = wait_ms(number, &answered(status, Some(header)), 0);
            assert_eq!(wait, Some(seconds * 1_000), "{status} {number} {header}");
        }
    }

    #[test]
    fn ten_failed_deliveries_over_five_days_disable_and_nothing_less() {
        let day = 24 * 3_600 * 1_000;
        let mut health = Health::default();
        for n in 0..9 {
            health = health.after(AttemptVerdict::GivenUp, NOW.plus_ms(n * day));
            assert_eq!(
                health.disabled_reason(AttemptVerdict::GivenUp, NOW.plus_ms(n * day)),
                None
            );
        }
        let tenth = health.after(AttemptVerdict::GivenUp, NOW.plus_ms(9 * day));
        assert_eq!(
            tenth.disabled_reason(AttemptVerdict::GivenUp, NOW.plus_ms(9 * day)),
            Some(REASON_FAILING)
        );
        let soon =
            tenth.disabled_reason(AttemptVerdict::GivenUp, NOW.plus_ms(DISABLE_AFTER_MS - 1));
        assert_eq!(soon, None);
        let recovered = health
            .after(AttemptVerdict::Delivered, NOW)
            .after(AttemptVerdict::GivenUp, NOW.plus_ms(9 * day));
        assert_eq!(recovered.failed_in_row, 1);
        assert_eq!(
            recovered.disabled_reason(AttemptVerdict::GivenUp, NOW.plus_ms(90 * day)),
            None
        );
        assert_eq!(
            Health::default().disabled_reason(AttemptVerdict::Gone, NOW),
            Some(REASON_GONE)
        );
    }

    proptest! {
        #[test]
        fn a_wait_is_never_shorter_than_its_step_nor_a_fifth_longer_than_what_was_asked(
            waits in proptest::collection::vec(0_i64..100_000, 0..12),
            number in 1_i64..15,
            status in 300_u16..600,
            header in proptest::option::of(".{0,30}|[0-9]{1,20}"),
            jitter in -10_i64..2_000,
        ) {
            let ended = answered(status, header.as_deref());
            let schedule = Schedule::from_seconds(&waits);
            let step = usize::try_from(number - 1).expect("small");
            match schedule.verdict(number, &ended, NOW, jitter) {
                AttemptVerdict::Retry { at } => {
                    let wait = at.since(NOW);
                    let least = waits[step] * 1_000;
                    let most = waits.get(step + 1).map_or(least, |next| next * 1_000).max(least);
                    prop_assert!(wait >= least && wait <= most * 12 / 10);
                }
                AttemptVerdict::GivenUp => prop_assert!(step >= waits.len()),
                AttemptVerdict::Gone => prop_assert_eq!(status, 410),
                AttemptVerdict::Delivered => prop_assert!(false),
            }
        }
    }
}
