//! Fixed windows: a window begins with the first request after the last one, and counts for a minute.
//!
//! Our own, because `X-RateLimit-Remaining` and `-Reset` have to be exact: libraries (`governor` and others) let a bucket fill up
//! steadily, which lets nearly twice the limit through in the first minute and has no moment at which it begins anew.

use std::{
    hash::Hash,
    sync::atomic::{AtomicI64, Ordering},
};

use dashmap::DashMap;
use dikala_entities::Millis;

/// How long a window is, in milliseconds.
pub const WINDOW_MS: i64 = 60_000;
/// How often a full table is searched for windows that are over, at most.
const SWEEP_EVERY_MS: i64 = 1_000;

/// The requests of one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    started_at: Millis,
    used: u32,
    refused: u32,
}

/// Whether a request is taken, and what the headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub allowed: bool,
    pub limit: u32,
    pub remaining: u32,
    pub resets_at: Millis,
}

impl Allowance {
    /// Unix seconds at which the window is over.
    pub fn reset_unix_seconds(&self) -> i64 {
        ceil_seconds(self.resets_at.as_i64())
    }

    /// Whole seconds from `now` until the window is over, at least 1.
    pub fn retry_after_seconds(&self, now: Millis) -> i64 {
        ceil_seconds(self.resets_at.since(now)).max(1)
    }
}

fn ceil_seconds(ms: i64) -> i64 {
    ms.saturating_add(999).div_euclid(1_000)
}

/// Counts one request. Refused ones do not count. A clock that went back begins a new window.
pub fn count(window: Option<Window>, limit: u32, now: Millis) -> (Window, Allowance) {
    let mut window = window
        .filter(|window| (0..WINDOW_MS).contains(&now.since(window.started_at)))
        .unwrap_or(Window {
            started_at: now,
            used: 0,
            refused: 0,
        });
    let allowed = window.used < limit;
    if allowed {
        window.used += 1;
    } else {
        window.refused = window.refused.saturating_add(1);
    }
    let verdict = Allowance {
        allowed,
        limit,
        remaining: limit.saturating_sub(window.used),
        resets_at: window.started_at.plus_ms(WINDOW_MS),
    };
    (window, verdict)
}

/// The windows of many; holds a bounded number of them.
#[derive(Debug)]
pub struct Limiter<K: Hash + Eq> {
    windows: DashMap<K, Window>,
    capacity: usize,
    swept_at: AtomicI64,
}

impl<K: Hash + Eq> Limiter<K> {
    /// A limiter that remembers up to `capacity` windows.
    pub fn new(capacity: usize) -> Self {
        Self {
            windows: DashMap::new(),
            capacity,
            swept_at: AtomicI64::new(0),
        }
    }

    /// Counts one request of `key`. When the table is full of running windows, a new key is refused: whoever fills it is
    /// flooding.
    pub fn count(&self, key: K, limit: u32, now: Millis) -> Allowance {
        if self.windows.len() >= self.capacity {
            self.sweep(now);
            if self.windows.len() >= self.capacity && !self.windows.contains_key(&key) {
                return Allowance {
                    allowed: false,
                    limit,
                    remaining: 0,
                    resets_at: now.plus_ms(WINDOW_MS),
                };
            }
        }
        let fresh = Window {
            started_at: now,
            used: 0,
            refused: 0,
        };
        let mut window = self.windows.entry(key).or_insert(fresh);
        let (counted, verdict) = count(Some(*window), limit, now);
        *window = counted;
        verdict
    }

    /// Who was refused so often at least in the window that counts now, and how often.
    pub fn refused(&self, at_least: u32, now: Millis) -> Vec<(K, u32)>
    where
        K: Clone,
    {
        let counts = |window: &Window| {
            (0..WINDOW_MS).contains(&now.since(window.started_at)) && window.refused >= at_least
        };
        let windows = self.windows.iter().filter(|window| counts(window));
        windows
            .map(|window| (window.key().clone(), window.refused))
            .collect()
    }

    /// Takes the last counted request of `key` back.
    pub fn give_back(&self, key: &K) {
        if let Some(mut window) = self.windows.get_mut(key) {
            window.used = window.used.saturating_sub(1);
        }
    }

    fn sweep(&self, now: Millis) {
        let last = self.swept_at.load(Ordering::Relaxed);
        let due = (now.as_i64() - last).abs() >= SWEEP_EVERY_MS;
        let mine = due
            && self
                .swept_at
                .compare_exchange(last, now.as_i64(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if mine {
            self.windows
                .retain(|_, window| (0..WINDOW_MS).contains(&now.since(window.started_at)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Millis {
        Millis::from_i64(1_700_000_000_000 + ms)
    }

    #[test]
    fn a_window_begins_with_its_first_request_and_lasts_a_minute() {
        let table = [
            // at ms, allowed, remaining, reset at ms
            (10_250, true, 2, 70_250),
            (10_250, true, 1, 70_250),
            (60_000, true, 0, 70_250),
            (70_249, false, 0, 70_250),
            (70_250, true, 2, 130_250),
            (200_000, true, 2, 260_000),
            (199_999, true, 2, 259_999), // the clock went back
        ];
        let mut window = None;
        for (ms, allowed, remaining, reset) in table {
            let (next, verdict) = count(window, 3, at(ms));
            window = Some(next);
            let expected = Allowance {
                allowed,
                limit: 3,
                remaining,
                resets_at: at(reset),
            };
            assert_eq!(verdict, expected, "at {ms} ms");
        }
    }

    #[test]
    fn headers_are_whole_seconds_rounded_up() {
        let (_, verdict) = count(None, 1, at(250));
        assert_eq!(verdict.reset_unix_seconds(), 1_700_000_061);
        for (now, seconds) in [(250, 60), (251, 60), (59_250, 1), (60_249, 1), (60_250, 1)] {
            assert_eq!(verdict.retry_after_seconds(at(now)), seconds, "at {now} ms");
        }
    }

    #[test]
    fn a_limit_that_changes_counts_at_once() {
        let (window, _) = count(None, 5, at(0));
        let (window, verdict) = count(Some(window), 1, at(1));
        assert!(!verdict.allowed);
        assert!(count(Some(window), 5, at(2)).1.allowed);
        assert!(!count(None, 0, at(0)).1.allowed);
    }

    #[test]
    fn the_table_is_bounded_and_gives_room_again() {
        let limiter = Limiter::new(2);
        assert!(limiter.count("a", 9, at(0)).allowed);
        assert!(limiter.count("b", 9, at(1)).allowed);
        assert!(!limiter.count("c", 9, at(2)).allowed);
        assert!(limiter.count("a", 9, at(3)).allowed);
        assert!(limiter.count("c", 9, at(60_001)).allowed);
    }

    #[test]
    fn many_at_once_are_counted_exactly() {
        let limiter = Limiter::new(10);
        let allowed: usize = std::thread::scope(|scope| {
            let count = || {
                (0..50)
                    .filter(|_| limiter.count(1, 100, at(0)).allowed)
                    .count()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|t| t.join().expect("counts")).sum()
        });
        assert_eq!(allowed, 100);
    }
}
