//! Decides which delivery is attempted next, and what to read for that. Pure: it receives events with their time, and
//! [`Scheduler::effects`] returns the actions. The courier carries them out and reports the results here.
//!
//! Each webhook has an [`EndpointQueue`]. Queues take turns, one attempt each. A tenant has a share of all attempts ([`slots`]).

mod by_hand;
mod effects;
mod endpoint_queue;
mod idle;
mod recording;
mod slots;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};

use self::slots::Slots;
pub(super) use self::{
    effects::{
        DueWebhook, LeftInTable, QueueLimits, QueuedDelivery, Refill, SchedulerCounts,
        SchedulerEffect, SchedulerLimits,
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
/// Concurrent reads of deliveries.
const CLAIMS_MAX: usize = 4;
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
    loading: bool,
    /// Queues idle for long, which other nodes may have.
    to_release: Vec<WebhookId>,
    /// Queues whose deliveries are to be read.
    to_claim: VecDeque<WebhookId>,
    claims: usize,
    /// True if the table should be polled now.
    look: bool,
    /// The next due time that nothing else announces.
    next_due: Option<Millis>,
    stopping: bool,
    started_at: Millis,
}

impl<E> Scheduler<E> {
    pub(super) fn new(limits: SchedulerLimits, started_at: Millis) -> Self {
        Self {
            limits,
            queues: BTreeMap::new(),
            round: VecDeque::new(),
            slots: Slots::new(limits.in_flight),
            waiting: 0,
            unrecorded: 0,
            to_load: BTreeSet::new(),
            loading: false,
            to_release: Vec::new(),
            to_claim: VecDeque::new(),
            claims: 0,
            look: false,
            next_due: None,
            stopping: false,
            started_at,
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
        while let Some(claim) = self.next_claim(now) {
            effects.push(SchedulerEffect::Refill(claim));
        }
        effects
    }

    /// Accepts committed deliveries. Returns the number left to the table.
    pub(super) fn deliver(&mut self, dispatches: Vec<Dispatch>, now: Millis) -> LeftInTable {
        let mut left = LeftInTable::default();
        for dispatch in dispatches {
            let webhook = dispatch.webhook;
            let created = created(dispatch.delivery);
            // Deliveries committed before this scheduler began come from the table.
            let ours = created >= self.started_at && !self.stopping;
            let item = QueuedDelivery {
                read_at: now,
                created,
                dispatch,
            };
            let room = ours && self.waiting < WAITING_MAX;
            let queue = self.queue(webhook, item.dispatch.tenant, now);
            if queue.offer(item, room, now) {
                self.waiting += 1;
                self.take_turn(webhook);
            } else {
                left.all += 1;
                left.for_others |= !queue.may_be_ours();
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
        if reread {
            self.to_load.extend(self.queues.keys().copied());
        }
        deleted
    }

    /// Takes the time of the next poll.
    pub(super) fn take_next_due(&mut self) -> Option<Millis> {
        self.next_due.take()
    }

    /// Handles webhooks that were read; `aim` returns each queue's destination.
    pub(super) fn loaded(
        &mut self,
        ids: &[WebhookId],
        now: Millis,
        mut aim: impl FnMut(WebhookId, &EndpointQueue<E>) -> Destination<E>,
    ) {
        self.loading = false;
        for id in ids {
            // Changed again during the read, so this result is stale.
            if self.to_load.contains(id) {
                continue;
            }
            if let Some(queue) = self.queues.get_mut(id).filter(|queue| !queue.releasing) {
                let was_ready = queue.is_ready();
                let target = aim(*id, queue);
                queue.aim(target);
                self.look |= queue.is_ready() && !was_ready;
                self.take_turn(*id);
                self.want(*id, now);
            }
        }
    }

    /// Handles a failed read of webhooks.
    pub(super) fn not_loaded(&mut self, ids: Vec<WebhookId>) {
        self.loading = false;
        self.to_load.extend(ids);
    }

    /// Handles deliveries that were read. The events of `lost` due ones no longer exist.
    pub(super) fn claimed(
        &mut self,
        claim: &Refill,
        mut items: Vec<QueuedDelivery>,
        lost: usize,
        now: Millis,
    ) {
        // However long the read took: deliveries that expire at once would never be sent.
        items.iter_mut().for_each(|item| item.read_at = now);
        self.claims = self.claims.saturating_sub(1);
        let Some(queue) = self.queues.get_mut(&claim.webhook) else {
            return;
        };
        queue.claiming = false;
        let complete = items.len() + lost < claim.limit;
        self.waiting = self.waiting.saturating_add(items.len());
        let newest = items.iter().map(|item| item.dispatch.delivery).max();
        queue.claimed(items, claim.left_behind, complete);
        if let (false, Some(newest)) = (complete, newest) {
            queue.more_in_table(newest);
        }
        if !queue.is_ready() || self.stopping {
            queue.forget();
        }
        self.take_turn(claim.webhook);
        self.want(claim.webhook, now);
    }

    /// Handles a failed read of deliveries.
    pub(super) fn not_claimed(&mut self, claim: &Refill) {
        self.claims = self.claims.saturating_sub(1);
        if let Some(queue) = self.queues.get_mut(&claim.webhook) {
            queue.claiming = false;
        }
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
        if self.loading || self.stopping || self.to_load.is_empty() {
            return None;
        }
        self.loading = true;
        let mut ids = Vec::new();
        while ids.len() < LOAD_BATCH
            && let Some(id) = self.to_load.pop_first()
        {
            ids.push(id);
        }
        Some(ids)
    }

    fn next_claim(&mut self, now: Millis) -> Option<Refill> {
        if self.claims >= CLAIMS_MAX || self.stopping || self.waiting >= WAITING_MAX {
            return None;
        }
        while let Some(webhook) = self.to_claim.pop_front() {
            let Some(queue) = self.queues.get_mut(&webhook) else {
                continue;
            };
            let limit = queue.wanted(now);
            if limit == 0 {
                continue;
            }
            queue.claiming = true;
            self.claims += 1;
            return Some(Refill {
                webhook,
                limit,
                known: queue.known().collect(),
                left_behind: queue.left_behind(),
            });
        }
        None
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
        if wanted && !self.to_claim.contains(&webhook) {
            self.to_claim.push_back(webhook);
        }
    }

    /// Asks for a queue's deliveries from the table, if there are any and there is room.
    fn want(&mut self, webhook: WebhookId, now: Millis) {
        let wants = self
            .queues
            .get(&webhook)
            .is_some_and(|queue| queue.should_read(now));
        if wants && !self.to_claim.contains(&webhook) {
            self.to_claim.push_back(webhook);
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

/// The creation time of a delivery, which is the beginning of its id.
fn created(delivery: DeliveryId) -> Millis {
    Millis::from_i64(i64::try_from(delivery.as_u128() >> 80).unwrap_or(i64::MAX))
}
