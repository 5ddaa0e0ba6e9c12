//! Language tags.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Serialize};

/// A language tag of BCP 47 shape (RFC 5646 section 2.1), at most 35 characters: `id`, `en-US`, `zh-Hant-TW`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[serde(try_from = "String")]
pub struct Language(String);

/// The text is not a language tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a language tag such as \"id\", \"en\" or \"en-US\"")]
pub struct LanguageError;

impl Language {
    /// The tag.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Bahasa Indonesia.
impl Default for Language {
    fn default() -> Self {
        Self("id".to_owned())
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Language {
    type Error = LanguageError;

    fn try_from(text: String) -> Result<Self, LanguageError> {
        text.parse()
    }
}

impl FromStr for Language {
    type Err = LanguageError;

    fn from_str(text: &str) -> Result<Self, LanguageError> {
        let mut parts = text.split('-');
        let primary = parts.next().unwrap_or_default();
        let primary_ok =
            (2..=8).contains(&primary.len()) && primary.bytes().all(|b| b.is_ascii_alphabetic());
        let rest_ok = parts.all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        });
        if primary_ok && rest_ok && text.len() <= 35 && !text.ends_with('-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(LanguageError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_bcp_47() {
        for right in ["id", "en-US", "zh-Hant-TW", "sl-rozaj-biske", "de-1996"] {
            assert!(right.parse::<Language>().is_ok(), "{right}");
        }
        for wrong in [
            "",
            "i",
            "Bahasa Indonesia",
            "en_US",
            "-id",
            "id-",
            "en--US",
            "1d",
            "abcdefghi",
        ] {
            assert!(wrong.parse::<Language>().is_err(), "{wrong}");
        }
    }
}
