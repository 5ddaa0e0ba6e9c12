//! Time as an argument. A process has one clock: it starts with the wall clock and then runs on the monotonic clock
//! ([`timeline`]). Only [`SystemClock`] asks the operating system for the date. Timeouts that are not stored
//! (`tokio::time`, `Instant`) are monotonic anyway.

mod timeline;

use std::{
    fmt,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dikala_entities::Millis;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

use self::timeline::{Timeline, WallLead, plausible};

/// Maximum number of tries to read both clocks close together.
const LOOKS_MAX: usize = 4;
/// Readings of both clocks that are further apart than this are discarded, in microseconds.
const APART_US_MAX: i64 = 10_000;

/// Time since some moment. It includes the machine's sleep, because leases and bridges do not wait for this machine.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic() -> Duration {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(since_boot).unwrap_or_default()
}

/// Time since some moment. The system decides if it includes the machine's sleep.
#[cfg(not(target_os = "linux"))]
pub(crate) fn monotonic() -> Duration {
    static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    BEGAN.elapsed()
}

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now. It never goes back or jumps.
    fn now(&self) -> Millis;

    /// Completes when this clock shows `at`, or soon after. Check again then: it is only a hint.
    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()>;

    /// Starts again with the time of a clock shared with other nodes, and follows that clock from then on. Call it
    /// before anything is measured.
    fn begin_at(&self, _database_time: Millis) {}

    /// Compares with the shared clock, which shows `_theirs` now.
    fn compare(&self, _database_time: Millis) {}

    /// The wall clock's lead over this one, in milliseconds; negative: it lags. If this clock started with the wall
    /// clock, that is the sum of steps since.
    fn stepped_ms(&self) -> i64 {
        0
    }

    /// The wall clock was set since the start.
    fn was_set(&self) -> bool {
        self.stepped_ms() != 0
    }

    /// The wall clock's time when this clock shows `at`, for others to compare with their own clocks. Never measure
    /// with it.
    fn on_the_wall(&self, at: Millis) -> Millis {
        at.plus_ms(self.stepped_ms())
    }

    /// The time of something that another program dates `at`; without a date it is now. Never in the future.
    fn dated(&self, at: Option<Millis>) -> Millis {
        let now = self.now();
        at.map_or(now, |at| {
            let wall = WallLead {
                ms: self.stepped_ms(),
                was_set: self.was_set(),
            };
            Millis::from_i64(plausible(at.as_i64(), now.as_i64(), wall))
        })
    }
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// A wall clock: microseconds since the Unix epoch.
type Wall = Box<dyn Fn() -> i64 + Send + Sync>;

/// A clock that is set once, at its creation, and compared with the wall clock from then on. Steps are logged.
pub struct SteadyClock {
    /// The monotonic time of the start.
    began: Duration,
    wall: Wall,
    timeline: Mutex<Timeline>,
}

impl fmt::Debug for SteadyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteadyClock").finish_non_exhaustive()
    }
}

impl SteadyClock {
    /// A clock that starts with `wall`, in microseconds since the Unix epoch.
    pub fn new(wall: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self {
            began: monotonic(),
            timeline: Mutex::new(Timeline::new(0, wall())),
            wall: Box::new(wall),
        }
    }

    fn mono(&self) -> i64 {
        let passed = monotonic().saturating_sub(self.began);
        i64::try_from(passed.as_micros()).unwrap_or(i64::MAX)
    }

    fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readings of the monotonic clock and the wall clock, close together. None if the thread was interrupted between them each
    /// time: a stop between them would look like a step.
    fn read(&self) -> Option<(i64, i64)> {
        (0..LOOKS_MAX).find_map(|_| {
            let before = self.mono();
            let wall = (self.wall)();
            let mono = self.mono();
            (mono - before <= APART_US_MAX).then_some((mono, wall))
        })
    }

    /// The timeline and a reading of the monotonic clock. Compares with the wall clock if that is due.
    fn looked(&self) -> (Timeline, i64) {
        let mut timeline = self.timeline();
        let now = self.mono();
        if timeline.wants_a_look(now)
            && let Some((mono, wall)) = self.read()
        {
            tell(timeline.look(mono, wall), &timeline);
            return (*timeline, mono);
        }
        (*timeline, now)
    }
}

fn tell(step: Option<i64>, timeline: &Timeline) {
    if let Some(step) = step {
        tracing::warn!(
            step_ms = step / 1_000,
            in_all_ms = timeline.stepped() / 1_000,
            "the wall clock was set; instants go on as before until the next start"
        );
    }
}

impl Clock for SteadyClock {
    fn begin_at(&self, database_time: Millis) {
        let database_time = database_time.as_i64().saturating_mul(1_000);
        let mut timeline = self.timeline();
        let (mono, wall) = self.read().unwrap_or_else(|| (self.mono(), (self.wall)()));
        *timeline = Timeline::beginning_at(mono, wall, database_time);
    }

    fn compare(&self, database_time: Millis) {
        let database_time = database_time.as_i64().saturating_mul(1_000);
        let mut timeline = self.timeline();
        if let Some((mono, wall)) = self.read() {
            tell(timeline.compare(mono, wall, database_time), &timeline);
        }
    }

    fn now(&self) -> Millis {
        let (timeline, mono) = self.looked();
        Millis::from_i64(timeline.at(mono) / 1_000)
    }

    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()> {
        let ms = u64::try_from(at.since(self.now())).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(ms)).boxed()
    }

    fn stepped_ms(&self) -> i64 {
        self.looked().0.stepped() / 1_000
    }

    fn was_set(&self) -> bool {
        self.looked().0.was_set()
    }
}

/// The operating system's clock, for the whole process.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the date is asked for"
    )]
    fn steady() -> &'static SteadyClock {
        static CLOCK: LazyLock<SteadyClock> = LazyLock::new(|| {
            SteadyClock::new(|| {
                let since_epoch = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                let wall = i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX);
                #[cfg(debug_assertions)]
                let wall = wall + super::fail_points::wall_set_by_us();
                wall
            })
        });
        &CLOCK
    }
}

impl Clock for SystemClock {
    fn begin_at(&self, database_time: Millis) {
        Self::steady().begin_at(database_time);
    }

    fn compare(&self, database_time: Millis) {
        Self::steady().compare(database_time);
    }

    fn now(&self) -> Millis {
        Self::steady().now()
    }

    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()> {
        Self::steady().sleep_until(at)
    }

    fn stepped_ms(&self) -> i64 {
        Self::steady().stepped_ms()
    }

    fn was_set(&self) -> bool {
        Self::steady().was_set()
    }
}

/// A clock for tests that stands still until it is advanced.
#[derive(Clone, Debug)]
pub struct ManualClock(watch::Sender<Millis>);

impl ManualClock {
    pub fn new(now: Millis) -> Self {
        Self(watch::Sender::new(now))
    }

    /// Advances the clock and wakes the sleepers whose time has come.
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
            // The sender lives in the clock; without the clock there is nothing to wait for.
            if shown.wait_for(|now| *now >= at).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
