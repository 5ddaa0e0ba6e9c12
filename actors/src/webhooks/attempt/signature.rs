//! The signatures of outbound requests. Pure.
//!
//! `X-Service-Signature` is our own: `sha256=` and the hexadecimal HMAC-SHA256 of the raw body. `webhook-signature`
//! follows Standard Webhooks 1.0 (<https://www.standardwebhooks.com>): `v1,` and the base64 HMAC-SHA256 of
//! `id.timestamp.body`. The key of both is the secret's bytes as registered. Standard verifiers take it as `whsec_`
//! followed by its base64.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dikala_entities::{EventId, Millis, Secret};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// A secret prepared for signing.
#[derive(Clone)]
pub struct Signer(Hmac<Sha256>);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(…)")
    }
}

impl Signer {
    pub fn new(secret: &Secret) -> Self {
        let mac = Hmac::new_from_slice(secret.expose().as_bytes());
        Self(mac.expect("HMAC takes keys of any length"))
    }

    /// The value of `X-Service-Signature` for a body.
    pub fn service_signature(&self, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(body);
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
    }

    /// One signature of the `webhook-signature` header.
    pub fn standard_signature(&self, id: EventId, at: Millis, body: &[u8]) -> String {
        self.standard(&id.to_string(), at.as_i64() / 1_000, body)
    }

    fn standard(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac = self.0.clone();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// The keys of one webhook: the current one and, for a while after a rotation, the previous one.
#[derive(Clone, Debug)]
pub struct SigningKeys {
    pub current: Signer,
    /// With the time at which it expires.
    pub previous: Option<(Signer, Millis)>,
}

impl SigningKeys {
    /// The value of `webhook-signature` for an attempt: both signatures, separated by a space, while the previous key
    /// is valid.
    pub fn standard_signatures(&self, id: EventId, at: Millis, body: &[u8]) -> String {
        let mut value = self.current.standard_signature(id, at, body);
        if let Some((previous, until)) = &self.previous
            && at < *until
        {
            value.push(' ');
            value.push_str(&previous.standard_signature(id, at, body));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231 section 4.3, and a commonly published example.
    #[test]
    fn the_service_signature_is_hmac_sha256_in_hexadecimal() {
        for (key, body, digest) in [
            (
                "Jefe",
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                "key",
                "The quick brown fox jumps over the lazy dog",
                "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
            ),
        ] {
            let signature = Signer::new(&Secret::new(key)).service_signature(body.as_bytes());
            assert_eq!(signature, format!("sha256={digest}"));
        }
    }

    /// The example of the Standard Webhooks libraries. Its secret is base64 of 24 bytes that are not text, so they
    /// are the key directly.
    #[test]
    fn the_standard_signature_is_the_specifications() {
        let secret = STANDARD
            .decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
            .expect("base64");
        let signer = Signer(Hmac::new_from_slice(&secret).expect("a key"));
        let signature = signer.standard(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn after_a_rotation_both_keys_sign_until_the_day_is_over() {
        let (new, old) = (
            Signer::new(&Secret::new("new-secret")),
            Signer::new(&Secret::new("old-secret")),
        );
        let until = Millis::from_i64(10_000);
        let keys = SigningKeys {
            current: new.clone(),
            previous: Some((old.clone(), until)),
        };
        let id = EventId::new(Millis::from_i64(1));
        let before = until.plus_ms(-1);
        let both = keys.standard_signatures(id, before, b"{}");
        let expected = [&new, &old].map(|signer| signer.standard_signature(id, before, b"{}"));
        assert_eq!(both, expected.join(" "));
        let after = keys.standard_signatures(id, until, b"{}");
        assert_eq!(after, new.standard_signature(id, until, b"{}"));
    }
}
