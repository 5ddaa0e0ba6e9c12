//! Cursors of the queues, and queues that are made for webhooks that may have something to deliver.

use dikala_entities::{Millis, TenantId, WebhookId};

use super::{EndpointQueue, Scheduler};
use crate::events::sequences::LogPlace;

impl<E> Scheduler<E> {
    /// Handles events that other nodes announced, by the newest sequence number of each webhook.
    pub(in crate::webhooks) fn announced_elsewhere(
        &mut self,
        newest: impl IntoIterator<Item = (WebhookId, i64)>,
        now: Millis,
    ) {
        for (webhook, sequence) in newest {
            if let Some(queue) = self.queues.get_mut(&webhook) {
                queue.announced_elsewhere(sequence);
                self.want(webhook, now);
            }
        }
    }

    /// Has a webhook looked at that may have something to deliver here.
    pub(in crate::webhooks) fn found(&mut self, webhook: WebhookId, tenant: TenantId, now: Millis) {
        self.queue(webhook, tenant, now);
    }

    /// True if a webhook has a queue.
    pub(in crate::webhooks) fn has(&self, webhook: WebhookId) -> bool {
        self.queues.contains_key(&webhook)
    }

    /// The cursors that moved since they were stored.
    pub(in crate::webhooks) fn moved_cursors(&self) -> Vec<(WebhookId, LogPlace)> {
        let moved = |(webhook, queue): (&WebhookId, &EndpointQueue<E>)| {
            Some((*webhook, queue.moved_cursor()?))
        };
        self.queues.iter().filter_map(moved).collect()
    }

    pub(in crate::webhooks) fn cursors_stored(&mut self, cursors: &[(WebhookId, LogPlace)]) {
        for (webhook, place) in cursors {
            if let Some(queue) = self.queues.get_mut(webhook) {
                queue.cursor_stored(*place);
            }
        }
    }

    /// The database may have lost what was read, so all webhooks are read again. Meanwhile nothing begins.
    pub(in crate::webhooks) fn suspect_all(&mut self) {
        for (webhook, queue) in &mut self.queues {
            queue.suspect();
            queue.read_cursor(None);
            self.to_load.insert(*webhook);
        }
    }
}
