//! API keys, bridge tokens, sessions and one-time links: a prefix, 30 base62 characters of randomness and 6 of a
//! checksum.
//!
//! The checksum is CRC-32/ISO-HDLC of everything before it, in base62, most significant digit first, padded with `0`.
//! With it a mistyped key is refused without a query. Only the SHA-256 of a credential is stored: with 178 bits of
//! randomness a slow hash would add no protection.

use std::fmt;

use rand::RngExt;
use sea_orm::DeriveValueType;
use sha2::{Digest, Sha256};

use super::Secret;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_CHARS: usize = 30;
const CHECKSUM_CHARS: usize = 6;

/// The prefix of a kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme(&'static str);

/// API keys of tenants.
pub const API_KEY_SCHEME: Scheme = Scheme("dkl_");
/// Tokens of telephony bridges.
pub const BRIDGE_TOKEN_SCHEME: Scheme = Scheme("dkb_");
/// Session cookies of the dashboard.
pub const SESSION_SCHEME: Scheme = Scheme("dks_");
/// Tokens for one call from a browser.
pub const WEB_CALL_SCHEME: Scheme = Scheme("wct_");
/// Keys of widgets. They stand in the pages of websites, so they are no secrets.
pub const WIDGET_SCHEME: Scheme = Scheme("dkw_");
/// One-time links to the dashboard.
pub const LOGIN_LINK_SCHEME: Scheme = Scheme("dko_");

/// A well-formed credential, which need not exist.
#[derive(Clone, Debug)]
pub struct Credential(Secret);

/// The SHA-256 of a credential, in hexadecimal, as it is stored and looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, DeriveValueType)]
pub struct CredentialHash(String);

impl Scheme {
    /// Makes a new credential.
    pub fn generate(self) -> Credential {
        let mut rng = rand::rng();
        let mut text = self.0.to_owned();
        text.extend(
            (0..RANDOM_CHARS).map(|_| char::from(BASE62[rng.random_range(0..BASE62.len())])),
        );
        text.push_str(&checksum(&text));
        Credential(Secret::new(text))
    }

    /// Checks prefix, length, alphabet and checksum; `None` for a text that this program never generated.
    pub fn parse(self, text: &str) -> Option<Credential> {
        let body = text.strip_prefix(self.0)?;
        let well_formed = body.len() == RANDOM_CHARS + CHECKSUM_CHARS
            && body.bytes().all(|b| b.is_ascii_alphanumeric());
        if !well_formed {
            return None;
        }
        let (signed, sum) = text.split_at(text.len() - CHECKSUM_CHARS);
        (checksum(signed) == sum).then(|| Credential(Secret::new(text)))
    }
}

impl Credential {
    /// The credential itself, to be shown once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The first 12 characters, by which people recognise it in a list.
    pub fn prefix(&self) -> &str {
        &self.0.expose()[..12]
    }

    /// The hash to be stored.
    pub fn hash(&self) -> CredentialHash {
        CredentialHash::of(self.0.expose())
    }
}

impl CredentialHash {
    /// The hash of another text, such as a token that an operator chose.
    pub fn of(text: &str) -> Self {
        Self(hex::encode(Sha256::digest(text.as_bytes())))
    }

    /// A hash that was stored.
    pub fn from_hash(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// Required by the ORM of every primary key; ours are never numbers.
impl sea_orm::TryFromU64 for CredentialHash {
    fn try_from_u64(_: u64) -> Result<Self, sea_orm::DbErr> {
        Err(sea_orm::DbErr::ConvertFromU64("CredentialHash"))
    }
}

impl fmt::Display for CredentialHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn checksum(text: &str) -> String {
    let mut rest = crc32fast::hash(text.as_bytes());
    let mut digits = [b'0'; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        let index = usize::try_from(rest % 62).expect("less than 62");
        *digit = BASE62[index];
        rest /= 62;
    }
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_typo_is_caught() {
        let key = API_KEY_SCHEME.generate();
        let text = key.expose();
        assert_eq!(text.len(), 40);
        assert!(API_KEY_SCHEME.parse(text).is_some());
        assert!(BRIDGE_TOKEN_SCHEME.parse(text).is_none());
        for i in 0..text.len() {
            let mut typo = text.to_owned().into_bytes();
            typo[i] = if typo[i] == b'a' { b'b' } else { b'a' };
            let typo = String::from_utf8(typo).expect("ascii");
            assert!(
                API_KEY_SCHEME.parse(&typo).is_none(),
                "a typo at {i} was taken"
            );
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let key = API_KEY_SCHEME.generate();
        assert!(!format!("{key:?}").contains(key.expose()));
    }
}
