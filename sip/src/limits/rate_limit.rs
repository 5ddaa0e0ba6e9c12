//! Rate limits for strangers: for each address and for all together, refilled continuously. Pure.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use super::address_holder::holder;

/// Beyond this many addresses, those with a full limit are forgotten.
const ADDRESSES_MAX: usize = 10_000;

/// A rate limit: interval and burst, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    every: u64,
    burst: u64,
}

impl RateLimit {
    /// This many a second, and as many at once.
    pub const fn a_second(count: u64) -> Self {
        Self {
            every: 1_000_000 / count,
            burst: 1_000_000,
        }
    }

    /// One in this many milliseconds, and this many at once.
    pub const fn one_in(ms: u64, at_once: u64) -> Self {
        Self {
            every: ms * 1_000,
            burst: ms * 1_000 * at_once,
        }
    }

    /// The wait of one more request, if the limit is used up until `used_until`.
    fn wait(self, used_until: u64, now: u64) -> u64 {
        let full = (used_until.max(now) + self.every).saturating_sub(self.burst);
        full.saturating_sub(now)
    }

    fn use_up(self, used_until: &mut u64, now: u64) {
        *used_until = (*used_until).max(now) + self.every;
    }
}

/// The use of one rate limit. Times are microseconds from any epoch.
#[derive(Debug)]
pub struct RateCount {
    limit: RateLimit,
    used_until: u64,
}

impl RateCount {
    pub fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            used_until: 0,
        }
    }

    /// Admits one more; false if the limit is used up.
    pub fn admits(&mut self, now: u64) -> bool {
        let admits = self.limit.wait(self.used_until, now) == 0;
        if admits {
            self.limit.use_up(&mut self.used_until, now);
        }
        admits
    }
}

/// The strangers' use of their rate limits. Times are microseconds from any epoch.
#[derive(Debug)]
pub struct RateLimiter {
    of_one: RateLimit,
    of_all: RateLimit,
    all: u64,
    each: HashMap<IpAddr, u64>,
}

impl RateLimiter {
    pub fn new(of_one: RateLimit, of_all: RateLimit) -> Self {
        Self {
            of_one,
            of_all,
            all: 0,
            each: HashMap::new(),
        }
    }

    /// The wait of one more request of this address.
    fn due(&self, ip: IpAddr, now: u64) -> u64 {
        let used = self.each.get(&ip).copied().unwrap_or_default();
        let of_one = self.of_one.wait(used, now);
        of_one.max(self.of_all.wait(self.all, now))
    }

    fn use_up(&mut self, ip: IpAddr, now: u64) {
        if self.each.len() >= ADDRESSES_MAX {
            self.each.retain(|_, used_until| *used_until > now);
        }
        self.of_all.use_up(&mut self.all, now);
        self.of_one.use_up(self.each.entry(ip).or_default(), now);
    }

    /// True if one more request of this address would be admitted.
    pub fn has_room(&self, ip: IpAddr, now: u64) -> bool {
        self.due(holder(ip), now) == 0
    }

    /// Admits one more request of this address; false if the limit is used up.
    pub fn admits(&mut self, ip: IpAddr, now: u64) -> bool {
        let ip = holder(ip);
        let admits = self.due(ip, now) == 0;
        if admits {
            self.use_up(ip, now);
        }
        admits
    }

    /// Admits one more request of this address, and returns how long it has to wait. The caller must not admit another meanwhile.
    pub fn queue(&mut self, ip: IpAddr, now: u64) -> Duration {
        let ip = holder(ip);
        let wait = self.due(ip, now);
        self.use_up(ip, now);
        Duration::from_micros(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> RateLimiter {
        RateLimiter::new(RateLimit::a_second(400), RateLimit::a_second(2_000))
    }

    fn ip(number: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + number).to_be_bytes())
    }

    #[test]
    fn a_rate_is_admitted_and_no_more() {
        for (rate, ms, admitted) in [(1, 0, 1), (5, 0, 5), (5, 1_000, 10), (1, 10_000, 11)] {
            let mut count = RateCount::new(RateLimit::a_second(rate));
            let begun = 1_000_000;
            let times = (0..100)
                .map(|_| begun)
                .chain((1..=ms).map(|at| begun + at * 1_000));
            assert_eq!(
                times.filter(|now| count.admits(*now)).count(),
                admitted,
                "{rate}"
            );
        }
    }

    #[test]
    fn one_stranger_does_not_silence_the_others() {
        let mut limiter = limiter();
        let read = (0..100_000).filter(|_| limiter.admits(ip(1), 7)).count();
        assert_eq!(read, 400);
        assert!(!limiter.has_room(ip(1), 7) && limiter.has_room(ip(2), 7));
        assert!(limiter.admits(ip(2), 7));
        let many = (0..256).flat_map(|number| std::iter::repeat_n(number, 300));
        let read = many.filter(|number| limiter.admits(ip(100 + number), 7));
        assert_eq!(read.count(), 2_000 - 401);
    }

    /// A used-up limit is not refilled at once at the turn of a second.
    #[test]
    fn what_was_used_comes_back_little_by_little() {
        let mut limiter = limiter();
        let mut read = |from: u64, to: u64| {
            let times = (from..to).step_by(100);
            times.filter(|at| limiter.admits(ip(1), *at)).count()
        };
        assert_eq!(read(900_000, 1_000_000), 439);
        assert_eq!(read(1_000_000, 1_100_000), 40);
        assert_eq!(read(1_100_000, 2_100_000), 400);
    }

    #[test]
    fn who_queues_waits_for_his_share_and_is_admitted() {
        let mut limiter = limiter();
        let waits: Vec<u128> = (0..404)
            .map(|_| limiter.queue(ip(1), 0).as_micros())
            .collect();
        assert_eq!(waits[399..], [0, 2_500, 5_000, 7_500, 10_000]);
        assert_eq!(limiter.queue(ip(2), 0), Duration::ZERO);
    }

    #[test]
    fn a_crowd_is_not_remembered_without_end() {
        let mut limiter = limiter();
        for number in 0..100_000 {
            limiter.admits(ip(number), u64::from(number) * 500);
        }
        assert!(limiter.each.len() <= ADDRESSES_MAX);
    }

    #[test]
    fn a_slow_pace_has_its_burst() {
        let mut lines = RateLimiter::new(RateLimit::one_in(10_000, 3), RateLimit::one_in(100, 50));
        let admitted = (0..60).filter(|second| lines.admits(ip(1), second * 1_000_000));
        assert_eq!(admitted.count(), 3 + 5);
    }
}
