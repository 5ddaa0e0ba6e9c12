//! What can be wrong with one field.

use serde::Serialize;

/// The longest piece of what was sent that an error message repeats, in characters.
const QUOTED_MAX: usize = 60;

macro_rules! field_codes {
    ($($code:ident = $word:literal,)*) => {
        /// Every code a wrong field can have. Closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FieldCode { $($code,)* }

        impl FieldCode {
            /// Every code as it is written.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// The code as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $word,)* }
            }
        }
    };
}

field_codes! {
    Required = "required",
    TooShort = "too_short",
    TooLong = "too_long",
    TooSmall = "too_small",
    TooLarge = "too_large",
    NotAllowed = "not_allowed",
    InvalidFormat = "invalid_format",
    InvalidType = "invalid_type",
    UnknownField = "unknown_field",
    Duplicate = "duplicate",
    NotFound = "not_found",
    InsecureUrl = "insecure_url",
    BlockedAddress = "blocked_address",
}

impl Serialize for FieldCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A wrong field, as the error body shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The path in the API's own spelling: `voiceId`, `parameters.required[1]`.
    pub field: String,
    pub code: FieldCode,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// The least or the most that the code tells of, for those who say it in another language.
    #[serde(skip)]
    pub bound: Option<i64>,
    /// Whether the message is in the language of whom it is told to already, and says all that there is to say.
    #[serde(skip)]
    pub is_translated: bool,
}

impl FieldError {
    /// A wrong field and what it must be: `"must be a string"`.
    pub fn new(field: impl Into<String>, code: FieldCode, predicate: &str) -> Self {
        let field = field.into();
        let message = format!("{field} {predicate}.");
        Self {
            field,
            code,
            message,
            allowed: None,
            bound: None,
            is_translated: false,
        }
    }

    /// A wrong field and a whole sentence about it, in the language of whom it is told to.
    pub fn translated(field: impl Into<String>, code: FieldCode, sentence: String) -> Self {
        Self {
            field: field.into(),
            code,
            message: sentence,
            allowed: None,
            bound: None,
            is_translated: true,
        }
    }
}

/// What is wrong with a value, before it is known which field it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where inside the value: empty, `[1]` or `.name`.
    at: String,
    code: FieldCode,
    message: Message,
    allowed: Option<Vec<String>>,
    bound: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Message {
    /// Comes after the field's name.
    Predicate(String),
    /// Stands for itself.
    Sentence(String),
}

/// All that is wrong with a value.
pub type Faults = Vec<Fault>;

impl Fault {
    /// What the field must be: `"must be a string"`.
    pub fn new(code: FieldCode, predicate: impl Into<String>) -> Self {
        Self {
            at: String::new(),
            code,
            message: Message::Predicate(predicate.into()),
            allowed: None,
            bound: None,
        }
    }

    /// A whole sentence about the value.
    pub fn sentence(code: FieldCode, sentence: impl Into<String>) -> Self {
        Self {
            at: String::new(),
            code,
            message: Message::Sentence(sentence.into()),
            allowed: None,
            bound: None,
        }
    }

    /// Names the values that would have been taken.
    pub fn allowing(mut self, allowed: Vec<String>) -> Self {
        self.allowed = Some(allowed);
        self
    }

    /// Names the least or the most that would have been taken.
    pub fn bounded(mut self, bound: i64) -> Self {
        self.bound = Some(bound);
        self
    }

    /// The same fault, seen from one level further out.
    pub fn inside(mut self, at: &str) -> Self {
        self.at.insert_str(0, at);
        self
    }

    /// The fault of that field.
    pub fn in_field(self, name: &str) -> FieldError {
        let field = format!("{name}{}", self.at);
        let message = match self.message {
            Message::Predicate(predicate) => format!("{field} {predicate}."),
            Message::Sentence(sentence) => sentence,
        };
        FieldError {
            field,
            code: self.code,
            message,
            allowed: self.allowed,
            bound: self.bound,
            is_translated: false,
        }
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        vec![fault]
    }
}

/// A piece of what was sent, in quotes, shortened and without control characters.
pub(in crate::http) fn quoted(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(QUOTED_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(QUOTED_MAX).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// A name that was sent, fit to stand in a path.
pub(in crate::http) fn shown(name: &str) -> String {
    let name: String = name.chars().take(QUOTED_MAX).collect();
    name.replace('\0', "\\u0000")
}

/// The one of `known` that was probably meant. Case does not matter; about a third of the letters may differ.
pub(in crate::http) fn suggestion<'a>(
    given: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const LENGTH_MAX: usize = 64;
    if given.len() > LENGTH_MAX {
        return None;
    }
    let given = given.to_lowercase();
    known
        .into_iter()
        .map(|word| {
            (
                strsim::damerau_levenshtein(&given, &word.to_lowercase()),
                word,
            )
        })
        .filter(|(distance, word)| *distance <= (word.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_gets_a_suggestion_and_a_far_one_none() {
        let voices = ["Puck", "Charon", "Kore", "Fenrir", "Aoede"];
        assert_eq!(suggestion("puck", voices), Some("Puck"));
        assert_eq!(suggestion("Chaorn", voices), Some("Charon"));
        assert_eq!(suggestion("Beethoven", voices), None);
        assert_eq!(suggestion(&"x".repeat(100_000), voices), None);
    }

    #[test]
    fn what_was_sent_is_repeated_in_part_and_harmlessly() {
        assert_eq!(quoted("a\u{0}b\n"), r#""a\0b\n""#);
        assert_eq!(quoted(&"x".repeat(1_000)).chars().count(), QUOTED_MAX + 3);
    }
}
