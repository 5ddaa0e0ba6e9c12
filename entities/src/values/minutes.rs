//! Credit is counted in whole minutes.

use std::fmt;

use sea_orm::DeriveValueType;
use serde::Serialize;

/// The most minutes that one account or transaction can hold: about 1,900 years of talk time.
pub const MINUTES_MAX: i64 = 1_000_000_000;

/// Whole minutes, from 0 to [`MINUTES_MAX`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, DeriveValueType,
)]
pub struct Minutes(i64);

/// The figure is negative or larger than [`MINUTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("minutes must be a whole number from 0 to {MINUTES_MAX}")]
pub struct MinutesError;

impl Minutes {
    pub const ZERO: Self = Self(0);
    /// One minute: the hold of a call before it is answered.
    pub const ONE: Self = Self(1);

    /// Checks the range.
    pub const fn new(minutes: i64) -> Result<Self, MinutesError> {
        if minutes < 0 || minutes > MINUTES_MAX {
            Err(MinutesError)
        } else {
            Ok(Self(minutes))
        }
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    /// The minutes billed for an answered call of `talk_seconds`: every started one, and at least one.
    pub const fn for_talk(talk_seconds: i64) -> Self {
        let started = talk_seconds.saturating_add(59) / 60;
        if started < 1 {
            Self::ONE
        } else if started > MINUTES_MAX {
            Self(MINUTES_MAX)
        } else {
            Self(started)
        }
    }
}

impl fmt::Display for Minutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_started_minute_costs_and_one_is_the_least() {
        for (talk, minutes) in [
            (0, 1),
            (1, 1),
            (59, 1),
            (60, 1),
            (61, 2),
            (120, 2),
            (121, 3),
            (-5, 1),
        ] {
            assert_eq!(Minutes::for_talk(talk).get(), minutes, "{talk} s");
        }
    }
}
