//! Lifetimes of browser sessions, and their notes: secrets that the next page shows once. Pure.

use dikala_entities::{Millis, Secret};

/// Idle timeout of a session, in milliseconds.
pub const IDLE_MS: i64 = 12 * 60 * 60 * 1_000;
/// Maximum duration of a session, in milliseconds.
pub const LONGEST_MS: i64 = 14 * 24 * 60 * 60 * 1_000;
/// Resolution of a session's last use, in milliseconds.
pub const TOUCH_EVERY_MS: i64 = 60 * 1_000;
/// Lifetime of a note, in milliseconds.
pub const NOTE_MS: i64 = 5 * 60 * 1_000;

/// End of a session, given its start and last use.
pub fn end(began: Millis, used: Millis) -> Millis {
    used.plus_ms(IDLE_MS).min(began.plus_ms(LONGEST_MS))
}

/// A note to be sealed. `about` is its key.
pub fn note(about: &str, text: &Secret, now: Millis) -> Secret {
    Secret::new(format!("{} {about} {}", now.as_i64(), text.expose()))
}

/// The text of an opened note, if it has this key and has not expired.
pub fn text_of(note: &Secret, about: &str, now: Millis) -> Option<Secret> {
    let mut parts = note.expose().splitn(3, ' ');
    let left = Millis::from_i64(parts.next()?.parse().ok()?);
    let is_it = parts.next()? == about && now.since(left) < NOTE_MS;
    parts.next().filter(|_| is_it).map(Secret::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_unused_and_in_any_case() {
        const HOUR_MS: i64 = 60 * 60 * 1_000;
        let began = Millis::from_i64(1_800_000_000_000);
        let after = |hours: i64| began.plus_ms(hours * HOUR_MS);
        assert_eq!(end(began, began), after(12));
        assert_eq!(end(began, after(5)), after(17));
        assert_eq!(end(began, after(14 * 24 - 12)), after(14 * 24));
        assert_eq!(end(began, after(14 * 24 - 1)), after(14 * 24));
    }
}
