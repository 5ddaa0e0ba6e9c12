//! Time as an argument: nothing in this program asks the operating system what time it is except [`SystemClock`].

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dikala_entities::Millis;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

/// Where the time comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Millis;

    /// Completes when this clock shows `at`, or soon after. A hint to look again, never the truth.
    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()>;
}

/// The clock that everything shares.
pub type SharedClock = Arc<dyn Clock>;

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Millis::from_i64(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(at.since(self.now())).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(ms)).boxed()
    }
}

/// A clock that stands still until it is moved; for tests.
#[derive(Clone, Debug)]
pub struct ManualClock(watch::Sender<Millis>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Millis) -> Self {
        Self(watch::Sender::new(now))
    }

    /// Moves the clock on and wakes who waited for it.
    pub fn advance_ms(&self, ms: i64) {
        self.0.send_modify(|now| *now = now.plus_ms(ms));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        *self.0.borrow()
    }

    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()> {
        let mut shown = self.0.subscribe();
        async move {
            // The sender lives in the clock; if the clock is gone, nobody waits for anything any more.
            if shown.wait_for(|now| *now >= at).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
