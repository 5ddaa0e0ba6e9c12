//! Time as an argument. Instants come from one clock a process, which begins with the wall clock and then runs on the monotonic
//! one ([`timeline`]): nothing in this program asks the operating system for the date except [`SystemClock`]. Limits of one wait
//! that nobody stores (`tokio::time`, `Instant`) are monotonic by themselves.

mod timeline;

use std::{
    fmt,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use dikala_entities::Millis;
use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

use self::timeline::{Timeline, plausible};

/// Looks at both clocks until they are read close together, at most.
const LOOKS_MAX: usize = 4;
/// Readings of both clocks that are further apart than this say nothing, in microseconds.
const APART_US_MAX: i64 = 10_000;

/// The time since some moment. It goes on while the machine sleeps: leases do, and who talks elsewhere.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic() -> Duration {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(since_boot).unwrap_or_default()
}

/// The time since some moment. Whether it goes on while the machine sleeps is the system's to say.
#[cfg(not(target_os = "linux"))]
pub(crate) fn monotonic() -> Duration {
    static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    BEGAN.elapsed()
}

/// Where the time comes from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now. Never goes back, and never jumps.
    fn now(&self) -> Millis;

    /// Completes when this clock shows `at`, or soon after. A hint to look again, never the truth.
    fn sleep_until(&self, at: Millis) -> BoxFuture<'static, ()>;

    /// Begins anew with the time that a clock shows which others go by as well, and follows that one from now on. Before anything is
    /// measured.
    fn begin_at(&self, _theirs: Millis) {}

    /// What that other clock shows now.
    fn compare(&self, _theirs: Millis) {}

    /// How far the wall clock is ahead of this one, in milliseconds; negative: behind. Where this one began with it, that is by how
    /// much it was set since.
    fn stepped_ms(&self) -> i64 {
        0
    }

    /// What the wall clock shows when this clock shows `at`: for what others compare with their own clocks. Never measured with.
    fn on_the_wall(&self, at: Millis) -> Millis {
        at.plus_ms(self.stepped_ms())
    }

    /// When something happened that somebody else dates `at`; without a date it is now. Never in the future.
    fn dated(&self, at: Option<Millis>) -> Millis {
        let now = self.now();
        at.map_or(now, |at| {
            Millis::from_i64(plausible(at.as_i64(), now.as_i64(), self.stepped_ms()))
        })
    }
}

/// The clock that everything shares.
pub type SharedClock = Arc<dyn Clock>;

/// Where the date comes from: microseconds since the Unix epoch.
type Wall = Box<dyn Fn() -> i64 + Send + Sync>;

/// A clock that is set once, when it is made, and compared with the wall clock from then on. Steps are logged.
pub struct SteadyClock {
    /// By the monotonic clock.
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
    /// A clock that shows now what `wall` shows, in microseconds since the Unix epoch.
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

    /// Changes the timeline with readings of the monotonic clock and of the wall clock.
    fn change<T>(&self, change: impl FnOnce(&mut Timeline, i64, i64) -> T) -> T {
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let wall = (self.wall)();
        change(&mut timeline, self.mono(), wall)
    }

    /// The timeline, compared with the wall clock when it is time for that, and a reading of the monotonic clock.
    fn looked(&self) -> (Timeline, i64) {
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mono = self.mono();
        if timeline.wants_a_look(mono) {
            for _ in 0..LOOKS_MAX {
                let wall = (self.wall)();
                let before = std::mem::replace(&mut mono, self.mono());
                // Another thread had the processor in between.
                if mono - before > APART_US_MAX {
                    continue;
                }
                tell(timeline.look(mono, wall), &timeline);
                break;
            }
        }
        (*timeline, mono)
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
    fn begin_at(&self, theirs: Millis) {
        let theirs = theirs.as_i64().saturating_mul(1_000);
        self.change(|timeline, mono, wall| {
            *timeline = Timeline::beginning_at(mono, wall, theirs);
        });
    }

    fn compare(&self, theirs: Millis) {
        let theirs = theirs.as_i64().saturating_mul(1_000);
        self.change(|timeline, mono, wall| {
            let step = timeline.compare(mono, wall, theirs);
            tell(step, timeline);
        });
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
}

/// The process's clock, on the operating system's.
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
                #[cfg(feature = "fail-points")]
                let wall = wall + super::fail_points::wall_set_by_us();
                wall
            })
        });
        &CLOCK
    }
}

impl Clock for SystemClock {
    fn begin_at(&self, theirs: Millis) {
        Self::steady().begin_at(theirs);
    }

    fn compare(&self, theirs: Millis) {
        Self::steady().compare(theirs);
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
