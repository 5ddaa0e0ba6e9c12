//! Language tags, and checks of invisible or misleading text.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Serialize};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The shortest and the longest language tag, in characters.
const LANGUAGE_CHARS_MIN: usize = 2;
const LANGUAGE_CHARS_MAX: usize = 35;
/// The longest part between two hyphens.
const SUBTAG_CHARS_MAX: usize = 8;

/// A language tag of BCP 47 shape (RFC 5646 section 2.1), at most 35 characters: `id`, `en-US`, `zh-Hant-TW`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, DeriveValueType)]
#[serde(try_from = "String")]
pub struct Language(String);

/// The text is not a language tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a language tag such as \"id\", \"en\" or \"en-US\"")]
pub struct LanguageError;

impl Language {
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
        let primary_ok = (LANGUAGE_CHARS_MIN..=SUBTAG_CHARS_MAX).contains(&primary.len())
            && primary.bytes().all(|b| b.is_ascii_alphabetic());
        let rest_ok = parts.all(|part| {
            (1..=SUBTAG_CHARS_MAX).contains(&part.len())
                && part.bytes().all(|b| b.is_ascii_alphanumeric())
        });
        if primary_ok && rest_ok && text.len() <= LANGUAGE_CHARS_MAX && !text.ends_with('-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(LanguageError)
        }
    }
}

#[cfg(feature = "openapi")]
crate::described! {
    Language: {
        let (least, most) = (LANGUAGE_CHARS_MIN, SUBTAG_CHARS_MAX);
        super::schema::text()
            .min_length(Some(least))
            .max_length(Some(LANGUAGE_CHARS_MAX))
            .pattern(Some(format!("^[A-Za-z]{{{least},{most}}}(-[A-Za-z0-9]{{1,{most}}})*$")))
    };
}

/// True if a text is invisible: empty, or only blanks, controls, joiners and other characters without a glyph.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(is_invisible)
}

/// True if a text stays on its line and reads in the written order: no line breaks, control characters or direction
/// changes, which could disguise one name as another.
pub fn is_one_line(text: &str) -> bool {
    !text.chars().any(|character| {
        character.is_control()
            || matches!(
                character,
                '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            )
    })
}

fn is_invisible(character: char) -> bool {
    use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator, SpaceSeparator};

    let category = matches!(
        character.general_category(),
        Control | Format | LineSeparator | ParagraphSeparator | SpaceSeparator
    );
    // Letters, marks and symbols of Unicode without a glyph: joiners, fillers, selectors, blanks of Braille and
    // music, and unassigned code points that are ignored by default.
    let among_others = matches!(
        character,
        '\u{34f}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{17b4}'
            | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2065}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1d159}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    category || among_others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_no_ink_is_blank() {
        for blank in [
            "",
            " \t\r\n",
            "\u{a0}\u{2003}\u{3000}",
            "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}",
            "\u{ad}",
            "\u{61c}\u{200e}\u{202e}\u{2066}",
            "\u{2028}\u{2029}\u{85}",
            "\u{115f}\u{1160}\u{3164}\u{ffa0}",
            "\u{2800}",
            "\u{34f}\u{180e}\u{fe0f}\u{e0100}\u{e0041}",
            "\u{1d159}\u{1d173}\u{0}",
        ] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for visible in [
            "a",
            "\u{200b}.\u{200b}",
            "가",
            "👩\u{200d}🚀",
            "\u{301}",
            "⠁",
            "ـ",
        ] {
            assert!(!is_blank(visible), "{visible:?}");
        }
    }

    #[test]
    fn a_line_has_no_breaks_and_turns_nothing_around() {
        for line in [
            "",
            "Sari",
            "Toko \"Bu Sari\" – 👩\u{200d}🚀",
            "متجر\u{200f}",
            "a\u{a0}b",
        ] {
            assert!(is_one_line(line), "{line:?}");
        }
        for other in [
            "a\nb",
            "a\tb",
            "\u{7}",
            "a\u{85}b",
            "a\u{7f}",
            "a\u{2028}b",
            "a\u{202e}b",
            "\u{2067}a\u{2069}",
        ] {
            assert!(!is_one_line(other), "{other:?}");
        }
    }

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
