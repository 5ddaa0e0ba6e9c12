//! Refills of the queues from the table.

use std::{num::NonZeroUsize, ops::Bound};

use dikala_entities::{Millis, WebhookId};

use super::{Refill, Refilled, Scheduler, WAITING_MAX};

/// Concurrent reads of deliveries.
const REFILLS_MAX: usize = 4;

impl<E> Scheduler<E> {
    pub(super) fn next_refill(&mut self, now: Millis) -> Option<Refill> {
        if self.refills >= REFILLS_MAX || self.stopping || self.waiting >= WAITING_MAX {
            return None;
        }
        while let Some(webhook) = self.to_refill.pop_front() {
            let Some(queue) = self.queues.get_mut(&webhook) else {
                continue;
            };
            if let Some(most) = NonZeroUsize::new(queue.wanted(now))
                && let Some(refill) = queue.refill(webhook, Some(most))
            {
                queue.refilling = true;
                self.refills += 1;
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
                && let Some(refill) = queue.refill(webhook, None)
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
        if wants && !self.to_refill.contains(&webhook) {
            self.to_refill.push_back(webhook);
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
    pub(in crate::webhooks) fn refilled(
        &mut self,
        refill: &Refill,
        mut refilled: Refilled,
        now: Millis,
    ) {
        // However long the read took: deliveries that expire at once would never be sent.
        refilled
            .items
            .iter_mut()
            .for_each(|item| item.read_at = now);
        self.refill_ended(refill);
        let Some(queue) = self.queues.get_mut(&refill.webhook) else {
            return;
        };
        self.waiting = self.waiting.saturating_add(refilled.items.len());
        queue.refilled(refilled, refill.mark);
        if !queue.is_ready() || self.stopping {
            queue.forget();
        }
        self.take_turn(refill.webhook);
        self.want(refill.webhook, now);
    }

    /// Handles a failed read of deliveries.
    pub(in crate::webhooks) fn not_refilled(&mut self, refill: &Refill) {
        self.refill_ended(refill);
        if let Some(queue) = self.queues.get_mut(&refill.webhook) {
            queue.not_refilled();
        }
    }

    fn refill_ended(&mut self, refill: &Refill) {
        match refill.most {
            None => self.writing = false,
            Some(_) => self.refills = self.refills.saturating_sub(1),
        }
    }
}
