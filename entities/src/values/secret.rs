//! Text that is never printed.

use std::fmt;

/// A secret in the clear, for as long as it is needed. Its `Debug` shows nothing of it and it has no `Display` and no serde.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself; the call site is where to look for leaks.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The last four characters, which help a person to tell secrets apart.
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
