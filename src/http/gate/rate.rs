//! Fixed windows: a window begins with the first request after the last one, and counts for a minute.
//!
//! Our own, because `X-RateLimit-Remaining` and `-Reset` have to be exact: libraries (`governor` and others) let a bucket fill up
//! steadily, which lets nearly twice the limit through in the first minute and has no moment at which it begins anew.
//!
//! Where there are several nodes, a window is theirs together: each takes requests out of it in blocks, before it lets them in.
//! What the other nodes may have taken and not used is given out beyond the limit, so that nobody is refused below it, and a block
//! is so small that this is at most [`BEYOND`] of it.

use std::{
    hash::Hash,
    sync::atomic::{AtomicI64, Ordering},
};

use dashmap::{DashMap, Entry};
use dikala_entities::Millis;

/// How long a window is, in milliseconds.
pub const WINDOW_MS: i64 = 60_000;
/// The share of a limit that nodes may let in beyond it, all together.
const BEYOND: u32 = 20;
/// How often a full table is searched for windows that are over, at most.
const SWEEP_EVERY_MS: i64 = 1_000;

/// The requests of one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    started_at: Millis,
    used: u32,
    refused: u32,
    /// What was taken out of a window that nodes have together and is not used yet; none: it is this node's alone.
    block: Option<u32>,
}

/// What is to be taken out of a window that nodes have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// So many requests, or as many as are left.
    pub block: u32,
    /// All that is given out in a window.
    pub most: u32,
    /// What this node let in while it was alone, and how long ago that window began.
    pub counted: u32,
    pub age_ms: i64,
}

/// What was taken out of a window that nodes have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub block: u32,
    /// All that nodes have taken, this block included.
    pub taken: u32,
    /// How long ago the window began.
    pub age_ms: i64,
}

/// What follows for a request among several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Decided(Allowance),
    /// A block is to be taken first.
    Take(Wish),
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
            block: None,
        });
    let allowed = window.used < limit;
    window.let_in(allowed);
    (window, window.allowance(allowed, limit))
}

impl Window {
    fn let_in(&mut self, allowed: bool) {
        if allowed {
            self.used = self.used.saturating_add(1);
            self.block = self.block.map(|left| left.saturating_sub(1));
        } else {
            self.refused = self.refused.saturating_add(1);
        }
    }

    fn allowance(&self, allowed: bool, limit: u32) -> Allowance {
        Allowance {
            allowed,
            limit,
            remaining: limit.saturating_sub(self.used),
            resets_at: self.started_at.plus_ms(WINDOW_MS),
        }
    }
}

/// How much one of `nodes` takes at once, and what all of them give out. One that comes for a block uses one of it at once, so the
/// others have one less than that to spare at most.
fn shares(limit: u32, nodes: usize) -> (u32, u32) {
    let others = u32::try_from(nodes)
        .unwrap_or(u32::MAX)
        .saturating_sub(1)
        .max(1);
    let block = (limit / BEYOND / others).max(1);
    (
        block,
        limit.saturating_add((block - 1).saturating_mul(others)),
    )
}

/// Counts one request of a window that `nodes` have together, if what this node has taken of it suffices to say.
pub fn count_together(
    window: Option<Window>,
    limit: u32,
    nodes: usize,
    now: Millis,
) -> (Option<Window>, Next) {
    let running = window.filter(|window| (0..WINDOW_MS).contains(&now.since(window.started_at)));
    let (block, most) = shares(limit, nodes);
    match running {
        Some(mut window) if window.block.is_some_and(|left| left > 0) || window.used >= most => {
            let allowed = window.used < most;
            window.let_in(allowed);
            (
                Some(window),
                Next::Decided(window.allowance(allowed, limit)),
            )
        }
        running => {
            let alone = running.filter(|window| window.block.is_none());
            let wish = Wish {
                block,
                most,
                counted: alone.map_or(0, |window| window.used),
                age_ms: alone.map_or(0, |window| now.since(window.started_at)),
            };
            (running, Next::Take(wish))
        }
    }
}

/// The window after a block was taken out of it.
pub fn granted(window: Option<Window>, grant: Grant, now: Millis) -> Window {
    let started_at = now.plus_ms(-grant.age_ms.clamp(0, WINDOW_MS));
    let same = window.filter(|window| (0..WINDOW_MS).contains(&now.since(window.started_at)));
    Window {
        started_at,
        used: grant.taken.saturating_sub(grant.block),
        refused: same.map_or(0, |window| window.refused),
        block: Some(grant.block),
    }
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
            block: None,
        };
        let mut window = self.windows.entry(key).or_insert(fresh);
        let (counted, verdict) = count(Some(*window), limit, now);
        *window = counted;
        verdict
    }

    /// Counts one request of `key` in a window that `nodes` have together, if that can be said without asking them.
    pub fn count_together(&self, key: K, limit: u32, nodes: usize, now: Millis) -> Next {
        match self.windows.entry(key) {
            Entry::Occupied(mut known) => {
                let (window, next) = count_together(Some(*known.get()), limit, nodes, now);
                if let Some(window) = window {
                    known.insert(window);
                }
                next
            }
            // A full table refuses it where it is counted.
            Entry::Vacant(_) => count_together(None, limit, nodes, now).1,
        }
    }

    /// A block was taken for `key`, where there is room to remember it.
    pub fn granted(&self, key: K, grant: Grant, now: Millis) {
        match self.windows.entry(key) {
            Entry::Occupied(mut known) => {
                let window = granted(Some(*known.get()), grant, now);
                known.insert(window);
            }
            Entry::Vacant(place) => {
                place.insert(granted(None, grant, now));
            }
        }
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

    /// Nodes that take blocks out of a window in whatever order let in the whole limit, and at most a twentieth more; and one of them
    /// alone is never refused below it.
    #[test]
    fn nodes_together_let_in_the_limit_and_hardly_more() {
        for (limit, nodes) in [
            (0, 2),
            (1, 2),
            (7, 3),
            (60, 2),
            (60, 3),
            (300, 2),
            (300, 16),
            (60_000, 4),
        ] {
            for turns in [[0, 1, 2], [0, 0, 0], [0, 0, 1]] {
                let (mut shared, mut let_in, mut asked) = (0, 0, 0);
                let mut windows: Vec<Option<Window>> = vec![None; nodes];
                for n in 0..usize::try_from(limit).unwrap() * 3 + 10 {
                    let node = turns[n % 3] % nodes;
                    loop {
                        let (window, next) = count_together(windows[node], limit, nodes, at(0));
                        windows[node] = window;
                        match next {
                            Next::Decided(verdict) => {
                                let_in += u32::from(verdict.allowed);
                                break;
                            }
                            Next::Take(wish) => {
                                let block = wish.block.min(wish.most.saturating_sub(shared));
                                shared += block;
                                asked += 1;
                                let grant = Grant {
                                    block,
                                    taken: shared,
                                    age_ms: 0,
                                };
                                windows[node] = Some(granted(window, grant, at(0)));
                                if block == 0 {
                                    break;
                                }
                            }
                        }
                    }
                }
                let most = limit + limit / BEYOND;
                assert!(
                    (limit..=most).contains(&let_in),
                    "{let_in} of {limit} at {nodes}"
                );
                assert!(
                    asked <= limit.min(42 * u32::try_from(nodes).unwrap()) + 3,
                    "{asked} for {limit}"
                );
            }
        }
    }

    #[test]
    fn what_a_node_counted_alone_counts_among_others() {
        let (mut window, _) = count(None, 60, at(0));
        for _ in 0..4 {
            window = count(Some(window), 60, at(1)).0;
        }
        let (_, next) = count_together(Some(window), 60, 2, at(9_000));
        let wish = Wish {
            block: 3,
            most: 62,
            counted: 5,
            age_ms: 9_000,
        };
        assert_eq!(next, Next::Take(wish));
        let grant = Grant {
            block: 3,
            taken: 8,
            age_ms: 9_000,
        };
        let window = granted(Some(window), grant, at(9_000));
        let (window, next) = count_together(Some(window), 60, 2, at(9_001));
        let expected = Allowance {
            allowed: true,
            limit: 60,
            remaining: 54,
            resets_at: at(60_000),
        };
        assert_eq!(next, Next::Decided(expected));
        // And alone again.
        assert_eq!(count(window, 60, at(9_002)).1.remaining, 53);
        // A minute later nothing of it counts.
        let (_, next) = count_together(window, 60, 2, at(60_000));
        assert!(matches!(next, Next::Take(Wish { counted: 0, .. })));
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
