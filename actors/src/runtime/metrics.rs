//! Meters of actors' messages: plain integers, counted where messages are handled and read without asking an actor.

use std::{
    any::type_name,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{
    histogram::{Distribution, Histogram, MESSAGE_US},
    instances::{InstanceMeter, InstanceReading},
};

/// Messages that inspect an actor. They count only in their own rows, so that inspection does not change the figures.
const LOOKS: [&str; 3] = ["Describe", "Look", "Ping"];

/// All meters, in the order in which their first actors started.
static METERS: Mutex<Vec<&'static ActorMeter>> = Mutex::new(Vec::new());

/// Meters of every type of actor that has run in this process.
pub fn meters() -> Vec<&'static ActorMeter> {
    METERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Counts and times of all actors of one type.
#[derive(Debug)]
pub struct ActorMeter {
    name: &'static str,
    registered: AtomicBool,
    running: AtomicI64,
    restarts: AtomicU64,
    last_panic: Mutex<Option<Instant>>,
    /// Capacity of one actor's mailbox.
    capacity: AtomicI64,
    /// Messages in the mailboxes of all instances, without those that inspect.
    mailbox: Depth,
    /// Number of actors started.
    started: AtomicU64,
    /// Running actors by number.
    instances: Mutex<BTreeMap<u64, Arc<InstanceMeter>>>,
    messages: RwLock<BTreeMap<&'static str, &'static MessageMeter>>,
}

/// Counts and times of one type of message to one type of actor.
#[derive(Debug)]
pub struct MessageMeter {
    /// The message type's number within its actor type.
    number: u16,
    /// The message inspects the actor.
    is_look: bool,
    depth: Depth,
    /// The actor type's depth, over all types of message.
    mailbox: &'static Depth,
    errors: AtomicU64,
    lost: AtomicU64,
    wait: Histogram,
    handling: Histogram,
}

/// The number of waiting messages, and its maximum so far.
#[derive(Debug)]
struct Depth {
    now: AtomicI64,
    highest: AtomicI64,
}

/// A reading of a [`Depth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthReading {
    pub now: i64,
    /// Never below `now`.
    pub highest: i64,
}

/// A reading of a [`MessageMeter`]. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageReading {
    /// The message's type, without its path.
    pub message: &'static str,
    /// The message inspects the actor and counts neither for the type of actor nor for the instance.
    pub is_look: bool,
    /// Messages in mailboxes now.
    pub depth: i64,
    /// The maximum of `depth` so far.
    pub depth_max: i64,
    /// Handlers that answered with an error, panicked, or sent no answer.
    pub errors: u64,
    /// Messages that were never handled: the actor was gone, or the sender had given up.
    pub lost: u64,
    /// Time from sending until handling or loss.
    pub wait: Distribution,
    /// Time in the handler itself, without the futures that it awaits.
    pub handling: Distribution,
}

impl ActorMeter {
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            registered: AtomicBool::new(false),
            running: AtomicI64::new(0),
            restarts: AtomicU64::new(0),
            last_panic: Mutex::new(None),
            capacity: AtomicI64::new(0),
            mailbox: Depth::new(),
            started: AtomicU64::new(0),
            instances: Mutex::new(BTreeMap::new()),
            messages: RwLock::new(BTreeMap::new()),
        }
    }

    /// The type of actor, as in metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of running actors.
    pub fn running(&self) -> i64 {
        self.running.load(Relaxed)
    }

    /// Number of restarts, or of actors given up, after a panic.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Relaxed)
    }

    /// Time of the last panic.
    pub fn last_panic(&self) -> Option<Instant> {
        *self
            .last_panic
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Capacity of one actor's mailbox; further senders wait.
    pub fn capacity(&self) -> i64 {
        self.capacity.load(Relaxed)
    }

    /// Depth of all instances' mailboxes together.
    pub fn mailbox(&self) -> DepthReading {
        self.mailbox.reading()
    }

    /// The busiest running instances, at most `most`.
    pub fn busiest(&self, most: usize) -> Vec<InstanceReading> {
        let kinds = self.kinds();
        let running: Vec<Arc<InstanceMeter>> = self.instances().values().cloned().collect();
        let mut readings: Vec<InstanceReading> =
            running.iter().map(|one| one.reading(&kinds)).collect();
        readings.sort_by_key(|reading| std::cmp::Reverse((reading.busy, reading.handled)));
        readings.truncate(most);
        readings
    }

    /// The names of the message types, by number.
    fn kinds(&self) -> Vec<&'static str> {
        let messages = self.messages.read().unwrap_or_else(PoisonError::into_inner);
        let mut kinds: Vec<(u16, &'static str)> = messages
            .iter()
            .map(|(name, meter)| (meter.number, *name))
            .collect();
        kinds.sort_unstable();
        kinds.into_iter().map(|(_, name)| name).collect()
    }

    fn instances(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<InstanceMeter>>> {
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn number(&self) -> u64 {
        self.started.fetch_add(1, Relaxed)
    }

    pub(super) fn started(&self, instance: &Arc<InstanceMeter>) {
        self.running.fetch_add(1, Relaxed);
        self.instances()
            .insert(instance.number(), Arc::clone(instance));
    }

    pub(super) fn stopped(&self, instance: &InstanceMeter) {
        self.running.fetch_sub(1, Relaxed);
        self.instances().remove(&instance.number());
    }

    pub(super) fn panicked(&self) {
        self.restarts.fetch_add(1, Relaxed);
        let mut last = self
            .last_panic
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(Instant::now());
    }

    /// One reading per type of message, by name.
    pub fn readings(&self) -> Vec<MessageReading> {
        let messages = self.messages.read().unwrap_or_else(PoisonError::into_inner);
        messages
            .iter()
            .map(|(message, meter)| meter.reading(message))
            .collect()
    }

    pub(super) fn register(&'static self, mailbox: usize) {
        let capacity = i64::try_from(mailbox).unwrap_or(i64::MAX);
        self.capacity.store(capacity, Relaxed);
        if !self.registered.swap(true, Relaxed) {
            METERS
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(self);
        }
    }

    pub(crate) fn message<M>(&'static self) -> &'static MessageMeter {
        let name = short_name(type_name::<M>());
        let known = {
            let messages = self.messages.read().unwrap_or_else(PoisonError::into_inner);
            messages.get(name).copied()
        };
        known.unwrap_or_else(|| {
            let mut messages = self
                .messages
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let number = u16::try_from(messages.len()).unwrap_or(u16::MAX);
            // Leaked on purpose: one per type of message, for the program's whole life.
            messages.entry(name).or_insert_with(|| {
                let is_look = LOOKS.contains(&name);
                Box::leak(Box::new(MessageMeter::new(number, is_look, &self.mailbox)))
            })
        })
    }
}

/// `a::b::Pair<c::D>` → `Pair<c::D>`: enough to tell messages apart.
fn short_name(path: &'static str) -> &'static str {
    let generics = path.find('<').unwrap_or(path.len());
    path[..generics]
        .rfind("::")
        .map_or(path, |i| &path[i + 2..])
}

impl Depth {
    const fn new() -> Self {
        Self {
            now: AtomicI64::new(0),
            highest: AtomicI64::new(0),
        }
    }

    fn rises(&self) {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        self.highest.fetch_max(now, Relaxed);
    }

    fn falls(&self) {
        self.now.fetch_sub(1, Relaxed);
    }

    fn reading(&self) -> DepthReading {
        let now = self.now.load(Relaxed);
        DepthReading {
            now,
            // Another thread may have raised `now` and not yet `highest`.
            highest: self.highest.load(Relaxed).max(now),
        }
    }
}

impl MessageMeter {
    fn new(number: u16, is_look: bool, mailbox: &'static Depth) -> Self {
        Self {
            number,
            is_look,
            depth: Depth::new(),
            mailbox,
            errors: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            wait: Histogram::new(MESSAGE_US),
            handling: Histogram::new(MESSAGE_US),
        }
    }

    pub(super) fn sent(&self) {
        self.depth.rises();
        if !self.is_look {
            self.mailbox.rises();
        }
    }

    /// Records that a message sent at `sent` left the mailbox at `now`.
    pub(super) fn taken(&self, sent: Instant, now: Instant) {
        self.depth.falls();
        if !self.is_look {
            self.mailbox.falls();
        }
        self.wait.observe_time(now.saturating_duration_since(sent));
    }

    pub(super) const fn number(&self) -> u16 {
        self.number
    }

    pub(super) const fn is_look(&self) -> bool {
        self.is_look
    }

    /// Records the time in the handler.
    pub(super) fn handled(&self, took: Duration) {
        self.handling.observe_time(took);
    }

    /// Records that the handler answered with an error or not at all.
    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// Records that the message will never be handled.
    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    fn reading(&self, message: &'static str) -> MessageReading {
        let depth = self.depth.reading();
        MessageReading {
            message,
            is_look: self.is_look,
            depth: depth.now,
            depth_max: depth.highest,
            errors: self.errors.load(Relaxed),
            lost: self.lost.load(Relaxed),
            wait: self.wait.reading(),
            handling: self.handling.reading(),
        }
    }
}
