//! The dispatcher's metrics: plain integers, read without asking it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};

use crate::{
    events::outbox::Dispatch,
    runtime::{
        group_commit::{BatchReading, BatchStats},
        histogram::{ANSWER_US, DELIVERY_US, Distribution, Histogram},
    },
};

/// The state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// Its endpoint receives all deliveries.
    Closed,
    /// Its endpoint keeps failing and only receives probes.
    Open,
    /// Its webhook is disabled or deleted.
    Disabled,
    /// An operator paused its deliveries.
    Paused,
    /// Its webhook's secret cannot be decrypted with the configured key.
    Sealed,
    /// Its webhook is being read.
    Unread,
    /// Another node delivers to its webhook.
    Elsewhere,
}

impl QueueState {
    pub const ALL: [Self; 7] = [
        Self::Closed,
        Self::Open,
        Self::Disabled,
        Self::Paused,
        Self::Sealed,
        Self::Unread,
        Self::Elsewhere,
    ];

    /// The state's name in metrics. The first two are those of its circuit.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Disabled => "disabled",
            Self::Paused => "paused",
            Self::Sealed => "sealed",
            Self::Unread => "unread",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// The number of queues by state.
pub type QueuesByState = [i64; QueueState::ALL.len()];

#[derive(Debug)]
pub(crate) struct Stats {
    queues: [AtomicI64; QueueState::ALL.len()],
    /// The earliest due time of a pending delivery, in milliseconds; the maximum if none is due.
    due_since: AtomicI64,
    pub(crate) in_flight: AtomicI64,
    pub(crate) unrecorded: AtomicI64,
    pub(crate) left_in_table: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) own_faults: AtomicU64,
    pub(crate) attempts: Histogram,
    pub(crate) end_to_end: Histogram,
    pub(crate) batches: BatchStats,
    under_way: Mutex<HashMap<DeliveryId, RunningAttempt>>,
}

/// An attempt that waits for its endpoint.
#[derive(Clone, Copy, Debug)]
struct RunningAttempt {
    webhook: WebhookId,
    tenant: TenantId,
    began: Instant,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            queues: Default::default(),
            due_since: AtomicI64::new(i64::MAX),
            in_flight: AtomicI64::default(),
            unrecorded: AtomicI64::default(),
            left_in_table: AtomicU64::default(),
            succeeded: AtomicU64::default(),
            retried: AtomicU64::default(),
            failed: AtomicU64::default(),
            own_faults: AtomicU64::default(),
            attempts: Histogram::new(ANSWER_US),
            end_to_end: Histogram::new(DELIVERY_US),
            batches: BatchStats::default(),
            under_way: Mutex::default(),
        }
    }
}

/// A reading of the dispatcher's metrics. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsReading {
    /// Endpoints with a queue in memory, by state, at the last poll.
    pub queues: QueuesByState,
    /// The earliest due time of a pending delivery, as of the last poll. Deliveries held back by an open circuit do
    /// not count.
    pub due_since: Option<Millis>,
    /// Attempts in progress.
    pub in_flight: i64,
    /// Attempts that ended and are not recorded.
    pub unrecorded: i64,
    /// Committed deliveries that found no room in memory and were left to the table.
    pub left_in_table: u64,
    /// Attempts by their consequence for the delivery: delivered, retried, failed for good.
    pub succeeded: u64,
    pub retried: u64,
    pub failed: u64,
    /// Attempts that could not be made through the service's own fault; they do not count for the delivery.
    pub own_faults: u64,
    /// Duration of one exchange.
    pub attempts: Distribution,
    /// Time from an event's commit to the end of the attempt that delivered it.
    pub end_to_end: Distribution,
    /// Batches of recorded attempts.
    pub batches: BatchReading,
}

impl Stats {
    /// Records a poll: the earliest due time and the queues.
    pub(crate) fn looked(&self, due_since: Option<Millis>, queues: QueuesByState) {
        let due_since = due_since.map_or(i64::MAX, Millis::as_i64);
        self.due_since.store(due_since, Relaxed);
        for (shown, count) in self.queues.iter().zip(queues) {
            shown.store(count, Relaxed);
        }
    }

    /// Records the start of an attempt, which counts as in progress until the returned guard is dropped.
    pub(crate) fn begins(self: &Arc<Self>, dispatch: &Dispatch) -> AttemptGuard {
        let attempt = RunningAttempt {
            webhook: dispatch.webhook,
            tenant: dispatch.tenant,
            began: Instant::now(),
        };
        self.under_way().insert(dispatch.delivery, attempt);
        AttemptGuard {
            stats: Arc::clone(self),
            delivery: dispatch.delivery,
        }
    }

    /// Webhooks, with their tenants, with an attempt that has waited for this long.
    pub(crate) fn slow_attempts(&self, for_so_long: Duration) -> BTreeMap<WebhookId, TenantId> {
        let under_way = self.under_way();
        let slow = under_way
            .values()
            .filter(|it| it.began.elapsed() >= for_so_long);
        slow.map(|it| (it.webhook, it.tenant)).collect()
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<DeliveryId, RunningAttempt>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reading(&self) -> StatsReading {
        let due_since = self.due_since.load(Relaxed);
        StatsReading {
            queues: std::array::from_fn(|state| self.queues[state].load(Relaxed)),
            due_since: (due_since < i64::MAX).then(|| Millis::from_i64(due_since)),
            in_flight: self.in_flight.load(Relaxed),
            unrecorded: self.unrecorded.load(Relaxed),
            left_in_table: self.left_in_table.load(Relaxed),
            succeeded: self.succeeded.load(Relaxed),
            retried: self.retried.load(Relaxed),
            failed: self.failed.load(Relaxed),
            own_faults: self.own_faults.load(Relaxed),
            attempts: self.attempts.reading(),
            end_to_end: self.end_to_end.reading(),
            batches: self.batches.reading(),
        }
    }
}

/// The guard of an attempt in progress.
#[derive(Debug)]
pub(crate) struct AttemptGuard {
    stats: Arc<Stats>,
    delivery: DeliveryId,
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        self.stats.under_way().remove(&self.delivery);
    }
}
