//! Formats numbers, money and times in each language. Pure.
//!
//! Time zones come from `jiff`. It uses the system's database, which the distribution updates, or else a
//! compiled-in one, as in a bare container.

use dikala_entities::Millis;
use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use super::{
    lang::Lang,
    zones::{NO_ZONES, ZONE_DEFAULT},
};

const DATE_CHARS: usize = 10;
const MONTHS_EN: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const MONTHS_ID: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "Mei", "Jun", "Jul", "Agu", "Sep", "Okt", "Nov", "Des",
];

const WEEKDAYS_EN: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const WEEKDAYS_ID: [&str; 7] = ["Sen", "Sel", "Rab", "Kam", "Jum", "Sab", "Min"];

/// A time zone with its database name.
#[derive(Clone, Debug)]
pub struct Zone {
    zone: TimeZone,
}

impl Zone {
    /// The zone with this name in the time zone database.
    pub fn named(name: &str) -> Option<Self> {
        let zone = TimeZone::get(name).ok()?;
        let is_zone = !NO_ZONES.contains(&zone.iana_name()?);
        is_zone.then_some(Self { zone })
    }

    /// The zone of logs and machines.
    pub const fn utc() -> Self {
        Self {
            zone: TimeZone::UTC,
        }
    }

    /// The chosen zone, or the default one.
    pub fn chosen(name: Option<&str>) -> Self {
        let named = Self::named(name.unwrap_or(ZONE_DEFAULT));
        let named = named.or_else(|| Self::named(ZONE_DEFAULT));
        named.unwrap_or(Self::utc())
    }

    /// A time: `15 Jan 2026, 10:30 WIB`; in Indonesian `15 Jan 2026 10.30 WIB`.
    pub fn moment(&self, lang: Lang, at: Millis) -> String {
        let there = timestamp(at).to_zoned(self.zone.clone());
        let day = day(lang, there.date());
        let (hour, minute) = (there.hour(), there.minute());
        let zone = there.strftime("%Z");
        match lang {
            Lang::En => format!("{day}, {hour:02}:{minute:02} {zone}"),
            Lang::Id => format!("{day} {hour:02}.{minute:02} {zone}"),
        }
    }

    /// A time as an input of type `datetime-local` has it: `2026-01-15T10:30`.
    pub fn typed(&self, at: Millis) -> String {
        let there = timestamp(at).to_zoned(self.zone.clone());
        there.strftime("%Y-%m-%dT%H:%M").to_string()
    }

    /// Parses the value of such an input, with or without seconds.
    pub fn read(&self, typed: &str) -> Option<Millis> {
        let there: DateTime = typed.parse().ok()?;
        let is_moment = typed.get(10..11) == Some("T");
        let at = there.to_zoned(self.zone.clone()).ok()?;
        is_moment.then(|| Millis::from_i64(at.timestamp().as_millisecond()))
    }

    /// Start of the day written as `2026-01-15`, in this zone; `None` if it is no date.
    pub fn midnight(&self, date: &str) -> Option<Millis> {
        self.begin_of(read_date(date)?)
    }

    /// End of that day.
    pub fn end_of_day(&self, date: &str) -> Option<Millis> {
        self.begin_of(read_date(date)?.tomorrow().ok()?)
    }

    fn begin_of(&self, date: Date) -> Option<Millis> {
        let begin = date.to_zoned(self.zone.clone()).ok()?;
        Some(Millis::from_i64(begin.timestamp().as_millisecond()))
    }

    /// The zone's database name.
    pub fn name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// Start and end of the day that contains the given time.
    pub fn day_around(&self, at: Millis) -> (Millis, Millis) {
        let date = timestamp(at).to_zoned(self.zone.clone()).date();
        let begin = self.begin_of(date).unwrap_or(at);
        let tomorrow = date.tomorrow().ok().and_then(|date| self.begin_of(date));
        (begin, tomorrow.unwrap_or(at.plus_ms(1)))
    }

    pub fn hour(&self, at: Millis) -> String {
        format!("{:02}", timestamp(at).to_zoned(self.zone.clone()).hour())
    }

    /// The time of day: `09:30`; in Indonesian `09.30`.
    pub fn clock(&self, lang: Lang, at: Millis) -> String {
        let there = timestamp(at).to_zoned(self.zone.clone());
        let (hour, minute) = (there.hour(), there.minute());
        match lang {
            Lang::En => format!("{hour:02}:{minute:02}"),
            Lang::Id => format!("{hour:02}.{minute:02}"),
        }
    }

    /// The time of day with seconds: `09:30:05`; in Indonesian `09.30.05`.
    pub fn clock_with_seconds(&self, lang: Lang, at: Millis) -> String {
        let second = timestamp(at).to_zoned(self.zone.clone()).second();
        let separator = match lang {
            Lang::En => ':',
            Lang::Id => '.',
        };
        format!("{}{separator}{second:02}", self.clock(lang, at))
    }

    /// The time of day with milliseconds: `09:30:05.120`; in Indonesian `09.30.05,120`.
    pub fn clock_with_milliseconds(&self, lang: Lang, at: Millis) -> String {
        let point = decimal_point(lang);
        let ms = at.as_i64().rem_euclid(1_000);
        format!("{}{point}{ms:03}", self.clock_with_seconds(lang, at))
    }

    /// The date as an id: `2026-01-15`.
    pub fn date(&self, at: Millis) -> String {
        timestamp(at).to_zoned(self.zone.clone()).date().to_string()
    }

    /// The short name of the zone at a time: `WIB`.
    pub fn short_name(&self, at: Millis) -> String {
        let there = timestamp(at).to_zoned(self.zone.clone());
        there.strftime("%Z").to_string()
    }

    /// The day with its weekday, and with its year unless that is the year of `now`: `Thu 15 Jan`, `Kam 15 Jan 2025`.
    pub fn weekday(&self, lang: Lang, at: Millis, now: Millis) -> String {
        let date = |at| timestamp(at).to_zoned(self.zone.clone()).date();
        let (date, this_year) = (date(at), date(now).year());
        let (weekday, _) = self.weekday_and_hour(at);
        let day = day(lang, date);
        let year = format!(" {this_year}");
        format!(
            "{} {}",
            weekdays(lang)[weekday],
            day.strip_suffix(&year).unwrap_or(&day)
        )
    }

    /// The weekday, counted from Monday as 0, and the hour of the day.
    pub fn weekday_and_hour(&self, at: Millis) -> (usize, usize) {
        let there = timestamp(at).to_zoned(self.zone.clone());
        let weekday = there.weekday().to_monday_zero_offset();
        let whole = |value: i8| usize::try_from(value).unwrap_or_default();
        (whole(weekday) % 7, whole(there.hour()) % 24)
    }

    pub fn day_of_month(&self, at: Millis) -> String {
        timestamp(at).to_zoned(self.zone.clone()).day().to_string()
    }

    pub fn day(&self, lang: Lang, at: Millis) -> String {
        day(lang, timestamp(at).to_zoned(self.zone.clone()).date())
    }
}

const fn decimal_point(lang: Lang) -> char {
    match lang {
        Lang::En => '.',
        Lang::Id => ',',
    }
}

/// A time after another, in seconds with milliseconds: `+1.204 s`; in Indonesian `+1,204 s`. A time before it: `−0.012 s`.
pub fn offset(lang: Lang, ms: i64) -> String {
    let sign = if ms < 0 { '−' } else { '+' };
    let (ms, point) = (ms.unsigned_abs(), decimal_point(lang));
    format!("{sign}{}{point}{:03} s", ms / 1_000, ms % 1_000)
}

/// The short names of the weekdays, Monday first.
pub const fn weekdays(lang: Lang) -> [&'static str; 7] {
    match lang {
        Lang::En => WEEKDAYS_EN,
        Lang::Id => WEEKDAYS_ID,
    }
}

/// Parses a date that has no time.
fn read_date(text: &str) -> Option<Date> {
    let date = (text.len() == DATE_CHARS).then(|| text.parse().ok());
    date.flatten()
}

/// A time in UTC, as logs show it: `2026-01-15 03:30:00 UTC`.
pub fn utc(at: Millis) -> String {
    let text = at.to_string();
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{date} {} UTC", time.get(..8).unwrap_or_default())
}

fn timestamp(at: Millis) -> Timestamp {
    Timestamp::from_millisecond(at.as_i64()).unwrap_or_default()
}

fn day(lang: Lang, date: Date) -> String {
    let months = match lang {
        Lang::En => MONTHS_EN,
        Lang::Id => MONTHS_ID,
    };
    let month = usize::try_from(date.month()).unwrap_or(1);
    format!(
        "{} {} {}",
        date.day(),
        months[(month - 1) % 12],
        date.year()
    )
}

/// A number: `1,234,567`; in Indonesian `1.234.567`.
pub fn number(lang: Lang, value: i64) -> String {
    let separator = match lang {
        Lang::En => ',',
        Lang::Id => '.',
    };
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

/// A phone number in groups, as Indonesian numbers are written: `+62 812-3456-7890`, `+62 21-5000-1000`. Other texts stay as they
/// are.
pub fn phone(text: &str) -> String {
    let Some(digits) = text.strip_prefix("+62") else {
        return text.to_owned();
    };
    if digits.len() < 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    // A mobile network, or an area. The largest cities have areas of two digits.
    let area = match digits.as_bytes() {
        [b'2', b'1' | b'2' | b'4', ..] | [b'3' | b'6', b'1', ..] => 2,
        _ => 3,
    };
    let (area, rest) = digits.split_at(area);
    let (first, last) = rest.split_at(rest.len().min(4));
    match last {
        "" => format!("+62 {area}-{first}"),
        last => format!("+62 {area}-{first}-{last}"),
    }
}

/// Whole rupiah: `Rp 1,234,567`; in Indonesian `Rp1.234.567`.
pub fn rupiah(lang: Lang, value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let figure = number(lang, value).replacen('-', "", 1);
    match lang {
        Lang::En => format!("{sign}Rp\u{a0}{figure}"),
        Lang::Id => format!("{sign}Rp{figure}"),
    }
}

/// A share in whole percent. It shows 0 or 100 only if that is exact.
pub fn share(part: i64, all: i64) -> Option<i64> {
    if all <= 0 {
        return None;
    }
    let percent = (part.saturating_mul(100) + all / 2) / all;
    Some(match part {
        0 => 0,
        part if part == all => 100,
        _ => percent.clamp(1, 99),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{super::zones::ZONES_OFFERED, *};

    #[rstest]
    #[case(0, 0, None)]
    #[case(0, 7, Some(0))]
    #[case(7, 7, Some(100))]
    #[case(1, 1_000, Some(1))]
    #[case(999, 1_000, Some(99))]
    #[case(2, 3, Some(67))]
    fn shares(#[case] part: i64, #[case] all: i64, #[case] expected: Option<i64>) {
        assert_eq!(share(part, all), expected);
    }

    #[rstest]
    #[case(0, "0", "0")]
    #[case(999, "999", "999")]
    #[case(1_000, "1,000", "1.000")]
    #[case(-1_234_567, "-1,234,567", "-1.234.567")]
    #[case(i64::MIN, "-9,223,372,036,854,775,808", "-9.223.372.036.854.775.808")]
    fn numbers(#[case] value: i64, #[case] en: &str, #[case] id: &str) {
        assert_eq!(number(Lang::En, value), en);
        assert_eq!(number(Lang::Id, value), id);
    }

    #[rstest]
    #[case(0, "+0.000 s", "+0,000 s")]
    #[case(1_204, "+1.204 s", "+1,204 s")]
    #[case(-12, "−0.012 s", "−0,012 s")]
    #[case(3_605_007, "+3605.007 s", "+3605,007 s")]
    fn offsets(#[case] ms: i64, #[case] en: &str, #[case] id: &str) {
        assert_eq!(offset(Lang::En, ms), en);
        assert_eq!(offset(Lang::Id, ms), id);
    }

    #[test]
    fn milliseconds_of_a_time() {
        let at = Millis::from_i64(1_768_447_805_020);
        let clock = |lang| Zone::utc().clock_with_milliseconds(lang, at);
        assert_eq!(clock(Lang::En), "03:30:05.020");
        assert_eq!(clock(Lang::Id), "03.30.05,020");
    }

    #[test]
    fn money() {
        assert_eq!(rupiah(Lang::En, 1_500), "Rp\u{a0}1,500");
        assert_eq!(rupiah(Lang::Id, 1_500), "Rp1.500");
        assert_eq!(rupiah(Lang::Id, -1_500), "-Rp1.500");
    }

    #[rstest]
    #[case("+6281234567890", "+62 812-3456-7890")]
    #[case("+62812345678", "+62 812-3456-78")]
    #[case("+622150001000", "+62 21-5000-1000")]
    #[case("+62274123456", "+62 274-1234-56")]
    #[case("+6281234567", "+62 812-3456-7")]
    #[case("+628123", "+628123")]
    #[case("+4915112345678", "+4915112345678")]
    #[case("anonymous", "anonymous")]
    fn phones(#[case] number: &str, #[case] written: &str) {
        assert_eq!(phone(number), written);
    }

    #[rstest]
    #[case(
        "2026-05-15T03:30:05Z",
        "Fri 15 May",
        "Jum 15 Mei",
        "10:30:05",
        "10.30.05"
    )]
    #[case(
        "2025-12-31T17:00:00Z",
        "Thu 1 Jan",
        "Kam 1 Jan",
        "00:00:00",
        "00.00.00"
    )]
    #[case(
        "2025-12-31T16:59:59Z",
        "Wed 31 Dec 2025",
        "Rab 31 Des 2025",
        "23:59:59",
        "23.59.59"
    )]
    fn days_of_a_list(
        #[case] at: &str,
        #[case] en: &str,
        #[case] id: &str,
        #[case] clock_en: &str,
        #[case] clock_id: &str,
    ) {
        let at = Millis::parse_rfc3339(at).expect("a time");
        let now = Millis::parse_rfc3339("2026-05-15T12:00:00Z").expect("a time");
        let zone = Zone::named("Asia/Jakarta").expect("a zone");
        for (lang, day, clock) in [(Lang::En, en, clock_en), (Lang::Id, id, clock_id)] {
            assert_eq!(zone.weekday(lang, at, now), day);
            assert_eq!(zone.clock_with_seconds(lang, at), clock);
        }
        assert_eq!(zone.short_name(at), "WIB");
    }

    #[rstest]
    #[case("Asia/Jakarta", "15 May 2026, 10:30 WIB", "15 Mei 2026 10.30 WIB")]
    #[case("Asia/Jayapura", "15 May 2026, 12:30 WIT", "15 Mei 2026 12.30 WIT")]
    #[case("UTC", "15 May 2026, 03:30 UTC", "15 Mei 2026 03.30 UTC")]
    #[case("America/New_York", "14 May 2026, 23:30 EDT", "14 Mei 2026 23.30 EDT")]
    fn times(#[case] zone: &str, #[case] en: &str, #[case] id: &str) {
        let at = Millis::parse_rfc3339("2026-05-15T03:30:00Z").expect("a time");
        let zone = Zone::named(zone).expect("a zone");
        assert_eq!(zone.moment(Lang::En, at), en);
        assert_eq!(zone.moment(Lang::Id, at), id);
        assert_eq!(utc(at), "2026-05-15 03:30:00 UTC");
    }

    #[test]
    fn a_typed_moment_is_where_the_reader_is() {
        let at = |text: &str| Millis::parse_rfc3339(text).expect("a time");
        let zone = Zone::named("Asia/Jakarta").expect("a zone");
        let moment = at("2026-01-15T03:30:00Z");
        assert_eq!(zone.typed(moment), "2026-01-15T10:30");
        assert_eq!(zone.read("2026-01-15T10:30"), Some(moment));
        assert_eq!(
            zone.read("2026-01-15T10:30:05"),
            Some(at("2026-01-15T03:30:05Z"))
        );
        for other in [
            "",
            "2026-01-15",
            "2026-01-15T10:30:00Z",
            "2026-02-30T10:30",
            "soon",
        ] {
            assert_eq!(zone.read(other), None, "{other}");
        }
    }

    #[test]
    fn days_begin_and_end_where_the_reader_is() {
        let at = |text: &str| Millis::parse_rfc3339(text).expect("a time");
        let zone = Zone::named("Asia/Jakarta").expect("a zone");
        let day = (at("2026-01-14T17:00:00Z"), at("2026-01-15T17:00:00Z"));
        assert_eq!(zone.day_around(at("2026-01-14T17:00:00Z")), day);
        assert_eq!(zone.day_around(at("2026-01-15T16:59:59Z")), day);
        let typed = (zone.midnight("2026-01-15"), zone.end_of_day("2026-01-15"));
        assert_eq!(typed, (Some(day.0), Some(day.1)));
        assert_eq!(
            (zone.midnight("2026-02-30"), zone.end_of_day("soon")),
            (None, None)
        );
        assert_eq!(
            (
                zone.hour(day.0).as_str(),
                zone.clock(Lang::Id, day.0).as_str()
            ),
            ("00", "00.00")
        );
        // The clock goes forward: this day has 23 hours.
        let berlin = Zone::named("Europe/Berlin").expect("a zone");
        let (begin, end) = berlin.day_around(at("2026-03-29T12:00:00Z"));
        assert_eq!(end.since(begin), 23 * 60 * 60 * 1_000);
    }

    #[test]
    fn zones_that_can_be_chosen_are_there_and_others_are_not() {
        for name in ZONES_OFFERED {
            assert!(Zone::named(name).is_some(), "{name}");
        }
        let others = ["UTC", "Etc/UTC", "Etc/GMT-7", "GMT", "asia/jakarta"];
        assert!(others.iter().all(|name| Zone::named(name).is_some()));
        assert_eq!(ZONES_OFFERED[0], ZONE_DEFAULT);
        for wrong in [
            "",
            "Asia/Atlantis",
            "../../etc/passwd",
            "Asia/../../etc/passwd",
            "posixrules",
            "posix/Asia/Jakarta",
            "localtime",
        ] {
            assert!(Zone::named(wrong).is_none(), "{wrong}");
        }
        let at = Millis::from_i64(0);
        assert!(
            Zone::chosen(Some("nowhere"))
                .moment(Lang::En, at)
                .ends_with("WIB")
        );
    }
}
