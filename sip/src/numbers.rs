//! Converts numbers of callers and trunks to E.164. Pure.

/// The least digits of an E.164 number; a shorter one may be incomplete.
const DIGITS_MIN: usize = 7;
const DIGITS_MAX: usize = 15;
/// The longest text for a caller without a number.
const CALLER_CHARS_MAX: usize = 64;

/// The meaning of a URI's user part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Number {
    E164(String),
    /// Digits, but too few.
    Incomplete,
    None,
}

/// Converts a user part to E.164. Fewer than 7 digits without `+` are no number. `prefix` is put before national numbers: `+62` turns `0812…` and `812…` into `+62812…`.
pub fn e164(user: &str, prefix: Option<&str>) -> Number {
    let user = user.split(';').next().unwrap_or_default();
    let (international, rest) = match user.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, user),
    };
    let digits: String = rest
        .chars()
        .filter(|letter| !matches!(letter, '-' | '.' | '(' | ')' | ' '))
        .collect();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Number::None;
    }
    // Without a country these are an extension or a customer number; with a prefix they would be another number.
    if !international && digits.len() < DIGITS_MIN {
        return Number::None;
    }
    let code = prefix.and_then(|prefix| prefix.strip_prefix('+'));
    let whole = if international {
        digits
    } else if let Some(rest) = digits.strip_prefix("00") {
        rest.to_owned()
    } else {
        match (digits.strip_prefix('0'), code) {
            (Some(national), Some(code)) => format!("{code}{national}"),
            (Some(_), None) => return Number::None,
            // With country code but without the plus: national numbers have 11 digits at most.
            (None, Some(code)) if digits.starts_with(code) && digits.len() > 9 => digits,
            (None, Some(code)) => format!("{code}{digits}"),
            (None, None) => digits,
        }
    };
    if whole.len() < DIGITS_MIN {
        return Number::Incomplete;
    }
    if whole.len() > DIGITS_MAX || whole.starts_with('0') {
        return Number::None;
    }
    Number::E164(format!("+{whole}"))
}

/// True for a number that is no customer number by its form: it begins with `+`, or with `0` or the code of `prefix` and has ten
/// digits at least.
pub fn is_dialled_in_full(user: &str, prefix: Option<&str>) -> bool {
    let code = prefix.and_then(|prefix| prefix.strip_prefix('+'));
    let begins = user.starts_with('0') || code.is_some_and(|code| user.starts_with(code));
    user.starts_with('+') || begins && user.len() >= 10
}

/// The caller, in E.164 if it is a number; otherwise the text, shortened to the limit.
pub fn caller(user: &str, prefix: Option<&str>) -> String {
    match e164(user, prefix) {
        Number::E164(number) => number,
        Number::Incomplete | Number::None => {
            let text: String = user
                .chars()
                .filter(|letter| !letter.is_control())
                .take(CALLER_CHARS_MAX)
                .collect();
            let text = text.trim();
            if text.is_empty() {
                "anonymous".to_owned()
            } else {
                text.to_owned()
            }
        }
    }
}

/// The text with numbers of seven digits and more masked, for the log. Separators belong to a number.
pub fn masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter == '+' || letter.is_numeric()) {
        let (before, from) = rest.split_at(at);
        let is_of_number = |letter: char| letter.is_numeric() || "+ -./()".contains(letter);
        let end = from.find(|letter| !is_of_number(letter));
        let (stretch, after) = from.split_at(end.unwrap_or(from.len()));
        let number = stretch.trim_end_matches(|letter: char| !letter.is_numeric());
        shown.push_str(before);
        shown.push_str(&without_middle(number));
        shown.push_str(&stretch[number.len()..]);
        rest = after;
    }
    shown + rest
}

fn without_middle(number: &str) -> String {
    let letters: Vec<char> = number.chars().collect();
    let digits = letters.iter().filter(|letter| letter.is_numeric()).count();
    if digits < DIGITS_MIN {
        return number.to_owned();
    }
    let (head, tail) = if letters.len() < 10 { (0, 2) } else { (3, 4) };
    let head = letters[..head].iter();
    let tail = letters[letters.len() - tail..].iter();
    head.chain(&['*'; 5]).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_made_e164() {
        let table = [
            ("+62 812-3456-789", None, "+628123456789"),
            ("08123456789", Some("+62"), "+628123456789"),
            ("8123456789", Some("+62"), "+628123456789"),
            ("628123456789", Some("+62"), "+628123456789"),
            ("628123456789", None, "+628123456789"),
            ("00628123456789", Some("+62"), "+628123456789"),
            ("+14155550100", Some("+62"), "+14155550100"),
            ("+622150001000;phone-context=x", None, "+622150001000"),
            ("(021) 5000.1000", Some("+62"), "+622150001000"),
        ];
        for (user, prefix, number) in table {
            assert_eq!(
                e164(user, prefix),
                Number::E164(number.to_owned()),
                "{user}"
            );
        }
        for (user, number) in [
            ("12", Number::None),
            ("123456", Number::None),
            ("021-500", Number::None),
            ("+6221", Number::Incomplete),
            ("08123456789", Number::None),
            ("ayu", Number::None),
            ("", Number::None),
            ("+", Number::None),
            ("+6281234567890123456", Number::None),
            ("+0812345678", Number::None),
            ("１２３４５６７", Number::None),
        ] {
            assert_eq!(e164(user, None), number, "{user}");
            if !user.starts_with("0812") {
                assert_eq!(e164(user, Some("+62")), number, "{user} with a prefix");
            }
        }
    }

    #[test]
    fn numbers_are_masked() {
        for (text, shown) in [
            ("+6281234567890", "+62*****7890"),
            ("1234567", "*****67"),
            ("+6281234567890-1", "+62*****90-1"),
            ("leg +62 812-3456-7890@sbc", "leg +62*****7890@sbc"),
            ("(0812) 3456789.", "(081*****6789."),
            ("ayu-08123456789", "ayu-081*****6789"),
            ("٦٢٨١٢٣٤٥٦٧٨٩", "٦٢٨*****٦٧٨٩"),
            ("ayu-1001+é+", "ayu-1001+é+"),
            ("", ""),
        ] {
            assert_eq!(masked(text), shown, "{text}");
        }
    }

    #[test]
    fn callers_without_a_number_keep_their_name() {
        assert_eq!(caller("anonymous", Some("+62")), "anonymous");
        assert_eq!(caller("", None), "anonymous");
        assert_eq!(caller("1001", Some("+62")), "1001");
        assert_eq!(caller("08123456789", Some("+62")), "+628123456789");
        assert_eq!(caller(&"x".repeat(100), None).len(), 64);
    }
}
