//! What goes into the scheduler and what comes out of it.

use std::rc::Rc;

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};

use super::lane::{Item, LaneLimits};

/// What the operator configures, as far as it decides what is done when.
#[derive(Clone, Copy, Debug)]
pub(in crate::webhooks) struct SchedulerLimits {
    /// Attempts at the same time. No tenant gets more than a quarter.
    pub(in crate::webhooks) in_flight: usize,
    pub(in crate::webhooks) lane: LaneLimits,
}

/// Something that is to be done now. `E` is what a lane is aimed at, which the scheduler only hands on.
#[derive(Debug)]
pub(in crate::webhooks) enum Effect<E> {
    /// Make the next attempt of a delivery, then say [`attempted`](super::Scheduler::attempted) or [`not_made`](super::Scheduler::not_made).
    Attempt(Rc<E>, Item),
    /// Read these webhooks, then say [`loaded`](super::Scheduler::loaded) or [`not_loaded`](super::Scheduler::not_loaded).
    Load(Vec<WebhookId>),
    /// Read deliveries of one webhook, then say [`claimed`](super::Scheduler::claimed) or [`not_claimed`](super::Scheduler::not_claimed).
    Refill(Refill),
    /// Let others deliver to these webhooks, then say [`released`](super::Scheduler::released).
    Release(Vec<WebhookId>),
    /// Look at the table before it is time to: a webhook can be delivered to that could not be before.
    Look,
    /// Ask for effects again, after what else wants to be done.
    GoOn,
}

/// What to read for one lane.
#[derive(Clone, Debug)]
pub(in crate::webhooks) struct Refill {
    pub(in crate::webhooks) webhook: WebhookId,
    pub(in crate::webhooks) limit: usize,
    /// In memory already.
    pub(in crate::webhooks) known: Vec<DeliveryId>,
    pub(in crate::webhooks) left_behind: Option<DeliveryId>,
}

/// A webhook that has pending deliveries and is neither disabled nor paused, according to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::webhooks) struct DueWebhook {
    pub(in crate::webhooks) webhook: WebhookId,
    /// None where the webhook was deleted.
    pub(in crate::webhooks) tenant: Option<TenantId>,
    /// When its first pending delivery that nobody holds is due.
    pub(in crate::webhooks) at: Option<Millis>,
}

/// How many committed deliveries were left to the table, and whether others are to look for some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::webhooks) struct Left {
    pub(in crate::webhooks) all: u64,
    pub(in crate::webhooks) for_others: bool,
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::webhooks) struct Counts {
    pub(in crate::webhooks) in_flight: usize,
    pub(in crate::webhooks) unrecorded: usize,
}
