//! A limit shared by holders, of which a few greedy holders cannot take everything.

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The limit of one holder: `each` while at most half of `max` is held. Beyond that it is a part of the other half
/// which leaves as much for a new holder.
pub fn fair(max: usize, each: usize, held: usize, holders: usize) -> usize {
    if held <= max / 2 {
        return each;
    }
    (max / 2 / (holders + 1)).clamp(1, each.max(1))
}

/// A semaphore that counts permits per holder.
pub struct SharedLimit<K: Hash + Eq>(Arc<Shared<K>>);

struct Shared<K: Hash + Eq> {
    max: usize,
    each: usize,
    held: Mutex<Held<K>>,
}

struct Held<K> {
    all: usize,
    by_holder: HashMap<K, usize>,
}

/// One or more permits, returned when dropped.
pub struct SharedPermit<K: Hash + Eq> {
    holder: Option<K>,
    amount: usize,
    shared: Arc<Shared<K>>,
}

impl<K: Hash + Eq + Clone> SharedLimit<K> {
    /// At most `max` permits in all and `each` per holder.
    pub fn new(max: usize, each: usize) -> Self {
        let held = Held {
            all: 0,
            by_holder: HashMap::new(),
        };
        Self(Arc::new(Shared {
            max,
            each,
            held: Mutex::new(held),
        }))
    }

    /// One permit for `holder`, if there is one.
    pub fn take(&self, holder: K) -> Option<SharedPermit<K>> {
        self.take_some(holder, 1)
    }

    /// `amount` permits for `holder`, if there are as many.
    pub fn take_some(&self, holder: K, amount: usize) -> Option<SharedPermit<K>> {
        let shared = &self.0;
        let mut held = shared.held();
        let own = held.by_holder.get(&holder).copied().unwrap_or(0);
        let may = fair(shared.max, shared.each, held.all, held.by_holder.len());
        if held.all.saturating_add(amount) > shared.max || own.saturating_add(amount) > may {
            return None;
        }
        held.all += amount;
        held.by_holder.insert(holder.clone(), own + amount);
        drop(held);
        Some(SharedPermit {
            holder: Some(holder),
            amount,
            shared: Arc::clone(shared),
        })
    }

    /// The number of permits held.
    pub(crate) fn held(&self) -> usize {
        self.0.held().all
    }
}

impl<K: Hash + Eq> Shared<K> {
    fn held(&self) -> MutexGuard<'_, Held<K>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq> Drop for SharedPermit<K> {
    fn drop(&mut self) {
        let Some(holder) = self.holder.take() else {
            return;
        };
        let mut held = self.shared.held();
        held.all = held.all.saturating_sub(self.amount);
        if let Some(own) = held.by_holder.get_mut(&holder) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                held.by_holder.remove(&holder);
            }
        }
    }
}

impl<K: Hash + Eq> Clone for SharedLimit<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Hash + Eq> fmt::Debug for SharedLimit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimit")
            .field("max", &self.0.max)
            .field("each", &self.0.each)
            .finish_non_exhaustive()
    }
}

impl<K: Hash + Eq> fmt::Debug for SharedPermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedPermit(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_his_share_and_what_is_dropped_comes_back() {
        let shares = SharedLimit::new(8, 2);
        let first = shares.take("a");
        let second = shares.take("a");
        assert!(first.is_some() && second.is_some());
        assert!(shares.take("a").is_none());
        let other = shares.take("b");
        assert!(other.is_some());
        drop(first);
        assert!(shares.take("a").is_some());
        assert_eq!(shares.held(), 2);
        drop((second, other));
        assert_eq!(shares.held(), 0);
        assert!(shares.0.held().by_holder.is_empty());
    }

    #[test]
    fn who_takes_some_gives_back_as_many() {
        let shares = SharedLimit::new(100, 40);
        let most = shares.take_some("a", 40);
        assert!(most.is_some() && shares.take("a").is_none());
        let other = shares.take_some("b", 30);
        assert!(other.is_some() && shares.take_some("c", 31).is_none());
        drop(most);
        assert_eq!(shares.held(), 30);
        assert!(shares.take_some("c", usize::MAX).is_none());
    }

    /// However many greedy holders take all they can get, a new holder still gets a permit.
    #[test]
    fn no_number_of_greedy_holders_takes_everything() {
        for (max, each) in [(256, 64), (128, 32), (4_096, 512)] {
            for greedy in 1..100 {
                let shares = SharedLimit::new(max, each);
                let mut held = Vec::new();
                loop {
                    let before = held.len();
                    held.extend((0..greedy).filter_map(|holder| shares.take(holder)));
                    if held.len() == before {
                        break;
                    }
                }
                assert!(shares.take(greedy).is_some(), "{greedy} took all {max}");
            }
        }
    }
}
