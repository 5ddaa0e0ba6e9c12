//! Fair semaphore: waiters are served round-robin per holder. No holder may have so many permits that another with
//! none must wait for one of them to end.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::runtime::shared_limit::fair;

/// Grants permits. Clones share them.
pub struct FairSemaphore<K: Hash + Eq + Clone>(Arc<Shared<K>>);

struct Shared<K: Hash + Eq + Clone> {
    max: usize,
    each: usize,
    state: Mutex<State<K>>,
}

struct State<K: Hash + Eq + Clone> {
    held: usize,
    by_holder: HashMap<K, usize>,
    waiting: HashMap<K, VecDeque<Waiting<K>>>,
    /// Holders with waiters, each once; the first is next.
    round: VecDeque<K>,
}

struct Waiting<K: Hash + Eq + Clone> {
    since: Instant,
    permit: oneshot::Sender<FairPermit<K>>,
}

/// A permit, returned when dropped.
pub struct FairPermit<K: Hash + Eq + Clone> {
    /// None once returned.
    holder: Option<K>,
    shared: Arc<Shared<K>>,
}

impl<K: Hash + Eq + Clone> FairSemaphore<K> {
    /// At most `max` permits in all and `each` per holder. Once half are taken, a holder gets a part of the other
    /// half that leaves as much for a new holder.
    pub fn new(max: usize, each: usize) -> Self {
        let state = State {
            held: 0,
            by_holder: HashMap::new(),
            waiting: HashMap::new(),
            round: VecDeque::new(),
        };
        Self(Arc::new(Shared {
            max,
            each,
            state: Mutex::new(state),
        }))
    }

    /// Waits for a permit. A holder's waiters are served in their order.
    pub async fn take(&self, holder: K) -> FairPermit<K> {
        match self.ask(holder) {
            Ok(permit) => permit,
            // A waiter is in the queue, and the queue keeps its sender until it is served.
            Err(permit) => permit.await.expect("nobody forgets who waits"),
        }
    }

    /// The waiting time of a holder's first waiter so far; none without a waiter.
    pub fn waited(&self, holder: &K) -> Option<Duration> {
        let state = self.0.state();
        let mut waiting = state.waiting.get(holder)?.iter();
        let first = waiting.find(|waiting| !waiting.permit.is_closed())?;
        Some(first.since.elapsed())
    }

    fn ask(&self, holder: K) -> Result<FairPermit<K>, oneshot::Receiver<FairPermit<K>>> {
        let mut state = self.0.state();
        if !state.waiting.contains_key(&holder) && state.may(&self.0, &holder) {
            state.count(&holder);
            return Ok(self.0.permit(holder));
        }
        let (permit, given) = oneshot::channel();
        let waiting = Waiting {
            since: Instant::now(),
            permit,
        };
        let State {
            waiting: queues,
            round,
            ..
        } = &mut *state;
        queues
            .entry(holder)
            .or_insert_with_key(|holder| {
                round.push_back(holder.clone());
                VecDeque::new()
            })
            .push_back(waiting);
        Err(given)
    }
}

impl<K: Hash + Eq + Clone> Shared<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        // Each change is a single step, so the state is consistent even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, holder: K) -> FairPermit<K> {
        FairPermit {
            holder: Some(holder),
            shared: Arc::clone(self),
        }
    }

    /// Gives free permits to waiters. If a waiter left meanwhile, its permit goes to the next.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let next = self.state().next(self);
            let Some((holder, waiting)) = next else {
                return;
            };
            if let Err(mut permit) = waiting.permit.send(self.permit(holder)) {
                // Returned here and not in `drop`, which would recurse for each waiter that left.
                if let Some(holder) = permit.holder.take() {
                    self.state().uncount(&holder);
                }
            }
        }
    }
}

impl<K: Hash + Eq + Clone> State<K> {
    fn may(&self, shared: &Shared<K>, holder: &K) -> bool {
        let own = self.by_holder.get(holder).copied().unwrap_or(0);
        let most = fair(shared.max, shared.each, self.held, self.by_holder.len());
        self.held < shared.max && own < most
    }

    /// The next waiter, already counted as a holder.
    fn next(&mut self, shared: &Shared<K>) -> Option<(K, Waiting<K>)> {
        for _ in 0..self.round.len() {
            let holder = self.round.pop_front()?;
            if !self.may(shared, &holder) {
                self.round.push_back(holder);
                continue;
            }
            let queue = self.waiting.get_mut(&holder);
            let first = queue.and_then(|queue| {
                // Skips waiters that left.
                while queue.front().is_some_and(|first| first.permit.is_closed()) {
                    queue.pop_front();
                }
                let first = queue.pop_front();
                first.map(|first| (first, queue.is_empty()))
            });
            match first {
                Some((first, was_last)) => {
                    if was_last {
                        self.waiting.remove(&holder);
                    } else {
                        self.round.push_back(holder.clone());
                    }
                    self.count(&holder);
                    return Some((holder, first));
                }
                None => drop(self.waiting.remove(&holder)),
            }
        }
        None
    }

    fn count(&mut self, holder: &K) {
        self.held += 1;
        *self.by_holder.entry(holder.clone()).or_default() += 1;
    }

    fn uncount(&mut self, holder: &K) {
        self.held = self.held.saturating_sub(1);
        if let Some(own) = self.by_holder.get_mut(holder) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                self.by_holder.remove(holder);
            }
        }
    }
}

impl<K: Hash + Eq + Clone> Drop for FairPermit<K> {
    fn drop(&mut self) {
        if let Some(holder) = self.holder.take() {
            self.shared.state().uncount(&holder);
            self.shared.hand_out();
        }
    }
}

impl<K: Hash + Eq + Clone> Clone for FairSemaphore<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for FairSemaphore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairSemaphore")
            .field("max", &self.0.max)
            .field("each", &self.0.each)
            .finish_non_exhaustive()
    }
}

impl<K: Hash + Eq + Clone> fmt::Debug for FairPermit<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn(…)")
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::Pin};

    use futures_util::{FutureExt, future::poll_immediate};
    use proptest::prelude::*;

    use super::*;

    type Asked = Pin<Box<dyn Future<Output = FairPermit<u8>>>>;

    /// Asks for a permit, and queues if there is none.
    fn ask(semaphore: &FairSemaphore<u8>, holder: u8) -> Result<FairPermit<u8>, Asked> {
        let semaphore = semaphore.clone();
        let mut asked: Asked = Box::pin(async move { semaphore.take(holder).await });
        match (&mut asked).now_or_never() {
            Some(permit) => Ok(permit),
            None => Err(asked),
        }
    }

    fn flood(
        semaphore: &FairSemaphore<u8>,
        holder: u8,
        count: usize,
    ) -> (Vec<FairPermit<u8>>, Vec<Asked>) {
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..count {
            match ask(semaphore, holder) {
                Ok(permit) => held.push(permit),
                Err(asked) => waiting.push(asked),
            }
        }
        (held, waiting)
    }

    #[test]
    fn who_has_none_yet_does_not_wait_for_who_has_many() {
        let semaphore = FairSemaphore::new(16, 8);
        let (held, waiting) = flood(&semaphore, 1, 100);
        assert_eq!((held.len(), waiting.len()), (8, 92));
        assert!(semaphore.waited(&1).is_some() && semaphore.waited(&2).is_none());
        assert!(ask(&semaphore, 2).is_ok());
        drop((held, waiting));
        assert_eq!(semaphore.0.state().held, 0);
        assert!(semaphore.waited(&1).is_none());
    }

    #[actix::test]
    async fn those_who_wait_are_taken_one_of_each_after_the_other() {
        let semaphore = FairSemaphore::new(1, 1);
        let first = semaphore.take(0).await;
        let (_, mut many) = flood(&semaphore, 1, 3);
        let (_, mut few) = flood(&semaphore, 2, 1);
        // The first waiter of each holder leaves.
        drop(many.remove(0));
        drop(first);
        let (second, third) = (many.remove(0).await, poll_immediate(&mut few[0]).await);
        assert!(third.is_none());
        drop(second);
        let third = few.remove(0).await;
        assert!(poll_immediate(&mut many[0]).await.is_none());
        drop(third);
        drop(many.remove(0).await);
        assert!(semaphore.0.state().round.is_empty() && semaphore.0.state().waiting.is_empty());
    }

    proptest! {
        /// Whatever holders do, permits never exceed the limit, no waiter is forgotten, and every permit comes back.
        #[test]
        fn every_turn_is_given_once_and_comes_back(steps in prop::collection::vec((0_u8..4, 0_u8..4), 1..200), max in 1_usize..6) {
            let semaphore = FairSemaphore::new(max, max);
            let (mut held, mut waiting): (Vec<FairPermit<u8>>, Vec<Asked>) = (Vec::new(), Vec::new());
            for (holder, step) in steps {
                match step {
                    0 | 1 => match ask(&semaphore, holder) {
                        Ok(permit) => held.push(permit),
                        Err(asked) => waiting.push(asked),
                    },
                    2 if !held.is_empty() => drop(held.remove(usize::from(holder) % held.len())),
                    3 if !waiting.is_empty() => drop(waiting.remove(usize::from(holder) % waiting.len())),
                    _ => {}
                }
                prop_assert!(semaphore.0.state().held <= max);
            }
            loop {
                let before = held.len() + waiting.len();
                let mut left = Vec::new();
                for mut asked in waiting {
                    match (&mut asked).now_or_never() {
                        Some(permit) => held.push(permit),
                        None => left.push(asked),
                    }
                }
                waiting = left;
                prop_assert!(before == 0 || !held.is_empty(), "{} wait and nobody goes", waiting.len());
                if waiting.is_empty() {
                    break;
                }
                held.clear();
            }
            held.clear();
            let state = semaphore.0.state();
            prop_assert!(state.held == 0 && state.waiting.is_empty() && state.round.is_empty() && state.by_holder.is_empty());
        }
    }
}
