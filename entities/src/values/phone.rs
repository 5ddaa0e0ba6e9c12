//! Phone numbers. In logs they are masked: `Debug` shows the country code and the last four digits.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Serialize};

/// Digits of a number, including the country code (ITU-T E.164 allows no more).
const DIGITS_MIN: usize = 7;
pub(super) const DIGITS_MAX: usize = 15;
/// The longest name or number of a caller, in characters.
const CALLER_CHARS_MAX: usize = 64;

/// An E.164 number: a plus and 7 to 15 digits, of which the first is not 0.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[serde(try_from = "String")]
pub struct PhoneNumber(String);

/// A caller as the bridge knows it: an E.164 number if known, else any text of 1 to 64 characters.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[serde(try_from = "String")]
pub struct CallerNumber(String);

/// The called side of a call: an E.164 number, or [`WEB`](Self::WEB) for a call from a browser.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[serde(try_from = "String")]
pub struct CalleeNumber(String);

impl CalleeNumber {
    pub const WEB: &str = "web";

    /// The called side of a call from a browser, which calls an agent and no number.
    pub fn web() -> Self {
        Self(Self::WEB.to_owned())
    }
}

impl From<PhoneNumber> for CalleeNumber {
    fn from(number: PhoneNumber) -> Self {
        Self(number.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PhoneError {
    #[error(
        "must be a phone number in international format: +, a country code, which does not begin with 0, and {DIGITS_MIN} to {DIGITS_MAX} digits in all, without spaces"
    )]
    NotE164,
    #[error("must have 1 to {CALLER_CHARS_MAX} characters and no control characters")]
    NotACaller,
}

fn masked(number: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let chars: Vec<char> = number.chars().collect();
    let (head, tail) = if chars.len() >= 10 {
        (3, 4)
    } else {
        (0, chars.len().min(2))
    };
    f.write_str(&chars[..head].iter().collect::<String>())?;
    f.write_str("*****")?;
    f.write_str(&chars[chars.len() - tail..].iter().collect::<String>())
}

/// Masks possible phone numbers in foreign text, such as a bridge's own id of a call: digits, including common
/// separators.
pub fn with_numbers_masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '+' || c.is_numeric()) {
        let (before, from) = rest.split_at(at);
        let of_number = |c: char| c.is_numeric() || "+ -./()".contains(c);
        let (stretch, after) = from.split_at(from.find(|c| !of_number(c)).unwrap_or(from.len()));
        let number = stretch.trim_end_matches(|c: char| !c.is_numeric());
        shown.push_str(before);
        match number.chars().filter(|c| c.is_numeric()).count() {
            DIGITS_MIN.. => shown.push_str(&fmt::from_fn(|f| masked(number, f)).to_string()),
            _ => shown.push_str(number),
        }
        shown.push_str(&stretch[number.len()..]);
        rest = after;
    }
    shown + rest
}

macro_rules! numbers {
    ($($name:ident)*) => {$(
        impl $name {
            /// The number in full: for the store, the tenant and the bridge, never for a log.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0.as_str() {
                    CalleeNumber::WEB => f.write_str(CalleeNumber::WEB),
                    number => masked(number, f),
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = PhoneError;

            fn try_from(text: String) -> Result<Self, PhoneError> {
                text.parse()
            }
        }
    )*};
}

numbers! { PhoneNumber CallerNumber CalleeNumber }

#[cfg(feature = "openapi")]
crate::described! {
    PhoneNumber: {
        // After the first, which is not 0.
        let (least, most) = (DIGITS_MIN - 1, DIGITS_MAX - 1);
        super::schema::text().pattern(Some(format!(r"^\+[1-9][0-9]{{{least},{most}}}$")))
    };
    CalleeNumber: {
        let (least, most) = (DIGITS_MIN - 1, DIGITS_MAX - 1);
        super::schema::text().pattern(Some(format!(r"^(\+[1-9][0-9]{{{least},{most}}}|web)$")))
    };
    CallerNumber: super::schema::text().min_length(Some(1)).max_length(Some(CALLER_CHARS_MAX));
}

impl FromStr for PhoneNumber {
    type Err = PhoneError;

    fn from_str(text: &str) -> Result<Self, PhoneError> {
        let digits = text.strip_prefix('+').ok_or(PhoneError::NotE164)?;
        let well_formed = (DIGITS_MIN..=DIGITS_MAX).contains(&digits.len())
                && digits.bytes().all(|b| b.is_ascii_digit())
                // No country code begins with 0.
                && !digits.starts_with('0');
        if well_formed {
            Ok(Self(text.to_owned()))
        } else {
            Err(PhoneError::NotE164)
        }
    }
}

impl FromStr for CalleeNumber {
    type Err = PhoneError;

    fn from_str(text: &str) -> Result<Self, PhoneError> {
        match text {
            Self::WEB => Ok(Self::web()),
            number => number.parse().map(PhoneNumber::into),
        }
    }
}

impl FromStr for CallerNumber {
    type Err = PhoneError;

    fn from_str(text: &str) -> Result<Self, PhoneError> {
        let length = text.chars().count();
        if (1..=CALLER_CHARS_MAX).contains(&length) && !text.chars().any(char::is_control) {
            Ok(Self(text.to_owned()))
        } else {
            Err(PhoneError::NotACaller)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e164_and_nothing_else() {
        for right in ["+6281234567890", "+1234567", "+123456789012345"] {
            assert!(right.parse::<PhoneNumber>().is_ok(), "{right}");
        }
        for wrong in [
            "",
            "+",
            "6281234567890",
            "+62 812",
            "+123456",
            "+1234567890123456",
            "+62a1234567",
            "+٦٢٨١٢٣٤٥٦٧",
            "+0812345678",
            "+00000000",
        ] {
            assert!(wrong.parse::<PhoneNumber>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_debug_print_shows_no_number() {
        let number: PhoneNumber = "+6281234567890".parse().expect("a number");
        assert_eq!(format!("{number:?}"), "+62*****7890");
        let short: CallerNumber = "1234567".parse().expect("a caller");
        assert_eq!(format!("{short:?}"), "*****67");
    }

    #[test]
    fn numbers_in_other_texts_are_masked() {
        for (text, shown) in [
            ("+6281234567890-1", "+62*****90-1"),
            ("leg +62 812-3456-7890@sbc", "leg +62*****7890@sbc"),
            ("sip:6281234567890;x=1", "sip:628*****7890;x=1"),
            ("(0812) 3456789.", "(081*****6789."),
            ("call-1234567-", "call-*****67-"),
            ("٦٢٨١٢٣٤٥٦٧٨٩", "٦٢٨*****٦٧٨٩"),
            (
                "3848276298220188511@sip.example.com",
                "384*****8511@sip.example.com",
            ),
            ("sip-4711", "sip-4711"),
            ("a84b4c76e66710", "a84b4c76e66710"),
            ("jkt-2+é+", "jkt-2+é+"),
            ("", ""),
        ] {
            assert_eq!(with_numbers_masked(text), shown, "{text}");
        }
    }
}
