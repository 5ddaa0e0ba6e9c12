//! Errors as OpenAI tells them, and those that every further attempt would meet, too.

use serde::Deserialize;

use super::messages::null_is_empty;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice) struct ModelError {
    #[serde(rename = "type", deserialize_with = "null_is_empty")]
    pub kind: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub code: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub message: String,
    /// The event of this side that caused it.
    #[serde(deserialize_with = "null_is_empty")]
    pub event_id: String,
}

/// Codes of errors that every further attempt would meet, too.
const FATAL: [&str; 4] = [
    "insufficient_quota",
    "invalid_api_key",
    "model_not_found",
    "beta_api_shape_disabled",
];

/// Words of the service, such as the reason of a close, that have the code of an error that will not go away.
pub(in crate::voice) fn is_fatal(words: &str) -> bool {
    FATAL.iter().any(|code| words.contains(code))
}

impl ModelError {
    pub(in crate::voice) fn has_code(&self) -> bool {
        !(self.code.is_empty() && self.kind.is_empty())
    }

    /// The code for operators. The message may have the caller's words, so it is not shown.
    pub(in crate::voice) fn shown(&self) -> String {
        let code = match self.code.as_str() {
            "" => &self.kind,
            code => code,
        };
        let is_plain =
            |each: &char| each.is_ascii_alphanumeric() || matches!(each, '_' | '.' | '-');
        let shown: String = code.chars().filter(is_plain).take(64).collect();
        match shown.as_str() {
            "" => "an error without a code".to_owned(),
            _ => shown,
        }
    }
}
