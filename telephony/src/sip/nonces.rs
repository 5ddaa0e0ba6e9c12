//! The nonces that callers must answer: each says itself when it was made and by whom, so that a stranger costs no memory; only
//! those that were answered rightly are kept, with how often.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// How long a nonce is taken.
const LIFE: Duration = Duration::from_secs(300);
/// Ages are counted in whole seconds.
const KEPT: Duration = LIFE.saturating_add(Duration::from_secs(2));
/// Calls that one after the other may prove themselves within [`LIFE`]: 333 a second, each with a nonce of its own.
const KEPT_MAX: usize = 100_000;

#[derive(Debug)]
pub struct Nonces {
    secret: [u8; 32],
    begun: Instant,
    used: Mutex<Used>,
}

/// Those that were answered rightly, each with its last count.
#[derive(Debug, Default)]
struct Used {
    counts: HashMap<Arc<str>, u32>,
    /// In the order in which they are too old to be taken any more.
    until: VecDeque<(Instant, Arc<str>)>,
}

/// What becomes of the use of a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Fresh,
    /// Ours, but too old or counted before: the peer may try again with a new one.
    Stale,
    NotOurs,
}

impl Nonces {
    pub fn new(secret: [u8; 32], now: Instant) -> Self {
        Self {
            secret,
            begun: now,
            used: Mutex::default(),
        }
    }

    pub fn make(&self, now: Instant) -> String {
        let made = now.duration_since(self.begun).as_secs();
        let random: [u8; 8] = rand::random();
        let body = format!("{made:x}-{}", hex::encode(random));
        format!("{body}-{}", self.sign(&body))
    }

    /// Whether the nonce is ours and young. The count is looked at by [`Self::count`], after the password.
    pub fn look(&self, nonce: &str, now: Instant) -> Use {
        let Some((body, sign)) = nonce.rsplit_once('-') else {
            return Use::NotOurs;
        };
        let ours: bool = self.sign(body).as_bytes().ct_eq(sign.as_bytes()).into();
        let made = body
            .split_once('-')
            .and_then(|(made, _)| u64::from_str_radix(made, 16).ok());
        match made {
            Some(made) if ours => {
                let age = now
                    .duration_since(self.begun)
                    .as_secs()
                    .saturating_sub(made);
                if age <= LIFE.as_secs() {
                    Use::Fresh
                } else {
                    Use::Stale
                }
            }
            _ => Use::NotOurs,
        }
    }

    /// Notes the use with this count; one that is not higher than the last is a repetition by somebody who listened.
    pub fn count(&self, nonce: &str, count: u32, now: Instant) -> Use {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, old)) = used.until.pop_front_if(|(until, _)| *until < now) {
            used.counts.remove(&old);
        }
        if let Some(last) = used.counts.get_mut(nonce) {
            if count <= *last {
                return Use::Stale;
            }
            *last = count;
            return Use::Fresh;
        }
        if used.counts.len() >= KEPT_MAX {
            return Use::Stale;
        }
        let nonce: Arc<str> = nonce.into();
        used.until.push_back((now + KEPT, nonce.clone()));
        used.counts.insert(nonce, count);
        Use::Fresh
    }

    fn sign(&self, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("any length is a key");
        mac.update(body.as_bytes());
        hex::encode(&mac.finalize().into_bytes()[..12])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_ours_young_and_counted_upwards() {
        let now = Instant::now();
        let nonces = Nonces::new([7; 32], now);
        let nonce = nonces.make(now);
        assert_eq!(nonces.look(&nonce, now), Use::Fresh);
        assert_eq!(
            nonces.look(&nonce, now + LIFE + Duration::from_secs(2)),
            Use::Stale
        );
        assert_eq!(
            nonces.look(&Nonces::new([8; 32], now).make(now), now),
            Use::NotOurs
        );
        for strange in ["", "-", "0-00-", "zz", "é-é-é"] {
            assert_eq!(nonces.look(strange, now), Use::NotOurs, "{strange}");
        }
        assert_eq!(nonces.count(&nonce, 1, now), Use::Fresh);
        assert_eq!(nonces.count(&nonce, 1, now), Use::Stale);
        assert_eq!(nonces.count(&nonce, 10, now), Use::Fresh);
        assert_eq!(nonces.count(&nonce, 9, now), Use::Stale);
    }

    #[test]
    fn nonces_are_kept_for_as_long_as_they_are_taken() {
        let now = Instant::now();
        let nonces = Nonces::new([7; 32], now);
        // 200 calls a second for two minutes, and the same once more when those are too old.
        let later = now + KEPT + Duration::from_secs(1);
        for at in [now, later] {
            for n in 0..24_000 {
                assert_eq!(nonces.count(&format!("{at:?} {n}"), 1, at), Use::Fresh);
            }
        }
        assert_eq!(nonces.used.lock().unwrap().counts.len(), 24_000);
        let last = later + LIFE;
        assert_eq!(
            nonces.count(&format!("{later:?} 0"), 1, last),
            Use::Stale,
            "as long as it is young"
        );
    }
}
