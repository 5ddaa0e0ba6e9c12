//! Lines: counts calls in all and by trunk, and decides which unacknowledged calls are kept. Pure.

use std::collections::{HashMap, VecDeque};

/// The number of unacknowledged calls of a trunk that are kept without a line. One more ends the oldest.
pub const LATE_MAX: usize = 10;

/// A quarter of the lines is reserved for trunks with few calls, in equal shares of at least one line. A trunk's own limit bounds
/// its share: nobody could use the rest.
const KEPT_PART: usize = 4;

#[derive(Debug)]
pub struct LineCounts {
    max: usize,
    /// The share of a trunk without a limit of its own, and the sum of all shares.
    share: usize,
    reserved: usize,
    all: usize,
    held: HashMap<String, usize>,
    /// Second legs that count against the limits of their trunk only.
    second_legs: HashMap<String, usize>,
}

impl LineCounts {
    /// `limits`: the lines that each trunk may have.
    pub fn new(max: usize, limits: &[Option<u32>]) -> Self {
        let kept = max / KEPT_PART;
        let share = match limits.len() {
            trunks if trunks > 1 && kept > 0 => (kept / trunks).max(1),
            _ => 0,
        };
        let of_trunk = |most: &Option<u32>| most.map_or(share, |most| share.min(most as usize));
        Self {
            max,
            share,
            reserved: limits.iter().map(of_trunk).sum(),
            all: 0,
            held: HashMap::new(),
            second_legs: HashMap::new(),
        }
    }

    pub fn all(&self) -> usize {
        self.all
    }

    /// Takes a line for a call of this trunk, if one is free and not reserved for others. `most`: lines that the trunk may have.
    pub fn take(&mut self, trunk: &str, most: Option<u32>) -> bool {
        if self.is_full(trunk, most) || self.all + self.kept_from(trunk) >= self.max {
            return false;
        }
        self.all += 1;
        *self.held.entry(trunk.to_owned()).or_default() += 1;
        true
    }

    /// Takes a place for a second leg over this trunk. Its call has a line already, so only the trunk's own limit counts.
    pub fn take_second_leg(&mut self, trunk: &str, most: Option<u32>) -> bool {
        if self.is_full(trunk, most) {
            return false;
        }
        *self.second_legs.entry(trunk.to_owned()).or_default() += 1;
        true
    }

    /// True if the trunk has as many calls, second legs included, as it may have.
    fn is_full(&self, trunk: &str, most: Option<u32>) -> bool {
        let of = |counts: &HashMap<String, usize>| counts.get(trunk).copied().unwrap_or_default();
        let held = of(&self.held) + of(&self.second_legs);
        most.is_some_and(|most| held >= most as usize)
    }

    /// Lines that are free for other trunks only.
    fn kept_from(&self, trunk: &str) -> usize {
        let of = |held: usize| held.min(self.share);
        let used: usize = self.held.values().copied().map(of).sum();
        let own = of(self.held.get(trunk).copied().unwrap_or_default());
        if own < self.share {
            return 0;
        }
        let owed = self.reserved.saturating_sub(used);
        owed.min(self.max / KEPT_PART)
    }

    pub fn give_back(&mut self, trunk: &str) {
        self.all -= 1;
        less_one(&mut self.held, trunk);
    }

    pub fn give_back_second_leg(&mut self, trunk: &str) {
        less_one(&mut self.second_legs, trunk);
    }
}

fn less_one(counts: &mut HashMap<String, usize>, trunk: &str) {
    if let Some(held) = counts.get_mut(trunk) {
        *held -= 1;
        if *held == 0 {
            counts.remove(trunk);
        }
    }
}

/// Unacknowledged calls without a line, by trunk, the oldest first. `T` ends one.
#[derive(Debug)]
pub struct UnacknowledgedCalls<T> {
    next: u64,
    by_trunk: HashMap<String, VecDeque<(u64, T)>>,
}

impl<T> Default for UnacknowledgedCalls<T> {
    fn default() -> Self {
        Self {
            next: 0,
            by_trunk: HashMap::new(),
        }
    }
}

impl<T> UnacknowledgedCalls<T> {
    /// Adds one. Returns its number, and the one that has to end for it.
    pub fn add(&mut self, trunk: &str, end: T) -> (u64, Option<T>) {
        self.next += 1;
        let of_trunk = self.by_trunk.entry(trunk.to_owned()).or_default();
        of_trunk.push_back((self.next, end));
        let oldest = (of_trunk.len() > LATE_MAX).then(|| of_trunk.pop_front());
        (self.next, oldest.flatten().map(|(_, end)| end))
    }

    pub fn remove(&mut self, trunk: &str, number: u64) {
        if let Some(of_trunk) = self.by_trunk.get_mut(trunk) {
            of_trunk.retain(|(other, _)| *other != number);
            if of_trunk.is_empty() {
                self.by_trunk.remove(trunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// The lines that a greedy trunk gets, and each other trunk after it.
    #[rstest]
    #[case(200, 1, 200, 0)]
    #[case(200, 2, 175, 25)]
    #[case(200, 5, 160, 10)]
    #[case(10, 2, 9, 1)]
    #[case(8, 3, 6, 1)]
    #[case(200, 1_000, 150, 1)]
    // Too few lines to reserve any.
    #[case(3, 2, 3, 0)]
    fn a_trunk_leaves_others_their_share(
        #[case] max: usize,
        #[case] trunks: usize,
        #[case] greedy: usize,
        #[case] other: usize,
    ) {
        let mut counts = LineCounts::new(max, &vec![None; trunks]);
        let mut take = |name: &str| (0..max + 1).filter(|_| counts.take(name, None)).count();
        assert_eq!(take("greedy"), greedy);
        for number in 1..trunks {
            let got = take(&number.to_string());
            let left = (max - greedy).saturating_sub((number - 1) * other);
            assert_eq!(got, other.min(left), "{number}");
        }
        assert_eq!(take("greedy"), 0);
        assert!(counts.all() <= max);
    }

    #[test]
    fn a_trunk_may_have_a_limit_of_its_own() {
        let mut counts = LineCounts::new(100, &[None]);
        let taken =
            |counts: &mut LineCounts, most| (0..9).filter(|_| counts.take("a", most)).count();
        assert_eq!(taken(&mut counts, Some(2)), 2);
        assert_eq!(taken(&mut counts, Some(3)), 1);
        assert_eq!(taken(&mut counts, None), 9);
    }

    #[test]
    fn second_legs_count_against_their_trunk_and_take_no_line() {
        let mut counts = LineCounts::new(2, &[None, None]);
        let most = Some(2);
        assert!(counts.take_second_leg("carrier", most) && counts.take("carrier", most));
        assert!(!counts.take_second_leg("carrier", most) && !counts.take("carrier", most));
        assert_eq!(counts.all(), 1);
        assert!(counts.take_second_leg("carrier", None), "it has no limit");
        assert!(counts.take("other", None), "a line is free");
        for _ in 0..2 {
            counts.give_back_second_leg("carrier");
        }
        assert!(counts.take_second_leg("carrier", most));
        counts.give_back_second_leg("carrier");
        counts.give_back("carrier");
        assert_eq!((counts.all(), counts.second_legs.len()), (1, 0));
    }

    /// A greedy trunk beside one that may have this many lines.
    #[rstest]
    #[case(None, 175)]
    #[case(Some(1_000), 175)]
    #[case(Some(25), 175)]
    #[case(Some(2), 198)]
    #[case(Some(0), 200)]
    fn lines_that_a_trunk_may_not_use_are_not_reserved(
        #[case] limit: Option<u32>,
        #[case] greedy: usize,
    ) {
        let mut counts = LineCounts::new(200, &[None, limit]);
        let mut take = |name, most| (0..201).filter(|_| counts.take(name, most)).count();
        assert_eq!(take("greedy", None), greedy);
        assert_eq!(take("small", limit), 200 - greedy);
    }

    #[test]
    fn lines_come_back() {
        let mut counts = LineCounts::new(4, &[None]);
        for _ in 0..3 {
            assert!((0..4).all(|_| counts.take("a", None)));
            assert!(!counts.take("a", None));
            (0..4).for_each(|_| counts.give_back("a"));
        }
        assert_eq!((counts.all(), counts.held.len()), (0, 0));
    }

    #[test]
    fn of_those_that_nobody_acknowledges_the_oldest_of_the_trunk_ends() {
        let mut calls = UnacknowledgedCalls::default();
        let (other, _) = calls.add("other", 100);
        for number in 0..30_usize {
            let ended = calls.add("forged", number).1;
            assert_eq!(ended, number.checked_sub(10));
        }
        calls.remove("other", other);
        assert_eq!(calls.by_trunk.len(), 1);
        assert_eq!(calls.by_trunk["forged"].len(), LATE_MAX);
    }
}
