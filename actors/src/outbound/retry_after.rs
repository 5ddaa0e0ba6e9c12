//! Parses the pause that a server asks for.

use dikala_entities::Millis;

/// `Retry-After` (RFC 9110 section 10.2.3) as milliseconds from `now`: whole seconds, or a date as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn retry_after_ms(header: &str, now: Millis) -> Option<i64> {
    let header = header.trim();
    if header.bytes().all(|b| b.is_ascii_digit()) {
        return header.parse::<i64>().ok()?.checked_mul(1_000);
    }
    let date = header.split_once(", ")?.1.strip_suffix(" GMT")?;
    let mut parts = date.split(' ');
    let (day, month, year, time) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let month = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    .iter()
    .position(|name| *name == month)?
        + 1;
    let at = Millis::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()?;
    Some(at.since(now).max(0))
}
