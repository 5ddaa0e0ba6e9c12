//! Fixed-window rate limits: a window begins with the first request after the previous window and lasts a minute.
//!
//! Our own, because `X-RateLimit-Remaining` and `-Reset` must be exact. Libraries such as `governor` use a token
//! bucket, which admits nearly twice the limit in the first minute and has no reset time.
//!
//! With several nodes, they share a window: each node takes blocks of requests out of it before it admits them. Other
//! nodes may hold unused requests of their blocks, so that many are given out beyond the limit, and no tenant is
//! refused below it. Blocks are so small that at most 1/[`BEYOND`] of the limit is admitted beyond it.

use std::{
    hash::Hash,
    sync::atomic::{AtomicI64, Ordering},
};

use dashmap::{DashMap, Entry};
use dikala_entities::Millis;

/// Length of a window, in milliseconds.
pub const WINDOW_MS: i64 = 60_000;
/// All nodes together admit at most limit / 20 requests beyond a limit.
const BEYOND: u32 = 20;
/// Shortest time between two searches of a full table for expired windows.
const SWEEP_EVERY_MS: i64 = 1_000;

/// The count of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateWindow {
    started_at: Millis,
    used: u32,
    refused: u32,
    /// Unused requests of this node's block in a shared window; none if the window is this node's alone.
    block: Option<u32>,
}

/// A request for a block of a shared window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// The wanted size of the block; fewer are granted if fewer are left.
    pub block: u32,
    /// The resulting limit of all nodes together.
    pub most: u32,
    /// Requests that this node admitted while it counted alone, and the age of that window.
    pub counted: u32,
    pub age_ms: i64,
}

/// A granted block of a shared window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockGrant {
    pub block: u32,
    /// Requests taken by all nodes, including this block.
    pub taken: u32,
    /// The age of the window.
    pub age_ms: i64,
}

/// The next step for a request with several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    Decided(Allowance),
    /// A block is needed first.
    Take(BlockRequest),
}

/// The decision on a request, and the values of its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub allowed: bool,
    pub limit: u32,
    pub remaining: u32,
    pub resets_at: Millis,
}

impl Allowance {
    /// The end of the window in Unix seconds.
    pub fn reset_unix_seconds(&self) -> i64 {
        ceil_seconds(self.resets_at.as_i64())
    }

    /// Whole seconds from `now` to the end of the window, at least 1.
    pub fn retry_after_seconds(&self, now: Millis) -> i64 {
        ceil_seconds(self.resets_at.since(now)).max(1)
    }
}

fn ceil_seconds(ms: i64) -> i64 {
    ms.saturating_add(999).div_euclid(1_000)
}

/// Counts a request; refused requests do not count. If the clock went back, a new window begins.
pub fn count(window: Option<RateWindow>, limit: u32, now: Millis) -> (RateWindow, Allowance) {
    let mut window = window
        .filter(|window| (0..WINDOW_MS).contains(&now.since(window.started_at)))
        .unwrap_or(RateWindow {
            started_at: now,
            used: 0,
            refused: 0,
            block: None,
        });
    let allowed = window.used < limit;
    window.let_in(allowed);
    (window, window.allowance(allowed, limit))
}

impl RateWindow {
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

/// Block size per node and the resulting global limit. At most `block - 1` unused requests per other node are given
/// out beyond `limit`: a node takes a block only for a request that uses one of it.
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

/// Counts a request in a window shared by `nodes`, if this node's block suffices to decide.
pub fn count_together(
    window: Option<RateWindow>,
    limit: u32,
    nodes: usize,
    now: Millis,
) -> (Option<RateWindow>, RateDecision) {
    let running = window.filter(|window| (0..WINDOW_MS).contains(&now.since(window.started_at)));
    let (block, most) = shares(limit, nodes);
    match running {
        Some(mut window) if window.block.is_some_and(|left| left > 0) || window.used >= most => {
            let allowed = window.used < most;
            window.let_in(allowed);
            (
                Some(window),
                RateDecision::Decided(window.allowance(allowed, limit)),
            )
        }
        running => {
            let alone = running.filter(|window| window.block.is_none());
            let wish = BlockRequest {
                block,
                most,
                counted: alone.map_or(0, |window| window.used),
                age_ms: alone.map_or(0, |window| now.since(window.started_at)),
            };
            (running, RateDecision::Take(wish))
        }
    }
}

/// The window after a block was granted.
pub fn granted(window: Option<RateWindow>, grant: BlockGrant, now: Millis) -> RateWindow {
    let started_at = now.plus_ms(-grant.age_ms.clamp(0, WINDOW_MS));
    let same = window.filter(|window| (0..WINDOW_MS).contains(&now.since(window.started_at)));
    RateWindow {
        started_at,
        used: grant.taken.saturating_sub(grant.block),
        refused: same.map_or(0, |window| window.refused),
        block: Some(grant.block),
    }
}

/// A bounded table of windows by key.
#[derive(Debug)]
pub struct Limiter<K: Hash + Eq> {
    windows: DashMap<K, RateWindow>,
    capacity: usize,
    swept_at: AtomicI64,
}

impl<K: Hash + Eq> Limiter<K> {
    /// A limiter for up to `capacity` windows.
    pub fn new(capacity: usize) -> Self {
        Self {
            windows: DashMap::new(),
            capacity,
            swept_at: AtomicI64::new(0),
        }
    }

    /// Counts a request of `key`. If the table is full of current windows, a new key is refused: only a flood can
    /// fill it.
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
        let fresh = RateWindow {
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

    /// Counts a request of `key` in a window shared by `nodes`, if that can be decided without a new block.
    pub fn count_together(&self, key: K, limit: u32, nodes: usize, now: Millis) -> RateDecision {
        match self.windows.entry(key) {
            Entry::Occupied(mut known) => {
                let (window, next) = count_together(Some(*known.get()), limit, nodes, now);
                if let Some(window) = window {
                    known.insert(window);
                }
                next
            }
            // If the table is full, the request is refused when it is counted.
            Entry::Vacant(_) => count_together(None, limit, nodes, now).1,
        }
    }

    /// Adds a granted block to the window of `key`, if there is room in the table.
    pub fn granted(&self, key: K, grant: BlockGrant, now: Millis) {
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

    /// Keys with at least this many refusals in the current window, with their number.
    pub fn refused(&self, at_least: u32, now: Millis) -> Vec<(K, u32)>
    where
        K: Clone,
    {
        let counts = |window: &RateWindow| {
            (0..WINDOW_MS).contains(&now.since(window.started_at)) && window.refused >= at_least
        };
        let windows = self.windows.iter().filter(|window| counts(window));
        windows
            .map(|window| (window.key().clone(), window.refused))
            .collect()
    }

    /// Takes back the last counted request of `key`.
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

    /// Nodes that take blocks in any order admit the whole limit and at most a twentieth more, and a single node is
    /// never refused below the limit.
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
                let mut windows: Vec<Option<RateWindow>> = vec![None; nodes];
                for n in 0..usize::try_from(limit).unwrap() * 3 + 10 {
                    let node = turns[n % 3] % nodes;
                    loop {
                        let (window, next) = count_together(windows[node], limit, nodes, at(0));
                        windows[node] = window;
                        match next {
                            RateDecision::Decided(verdict) => {
                                let_in += u32::from(verdict.allowed);
                                break;
                            }
                            RateDecision::Take(wish) => {
                                let block = wish.block.min(wish.most.saturating_sub(shared));
                                shared += block;
                                asked += 1;
                                let grant = BlockGrant {
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
        let wish = BlockRequest {
            block: 3,
            most: 62,
            counted: 5,
            age_ms: 9_000,
        };
        assert_eq!(next, RateDecision::Take(wish));
        let grant = BlockGrant {
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
        assert_eq!(next, RateDecision::Decided(expected));
        // The other node has left.
        assert_eq!(count(window, 60, at(9_002)).1.remaining, 53);
        // A minute later a new window begins.
        let (_, next) = count_together(window, 60, 2, at(60_000));
        assert!(matches!(
            next,
            RateDecision::Take(BlockRequest { counted: 0, .. })
        ));
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
