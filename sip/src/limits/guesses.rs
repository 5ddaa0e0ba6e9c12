//! Password guessing: counts wrong passwords by address and user, and blocks further checks. Pure.
//!
//! A user who authenticated at an address lately is not blocked by what is guessed under the same name from other addresses.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    net::IpAddr,
};

use super::address_holder::holder;

/// Wrong passwords of one address that are checked in a minute.
const OF_ADDRESS: usize = 10;
/// The same for one user over all addresses where the user has not authenticated.
const OF_USER: usize = 100;
const MINUTE: u64 = 60;
/// The number of remembered addresses and users; one more drops the oldest.
const REMEMBERED_MAX: usize = 10_000;

/// A claimed identity.
#[derive(Debug, Clone, Copy)]
pub struct IdentityClaim<'a> {
    pub ip: IpAddr,
    pub user: &'a str,
    /// The user has authenticated from this address lately.
    pub is_known_here: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordVerdict {
    Compare,
    /// Too many were wrong for this user. Only the user may learn that, so any password counts as wrong.
    Wrong,
    /// Too many were wrong from this address: the password is not checked.
    Blocked,
}

#[derive(Debug, Default)]
pub struct Guesses {
    addresses: Table<IpAddr>,
    users: Table<String>,
}

impl Guesses {
    /// The verdict on a claim. Seconds count from any epoch.
    pub fn verdict(&self, claim: IdentityClaim<'_>, second: u64) -> PasswordVerdict {
        let ip = holder(claim.ip);
        if self.addresses.is_blocked(&ip, second) {
            PasswordVerdict::Blocked
        } else if !claim.is_known_here && self.users.is_blocked(&claim.user.to_owned(), second) {
            PasswordVerdict::Wrong
        } else {
            PasswordVerdict::Compare
        }
    }

    /// Records a wrong password.
    pub fn wrong(&mut self, claim: IdentityClaim<'_>, second: u64) {
        self.addresses.wrong(holder(claim.ip), OF_ADDRESS, second);
        self.users.wrong(claim.user.to_owned(), OF_USER, second);
    }
}

#[derive(Debug)]
struct Table<K> {
    tries: HashMap<K, Tries>,
    /// The oldest first.
    order: VecDeque<K>,
}

#[derive(Debug, Default)]
struct Tries {
    /// When the last wrong ones came, the oldest first.
    wrong: VecDeque<u64>,
    blocked_until: u64,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            tries: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Table<K> {
    fn is_blocked(&self, key: &K, second: u64) -> bool {
        let tries = self.tries.get(key);
        tries.is_some_and(|tries| tries.blocked_until > second)
    }

    fn wrong(&mut self, key: K, most: usize, second: u64) {
        if !self.tries.contains_key(&key) {
            if self.order.len() >= REMEMBERED_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.tries.remove(&oldest);
            }
            self.order.push_back(key.clone());
        }
        let tries = self.tries.entry(key).or_default();
        tries.wrong.retain(|at| second < at + MINUTE);
        tries.wrong.push_back(second);
        if tries.wrong.len() >= most {
            tries.wrong.clear();
            tries.blocked_until = second + MINUTE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(last: u8, user: &str, is_known_here: bool) -> IdentityClaim<'_> {
        IdentityClaim {
            ip: IpAddr::from([192, 0, 2, last]),
            user,
            is_known_here,
        }
    }

    #[test]
    fn ten_wrong_ones_block_an_address_for_a_minute_and_no_longer() {
        let mut guesses = Guesses::default();
        for second in 0..10 {
            let anybody = claim(1, "anybody", false);
            assert_eq!(guesses.verdict(anybody, second), PasswordVerdict::Compare);
            guesses.wrong(claim(1, "ayu", false), second);
        }
        let ayu = claim(1, "ayu", false);
        assert_eq!(guesses.verdict(ayu, 9), PasswordVerdict::Blocked);
        assert_eq!(
            guesses.verdict(claim(1, "budi", false), 68),
            PasswordVerdict::Blocked
        );
        assert_eq!(
            guesses.verdict(claim(2, "ayu", false), 9),
            PasswordVerdict::Compare
        );
        assert_eq!(guesses.verdict(ayu, 69), PasswordVerdict::Compare);
    }

    #[test]
    fn any_minute_counts() {
        let mut guesses = Guesses::default();
        let ayu = claim(1, "ayu", false);
        guesses.wrong(ayu, 0);
        (0..8).for_each(|_| guesses.wrong(ayu, 59));
        assert_eq!(guesses.verdict(ayu, 60), PasswordVerdict::Compare);
        (0..2).for_each(|_| guesses.wrong(ayu, 60));
        assert_eq!(guesses.verdict(ayu, 60), PasswordVerdict::Blocked);
    }

    #[test]
    fn a_few_wrong_ones_a_minute_block_nobody() {
        let mut guesses = Guesses::default();
        for second in 0..600 {
            let ayu = claim(1, "ayu", false);
            assert_eq!(guesses.verdict(ayu, second), PasswordVerdict::Compare);
            if second % 7 == 0 {
                guesses.wrong(ayu, second);
            }
        }
    }

    #[test]
    fn ten_wrong_ones_block_an_address_for_those_who_have_proven_themselves_there_too() {
        let mut guesses = Guesses::default();
        for _ in 0..5 {
            guesses.wrong(claim(1, "eko", false), 1);
            guesses.wrong(claim(1, "dewi", true), 1);
        }
        for user in ["ayu", "dewi"] {
            let ayu = claim(1, user, true);
            assert_eq!(guesses.verdict(ayu, 60), PasswordVerdict::Blocked);
            assert_eq!(guesses.verdict(ayu, 61), PasswordVerdict::Compare);
        }
    }

    #[test]
    fn a_user_is_guessed_at_a_hundred_times_a_minute_from_all_addresses_together() {
        let mut guesses = Guesses::default();
        for last in 0..100 {
            guesses.wrong(claim(last, "ayu", false), 1);
        }
        assert_eq!(
            guesses.verdict(claim(200, "ayu", false), 1),
            PasswordVerdict::Wrong
        );
        assert_eq!(
            guesses.verdict(claim(200, "ayu", true), 1),
            PasswordVerdict::Compare
        );
        assert_eq!(
            guesses.verdict(claim(200, "budi", false), 1),
            PasswordVerdict::Compare
        );
        assert_eq!(
            guesses.verdict(claim(200, "ayu", false), 61),
            PasswordVerdict::Compare
        );
    }

    #[test]
    fn a_crowd_is_not_remembered_without_end() {
        let mut guesses = Guesses::default();
        for number in 0..3 * u32::try_from(REMEMBERED_MAX).expect("few") {
            let user = number.to_string();
            let claim = IdentityClaim {
                ip: IpAddr::from(number.to_be_bytes()),
                user: &user,
                is_known_here: false,
            };
            guesses.wrong(claim, 1);
        }
        let of = (guesses.addresses.tries.len(), guesses.addresses.order.len());
        assert_eq!(of, (REMEMBERED_MAX, REMEMBERED_MAX));
        assert_eq!(guesses.users.tries.len(), REMEMBERED_MAX);
    }
}
