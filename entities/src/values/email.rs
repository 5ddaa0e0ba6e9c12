//! Email addresses of people, in one spelling each.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Serialize};

/// The longest address, in bytes (RFC 5321 section 4.5.3.1.3 leaves 254 between the brackets).
const BYTES_MAX: usize = 254;
/// The longest part before the `@`, in bytes (RFC 5321 section 4.5.3.1.1).
const LOCAL_BYTES_MAX: usize = 64;

/// An email address in lower case, which need not exist.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, DeriveValueType,
)]
#[serde(try_from = "String")]
pub struct Email(String);

#[cfg(feature = "openapi")]
crate::described! {
    Email: super::schema::text().max_length(Some(BYTES_MAX)).pattern(Some(r"^\s*[^@\s]+@[^@\s]+\s*$"));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an email address such as sari@example.com")]
pub struct EmailError;

impl Email {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Email {
    type Error = EmailError;

    fn try_from(text: String) -> Result<Self, EmailError> {
        text.parse()
    }
}

impl FromStr for Email {
    type Err = EmailError;

    /// Trims blanks and converts to lower case: common providers ignore case, and two users that differ only in case
    /// would cause confusion.
    fn from_str(text: &str) -> Result<Self, EmailError> {
        let folded = text.trim().to_lowercase();
        let is_ink =
            |c: char| !c.is_whitespace() && !c.is_control() && !"<>,;:\"\\()[]".contains(c);
        let (local, domain) = folded.rsplit_once('@').ok_or(EmailError)?;
        let local_ok = (1..=LOCAL_BYTES_MAX).contains(&local.len()) && !local.contains('@');
        let domain_ok = domain.split('.').all(|label| !label.is_empty());
        if folded.len() <= BYTES_MAX && local_ok && domain_ok && folded.chars().all(is_ink) {
            Ok(Self(folded))
        } else {
            Err(EmailError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_one_spelling() {
        let parsed = " Sari@Toko.Example ".parse::<Email>().map(|email| email.0);
        assert_eq!(parsed, Ok("sari@toko.example".to_owned()));
        for right in ["a@b", "a+b.c@d-e.example", "münchen@bücher.example"] {
            assert!(right.parse::<Email>().is_ok(), "{right}");
        }
    }

    #[test]
    fn refuses_what_is_no_address() {
        let long = format!("{}@example.com", "a".repeat(65));
        let longer = format!("a@{}.com", "b".repeat(254));
        for wrong in [
            "", "sari", "@b", "a@", "a@b.", "a@.b", "a b@c", "a@b@c", "<a@b>", "a@b,c@d",
            "a@b\u{0}", &long, &longer,
        ] {
            assert!(wrong.parse::<Email>().is_err(), "{wrong:?} was taken");
        }
    }
}
