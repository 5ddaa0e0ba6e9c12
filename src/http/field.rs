//! Faults of single fields.

use serde::Serialize;

/// The longest quotation of the input in an error message, in characters.
const QUOTED_MAX: usize = 60;

macro_rules! field_codes {
    ($($code:ident = $word:literal,)*) => {
        /// The codes of field errors. A closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FieldCode { $($code,)* }

        impl FieldCode {
            /// All codes as written.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// The code as written.
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

/// A field error in the error body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The path in the API's spelling: `voiceId`, `parameters.required[1]`.
    pub field: String,
    pub code: FieldCode,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// The limit that the code refers to, for translations.
    #[serde(skip)]
    pub bound: Option<i64>,
    /// True if the message is a translated, complete sentence.
    #[serde(skip)]
    pub is_translated: bool,
    /// The sentence that pages show in place of the message. In English it repeats the message.
    #[serde(skip)]
    pub sentence: Option<Box<PageSentence>>,
}

/// A sentence of the pages, which knows neither the field's API name nor the API's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSentence {
    /// The id of its Fluent message, whose arguments are `bound` and those below.
    pub id: &'static str,
    pub arguments: Vec<(&'static str, i64)>,
    /// True if it lacks details that only the API's message has.
    pub is_partial: bool,
}

impl PageSentence {
    fn whole(id: &'static str) -> Self {
        Self {
            id,
            arguments: Vec::new(),
            is_partial: false,
        }
    }

    fn partial(id: &'static str) -> Self {
        Self {
            is_partial: true,
            ..Self::whole(id)
        }
    }
}

impl FieldError {
    /// An error of a field that says what the field must be: `"must be a string"`.
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
            sentence: None,
        }
    }

    /// Pages show the message with this id in place of the API's.
    pub fn in_words(mut self, id: &'static str) -> Self {
        self.sentence = Some(Box::new(PageSentence::whole(id)));
        self
    }

    /// The same with arguments.
    pub fn in_words_with(mut self, id: &'static str, arguments: &[(&'static str, i64)]) -> Self {
        let sentence = PageSentence {
            arguments: arguments.to_vec(),
            ..PageSentence::whole(id)
        };
        self.sentence = Some(Box::new(sentence));
        self
    }

    /// Pages in other languages show the message with this id, and the API's message as its detail.
    pub fn in_part(mut self, id: &'static str) -> Self {
        self.sentence = Some(Box::new(PageSentence::partial(id)));
        self
    }

    /// The error of a field inside the field with this name.
    pub(in crate::http) fn inside(mut self, outer: &str) -> Self {
        if self.message.starts_with(&self.field) {
            self.message = format!("{outer}.{}", self.message);
        }
        self.field = format!("{outer}.{}", self.field);
        self
    }

    /// An error of a field as a complete, translated sentence.
    pub fn translated(field: impl Into<String>, code: FieldCode, sentence: String) -> Self {
        Self {
            field: field.into(),
            code,
            message: sentence,
            allowed: None,
            bound: None,
            is_translated: true,
            sentence: None,
        }
    }
}

/// A fault of a value, before its field is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFault {
    /// The position inside the value: empty, `[1]` or `.name`.
    at: String,
    code: FieldCode,
    message: FaultMessage,
    allowed: Option<Vec<String>>,
    bound: Option<i64>,
    sentence: Option<Box<PageSentence>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FaultMessage {
    /// Follows the field's name.
    Predicate(String),
    /// A complete sentence.
    Sentence(String),
}

/// All faults of a value.
pub type ValueFaults = Vec<ValueFault>;

impl ValueFault {
    /// A fault that says what the field must be: `"must be a string"`.
    pub fn new(code: FieldCode, predicate: impl Into<String>) -> Self {
        Self {
            at: String::new(),
            code,
            message: FaultMessage::Predicate(predicate.into()),
            allowed: None,
            bound: None,
            sentence: None,
        }
    }

    /// A fault as a complete sentence.
    pub fn sentence(code: FieldCode, sentence: impl Into<String>) -> Self {
        Self {
            at: String::new(),
            code,
            message: FaultMessage::Sentence(sentence.into()),
            allowed: None,
            bound: None,
            sentence: None,
        }
    }

    /// Adds the allowed values.
    pub fn allowing(mut self, allowed: Vec<String>) -> Self {
        self.allowed = Some(allowed);
        self
    }

    /// Adds the violated limit.
    pub fn bounded(mut self, bound: i64) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Pages show the message with this id in place of the API's.
    pub fn in_words(mut self, id: &'static str) -> Self {
        self.sentence = Some(Box::new(PageSentence::whole(id)));
        self
    }

    /// Pages in other languages show the message with this id, and the API's message as its detail.
    pub fn in_part(mut self, id: &'static str) -> Self {
        self.sentence = Some(Box::new(PageSentence::partial(id)));
        self
    }

    /// Prefixes the position, for a value inside another.
    pub fn inside(mut self, at: &str) -> Self {
        self.at.insert_str(0, at);
        self
    }

    /// The error of the field with that name.
    pub fn in_field(self, name: &str) -> FieldError {
        let field = format!("{name}{}", self.at);
        let message = match self.message {
            FaultMessage::Predicate(predicate) => format!("{field} {predicate}."),
            FaultMessage::Sentence(sentence) => sentence,
        };
        FieldError {
            field,
            code: self.code,
            message,
            allowed: self.allowed,
            bound: self.bound,
            is_translated: false,
            sentence: self.sentence,
        }
    }
}

impl From<ValueFault> for ValueFaults {
    fn from(fault: ValueFault) -> Self {
        vec![fault]
    }
}

/// Quotes input: shortened, and without control characters.
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

/// A field name from the input, shortened for use in a path.
pub(in crate::http) fn shown(name: &str) -> String {
    let name: String = name.chars().take(QUOTED_MAX).collect();
    name.replace('\0', "\\u0000")
}

/// The known name that was probably meant. Case does not matter; about a third of the letters may differ.
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
