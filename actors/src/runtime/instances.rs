//! What each instance of an actor does: written where it happens, into plain integers and without a lock, and read when somebody asks.
//! It costs each message a few stores, whether somebody looks or not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Messages that are remembered.
const RECENT: usize = 8;
/// A mark has the number of a kind of message above these bits, and in them microseconds since the start: nine years of them.
const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;
/// Nothing.
const NONE: u64 = 0;

/// One actor that runs.
#[derive(Debug)]
pub struct Instance {
    label: Option<String>,
    number: u64,
    started: Instant,
    handled: AtomicU64,
    busy_us: AtomicU64,
    /// The mark of the message that is handled, or waited for.
    doing: AtomicU64,
    /// Futures that keep it from its mailbox.
    waits: AtomicUsize,
    /// The marks of the last messages.
    recent: [AtomicU64; RECENT],
}

/// What an [`Instance`] shows at one moment.
#[derive(Clone, Debug)]
pub struct InstanceReading {
    /// What it calls itself, or which of its type it is.
    pub name: String,
    pub running: Duration,
    pub handled: u64,
    /// In handlers, in all.
    pub busy: Duration,
    /// The message that is handled, or waited for, and for how long it has been.
    pub doing: Option<(&'static str, Duration)>,
    /// The last messages, and how long ago each came; the newest first.
    pub recent: Vec<(&'static str, Duration)>,
}

impl Instance {
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

    /// A message of the kind with that number leaves the mailbox.
    pub(super) fn begins(&self, message: u16, now: Instant) {
        let mark = self.mark(message, now);
        let place = self.handled.fetch_add(1, Relaxed) % RECENT as u64;
        self.recent[usize::try_from(place).unwrap_or(0)].store(mark, Relaxed);
        self.doing.store(mark, Relaxed);
    }

    /// Its handler is done; a future that the actor waits for may not be.
    pub(super) fn handled(&self, took: Duration) {
        self.busy_us.fetch_add(micros(took), Relaxed);
        if self.waits.load(Relaxed) == 0 {
            self.doing.store(NONE, Relaxed);
        }
    }

    /// Its handler panicked.
    pub(super) fn idle(&self) {
        self.doing.store(NONE, Relaxed);
    }

    /// A future keeps the actor from its mailbox for as long as what is given back lives.
    pub(super) fn waits(self: &Arc<Self>) -> Waiting {
        self.waits.fetch_add(1, Relaxed);
        Waiting(Arc::clone(self))
    }

    fn mark(&self, message: u16, now: Instant) -> u64 {
        let at = micros(now.saturating_duration_since(self.started)) & TIME_MASK;
        (u64::from(message) + 1) << TIME_BITS | at
    }

    /// What it shows now; kinds of message have these numbers.
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

/// A future is waited for.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Instance>);

impl Drop for Waiting {
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
        let instance = Arc::new(Instance::new(None, 7));
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
