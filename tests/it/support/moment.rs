//! Times in the service's format.

use time::{Duration, OffsetDateTime, format_description::well_known::Rfc3339};

/// A time in whole milliseconds, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(OffsetDateTime);

#[expect(
    clippy::disallowed_methods,
    reason = "from outside the service has no clock but the wall's"
)]
impl Moment {
    pub fn now() -> Self {
        let now = OffsetDateTime::now_utc();
        Self(now.replace_millisecond(now.millisecond()).unwrap())
    }

    pub fn ago(seconds: i64) -> Self {
        Self::now().plus(-seconds)
    }

    pub fn plus(self, seconds: i64) -> Self {
        self.plus_ms(seconds * 1_000)
    }

    pub fn plus_ms(self, milliseconds: i64) -> Self {
        Self(self.0 + Duration::milliseconds(milliseconds))
    }

    pub fn ms_since(self, earlier: Self) -> i64 {
        i64::try_from((self.0 - earlier.0).whole_milliseconds()).unwrap()
    }

    /// Sleeps until this time has passed. Only for tests of the time itself.
    pub async fn passed(self) {
        let left = self.0 - OffsetDateTime::now_utc();
        if let Ok(left) = std::time::Duration::try_from(left) {
            tokio::time::sleep(left).await;
        }
    }

    /// `2026-01-15T03:30:00.000Z`.
    pub fn text(self) -> String {
        let (date, time) = (self.0.date(), self.0.time());
        let (hour, minute, second, milli) = time.as_hms_milli();
        format!("{date}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }

    /// Parses a timestamp and asserts its canonical form.
    pub fn parse(text: &serde_json::Value) -> Self {
        let text = text
            .as_str()
            .unwrap_or_else(|| panic!("{text} is no timestamp"));
        let moment = Self(OffsetDateTime::parse(text, &Rfc3339).unwrap());
        assert_eq!(moment.text(), text, "timestamps have one form");
        moment
    }
}
