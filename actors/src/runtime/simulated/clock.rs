//! The true time of a simulation, and its nodes' inaccurate clocks.

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    task::{Poll, Waker},
};

use dikala_entities::Millis;
use futures_util::future::{BoxFuture, FutureExt};

use crate::runtime::clock::Clock;

/// The start of every simulation, by an accurate clock.
pub(crate) const BEGAN: Millis = Millis::from_i64(1_800_000_000_000);

/// The true time, in milliseconds since the simulation's start. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrueTime(Arc<AtomicI64>);

impl TrueTime {
    pub(crate) fn now(&self) -> i64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, now: i64) {
        self.0.store(now, Relaxed);
    }

    /// The time of an accurate clock.
    pub(crate) fn shown(&self) -> Millis {
        BEGAN.plus_ms(self.now())
    }
}

/// Pending timers by due true time, then in the order in which they were set.
#[derive(Default)]
struct Timers {
    next: u64,
    waiting: BTreeMap<(i64, u64), Waker>,
}

/// The clock of one process.
pub(crate) struct NodeClock {
    time: TrueTime,
    /// The clock's lead, in milliseconds.
    ahead_ms: i64,
    /// The excess speed of its monotonic clock, in thousandths.
    quick_permille: i64,
    began: i64,
    timers: Arc<Mutex<Timers>>,
}

impl fmt::Debug for NodeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeClock").finish_non_exhaustive()
    }
}

impl NodeClock {
    pub(crate) fn new(time: TrueTime, ahead_ms: i64, quick_permille: i64) -> Arc<Self> {
        let began = time.now();
        Arc::new(Self {
            time,
            ahead_ms,
            quick_permille,
            began,
            timers: Arc::default(),
        })
    }

    /// The process's monotonic clock, in milliseconds.
    pub(crate) fn own_time(&self) -> i64 {
        (self.time.now() - self.began) * (1_000 + self.quick_permille) / 1_000
    }

    pub(crate) async fn sleep_ms(&self, ms: i64) {
        self.sleep_until(self.now().plus_ms(ms)).await;
    }

    /// Fires timers that are due. Returns when the next is due, by the true time.
    pub(crate) fn wake(&self) -> Option<i64> {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        let later = timers.waiting.split_off(&(self.time.now() + 1, 0));
        let over = std::mem::replace(&mut timers.waiting, later);
        over.into_values().for_each(Waker::wake);
        timers.waiting.keys().next().map(|(at, _)| *at)
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Millis {
        self.time.shown().plus_ms(self.ahead_ms)
    }

    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()> {
        let (time, timers) = (self.time.clone(), Arc::clone(&self.timers));
        let at = at.since(BEGAN) - self.ahead_ms;
        poll_fn(move |context| {
            if time.now() >= at {
                return Poll::Ready(());
            }
            let mut timers = timers.lock().unwrap_or_else(PoisonError::into_inner);
            timers.next += 1;
            let number = timers.next;
            let waker = context.waker().clone();
            timers.waiting.insert((at, number), waker);
            Poll::Pending
        })
        .boxed()
    }
}
