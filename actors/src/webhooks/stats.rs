//! What the dispatcher shows of itself: plain integers, read without asking it.

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

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// Its endpoint gets what is meant for it.
    Closed,
    /// Its endpoint keeps failing and is only probed.
    Open,
    /// Its webhook is disabled or deleted.
    Disabled,
    /// An operator has its deliveries wait.
    Paused,
    /// Its webhook's secret does not open with the configured key.
    Sealed,
    /// Its webhook is being read.
    Unread,
    /// Another node delivers to its webhook.
    Elsewhere,
}

impl LaneState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Closed,
        Self::Open,
        Self::Disabled,
        Self::Paused,
        Self::Sealed,
        Self::Unread,
        Self::Elsewhere,
    ];

    /// The state as metrics name it; the first two are those of its circuit.
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

/// Lanes by state.
pub type Lanes = [i64; LaneState::ALL.len()];

/// The dispatcher's gauges and counters.
#[derive(Debug)]
pub(crate) struct Stats {
    lanes: [AtomicI64; LaneState::ALL.len()],
    /// Milliseconds of the first moment at which something was due that is still to be done; the largest number: nothing is.
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
    under_way: Mutex<HashMap<DeliveryId, UnderWay>>,
}

/// An attempt that waits for its endpoint.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    webhook: WebhookId,
    tenant: TenantId,
    began: Instant,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            lanes: Default::default(),
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

/// What the dispatcher shows at one moment. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsReading {
    /// Endpoints with a queue of their own in memory, by state, when the table was last looked at.
    pub lanes: Lanes,
    /// The first moment at which something was due that is still to be done, as far as the table was read. What waits because its
    /// endpoint keeps failing is not in it.
    pub due_since: Option<Millis>,
    /// Attempts under way.
    pub in_flight: i64,
    /// Attempts that ended and are not yet in the table.
    pub unrecorded: i64,
    /// Fresh deliveries that found no room in memory and were left to the table.
    pub left_in_table: u64,
    /// Attempts by what became of the delivery: delivered, to be tried again, given up.
    pub succeeded: u64,
    pub retried: u64,
    pub failed: u64,
    /// Attempts that could not be made through a fault of the service's own; none was used up.
    pub own_faults: u64,
    /// The time of one exchange.
    pub attempts: Distribution,
    /// From an event's commit to the end of the attempt that delivered it.
    pub end_to_end: Distribution,
    /// Writing down what came of attempts.
    pub batches: BatchReading,
}

impl Stats {
    /// The table was looked at: this is due for the longest time, and these are the lanes.
    pub(crate) fn looked(&self, due_since: Option<Millis>, lanes: Lanes) {
        let due_since = due_since.map_or(i64::MAX, Millis::as_i64);
        self.due_since.store(due_since, Relaxed);
        for (shown, count) in self.lanes.iter().zip(lanes) {
            shown.store(count, Relaxed);
        }
    }

    /// An attempt begins. It is known of for as long as what is given back lives.
    pub(crate) fn begins(self: &Arc<Self>, dispatch: &Dispatch) -> Attempting {
        let attempt = UnderWay {
            webhook: dispatch.webhook,
            tenant: dispatch.tenant,
            began: Instant::now(),
        };
        self.under_way().insert(dispatch.delivery, attempt);
        Attempting {
            stats: Arc::clone(self),
            delivery: dispatch.delivery,
        }
    }

    /// Webhooks, and whose they are, with an attempt that has waited for so long.
    pub(crate) fn slow_attempts(&self, for_so_long: Duration) -> BTreeMap<WebhookId, TenantId> {
        let under_way = self.under_way();
        let slow = under_way
            .values()
            .filter(|it| it.began.elapsed() >= for_so_long);
        slow.map(|it| (it.webhook, it.tenant)).collect()
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<DeliveryId, UnderWay>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reading(&self) -> StatsReading {
        let due_since = self.due_since.load(Relaxed);
        StatsReading {
            lanes: std::array::from_fn(|state| self.lanes[state].load(Relaxed)),
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

/// An attempt is under way.
#[derive(Debug)]
pub(crate) struct Attempting {
    stats: Arc<Stats>,
    delivery: DeliveryId,
}

impl Drop for Attempting {
    fn drop(&mut self) {
        self.stats.under_way().remove(&self.delivery);
    }
}
