//! Secrets at rest: AES-256-GCM (NIST SP 800-38D) under the operator's `secrets.key`.
//!
//! A sealed secret is base64 of a fresh 12-byte nonce followed by ciphertext and tag. The row's id goes in as associated
//! data, so a sealed secret copied to another row does not open.

use std::fmt;

use aes_gcm::{
    Aes256Gcm, KeyInit, Nonce,
    aead::{Aead, Generate, Payload},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::values::Secret;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;

/// Seals and opens secrets.
#[derive(Clone)]
pub struct Vault(Aes256Gcm);

/// A secret could not be opened, or a key is no key.
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

impl Vault {
    /// Takes the key as the configuration gives it: 32 bytes in base64.
    pub fn from_base64(key: &str) -> Result<Self, VaultError> {
        let bytes = STANDARD
            .decode(key.trim())
            .map_err(|_| VaultError::NotAKey)?;
        if bytes.len() != KEY_BYTES {
            return Err(VaultError::NotAKey);
        }
        let mut distinct = bytes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        // 32 random bytes have fewer than 12 different ones less than once in 10^20 keys.
        if distinct.len() < 12 {
            return Err(VaultError::WeakKey);
        }
        let cipher = Aes256Gcm::new_from_slice(&bytes).map_err(|_| VaultError::NotAKey)?;
        Ok(Self(cipher))
    }

    /// A new random key in the form the configuration takes.
    pub fn generate_key() -> String {
        STANDARD.encode(rand::random::<[u8; KEY_BYTES]>())
    }

    /// Seals a secret for the row `id`.
    pub fn seal(&self, id: impl fmt::Display, secret: &Secret) -> String {
        let nonce = Nonce::generate();
        let aad = id.to_string();
        let payload = Payload {
            msg: secret.expose().as_bytes(),
            aad: aad.as_bytes(),
        };
        let ciphertext = self
            .0
            .encrypt(&nonce, payload)
            .expect("AES-GCM takes any message below 64 GiB");
        let mut sealed = nonce.to_vec();
        sealed.extend(ciphertext);
        STANDARD.encode(sealed)
    }

    /// Opens what [`seal`](Self::seal) made for the same row.
    pub fn open(&self, id: impl fmt::Display, sealed: &str) -> Result<Secret, VaultError> {
        let bytes = STANDARD.decode(sealed).map_err(|_| VaultError::Sealed)?;
        let (nonce, ciphertext) = bytes
            .split_at_checked(NONCE_BYTES)
            .ok_or(VaultError::Sealed)?;
        let nonce = Nonce::try_from(nonce).map_err(|_| VaultError::Sealed)?;
        let aad = id.to_string();
        let plain = self
            .0
            .decrypt(
                &nonce,
                Payload {
                    msg: ciphertext,
                    aad: aad.as_bytes(),
                },
            )
            .map_err(|_| VaultError::Sealed)?;
        String::from_utf8(plain)
            .map(Secret::new)
            .map_err(|_| VaultError::Sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_in_its_own_row_and_with_its_own_key_only() {
        let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let other = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let sealed = vault.seal("wh_1", &Secret::new("s3cret-s3cret"));
        assert!(!sealed.contains("s3cret"));
        assert_eq!(
            vault.open("wh_1", &sealed).expect("opens").expose(),
            "s3cret-s3cret"
        );
        assert_eq!(vault.open("wh_2", &sealed), Err(VaultError::Sealed));
        assert_eq!(other.open("wh_1", &sealed), Err(VaultError::Sealed));
        assert_eq!(vault.open("wh_1", "AAAA"), Err(VaultError::Sealed));
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
