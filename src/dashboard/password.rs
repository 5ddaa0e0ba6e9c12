//! Password rules and hashes: argon2id with the `argon2` crate's recommended parameters (19 MiB, two passes).
//! Hashing takes tens of milliseconds of CPU, so it runs on separate threads and few at a time.

use std::time::Duration;

use actix_web::web;
use argon2::{Argon2, PasswordHasher, PasswordVerifier, password_hash::phc::PasswordHash};
use dikala_entities::Secret;
use tokio::sync::Semaphore;

use crate::{
    common_passwords::is_common,
    http::{
        error::ApiError,
        field::{FieldCode, ValueFault},
    },
};

/// The shortest password, in characters.
pub const CHARS_MIN: usize = 10;
/// The longest password, in characters.
pub const CHARS_MAX: usize = 256;
/// Passwords hashed concurrently; each needs 19 MiB.
const AT_ONCE: usize = 2;
/// Longest wait for a permit.
const WAIT: Duration = Duration::from_secs(5);
/// A hash for unknown people, so that checking them takes equally long. Salt and hash are random bytes: no password is known for it.
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$gb58dT/00TZfBQS/NsjpdA$e5M7qOKSTivD7Qn3J4ZpPsZzLRpTen2sVZiRSsrKTc0";

/// Hashes and verifies passwords.
#[derive(Debug)]
pub struct Passwords(Semaphore);

impl Default for Passwords {
    fn default() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }
}

impl Passwords {
    /// The hash of a password as a PHC string.
    pub async fn hash(&self, password: &Secret) -> Result<String, ApiError> {
        let password = password.clone();
        let hashed = self.work(move || hash(&password)).await?;
        hashed.ok_or(ApiError::Internal)
    }

    /// True if the password matches the hash. Without a hash it is false after the same time.
    pub async fn is_right(
        &self,
        password: &Secret,
        hash: Option<String>,
    ) -> Result<bool, ApiError> {
        let (password, is_somebodys) = (password.clone(), hash.is_some());
        let hash = hash.unwrap_or_else(|| NOBODYS.to_owned());
        self.work(move || verify(&password, &hash) && is_somebodys)
            .await
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = tokio::time::timeout(WAIT, self.0.acquire()).await;
        let _place = place
            .map_err(|_| ApiError::Unavailable)?
            .map_err(|_| ApiError::Internal)?;
        web::block(work).await.map_err(|_| ApiError::Internal)
    }
}

fn hash(password: &Secret) -> Option<String> {
    let hashed = Argon2::default().hash_password(password.expose().as_bytes());
    hashed.ok().map(|hash| hash.to_string())
}

fn verify(password: &Secret, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else {
        return false;
    };
    Argon2::default()
        .verify_password(password.expose().as_bytes(), &hash)
        .is_ok()
}

/// Checks a new password against the rules.
pub fn check(password: &str) -> Result<(), ValueFault> {
    let length = password.chars().count();
    let bound = |bound: usize| i64::try_from(bound).unwrap_or(i64::MAX);
    if password.is_empty() {
        Err(ValueFault::new(FieldCode::Required, "is required"))
    } else if password.contains('\0') {
        let predicate = "must not contain the character U+0000";
        Err(ValueFault::new(FieldCode::InvalidFormat, predicate).in_words("fault-nul"))
    } else if length < CHARS_MIN {
        let predicate = format!("must have at least {CHARS_MIN} characters");
        Err(ValueFault::new(FieldCode::TooShort, predicate).bounded(bound(CHARS_MIN)))
    } else if length > CHARS_MAX {
        let predicate = format!("must have at most {CHARS_MAX} characters");
        Err(ValueFault::new(FieldCode::TooLong, predicate).bounded(bound(CHARS_MAX)))
    } else if is_common(password) {
        let predicate = "must not be one of the most common passwords, which are tried first";
        Err(ValueFault::new(FieldCode::NotAllowed, predicate))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Some("required"))]
    #[case("short", Some("too_short"))]
    #[case("ninechars", Some("too_short"))]
    #[case("1234567890", Some("not_allowed"))]
    #[case("Qwertyuiop", Some("not_allowed"))]
    #[case("PASSWORD123", Some("not_allowed"))]
    #[case("tenchars\0s!", Some("invalid_format"))]
    #[case("tencharss!", None)]
    #[case("ääääääääää", None)]
    #[case("          ", None)]
    #[case("correct horse battery staple", None)]
    fn which_are_taken(#[case] password: &str, #[case] refused: Option<&str>) {
        let fault = check(password).err();
        let code = fault.map(|fault| fault.in_field("password").code.as_str());
        assert_eq!(code, refused, "{password:?}");
    }

    #[test]
    fn the_longest_has_256_characters() {
        assert!(check(&"ü".repeat(256)).is_ok());
        let fault = check(&"ü".repeat(257))
            .expect_err("refused")
            .in_field("password");
        assert_eq!((fault.code.as_str(), fault.bound), ("too_long", Some(256)));
    }

    #[actix_web::test]
    async fn a_hash_knows_its_password_and_no_other() {
        let passwords = Passwords::default();
        let (right, wrong) = (Secret::new("correct horse"), Secret::new("correct horse "));
        let hash = passwords.hash(&right).await.expect("a hash");
        let cost = |hash: &str| hash.rsplitn(3, '$').nth(2).map(str::to_owned);
        assert_eq!(cost(&hash), cost(NOBODYS), "as expensive: {hash}");
        assert_eq!(hash.len(), NOBODYS.len());
        assert_ne!(
            hash,
            passwords.hash(&right).await.expect("a hash"),
            "salted"
        );
        assert_eq!(
            passwords.is_right(&right, Some(hash.clone())).await,
            Ok(true)
        );
        assert_eq!(passwords.is_right(&wrong, Some(hash)).await, Ok(false));
        assert_eq!(passwords.is_right(&right, None).await, Ok(false));
        assert_eq!(
            passwords.is_right(&right, Some("x".into())).await,
            Ok(false)
        );
    }
}
