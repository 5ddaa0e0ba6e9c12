//! The current work of each actor instance, for diagnosis. It is written without locks as plain integers, at the cost
//! of a few stores a message.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Number of recent messages kept.
const RECENT: usize = 8;
/// A mark holds the number of a message type above these bits. The bits hold microseconds since the start, enough for
/// nine years.
const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// The empty mark.
const NONE: u64 = 0;

/// A running actor.
#[derive(Debug)]
pub struct InstanceMeter {
    label: Option<String>,
    number: u64,
    started: Instant,
    handled: AtomicU64,
    busy_us: AtomicU64,
    /// The mark of the message that is being handled or awaited.
    doing: AtomicU64,
    /// The number of futures that keep the actor from its mailbox.
    waits: AtomicUsize,
    /// The marks of recent messages.
    recent: [AtomicU64; RECENT],
}

/// A reading of an [`InstanceMeter`].
#[derive(Clone, Debug)]
pub struct InstanceReading {
    /// The actor's name, or its number within its type.
    pub name: String,
    pub running: Duration,
    pub handled: u64,
    /// Total time in handlers.
    pub busy: Duration,
    /// The message being handled or awaited, and for how long so far.
    pub doing: Option<(&'static str, Duration)>,
    /// Recent messages and their age, newest first.
    pub recent: Vec<(&'static str, Duration)>,
}

impl InstanceMeter {
    pub(super) fn new(label: Option<String>, number: u64) -> Self {
        Self {
            label,
            number,
            started: Instant::now(),
            handled: AtomicU64::new(0),
            busy_us: AtomicU64::new(0),
            doing: AtomicU64::new(NONE),
            waits: AtomicUsize::new(0),
            recent: [const { AtomicU64::new(NONE) }; RECENT],
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Records that a message of this type leaves the mailbox.
    pub(super) fn begins(&self, message: u16, now: Instant) {
        let mark = self.mark(message, now);
        let place = self.handled.fetch_add(1, Relaxed) % RECENT as u64;
        self.recent[usize::try_from(place).unwrap_or(0)].store(mark, Relaxed);
        self.doing.store(mark, Relaxed);
    }

    /// Records that the handler returned; the actor may still wait for its future.
    pub(super) fn handled(&self, took: Duration) {
        self.busy_us.fetch_add(micros(took), Relaxed);
        if self.waits.load(Relaxed) == 0 {
            self.doing.store(NONE, Relaxed);
        }
    }

    /// Records that the handler panicked.
    pub(super) fn idle(&self) {
        self.doing.store(NONE, Relaxed);
    }

    /// Records a future that keeps the actor from its mailbox until the returned guard is dropped.
    pub(super) fn waits(self: &Arc<Self>) -> WaitGuard {
        self.waits.fetch_add(1, Relaxed);
        WaitGuard(Arc::clone(self))
    }

    fn mark(&self, message: u16, now: Instant) -> u64 {
        let at = micros(now.saturating_duration_since(self.started)) & TIME_MASK;
        (u64::from(message) + 1) << TIME_BITS | at
    }

    /// A reading, with `kinds` as the names of message types by number.
    pub(super) fn reading(&self, kinds: &[&'static str]) -> InstanceReading {
        let running = self.started.elapsed();
        let read = |mark: &AtomicU64| {
            let mark = mark.load(Relaxed);
            let kind = usize::try_from(mark >> TIME_BITS).ok()?.checked_sub(1)?;
            let ago = micros(running).saturating_sub(mark & TIME_MASK);
            Some((*kinds.get(kind)?, Duration::from_micros(ago)))
        };
        let mut recent: Vec<_> = self.recent.iter().filter_map(read).collect();
        recent.sort_by_key(|(_, ago)| *ago);
        InstanceReading {
            name: self
                .label
                .clone()
                .unwrap_or_else(|| self.number.to_string()),
            running,
            handled: self.handled.load(Relaxed),
            busy: Duration::from_micros(self.busy_us.load(Relaxed)),
            doing: read(&self.doing),
            recent,
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The guard of a future that the actor waits for.
#[derive(Debug)]
pub(super) struct WaitGuard(Arc<InstanceMeter>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        if self.0.waits.fetch_sub(1, Relaxed) == 1 {
            self.0.doing.store(NONE, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_shown_until_it_is_done() {
        let instance = Arc::new(InstanceMeter::new(None, 7));
        let kinds = ["Tell", "Ping"];
        let doing = || instance.reading(&kinds).doing.map(|(message, _)| message);
        assert_eq!(doing(), None);
        instance.begins(0, Instant::now());
        assert_eq!(doing(), Some("Tell"));
        let waiting = instance.waits();
        instance.handled(Duration::from_micros(250));
        assert_eq!(doing(), Some("Tell"), "it waits for a future");
        drop(waiting);
        assert_eq!(doing(), None);
        for _ in 0..20 {
            instance.begins(1, Instant::now());
            instance.handled(Duration::ZERO);
        }
        let reading = instance.reading(&kinds);
        assert_eq!((reading.name.as_str(), reading.handled), ("7", 21));
        assert_eq!(reading.busy, Duration::from_micros(250));
        assert_eq!(reading.recent.len(), RECENT);
        assert!(reading.recent.iter().all(|(message, _)| *message == "Ping"));
        assert!(reading.recent.is_sorted_by_key(|(_, ago)| *ago));
    }
}
