//! Decides which delivery is attempted next, and what to read for that. Pure: it receives events with their time, and
//! [`Scheduler::effects`] returns the actions. The courier carries them out and reports the results here.
//!
//! Each webhook has an [`EndpointQueue`]. Queues take turns, one attempt each. A tenant has a share of all attempts ([`slots`]).

mod by_hand;
mod cursors;
pub(super) mod effects;
mod endpoint_queue;
mod idle;
mod recording;
mod refills;
mod slots;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    rc::Rc,
};

use dikala_entities::{Millis, TenantId, WebhookId};

use self::slots::Slots;
pub(super) use self::{
    effects::{
        CursorReading, DueWebhook, LeftInTable, QueueLimits, QueuedDelivery, Refill, Refilled,
        SchedulerCounts, SchedulerEffect, SchedulerLimits,
    },
    endpoint_queue::{Destination, EndpointQueue},
};
use super::{
    retry::AttemptVerdict,
    stats::{QueueState, QueuesByState},
    webhook_status::QueueReading,
};
use crate::events::outbox::Dispatch;

/// Limit of deliveries waiting in memory, over all queues.
const WAITING_MAX: usize = 16_384;
/// Limit of attempts that ended and are not recorded. No new ones begin beyond it, so an outage of the database stops
/// the work.
pub(super) const UNRECORDED_MAX: usize = 2_048;
/// Attempts begun at once. Without a limit, one tenant's burst would delay all messages by milliseconds.
const BURST: usize = 8;
/// Webhooks read by one query.
const LOAD_BATCH: usize = 500;
/// A queue's rest after an attempt that could not be made through our own fault, in milliseconds.
const REST_MS: i64 = 1_000;

#[derive(Debug)]
pub(super) struct Scheduler<E> {
    limits: SchedulerLimits,
    queues: BTreeMap<WebhookId, EndpointQueue<E>>,
    /// Queues that may have an attempt to begin, in the order of their turns.
    round: VecDeque<WebhookId>,
    slots: Slots,
    waiting: usize,
    /// Attempts that ended and are not recorded.
    unrecorded: usize,
    /// Webhooks to read.
    to_load: BTreeSet<WebhookId>,
    loading: BTreeSet<WebhookId>,
    /// Queues idle for long, which other nodes may have.
    to_release: Vec<WebhookId>,
    /// Queues whose deliveries are to be read.
    to_refill: VecDeque<WebhookId>,
    refills: usize,
    /// Queues whose deliveries have waited for long without a row.
    to_write: BTreeSet<WebhookId>,
    /// The last one of these, after which the next one has its turn.
    written: Option<WebhookId>,
    writing: bool,
    /// True if the table should be polled now.
    look: bool,
    /// The next due time that nothing else announces.
    next_due: Option<Millis>,
    stopping: bool,
}

impl<E> Scheduler<E> {
    pub(super) fn new(limits: SchedulerLimits) -> Self {
        Self {
            limits,
            queues: BTreeMap::new(),
            round: VecDeque::new(),
            slots: Slots::new(limits.in_flight),
            waiting: 0,
            unrecorded: 0,
            to_load: BTreeSet::new(),
            loading: BTreeSet::new(),
            to_release: Vec::new(),
            to_refill: VecDeque::new(),
            refills: 0,
            to_write: BTreeSet::new(),
            written: None,
            writing: false,
            look: false,
            next_due: None,
            stopping: false,
        }
    }

    /// Sets whether other nodes may change rows that were read here.
    pub(super) fn among_others(&mut self, has_others: bool) {
        self.limits.queue.has_others = has_others;
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// The actions to carry out now; each counts as in progress from here on.
    pub(super) fn effects(&mut self, now: Millis) -> Vec<SchedulerEffect<E>> {
        let mut effects = Vec::new();
        if std::mem::take(&mut self.look) {
            effects.push(SchedulerEffect::Look);
        }
        if !self.to_release.is_empty() {
            effects.push(SchedulerEffect::Release(std::mem::take(
                &mut self.to_release,
            )));
        }
        effects.extend(self.next_load().map(SchedulerEffect::Load));
        let mut begun = 0;
        while begun < BURST
            && let Some((endpoint, item)) = self.next_attempt(now)
        {
            effects.push(SchedulerEffect::Attempt(endpoint, item));
            begun += 1;
        }
        if begun == BURST {
            effects.push(SchedulerEffect::GoOn);
        }
        while let Some(refill) = self.next_refill(now) {
            effects.push(SchedulerEffect::Refill(refill));
        }
        effects.extend(self.next_write(now).map(SchedulerEffect::Refill));
        effects
    }

    /// Accepts committed deliveries. Returns the number left to the table.
    pub(super) fn deliver(&mut self, dispatches: Vec<Dispatch>, now: Millis) -> LeftInTable {
        let mut left = LeftInTable::default();
        for dispatch in dispatches {
            let webhook = dispatch.webhook;
            let created = dispatch.delivery.time();
            let item = QueuedDelivery {
                read_at: now,
                created,
                dispatch,
            };
            let room = !self.stopping && self.waiting < WAITING_MAX;
            let queue = self.queue(webhook, item.dispatch.tenant, now);
            if queue.offer(item, room, now) {
                self.waiting += 1;
                self.take_turn(webhook);
            } else {
                left.all += 1;
                left.for_others |= !queue.may_be_ours();
                self.want_row(webhook, now);
                self.want(webhook, now);
            }
        }
        left
    }

    /// Handles a finished attempt, which is about to be recorded.
    pub(super) fn attempted(
        &mut self,
        item: &QueuedDelivery,
        verdict: AttemptVerdict,
        now: Millis,
    ) {
        let webhook = item.dispatch.webhook;
        if let Some(queue) = self.queues.get_mut(&webhook) {
            queue.attempted(item, verdict, now);
            let looks_at = queue.looks_at();
            self.due(looks_at);
        }
        if let AttemptVerdict::Retry { at } = verdict {
            self.due(Some(at));
        }
        self.slot_free(webhook, item.dispatch.tenant);
    }

    /// Handles an attempt that could not be made through our own fault: the delivery waits.
    pub(super) fn not_made(&mut self, item: QueuedDelivery, now: Millis) {
        let (webhook, tenant) = (item.dispatch.webhook, item.dispatch.tenant);
        let until = now.plus_ms(REST_MS);
        if let Some(queue) = self.queues.get_mut(&webhook) {
            queue.not_made(item, until, now);
        }
        self.due(Some(until));
        self.slot_free(webhook, tenant);
    }

    /// Handles a webhook that was disabled for its failures.
    pub(super) fn disabled(&mut self, webhook: WebhookId) {
        if let Some(queue) = self.queues.get_mut(&webhook) {
            queue.disable();
        }
    }

    /// Handles a changed webhook: until it is read again, nothing is sent to it and waiting deliveries are left to
    /// the table. False if it has no queue.
    pub(super) fn suspect(&mut self, webhook: WebhookId) -> bool {
        let Some(queue) = self.queues.get_mut(&webhook) else {
            return false;
        };
        queue.suspect();
        queue.forget();
        self.to_load.insert(webhook);
        true
    }

    /// Handles the result of a poll; `reread` has all webhooks read again. Returns deleted webhooks with pending
    /// deliveries.
    pub(super) fn looked(
        &mut self,
        due: Vec<DueWebhook>,
        reread: bool,
        now: Millis,
    ) -> Vec<WebhookId> {
        self.sweep(now);
        // Between two polls only additions are counted, so the figure errs upwards.
        self.waiting = self.queues.values().map(EndpointQueue::waiting).sum();
        let mut deleted = Vec::new();
        for due in due {
            match due.tenant {
                Some(tenant) => self.expect(due.webhook, tenant, due.at, now),
                None => deleted.push(due.webhook),
            }
        }
        for (webhook, queue) in &self.queues {
            if reread && !queue.releasing {
                self.to_load.insert(*webhook);
            }
            if queue.must_write(now) {
                self.to_write.insert(*webhook);
            }
        }
        deleted
    }

    /// Takes the time of the next poll.
    pub(super) fn take_next_due(&mut self) -> Option<Millis> {
        self.next_due.take()
    }

    /// Handles webhooks that were read, with the cursors that this node has; `aim` returns each queue's destination.
    pub(super) fn loaded(
        &mut self,
        ids: &[WebhookId],
        cursors: &HashMap<WebhookId, CursorReading>,
        now: Millis,
        mut aim: impl FnMut(WebhookId, &EndpointQueue<E>) -> Destination<E>,
    ) {
        self.loading.clear();
        for id in ids {
            // Changed again during the read, so this result is stale.
            if self.to_load.contains(id) {
                continue;
            }
            if let Some(queue) = self.queues.get_mut(id).filter(|queue| !queue.releasing) {
                let was_ready = queue.is_ready();
                let target = aim(*id, queue);
                queue.read_cursor(cursors.get(id).copied());
                queue.aim(target);
                self.look |= queue.is_ready() && !was_ready;
                self.take_turn(*id);
                self.want_row(*id, now);
                self.want(*id, now);
            }
        }
    }

    /// Handles a failed read of webhooks.
    pub(super) fn not_loaded(&mut self, ids: Vec<WebhookId>) {
        self.loading.clear();
        self.to_load.extend(ids);
    }

    pub(super) fn counts(&self) -> SchedulerCounts {
        SchedulerCounts {
            in_flight: self.slots.in_flight(),
            unrecorded: self.unrecorded,
        }
    }

    /// True if this node is not expected to deliver now: the endpoint's circuit is open, or another node delivers.
    pub(super) fn spares(&self, webhook: WebhookId) -> bool {
        let queue = self.queues.get(&webhook);
        queue.is_some_and(|queue| matches!(queue.state(), QueueState::Open | QueueState::Elsewhere))
    }

    /// A reading of a webhook's queue, if it has one.
    pub(super) fn queue_reading(&self, webhook: WebhookId) -> Option<QueueReading> {
        self.queues.get(&webhook).map(EndpointQueue::reading)
    }

    /// The number of queues by state. Visits all of them.
    pub(super) fn queues(&self) -> QueuesByState {
        let mut queues = QueuesByState::default();
        for queue in self.queues.values() {
            queues[queue.state() as usize] += 1;
        }
        queues
    }

    /// The queue of a webhook. A new queue asks for its webhook to be read.
    fn queue(
        &mut self,
        webhook: WebhookId,
        tenant: TenantId,
        now: Millis,
    ) -> &mut EndpointQueue<E> {
        self.queues.entry(webhook).or_insert_with(|| {
            self.to_load.insert(webhook);
            EndpointQueue::new(tenant, now)
        })
    }

    /// Adds a queue to the round.
    fn take_turn(&mut self, webhook: WebhookId) {
        if let Some(queue) = self.queues.get_mut(&webhook)
            && !queue.in_round
        {
            queue.in_round = true;
            self.round.push_back(webhook);
        }
    }

    /// The next attempt that may begin. Queues take turns, one attempt each.
    fn next_attempt(&mut self, now: Millis) -> Option<(Rc<E>, QueuedDelivery)> {
        if self.slots.is_full() || self.unrecorded >= UNRECORDED_MAX || self.stopping {
            return None;
        }
        while let Some(webhook) = self.round.pop_front() {
            let Some(queue) = self.queues.get_mut(&webhook) else {
                continue;
            };
            if !self.slots.may_begin(queue.tenant) {
                self.slots.park(queue.tenant, webhook);
                continue;
            }
            let begun = queue.take(self.limits.queue, now);
            if begun.is_some() {
                self.slots.begin(queue.tenant);
                self.round.push_back(webhook);
            } else {
                queue.in_round = false;
            }
            self.want(webhook, now);
            if begun.is_some() {
                return begun;
            }
        }
        None
    }

    fn next_load(&mut self) -> Option<Vec<WebhookId>> {
        if !self.loading.is_empty() || self.stopping || self.to_load.is_empty() {
            return None;
        }
        let mut ids = Vec::new();
        while ids.len() < LOAD_BATCH
            && let Some(id) = self.to_load.pop_first()
        {
            ids.push(id);
        }
        self.loading.extend(&ids);
        Some(ids)
    }

    /// Handles a webhook whose next delivery is due at `at`, now or later.
    fn expect(&mut self, webhook: WebhookId, tenant: TenantId, at: Option<Millis>, now: Millis) {
        let Some(at) = at else {
            return;
        };
        if at > now {
            self.due(Some(at));
            return;
        }
        let queue = self.queue(webhook, tenant, now);
        // A queue with enough in memory most likely has the due ones there.
        let wanted = queue.has_room() && queue.wanted(now) > 0;
        if wanted && !self.to_refill.contains(&webhook) {
            self.to_refill.push_back(webhook);
        }
    }

    fn slot_free(&mut self, webhook: WebhookId, tenant: TenantId) {
        self.round.extend(self.slots.end(tenant));
        self.take_turn(webhook);
    }

    /// Notes a due time.
    fn due(&mut self, at: Option<Millis>) {
        self.next_due = match (self.next_due, at) {
            (Some(known), Some(at)) => Some(known.min(at)),
            (known, at) => known.or(at),
        };
    }
}
