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

use super::lang::Lang;

const DATE_CHARS: usize = 10;
/// The default zone: that of the capital, where most customers are.
pub const ZONE_DEFAULT: &str = "Asia/Jakarta";
/// The offered zones: Indonesia's, and those of the world's large cities. Other zones of the database are accepted
/// too.
pub const ZONES_OFFERED: &[&str] = &[
    "Asia/Jakarta",
    "Asia/Makassar",
    "Asia/Jayapura",
    "Africa/Abidjan",
    "Africa/Accra",
    "Africa/Addis_Ababa",
    "Africa/Algiers",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Dar_es_Salaam",
    "Africa/Johannesburg",
    "Africa/Khartoum",
    "Africa/Lagos",
    "Africa/Nairobi",
    "Africa/Tunis",
    "America/Anchorage",
    "America/Argentina/Buenos_Aires",
    "America/Bogota",
    "America/Caracas",
    "America/Chicago",
    "America/Denver",
    "America/Halifax",
    "America/Lima",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/New_York",
    "America/Phoenix",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Toronto",
    "America/Vancouver",
    "Asia/Almaty",
    "Asia/Baghdad",
    "Asia/Baku",
    "Asia/Bangkok",
    "Asia/Beirut",
    "Asia/Brunei",
    "Asia/Colombo",
    "Asia/Dhaka",
    "Asia/Dili",
    "Asia/Dubai",
    "Asia/Ho_Chi_Minh",
    "Asia/Hong_Kong",
    "Asia/Jerusalem",
    "Asia/Kabul",
    "Asia/Karachi",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Kuala_Lumpur",
    "Asia/Kuwait",
    "Asia/Manila",
    "Asia/Muscat",
    "Asia/Phnom_Penh",
    "Asia/Qatar",
    "Asia/Riyadh",
    "Asia/Seoul",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Taipei",
    "Asia/Tashkent",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Asia/Ulaanbaatar",
    "Asia/Vientiane",
    "Asia/Yangon",
    "Atlantic/Azores",
    "Atlantic/Reykjavik",
    "Australia/Adelaide",
    "Australia/Brisbane",
    "Australia/Darwin",
    "Australia/Hobart",
    "Australia/Melbourne",
    "Australia/Perth",
    "Australia/Sydney",
    "Europe/Amsterdam",
    "Europe/Athens",
    "Europe/Berlin",
    "Europe/Brussels",
    "Europe/Bucharest",
    "Europe/Budapest",
    "Europe/Copenhagen",
    "Europe/Dublin",
    "Europe/Helsinki",
    "Europe/Istanbul",
    "Europe/Kyiv",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Madrid",
    "Europe/Moscow",
    "Europe/Oslo",
    "Europe/Paris",
    "Europe/Prague",
    "Europe/Rome",
    "Europe/Stockholm",
    "Europe/Vienna",
    "Europe/Warsaw",
    "Europe/Zurich",
    "Indian/Maldives",
    "Indian/Mauritius",
    "Pacific/Auckland",
    "Pacific/Fiji",
    "Pacific/Guam",
    "Pacific/Honolulu",
    "Pacific/Port_Moresby",
    "UTC",
];
/// Prefixes of zones that are named after places; the database's other names are aliases and fixed offsets.
const REGIONS: [&str; 10] = [
    "Africa/",
    "America/",
    "Antarctica/",
    "Arctic/",
    "Asia/",
    "Atlantic/",
    "Australia/",
    "Europe/",
    "Indian/",
    "Pacific/",
];
const MONTHS_EN: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const MONTHS_ID: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "Mei", "Jun", "Jul", "Agu", "Sep", "Okt", "Nov", "Des",
];

/// A time zone with its database name.
#[derive(Clone, Debug)]
pub struct Zone {
    zone: TimeZone,
}

impl Zone {
    /// The zone with this name in the time zone database.
    pub fn named(name: &str) -> Option<Self> {
        let is_known = name == "UTC" || REGIONS.iter().any(|region| name.starts_with(region));
        let zone = is_known.then(|| TimeZone::get(name).ok()).flatten()?;
        Some(Self { zone })
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

    pub fn day_of_month(&self, at: Millis) -> String {
        timestamp(at).to_zoned(self.zone.clone()).day().to_string()
    }

    pub fn day(&self, lang: Lang, at: Millis) -> String {
        day(lang, timestamp(at).to_zoned(self.zone.clone()).date())
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

/// Whole rupiah: `Rp 1,234,567`; in Indonesian `Rp1.234.567`.
pub fn rupiah(lang: Lang, value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let figure = number(lang, value).replacen('-', "", 1);
    match lang {
        Lang::En => format!("{sign}Rp\u{a0}{figure}"),
        Lang::Id => format!("{sign}Rp{figure}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

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

    #[test]
    fn money() {
        assert_eq!(rupiah(Lang::En, 1_500), "Rp\u{a0}1,500");
        assert_eq!(rupiah(Lang::Id, 1_500), "Rp1.500");
        assert_eq!(rupiah(Lang::Id, -1_500), "-Rp1.500");
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
        assert_eq!(ZONES_OFFERED[0], ZONE_DEFAULT);
        for wrong in [
            "",
            "Asia/Atlantis",
            "../../etc/passwd",
            "Asia/../../etc/passwd",
            "posixrules",
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
