//! Phone numbers as people type and paste them into forms. Pure.

/// The country code of numbers that are written without one.
const HOME: &str = "62";
/// Fewest digits of a number with the country code but without `+`, as WhatsApp shows it. A shorter one may be a local number.
const BARE_DIGITS_MIN: usize = 10;

/// Converts a phone number as people write it to the API's form. People use separators, and omit the country code at home, or its
/// `+`. Other text is passed on as typed, and the handler refuses it.
pub fn dialled(text: &str) -> String {
    let plain: String = text.chars().filter(|sign| !is_separator(*sign)).collect();
    let digits = plain.strip_prefix('+').unwrap_or(&plain);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return text.trim().to_owned();
    }
    let is_bare = digits.starts_with(HOME) && digits.len() >= BARE_DIGITS_MIN;
    match digits.strip_prefix('0') {
        _ if plain.starts_with('+') || is_bare => format!("+{digits}"),
        Some(rest) if !rest.starts_with('0') => format!("+{HOME}{rest}"),
        _ => text.trim().to_owned(),
    }
}

/// True for signs between digits: blanks, brackets, dots, hyphens and dashes of any kind, and the invisible marks of direction that
/// address books copy with a number.
fn is_separator(sign: char) -> bool {
    sign.is_whitespace()
        || matches!(sign, '-' | '.' | '(' | ')' | '\u{ad}' | '\u{2212}')
        || matches!(sign, '\u{2010}'..='\u{2015}')
        || matches!(sign, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_as_people_write_them() {
        for (typed, taken) in [
            ("0812 3456 7890", "+6281234567890"),
            ("0812-3456-7890", "+6281234567890"),
            ("(021) 555.0100", "+62215550100"),
            (" +62 812-3456-7890 ", "+6281234567890"),
            ("+1 (415) 555-0100", "+14155550100"),
            ("6281234567890", "+6281234567890"),
            ("62 812-3456-7890", "+6281234567890"),
            ("0812\u{2013}3456\u{2011}7890", "+6281234567890"),
            ("+62\u{a0}812\u{202f}3456\u{2009}7890", "+6281234567890"),
            (
                "\u{202a}+62 812\u{2212}3456\u{2010}7890\u{202c}",
                "+6281234567890",
            ),
            ("6281234", "6281234"),
            ("14155550100", "14155550100"),
            ("0062812", "0062812"),
            (" 0812 call me", "0812 call me"),
            ("0812+3456", "0812+3456"),
            ("٠٨١٢٣٤٥٦٧٨", "٠٨١٢٣٤٥٦٧٨"),
            ("+", "+"),
            ("\u{2013}", "\u{2013}"),
        ] {
            assert_eq!(dialled(typed), taken, "{typed}");
        }
    }
}
