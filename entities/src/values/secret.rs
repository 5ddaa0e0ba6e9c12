//! Text that is never printed.

use std::fmt;

/// A secret in plain text. Its `Debug` shows nothing of it, and it has neither `Display` nor serde.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself; search for calls of this to find leaks.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The last four characters, which help people to distinguish secrets.
    pub fn hint(&self) -> String {
        let skip = self.0.chars().count().saturating_sub(4);
        self.0.chars().skip(skip).collect()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
