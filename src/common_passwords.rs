//! The most common passwords, which attackers try first.

use std::sync::LazyLock;

/// In lower case, sorted by bytes, and only those of ten characters or more: shorter ones are accepted nowhere. Sources: the
/// lists of Django (BSD-3-Clause, from haveibeenpwned.com) and zxcvbn (MIT, from ten million leaked passwords), together the
/// 40,000 most common.
const COMMON: &str = include_str!("common_passwords.txt");

/// True if the password is in the list, regardless of case.
pub fn is_common(password: &str) -> bool {
    static LINES: LazyLock<Vec<&'static str>> = LazyLock::new(|| COMMON.lines().collect());
    let folded = password.to_lowercase();
    LINES.binary_search(&folded.as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_holds_only_what_would_be_taken_otherwise() {
        let lines: Vec<&str> = COMMON.lines().collect();
        assert!(lines.len() > 2_000 && lines.is_sorted());
        for line in lines {
            assert_eq!(line, line.to_lowercase());
            assert!(line.chars().count() >= 10, "{line}");
        }
    }
}
