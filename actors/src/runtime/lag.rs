//! Lag of event loops. A thread that runs actors or requests does one thing at a time; a slow step delays everything
//! else on it, and no mailbox shows why.
//!
//! While lags are read, a timer on each loop measures how late it fires. Otherwise no timer runs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use actix_rt::ArbiterHandle;

/// Interval of a watched loop's timer.
const EVERY: Duration = Duration::from_millis(100);
/// A loop is watched for this long after a reading: longer than the pause between two scrapes.
const WATCHED_FOR: Duration = Duration::from_secs(150);
/// The longest lag is shown for at least this long and at most twice as long.
const SHOWN_FOR: Duration = Duration::from_secs(15);

/// The event loops of the process; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct EventLoops(Arc<Mutex<Vec<EventLoop>>>);

#[derive(Debug)]
struct EventLoop {
    name: String,
    arbiter: ArbiterHandle,
    watch: Arc<Mutex<Watch>>,
}

/// The measurements of one loop.
#[derive(Debug, Default)]
struct Watch {
    /// The time of the last reading. None: the loop is not watched.
    read_at: Option<Instant>,
    /// When the timer should fire, or should have fired.
    due: Option<Instant>,
    /// The longest lag since then, and in the period before.
    worst: Option<(Instant, Duration)>,
    worst_before: Duration,
}

impl EventLoops {
    /// Adds a loop. Loops of one `kind` are numbered with the first number that no living loop has.
    pub fn add(&self, kind: &str, arbiter: ArbiterHandle) {
        let mut loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|known| known.arbiter.alive());
        let is_free = |name: &String| loops.iter().all(|known| known.name != *name);
        let mut names = (0..).map(|number| format!("{kind}-{number}"));
        let name = names.find(is_free).unwrap_or_else(|| kind.to_owned());
        loops.push(EventLoop {
            name,
            arbiter,
            watch: Arc::default(),
        });
    }

    /// The lag of each loop: the longest of the last seconds, or its present lag if that is longer. The first reading
    /// after a pause shows the present lag only.
    pub fn lags(&self) -> Vec<(String, Duration)> {
        let loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let living = loops.iter().filter(|known| known.arbiter.alive());
        living
            .map(|known| (known.name.clone(), known.ask(Instant::now())))
            .collect()
    }
}

impl EventLoop {
    fn ask(&self, now: Instant) -> Duration {
        let mut watch = lock(&self.watch);
        if watch.read_at.replace(now).is_none() {
            // Lag counts from here, even if the loop never starts the timer.
            watch.due = Some(now);
            self.arbiter.spawn(watching(Arc::clone(&self.watch)));
        }
        watch.lag(now)
    }
}

async fn watching(watch: Arc<Mutex<Watch>>) {
    loop {
        let now = Instant::now();
        let due = now + EVERY;
        if !lock(&watch).came(now, due) {
            return;
        }
        tokio::time::sleep_until(due.into()).await;
    }
}

fn lock(watch: &Mutex<Watch>) -> std::sync::MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// Records that the timer fired, and when it will fire next. False: the readings stopped, and so does the timer.
    fn came(&mut self, now: Instant, next: Instant) -> bool {
        let is_recent = |read_at: Instant| now.saturating_duration_since(read_at) < WATCHED_FOR;
        if !self.read_at.is_some_and(is_recent) {
            *self = Self::default();
            return false;
        }
        let lag = self.overdue(now);
        match &mut self.worst {
            Some((since, worst)) if now.saturating_duration_since(*since) < SHOWN_FOR => {
                *worst = lag.max(*worst);
            }
            over => {
                self.worst_before = over.take().map_or(Duration::ZERO, |(_, worst)| worst);
                self.worst = Some((now, lag));
            }
        }
        self.due = Some(next);
        true
    }

    fn overdue(&self, now: Instant) -> Duration {
        let due = self.due.unwrap_or(now);
        now.saturating_duration_since(due)
    }

    fn lag(&self, now: Instant) -> Duration {
        let worst = self.worst.map_or(Duration::ZERO, |(_, worst)| worst);
        worst.max(self.worst_before).max(self.overdue(now))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use actix_rt::Arbiter;

    use super::*;

    const LONG: Duration = Duration::from_millis(300);

    fn lag_of(loops: &EventLoops, name: &str) -> Option<Duration> {
        let lags = loops.lags();
        lags.into_iter()
            .find_map(|(found, lag)| (found == name).then_some(lag))
    }

    #[actix::test]
    async fn a_loop_that_is_blocked_shows_it_while_it_is_and_after_it() {
        let (stuck, well) = (Arbiter::new(), Arbiter::new());
        let loops = EventLoops::default();
        loops.add("calls", stuck.handle());
        loops.add("calls", well.handle());
        assert!(loops.lags().iter().all(|(_, lag)| *lag < LONG));
        let (free, blocked) = mpsc::channel::<()>();
        stuck.spawn_fn(move || {
            let _ = blocked.recv();
        });
        while lag_of(&loops, "calls-0") < Some(LONG) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(free);
        let comes_again =
            || lock(&loops.0.lock().expect("whole")[0].watch).due > Some(Instant::now());
        while !comes_again() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(lag_of(&loops, "calls-0") >= Some(LONG));
        // A loop that is gone leaves its name to the next one.
        stuck.stop();
        while stuck.handle().alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(lag_of(&loops, "calls-0"), None);
        loops.add("calls", well.handle());
        assert!(lag_of(&loops, "calls-0").is_some());
    }

    #[test]
    fn the_longest_lag_is_shown_for_a_while_and_nobody_watches_for_nothing() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut watch = Watch {
            read_at: Some(began),
            due: Some(at(100)),
            ..Watch::default()
        };
        assert!(watch.came(at(140), at(240)));
        assert_eq!(watch.lag(at(200)), Duration::from_millis(40));
        assert_eq!(watch.lag(at(300)), Duration::from_millis(60));
        for (now, shown) in [(15_140, 40), (30_140, 0)] {
            watch.due = Some(at(now));
            assert!(watch.came(at(now), at(now + 100)));
            assert_eq!(watch.lag(at(now)), Duration::from_millis(shown), "{now}");
        }
        assert!(!watch.came(at(150_000), at(150_100)));
        assert_eq!((watch.read_at, watch.due), (None, None));
    }
}
