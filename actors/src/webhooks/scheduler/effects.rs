//! The scheduler's inputs and outputs.

use std::{num::NonZeroUsize, rc::Rc};

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};

use crate::events::{outbox::Dispatch, sequences::LogPlace};

/// The operator's limits that affect scheduling.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhooks) struct SchedulerLimits {
    /// Concurrent attempts. A tenant gets a quarter at most.
    pub(in crate::webhooks) in_flight: usize,
    pub(in crate::webhooks) queue: QueueLimits,
}

/// The limits for beginning an attempt.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhooks) struct QueueLimits {
    pub(in crate::webhooks) concurrency: usize,
    /// Other nodes may change rows that were read here.
    pub(in crate::webhooks) has_others: bool,
}

/// A delivery in memory.
#[derive(Clone, Debug)]
pub(in crate::webhooks) struct QueuedDelivery {
    pub(in crate::webhooks) dispatch: Dispatch,
    /// The time at which it was read or committed, by this node's clock.
    pub(in crate::webhooks) read_at: Millis,
    pub(in crate::webhooks) created: Millis,
}

/// An action to carry out now. `E` is a queue's endpoint, which the scheduler only passes on.
#[derive(Debug)]
pub(in crate::webhooks) enum SchedulerEffect<E> {
    /// Make the next attempt of a delivery, then call [`attempted`](super::Scheduler::attempted) or
    /// [`not_made`](super::Scheduler::not_made).
    Attempt(Rc<E>, QueuedDelivery),
    /// Read these webhooks, then call [`loaded`](super::Scheduler::loaded) or
    /// [`not_loaded`](super::Scheduler::not_loaded).
    Load(Vec<WebhookId>),
    /// Write and read deliveries of one webhook, then call [`refilled`](super::Scheduler::refilled) or
    /// [`not_refilled`](super::Scheduler::not_refilled).
    Refill(Refill),
    /// Let other nodes deliver to these webhooks, then call [`released`](super::Scheduler::released).
    Release(Vec<WebhookId>),
    /// Poll the table now: a webhook can be delivered to again.
    Look,
    /// Ask for effects again, after other waiting work.
    GoOn,
}

/// The deliveries to read for one queue. Before that, rows are written for those that are only in the log.
#[derive(Clone, Debug)]
pub(in crate::webhooks) struct Refill {
    pub(in crate::webhooks) webhook: WebhookId,
    pub(in crate::webhooks) tenant: TenantId,
    /// Most due deliveries to read; none if rows are only written.
    pub(in crate::webhooks) most: Option<NonZeroUsize>,
    /// Deliveries already in memory.
    pub(in crate::webhooks) known: Vec<DeliveryId>,
    /// Every event up to here has a row of its delivery.
    pub(in crate::webhooks) from: LogPlace,
    /// The queue's state, to which the result refers.
    pub(in crate::webhooks) mark: RefillMark,
}

/// The state of a queue when its refill was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::webhooks) struct RefillMark {
    /// Due rows are read, too.
    pub(in crate::webhooks) reads: bool,
    /// The highest sequence number that was seen.
    pub(in crate::webhooks) seen: i64,
    /// How often deliveries in memory were forgotten.
    pub(in crate::webhooks) forgotten: u64,
}

/// The result of a refill.
#[derive(Debug)]
pub(in crate::webhooks) struct Refilled {
    pub(in crate::webhooks) items: Vec<QueuedDelivery>,
    /// Every event up to here has a row of its delivery.
    pub(in crate::webhooks) written: LogPlace,
    /// That is the end of the log.
    pub(in crate::webhooks) is_log_end: bool,
    /// No other row was due.
    pub(in crate::webhooks) is_complete: bool,
}

/// A webhook with pending deliveries that the table shows as neither disabled nor paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::webhooks) struct DueWebhook {
    pub(in crate::webhooks) webhook: WebhookId,
    /// None if the webhook was deleted.
    pub(in crate::webhooks) tenant: Option<TenantId>,
    /// The due time of its first pending delivery that has a row.
    pub(in crate::webhooks) at: Option<Millis>,
}

/// The number of committed deliveries left to the table, and whether other nodes should read some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::webhooks) struct LeftInTable {
    pub(in crate::webhooks) all: u64,
    pub(in crate::webhooks) for_others: bool,
}

/// The scheduler's totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::webhooks) struct SchedulerCounts {
    pub(in crate::webhooks) in_flight: usize,
    pub(in crate::webhooks) unrecorded: usize,
}

/// A cursor as its owner read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::webhooks) struct CursorReading {
    /// Every event up to here has a row of its delivery, or had one.
    pub(in crate::webhooks) stored: LogPlace,
    /// The newest event.
    pub(in crate::webhooks) end: LogPlace,
    /// Another node announced the tenant's newest event.
    pub(in crate::webhooks) is_announced_elsewhere: bool,
    /// Rows of its deliveries are pending.
    pub(in crate::webhooks) has_pending: bool,
}
