//! Time zones of requests, which decide when a day begins.

use dikala_entities::{Interval, Millis};
use jiff::{
    Timestamp, Zoned,
    civil::Date,
    tz::{Offset, TimeZone},
};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::http::{
    extract::{ParseResult, instant},
    field::{FieldCode, ValueFault},
};

const HOUR_MS: i64 = 60 * 60 * 1_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The time zone of a request.
#[derive(Clone, Debug)]
pub struct DayZone {
    /// The name in the request.
    name: String,
    zone: TimeZone,
}

impl Serialize for DayZone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl DayZone {
    pub fn utc() -> Self {
        Self {
            name: "UTC".to_owned(),
            zone: TimeZone::UTC,
        }
    }

    /// A name such as `Asia/Jakarta`, or an offset such as `+07:00`.
    pub fn parse(value: &Value) -> ParseResult<Self> {
        let text = value.as_str().unwrap_or_default();
        // A plus that was not percent-encoded arrives in a query string as a blank.
        let text = text
            .strip_prefix(' ')
            .map_or_else(|| text.to_owned(), |rest| format!("+{rest}"));
        let zone = match offset(&text) {
            Some(offset) => Some(TimeZone::fixed(offset)),
            None => TimeZone::get(&text).ok(),
        };
        zone.map(|zone| Self { name: text, zone }).ok_or_else(|| {
            let predicate = "must be a time zone such as Asia/Jakarta, or an offset such as +07:00";
            ValueFault::new(FieldCode::InvalidFormat, predicate).into()
        })
    }

    /// The starts of whole intervals, from the one that contains `from`, and the end of the last one, which is `to`
    /// or later.
    pub fn begins(&self, interval: Interval, from: Millis, to: Millis) -> Vec<Millis> {
        let mut begins = vec![self.begin(interval, from)];
        while let Some(last) = begins.last().copied().filter(|last| *last < to) {
            let next = self.next(interval, last);
            if next <= last {
                break;
            }
            begins.push(next);
        }
        begins
    }

    fn at(&self, at: Millis) -> Option<Zoned> {
        let at = Timestamp::from_millisecond(at.as_i64()).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }

    fn midnight(&self, date: Date) -> Option<Millis> {
        date.to_zoned(self.zone.clone()).ok().map(|at| millis(&at))
    }

    /// A date, which means midnight in this zone, or an instant.
    pub fn instant(&self, value: &Value) -> ParseResult<Millis> {
        let date = value
            .as_str()
            .filter(|text| text.len() == "2026-01-15".len());
        let date = date.and_then(|text| text.parse().ok());
        match date.and_then(|date| self.midnight(date)) {
            Some(midnight) => Ok(midnight),
            None => instant(value),
        }
    }

    /// The start of the interval that contains an instant.
    fn begin(&self, interval: Interval, at: Millis) -> Millis {
        let Some(here) = self.at(at) else {
            return at;
        };
        match interval {
            Interval::Hour => {
                let ahead_ms = i64::from(here.offset().seconds()) * 1_000;
                at.plus_ms(-(at.as_i64() + ahead_ms).rem_euclid(HOUR_MS))
            }
            Interval::Day => here.start_of_day().map_or(at, |midnight| millis(&midnight)),
        }
    }

    /// The start of the next interval.
    fn next(&self, interval: Interval, begin: Millis) -> Millis {
        let tomorrow = || self.at(begin)?.tomorrow().ok()?.start_of_day().ok();
        match interval {
            Interval::Hour => begin.plus_ms(HOUR_MS),
            Interval::Day => tomorrow().map_or(begin.plus_ms(DAY_MS), |next| millis(&next)),
        }
    }
}

/// `+07:00`, `-0330` or `Z`, in whole quarters of an hour.
fn offset(text: &str) -> Option<Offset> {
    if text == "Z" {
        return Some(Offset::UTC);
    }
    let (sign, figures) = match text.split_at_checked(1)? {
        ("+", figures) => (1, figures),
        ("-", figures) => (-1, figures),
        _ => return None,
    };
    let figures: String = figures.split(':').collect();
    let is_offset = figures.len() == 4 && figures.bytes().all(|b| b.is_ascii_digit());
    let (hours, minutes): (i32, i32) = match is_offset {
        true => (figures[..2].parse().ok()?, figures[2..].parse().ok()?),
        false => return None,
    };
    let in_use = hours <= 14 && minutes < 60 && minutes % 15 == 0;
    let seconds = sign * (hours * 60 + minutes) * 60;
    in_use.then(|| Offset::from_seconds(seconds).ok()).flatten()
}

fn millis(at: &Zoned) -> Millis {
    Millis::from_i64(at.timestamp().as_millisecond())
}

/// The greatest common divisor.
pub const fn divisor(one: i64, other: i64) -> i64 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const QUARTER_MS: i64 = HOUR_MS / 4;

    fn zone(name: &str) -> DayZone {
        DayZone::parse(&json!(name)).expect("a zone")
    }

    fn at(text: &str) -> Millis {
        Millis::parse_rfc3339(text).expect("a time")
    }

    fn shown(zone_name: &str, interval: Interval, from: &str, to: &str) -> Vec<String> {
        let begins = zone(zone_name).begins(interval, at(from), at(to));
        begins
            .iter()
            .map(|at| at.to_string()[..16].to_owned())
            .collect()
    }

    #[test]
    fn days_begin_at_midnight_where_who_asks_is() {
        for (zone, expected) in [
            ("UTC", ["2026-01-15T00:00", "2026-01-16T00:00"]),
            ("Asia/Jakarta", ["2026-01-14T17:00", "2026-01-15T17:00"]),
            ("+07:00", ["2026-01-14T17:00", "2026-01-15T17:00"]),
            ("Asia/Kathmandu", ["2026-01-14T18:15", "2026-01-15T18:15"]),
            ("-03:30", ["2026-01-15T03:30", "2026-01-16T03:30"]),
        ] {
            let day = shown(
                zone,
                Interval::Day,
                "2026-01-15T03:30:00Z",
                "2026-01-15T03:31:00Z",
            );
            assert_eq!(day, expected, "{zone}");
        }
    }

    #[test]
    fn a_day_on_which_the_clock_is_changed_has_23_or_25_hours() {
        let days = shown(
            "Europe/Berlin",
            Interval::Day,
            "2026-03-28T12:00:00Z",
            "2026-03-29T12:00:00Z",
        );
        assert_eq!(
            days,
            ["2026-03-27T23:00", "2026-03-28T23:00", "2026-03-29T22:00"]
        );
        let days = shown(
            "Europe/Berlin",
            Interval::Day,
            "2026-10-25T12:00:00Z",
            "2026-10-25T13:00:00Z",
        );
        assert_eq!(days, ["2026-10-24T22:00", "2026-10-25T23:00"]);
        let hours = shown(
            "Europe/Berlin",
            Interval::Hour,
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
        );
        assert_eq!(hours.len(), 26);
    }

    #[test]
    fn hours_begin_where_the_clocks_show_none_past() {
        let hours = shown(
            "Asia/Kolkata",
            Interval::Hour,
            "2026-01-15T03:45:00Z",
            "2026-01-15T04:31:00Z",
        );
        assert_eq!(
            hours,
            ["2026-01-15T03:30", "2026-01-15T04:30", "2026-01-15T05:30"]
        );
    }

    #[test]
    fn pieces_are_as_long_as_all_intervals_allow() {
        for (zone, from, to, quarters) in [
            (
                "Asia/Jakarta",
                "2026-03-01T00:00:00Z",
                "2026-04-01T00:00:00Z",
                96,
            ),
            (
                "Europe/Berlin",
                "2026-03-01T00:00:00Z",
                "2026-04-01T00:00:00Z",
                4,
            ),
            (
                "Australia/Lord_Howe",
                "2026-03-20T00:00:00Z",
                "2026-04-20T00:00:00Z",
                2,
            ),
        ] {
            let days = self::zone(zone).begins(Interval::Day, at(from), at(to));
            let lengths = days.windows(2).map(|two| two[1].since(two[0]));
            assert_eq!(lengths.fold(0, divisor), quarters * QUARTER_MS, "{zone}");
        }
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        for wrong in [
            "",
            "Mars/Olympus",
            "+7",
            "+15:00",
            "+07:07",
            "07:00",
            "+0é00",
            "--0700",
        ] {
            assert!(DayZone::parse(&json!(wrong)).is_err(), "{wrong:?}");
        }
        for right in ["Z", "UTC", "+0700", " 07:00", "-12:00", "asia/jakarta"] {
            assert!(DayZone::parse(&json!(right)).is_ok(), "{right:?}");
        }
    }

    #[test]
    fn a_date_means_its_midnight_here() {
        let midnight = zone("Asia/Jakarta").instant(&json!("2026-01-15"));
        assert_eq!(midnight, Ok(at("2026-01-14T17:00:00Z")));
        let exact = zone("Asia/Jakarta").instant(&json!("2026-01-15T00:00:00Z"));
        assert_eq!(exact, Ok(at("2026-01-15T00:00:00Z")));
    }
}
