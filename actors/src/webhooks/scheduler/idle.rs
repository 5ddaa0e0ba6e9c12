//! Idle and resting endpoint queues: idle ones are dropped once other nodes may have them, rested ones take a turn.

use dikala_entities::{Millis, WebhookId};

use super::{EndpointQueue, Scheduler};

/// A queue is dropped after this idle time, along with its sockets.
const QUEUE_IDLE_MS: i64 = 60_000;

impl<E> Scheduler<E> {
    /// Drops idle queues that other nodes may have by now, and gives a turn to queues whose rest is over.
    pub(super) fn sweep(&mut self, now: Millis) {
        self.queues
            .retain(|_, queue| queue.may_be_ours() || !queue.is_idle(QUEUE_IDLE_MS, now));
        for (webhook, queue) in &mut self.queues {
            // A read that is under way might take the cursor back.
            if queue.is_idle(QUEUE_IDLE_MS, now) && !self.loading.contains(webhook) {
                self.to_load.remove(webhook);
                queue.suspect();
                queue.read_cursor(None);
                queue.releasing = true;
                self.to_release.push(*webhook);
            }
        }
        let waiting: Vec<WebhookId> = self
            .queues
            .iter()
            .filter(|(_, queue)| queue.waiting() > 0 || queue.is_behind())
            .map(|(webhook, _)| *webhook)
            .collect();
        for webhook in waiting {
            self.take_turn(webhook);
            self.want(webhook, now);
            let looks_at = self.queues.get(&webhook).and_then(EndpointQueue::looks_at);
            self.due(looks_at.filter(|at| *at > now));
        }
    }

    /// Begins nothing more. Attempts in progress end, and waiting deliveries are left to the table.
    pub(in crate::webhooks) fn stop(&mut self) {
        self.stopping = true;
        self.queues.values_mut().for_each(EndpointQueue::forget);
        self.waiting = 0;
    }

    /// For the stop: removes the queues without work in progress. Returns this node's, each once.
    pub(in crate::webhooks) fn take_ended(&mut self) -> Vec<WebhookId> {
        let at_rest = self.queues.extract_if(.., |_, queue| queue.is_at_rest());
        let ours = at_rest.filter(|(_, queue)| queue.may_be_ours());
        ours.map(|(webhook, _)| webhook).collect()
    }

    /// Handles the release of these queues, successful or not. A queue with new work asks for its webhook again.
    pub(in crate::webhooks) fn released(&mut self, ids: Vec<WebhookId>, now: Millis) {
        for id in ids {
            let Some(queue) = self.queues.get_mut(&id) else {
                continue;
            };
            queue.releasing = false;
            if queue.is_idle(QUEUE_IDLE_MS, now) {
                self.queues.remove(&id);
            } else {
                self.to_load.insert(id);
            }
        }
    }
}
