//! Refills of the queues from the table.

use std::ops::Bound;

use dikala_entities::{Millis, WebhookId};

use super::{Refill, Refilled, Scheduler, WAITING_MAX};

/// Concurrent reads of deliveries.
const CLAIMS_MAX: usize = 4;

impl<E> Scheduler<E> {
    pub(super) fn next_claim(&mut self, now: Millis) -> Option<Refill> {
        if self.claims >= CLAIMS_MAX || self.stopping || self.waiting >= WAITING_MAX {
            return None;
        }
        while let Some(webhook) = self.to_claim.pop_front() {
            let Some(queue) = self.queues.get_mut(&webhook) else {
                continue;
            };
            let limit = queue.wanted(now);
            if let Some(refill) = queue.refill(webhook, limit).filter(|_| limit > 0) {
                queue.claiming = true;
                self.claims += 1;
                return Some(refill);
            }
        }
        None
    }

    /// The next queue for which rows are written only. One at a time, so that many that wait delay none that goes on.
    pub(super) fn next_write(&mut self, now: Millis) -> Option<Refill> {
        while !self.writing && !self.stopping {
            let after = self.written.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.to_write.range((after, Bound::Unbounded)).next();
            let webhook = *next.or(self.to_write.first())?;
            self.to_write.remove(&webhook);
            self.written = Some(webhook);
            if let Some(queue) = self.queues.get_mut(&webhook)
                && queue.must_write(now)
                && let Some(refill) = queue.refill(webhook, 0)
            {
                queue.asked_for_rows(now);
                self.writing = true;
                return Some(refill);
            }
        }
        None
    }

    /// Asks for a queue's deliveries from the table, if there are any and there is room.
    pub(super) fn want(&mut self, webhook: WebhookId, now: Millis) {
        let wants = self
            .queues
            .get(&webhook)
            .is_some_and(|queue| queue.should_read(now));
        if wants && !self.to_claim.contains(&webhook) {
            self.to_claim.push_back(webhook);
        }
    }

    /// Asks for rows of a queue's deliveries, if some have none and wait.
    pub(super) fn want_row(&mut self, webhook: WebhookId, now: Millis) {
        let queue = self.queues.get(&webhook);
        if queue.is_some_and(|queue| queue.must_write(now)) {
            self.to_write.insert(webhook);
        }
    }

    /// Handles deliveries that were written and read.
    pub(in crate::webhooks) fn claimed(
        &mut self,
        claim: &Refill,
        mut refilled: Refilled,
        now: Millis,
    ) {
        // However long the read took: deliveries that expire at once would never be sent.
        refilled
            .items
            .iter_mut()
            .for_each(|item| item.read_at = now);
        self.claim_ended(claim);
        let Some(queue) = self.queues.get_mut(&claim.webhook) else {
            return;
        };
        self.waiting = self.waiting.saturating_add(refilled.items.len());
        queue.refilled(refilled, claim.mark);
        if !queue.is_ready() || self.stopping {
            queue.forget();
        }
        self.take_turn(claim.webhook);
        self.want(claim.webhook, now);
    }

    /// Handles a failed read of deliveries.
    pub(in crate::webhooks) fn not_claimed(&mut self, claim: &Refill) {
        self.claim_ended(claim);
        if let Some(queue) = self.queues.get_mut(&claim.webhook) {
            queue.not_refilled();
        }
    }

    fn claim_ended(&mut self, claim: &Refill) {
        match claim.limit {
            0 => self.writing = false,
            _ => self.claims = self.claims.saturating_sub(1),
        }
    }
}
