//! Instants: milliseconds since the Unix epoch, stored as BIGINT on every database.

use std::fmt;

use sea_orm::DeriveValueType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::{
    Date, OffsetDateTime, PrimitiveDateTime, Time,
    format_description::well_known::Rfc3339,
    macros::{format_description, time},
};

/// Milliseconds since 1970-01-01T00:00:00Z; always between the years 1970 and 9999.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, DeriveValueType)]
pub struct Millis(i64);

#[cfg(feature = "openapi")]
crate::described! { Millis: super::schema::instant(); }

const NS_PER_MS: i128 = 1_000_000;

/// The text is no valid instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MillisError {
    #[error("not an RFC 3339 date and time such as 2026-01-15T03:30:00.000Z")]
    Malformed,
    #[error("too old: it must not lie before 1970-01-01T00:00:00Z")]
    TooOld,
    #[error("too late: it must not lie after the year 9999")]
    TooLate,
}

impl Millis {
    /// The earliest instant.
    pub const MIN: Self = Self(0);
    /// The latest instant: 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The nearest valid instant to a count of milliseconds.
    pub const fn from_i64(ms: i64) -> Self {
        if ms < Self::MIN.0 {
            Self::MIN
        } else if ms > Self::MAX.0 {
            Self::MAX
        } else {
            Self(ms)
        }
    }

    /// Milliseconds since the epoch.
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch; never negative by construction.
    pub const fn as_u64(self) -> u64 {
        self.0.unsigned_abs()
    }

    /// This instant, `ms` milliseconds later (earlier if negative).
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self::from_i64(self.0.saturating_add(ms))
    }

    /// This instant, `seconds` later.
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        self.plus_ms(seconds.saturating_mul(1_000))
    }

    /// Milliseconds from `earlier` to this instant; negative if `earlier` is later.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }

    /// Whole seconds from `earlier` to this instant; 0 if `earlier` is later.
    pub const fn whole_seconds_since(self, earlier: Self) -> i64 {
        let ms = self.since(earlier);
        if ms < 0 { 0 } else { ms / 1_000 }
    }

    /// Parses RFC 3339 with any offset.
    pub fn parse_rfc3339(text: &str) -> Result<Self, MillisError> {
        let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| MillisError::Malformed)?;
        Self::from_datetime(at)
    }

    /// Parses the bound of a period: RFC 3339, or `YYYY-MM-DD` as midnight UTC. Of an instant between two milliseconds it is the
    /// later one: what happened in the earlier one was before the bound.
    pub fn parse_date_or_rfc3339(text: &str) -> Result<Self, MillisError> {
        match Date::parse(text, format_description!("[year]-[month]-[day]")) {
            Ok(date) => {
                Self::from_datetime(PrimitiveDateTime::new(date, time!(00:00)).assume_utc())
            }
            Err(_) => {
                let at = OffsetDateTime::parse(text, &Rfc3339);
                let at = at.map_err(|_| MillisError::Malformed)?;
                Self::from_nanoseconds(at.unix_timestamp_nanos() + NS_PER_MS - 1)
            }
        }
    }

    fn from_datetime(at: OffsetDateTime) -> Result<Self, MillisError> {
        Self::from_nanoseconds(at.unix_timestamp_nanos())
    }

    /// The millisecond that contains this time since the epoch.
    fn from_nanoseconds(since_epoch: i128) -> Result<Self, MillisError> {
        let ms = since_epoch.div_euclid(NS_PER_MS);
        let ms = i64::try_from(ms).map_err(|_| MillisError::Malformed)?;
        match ms {
            ms if ms < Self::MIN.0 => Err(MillisError::TooOld),
            ms if ms > Self::MAX.0 => Err(MillisError::TooLate),
            ms => Ok(Self(ms)),
        }
    }
}

/// `2026-01-15T03:30:00.000Z`: always UTC, always three decimals.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day): (i32, time::Month, u8) = at.date().to_calendar_date();
        let (hour, minute, second, ms): (u8, u8, u8, u16) = Time::as_hms_milli(at.time());
        let month = u8::from(month);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
        )
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse_rfc3339(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_other_offsets() {
        let at = Millis::parse_rfc3339("2026-01-15T10:30:00+07:00").expect("parses");
        assert_eq!(at.to_string(), "2026-01-15T03:30:00.000Z");
        assert_eq!(Millis::parse_rfc3339(&at.to_string()), Ok(at));
        assert_eq!(
            Millis::parse_date_or_rfc3339("2026-01-15T03:30:00.0009Z"),
            Millis::parse_rfc3339("2026-01-15T03:30:00.001Z")
        );
        assert_eq!(
            Millis::parse_date_or_rfc3339("2026-01-15").map(|m| m.to_string()),
            Ok("2026-01-15T00:00:00.000Z".to_owned())
        );
    }

    #[test]
    fn a_date_that_cannot_be_stored_is_told_from_what_is_none() {
        for old in [
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:00:00+07:00",
            "0001-01-01T00:00:00Z",
        ] {
            assert_eq!(
                Millis::parse_rfc3339(old),
                Err(MillisError::TooOld),
                "{old}"
            );
        }
        assert_eq!(
            Millis::parse_rfc3339("9999-12-31T23:59:59-07:00"),
            Err(MillisError::TooLate)
        );
        assert_eq!(Millis::parse_rfc3339("soon"), Err(MillisError::Malformed));
    }

    #[test]
    fn refuses_what_is_no_instant() {
        for wrong in [
            "",
            "2026",
            "2026-02-30",
            "yesterday",
            "2026-01-15T25:00:00Z",
            "1969-12-31",
        ] {
            assert!(
                Millis::parse_date_or_rfc3339(wrong).is_err(),
                "{wrong:?} was taken"
            );
        }
    }
}
