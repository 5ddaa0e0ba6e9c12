//! Phone numbers. In logs they are masked: `Debug` shows the country code and the last four digits.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Serialize};

/// A number in E.164: a plus and 7 to 15 digits, of which the first is not 0, nothing else.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[serde(try_from = "String")]
pub struct PhoneNumber(String);

/// Who calls, as the bridge knows it: an E.164 number where known, else 1 to 64 characters of any text.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[serde(try_from = "String")]
pub struct CallerNumber(String);

/// The text is not a phone number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PhoneError {
    #[error(
        "must be a phone number in international format: +, a country code, which does not begin with 0, and 7 to 15 digits in all, without spaces"
    )]
    NotE164,
    #[error("must have 1 to 64 characters and no control characters")]
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
                masked(&self.0, f)
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

numbers! { PhoneNumber CallerNumber }

impl FromStr for PhoneNumber {
    type Err = PhoneError;

    fn from_str(text: &str) -> Result<Self, PhoneError> {
        let digits = text.strip_prefix('+').ok_or(PhoneError::NotE164)?;
        let well_formed = (7..=15).contains(&digits.len())
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

impl FromStr for CallerNumber {
    type Err = PhoneError;

    fn from_str(text: &str) -> Result<Self, PhoneError> {
        let length = text.chars().count();
        if (1..=64).contains(&length) && !text.chars().any(char::is_control) {
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
}
