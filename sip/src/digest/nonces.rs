//! Digest nonces. Each contains its time and the address that it was made for, so a stranger costs no memory. Only nonces with a
//! right answer are kept, with their count.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::limits::address_holder::holder;

/// The time for which a nonce is accepted.
const LIFE: Duration = Duration::from_secs(300);
/// The number of nonces that are kept. One more drops the oldest of the user with the most.
const KEPT_MAX: usize = 100_000;

#[derive(Debug)]
pub struct Nonces {
    secret: [u8; 32],
    begun: Instant,
    used: Mutex<UsedNonces>,
}

/// Nonces with a right answer, by user.
#[derive(Debug, Default)]
struct UsedNonces {
    users: HashMap<String, UserNonces>,
    all: usize,
}

#[derive(Debug, Default)]
struct UserNonces {
    /// The last count of each, by the second in which it was made.
    counts: BTreeMap<(u64, String), u32>,
    /// The second of the youngest dropped nonce. One that is as old and not kept may have been used.
    dropped: Option<u64>,
}

/// The verdict on the use of a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonceUse {
    Fresh,
    /// Too old, counted before, made for another address, before a restart or by somebody else. The peer may try again with a new
    /// one.
    Stale,
}

impl Nonces {
    pub fn new(secret: [u8; 32], now: Instant) -> Self {
        Self {
            secret,
            begun: now,
            used: Mutex::default(),
        }
    }

    fn second(&self, now: Instant) -> u64 {
        now.duration_since(self.begun).as_secs()
    }

    /// A nonce for a peer at this address.
    pub fn make(&self, ip: IpAddr, now: Instant) -> String {
        let random: [u8; 8] = rand::random();
        let body = format!("{:x}-{}", self.second(now), hex::encode(random));
        format!("{body}-{}", self.seal(&body, ip))
    }

    /// Checks that the nonce is ours, young, and was sent to this address, which a forged address cannot have. [`Self::count`]
    /// checks the count, after the password.
    pub fn look(&self, nonce: &str, ip: IpAddr, now: Instant) -> NonceUse {
        let is_ours = |(body, seal): (&str, &str)| {
            let is_young = |made| self.second(now).saturating_sub(made) <= LIFE.as_secs();
            let ours = self.seal(body, ip);
            made(body).is_some_and(is_young) && bool::from(ours.as_bytes().ct_eq(seal.as_bytes()))
        };
        match nonce.rsplit_once('-').is_some_and(is_ours) {
            true => NonceUse::Fresh,
            false => NonceUse::Stale,
        }
    }

    /// Records this user's use with this count. A count that is not higher than the last is a replay.
    pub fn count(&self, user: &str, nonce: &str, count: u32, now: Instant) -> NonceUse {
        let Some(made) = made(nonce) else {
            return NonceUse::Stale;
        };
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let used = &mut *used;
        let of_user = used.users.entry(user.to_owned()).or_default();
        used.all -= of_user.forget_old(self.second(now));
        let key = (made, nonce.to_owned());
        if let Some(last) = of_user.counts.get_mut(&key) {
            if count <= *last {
                return NonceUse::Stale;
            }
            *last = count;
            return NonceUse::Fresh;
        }
        if used.all >= KEPT_MAX {
            used.drop_one();
        }
        let of_user = used.users.entry(user.to_owned()).or_default();
        if of_user.dropped.is_some_and(|dropped| made <= dropped) {
            return NonceUse::Stale;
        }
        of_user.counts.insert(key, count);
        used.all += 1;
        NonceUse::Fresh
    }

    fn seal(&self, body: &str, ip: IpAddr) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("any length is a key");
        for word in [body, " for ", &holder(ip).to_string()] {
            mac.update(word.as_bytes());
        }
        hex::encode(&mac.finalize().into_bytes()[..12])
    }
}

impl UsedNonces {
    fn drop_one(&mut self) {
        let most = self.users.values_mut().max_by_key(|of| of.counts.len());
        if let Some(of_user) = most
            && let Some(((made, _), _)) = of_user.counts.pop_first()
        {
            of_user.dropped = Some(made);
            self.all -= 1;
        }
    }
}

impl UserNonces {
    /// Drops expired nonces, and returns how many.
    fn forget_old(&mut self, second: u64) -> usize {
        let before = self.counts.len();
        while let Some(oldest) = self.counts.first_entry()
            && oldest.key().0 + LIFE.as_secs() < second
        {
            oldest.remove();
        }
        before - self.counts.len()
    }
}

/// The second in which a nonce claims to be made.
fn made(nonce: &str) -> Option<u64> {
    let (made, _) = nonce.split_once('-')?;
    u64::from_str_radix(made, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_nonce_is_ours_young_and_counted_upwards() {
        let now = Instant::now();
        let here = ip("192.0.2.1");
        let nonces = Nonces::new([7; 32], now);
        let nonce = nonces.make(here, now);
        assert_eq!(nonces.look(&nonce, here, now), NonceUse::Fresh);
        assert_eq!(
            nonces.look(&nonce, here, now + LIFE + Duration::from_secs(2)),
            NonceUse::Stale
        );
        assert_eq!(
            nonces.look(&Nonces::new([8; 32], now).make(here, now), here, now),
            NonceUse::Stale
        );
        for strange in ["", "-", "0-00-", "zz", "é-é-é", "0-0-0-0", "--", "---"] {
            assert_eq!(
                nonces.look(strange, here, now),
                NonceUse::Stale,
                "{strange}"
            );
        }
        let mut count = |count| nonces.count("ayu", &nonce, count, now);
        assert_eq!([1, 1, 10, 9].map(&mut count), {
            use NonceUse::{Fresh, Stale};
            [Fresh, Stale, Fresh, Stale]
        });
    }

    #[test]
    fn a_nonce_is_good_where_it_was_sent() {
        let now = Instant::now();
        let nonces = Nonces::new([7; 32], now);
        let nonce = nonces.make(ip("192.0.2.1"), now);
        assert_eq!(nonces.look(&nonce, ip("192.0.2.2"), now), NonceUse::Stale);
        let mapped = ip("::ffff:192.0.2.1");
        assert_eq!(nonces.look(&nonce, mapped, now), NonceUse::Fresh);
        // Phones change their address of IPv6 within their network.
        let nonce = nonces.make(ip("2001:db8::1"), now);
        assert_eq!(nonces.look(&nonce, ip("2001:db8::2"), now), NonceUse::Fresh);
    }

    fn numbered(second: u64, number: usize) -> String {
        format!("{second:x}-{number:x}-0-0")
    }

    #[test]
    fn nonces_are_kept_for_as_long_as_they_are_taken() {
        let now = Instant::now();
        let nonces = Nonces::new([7; 32], now);
        let later = LIFE.as_secs() + 1;
        for second in [0, later] {
            let at = now + Duration::from_secs(second);
            for n in 0..24_000 {
                let nonce = numbered(second, n);
                assert_eq!(nonces.count("ayu", &nonce, 1, at), NonceUse::Fresh);
            }
        }
        assert_eq!(nonces.used.lock().expect("held").all, 24_000);
        let last = now + Duration::from_secs(later) + LIFE;
        let again = nonces.count("ayu", &numbered(later, 0), 1, last);
        assert_eq!(again, NonceUse::Stale, "as long as it is young");
    }

    #[test]
    fn one_users_nonces_make_nobody_elses_stale() {
        let now = Instant::now();
        let nonces = Nonces::new([7; 32], now);
        let second = |number: usize| u64::try_from(number / 2_000).expect("a second");
        for user in ["dewi", "budi"] {
            assert_eq!(nonces.count(user, &numbered(0, 1), 1, now), NonceUse::Fresh);
        }
        for number in 0..3 * KEPT_MAX / 2 {
            let nonce = numbered(second(number), number);
            assert_eq!(
                nonces.count("eko", &nonce, 1, now),
                NonceUse::Fresh,
                "{number}"
            );
        }
        assert_eq!(nonces.used.lock().expect("held").all, KEPT_MAX);
        for (user, number, use_of) in [
            ("dewi", 2, NonceUse::Fresh),
            ("dewi", 1, NonceUse::Stale),
            ("budi", 1, NonceUse::Stale),
            // A dropped nonce cannot be used again.
            ("eko", 0, NonceUse::Stale),
            ("eko", 3 * KEPT_MAX / 2, NonceUse::Fresh),
        ] {
            let nonce = numbered(second(number), number);
            assert_eq!(
                nonces.count(user, &nonce, 1, now),
                use_of,
                "{user} {number}"
            );
        }
    }
}
