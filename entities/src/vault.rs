//! Secrets at rest: AES-256-GCM (NIST SP 800-38D) under the operator's `secrets.key`.
//!
//! A sealed secret is `2.`, the name of its key, `.`, and base64 of a fresh 12-byte nonce followed by ciphertext and
//! tag. Table, column and the row's id are associated data, so a sealed secret copied to another place does not open.
//! Secrets from before keys had names are plain base64, bound to the row's id only; they open, and rotating the key
//! seals them in the present form.
//!
//! One key seals; any number of older keys only open, until everything is sealed again.

use std::fmt;

use aes_gcm::{
    Aes256Gcm, KeyInit, Nonce,
    aead::{Aead, Generate, Payload},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

use crate::values::Secret;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
/// The beginning of a secret sealed in the present form; base64 has no full stop.
const FORM: &str = "2.";

/// The place of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// `tenants.function_secret`
    FunctionSecret,
    /// `webhooks.secret`
    WebhookSecret,
    /// `webhooks.previous_secret`
    PreviousWebhookSecret,
    /// `sessions.note`, for minutes: a key rotation does not seal it again.
    SessionNote,
    /// `mails.link`
    MailLink,
    /// `idempotency_keys.body`, for a day: a key rotation does not seal it again either.
    StoredAnswer,
    /// A cookie of an operator's browser, stored in no table: the operator's session.
    OperatorSession,
    /// Another such cookie: the message that the next page shows once.
    OperatorNote,
}

impl SecretPlace {
    /// Table and column, or the place outside the tables.
    pub const fn table_and_column(self) -> (&'static str, &'static str) {
        match self {
            Self::FunctionSecret => ("tenants", "function_secret"),
            Self::WebhookSecret => ("webhooks", "secret"),
            Self::PreviousWebhookSecret => ("webhooks", "previous_secret"),
            Self::SessionNote => ("sessions", "note"),
            Self::MailLink => ("mails", "link"),
            Self::StoredAnswer => ("idempotency_keys", "body"),
            Self::OperatorSession => ("cookies", "operator_session"),
            Self::OperatorNote => ("cookies", "operator_note"),
        }
    }

    /// The associated data of a secret in this place of the row `id`. No id has a colon.
    fn bound_to(self, id: impl fmt::Display) -> String {
        let (table, column) = self.table_and_column();
        format!("{table}.{column}:{id}")
    }
}

#[derive(Clone)]
struct Key {
    /// Distinguishes keys and reveals nothing about them.
    name: String,
    cipher: Aes256Gcm,
}

/// Seals and opens secrets.
#[derive(Clone)]
pub struct Vault {
    key: Key,
    /// These keys only open.
    older: Vec<Key>,
}

/// A secret could not be opened, or a key is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    #[error("must be 32 random bytes in base64; make one with: openssl rand -base64 32")]
    NotAKey,
    #[error("must be random: this key repeats itself; make one with: openssl rand -base64 32")]
    WeakKey,
    #[error("a stored secret does not open with this secrets.key; was the key changed?")]
    Sealed,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(…)")
    }
}

impl Key {
    fn from_base64(key: &str) -> Result<Self, VaultError> {
        let bytes = STANDARD
            .decode(key.trim())
            .map_err(|_| VaultError::NotAKey)?;
        if bytes.len() != KEY_BYTES {
            return Err(VaultError::NotAKey);
        }
        let mut distinct = bytes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        // Of 32 random bytes, fewer than 12 are distinct less than once in 10^20 keys.
        if distinct.len() < 12 {
            return Err(VaultError::WeakKey);
        }
        let cipher = Aes256Gcm::new_from_slice(&bytes).map_err(|_| VaultError::NotAKey)?;
        let name = Sha256::new()
            .chain_update("dikala key name")
            .chain_update(&bytes)
            .finalize();
        let name = hex::encode(&name[..8]);
        Ok(Self { name, cipher })
    }

    /// Decrypts a nonce and the ciphertext that follows.
    fn open(&self, sealed: &[u8], bound_to: &str) -> Option<Secret> {
        let (nonce, ciphertext) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce = Nonce::try_from(nonce).ok()?;
        let payload = Payload {
            msg: ciphertext,
            aad: bound_to.as_bytes(),
        };
        let plain = self.cipher.decrypt(&nonce, payload).ok()?;
        String::from_utf8(plain).ok().map(Secret::new)
    }
}

impl Vault {
    /// Parses the key from the configuration: 32 bytes in base64.
    pub fn from_base64(key: &str) -> Result<Self, VaultError> {
        Ok(Self {
            key: Key::from_base64(key)?,
            older: Vec::new(),
        })
    }

    /// Adds an older key, which only opens.
    pub fn with_older(mut self, key: &str) -> Result<Self, VaultError> {
        self.older.push(Key::from_base64(key)?);
        Ok(self)
    }

    /// A new random key in the configuration's format.
    pub fn generate_key() -> String {
        STANDARD.encode(rand::random::<[u8; KEY_BYTES]>())
    }

    /// Seals a secret for its place in the row `id`.
    pub fn seal(&self, place: SecretPlace, id: impl fmt::Display, secret: &Secret) -> String {
        let nonce = Nonce::generate();
        let bound_to = place.bound_to(id);
        let payload = Payload {
            msg: secret.expose().as_bytes(),
            aad: bound_to.as_bytes(),
        };
        let ciphertext = self
            .key
            .cipher
            .encrypt(&nonce, payload)
            .expect("AES-GCM takes any message below 64 GiB");
        let mut sealed = nonce.to_vec();
        sealed.extend(ciphertext);
        format!("{FORM}{}.{}", self.key.name, STANDARD.encode(sealed))
    }

    /// Opens a secret sealed by [`seal`](Self::seal) for the same place of the same row.
    pub fn open(
        &self,
        place: SecretPlace,
        id: impl fmt::Display,
        sealed: &str,
    ) -> Result<Secret, VaultError> {
        let bytes = |text: &str| STANDARD.decode(text).map_err(|_| VaultError::Sealed);
        let mut keys = std::iter::once(&self.key).chain(&self.older);
        let opened = match sealed.strip_prefix(FORM) {
            Some(rest) => {
                let (name, rest) = rest.split_once('.').ok_or(VaultError::Sealed)?;
                let rest = bytes(rest)?;
                let key = keys.find(|key| key.name == name);
                key.and_then(|key| key.open(&rest, &place.bound_to(id)))
            }
            None => {
                let (rest, id) = (bytes(sealed)?, id.to_string());
                keys.find_map(|key| key.open(&rest, &id))
            }
        };
        opened.ok_or(VaultError::Sealed)
    }

    /// True if a text is sealed in the present form. No JSON begins like that.
    pub fn is_sealed(text: &str) -> bool {
        text.starts_with(FORM)
    }

    /// True if it is sealed with the present key in the present form.
    pub fn is_current(&self, sealed: &str) -> bool {
        sealed
            .strip_prefix(FORM)
            .and_then(|rest| rest.strip_prefix(self.key.name.as_str()))
            .is_some_and(|rest| rest.starts_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: SecretPlace = SecretPlace::WebhookSecret;

    fn secret() -> Secret {
        Secret::new("s3cret-s3cret")
    }

    #[test]
    fn a_secret_opens_in_its_own_place_and_with_its_own_key_only() {
        let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let other = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let sealed = vault.seal(PLACE, "wh_1", &secret());
        assert!(!sealed.contains("s3cret"));
        let opened = vault.open(PLACE, "wh_1", &sealed).expect("opens");
        assert_eq!(opened.expose(), "s3cret-s3cret");
        let wrong = Err(VaultError::Sealed);
        assert_eq!(vault.open(PLACE, "wh_2", &sealed), wrong);
        for elsewhere in [
            SecretPlace::PreviousWebhookSecret,
            SecretPlace::FunctionSecret,
        ] {
            assert_eq!(vault.open(elsewhere, "wh_1", &sealed), wrong);
        }
        assert_eq!(other.open(PLACE, "wh_1", &sealed), wrong);
        for nonsense in ["", "AAAA", "2.", "2.x", "2.x.AAAA", "2..AAAA"] {
            assert_eq!(vault.open(PLACE, "wh_1", nonsense), wrong, "{nonsense}");
        }
        let stripped = sealed.rsplit('.').next().expect("base64");
        assert_eq!(vault.open(PLACE, "wh_1", stripped), wrong, "no way back");
    }

    #[test]
    fn an_older_key_opens_and_does_not_seal() {
        let (old_key, new_key) = (Vault::generate_key(), Vault::generate_key());
        let old = Vault::from_base64(&old_key).expect("a key");
        let new = Vault::from_base64(&new_key).expect("a key");
        let both = new.clone().with_older(&old_key).expect("a key");
        let sealed = old.seal(PLACE, "wh_1", &secret());
        assert!(old.is_current(&sealed) && !both.is_current(&sealed));
        assert_eq!(both.open(PLACE, "wh_1", &sealed), Ok(secret()));
        let again = both.seal(PLACE, "wh_1", &secret());
        assert!(both.is_current(&again) && new.is_current(&again));
        assert_eq!(new.open(PLACE, "wh_1", &again), Ok(secret()));
        assert_eq!(old.open(PLACE, "wh_1", &again), Err(VaultError::Sealed));
    }

    /// The first version's form: bound to the row's id only, without a key's name.
    #[test]
    fn what_the_first_version_sealed_opens_and_is_not_current() {
        let key = STANDARD.encode((0..32).collect::<Vec<u8>>());
        let sealed = "AAECAwQFBgcICQoLNDG1aaCR72i+IuXuxXwsFqDBRFN/GsDEh2+vz1k=";
        let vault = Vault::from_base64(&key).expect("a key");
        assert_eq!(vault.open(PLACE, "wh_1", sealed), Ok(secret()));
        assert_eq!(vault.open(PLACE, "wh_2", sealed), Err(VaultError::Sealed));
        assert!(!vault.is_current(sealed));
        let later = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let later = later.with_older(&key).expect("a key");
        assert_eq!(later.open(PLACE, "wh_1", sealed), Ok(secret()));
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        assert_eq!(Vault::from_base64("short").err(), Some(VaultError::NotAKey));
        assert_eq!(Vault::from_base64("").err(), Some(VaultError::NotAKey));
        assert_eq!(
            Vault::from_base64(&STANDARD.encode([7; 32])).err(),
            Some(VaultError::WeakKey)
        );
    }
}
