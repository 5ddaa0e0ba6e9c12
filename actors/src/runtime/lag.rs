//! How late event loops are. A thread that runs actors or requests does one thing after the other; what takes long there holds up
//! everything else on it, and no mailbox shows why.
//!
//! While somebody asks, a timer on each loop says how much later than it should it came. Nothing runs while nobody asks.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use actix_rt::ArbiterHandle;

/// How often the timer of a loop that is watched comes.
const EVERY: Duration = Duration::from_millis(100);
/// How long a loop is watched after it was asked about: longer than between two scrapes.
const WATCHED_FOR: Duration = Duration::from_secs(150);
/// The longest lag is shown for this long at least, and for twice as long at most.
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

/// What is known of one loop.
#[derive(Debug, Default)]
struct Watch {
    /// When somebody asked last. None: nobody watches.
    asked: Option<Instant>,
    /// When the timer should come, or should have come.
    due: Option<Instant>,
    /// The longest lag since then, and in the time before.
    worst: Option<(Instant, Duration)>,
    worst_before: Duration,
}

impl EventLoops {
    /// Adds a loop. Of several of one `kind` each gets a number, the first that no living one has.
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

    /// How late each loop is: the longest lag of the last seconds, or the one that it has now if that is longer. Whoever asks for
    /// the first time after a while is told of that moment only.
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
        if watch.asked.replace(now).is_none() {
            // It counts from here, also where the loop does not get to it.
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
    /// The timer came, and is to come again. False: nobody has asked for so long that nobody watches any more.
    fn came(&mut self, now: Instant, next: Instant) -> bool {
        let is_asked = |asked: Instant| now.saturating_duration_since(asked) < WATCHED_FOR;
        if !self.asked.is_some_and(is_asked) {
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
            asked: Some(began),
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
        assert_eq!((watch.asked, watch.due), (None, None));
    }
}
