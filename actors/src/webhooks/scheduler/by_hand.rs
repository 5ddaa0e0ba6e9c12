//! Attempts that are requested by hand and bypass the queues.

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId};

use super::Scheduler;

impl<E> Scheduler<E> {
    /// Takes a delivery from its queue for an attempt by hand. False if an attempt of it is in progress.
    pub(in crate::webhooks) fn pull(
        &mut self,
        webhook: WebhookId,
        tenant: TenantId,
        delivery: DeliveryId,
        now: Millis,
    ) -> bool {
        self.queue(webhook, tenant, now).pull(delivery)
    }

    /// True if a delivery waits in memory, is in progress, or is not recorded yet.
    pub(in crate::webhooks) fn knows(&self, webhook: WebhookId, delivery: DeliveryId) -> bool {
        let queue = self.queues.get(&webhook);
        queue.is_some_and(|queue| queue.known().any(|known| known == delivery))
    }

    /// Records that an attempt by hand was delivered, so the endpoint's queue need not wait for a probe.
    pub(in crate::webhooks) fn answers_again(&mut self, webhook: WebhookId) {
        if let Some(queue) = self.queues.get_mut(&webhook) {
            queue.circuit.succeeded();
            self.look = true;
            self.take_turn(webhook);
        }
    }

    /// Reserves a delivery that is made outside the queues, so that it does not come from the table too.
    pub(in crate::webhooks) fn reserve(
        &mut self,
        webhook: WebhookId,
        tenant: TenantId,
        delivery: DeliveryId,
        now: Millis,
    ) {
        self.queue(webhook, tenant, now).reserve(delivery);
    }

    /// Cancels a [reservation](Self::reserve).
    pub(in crate::webhooks) fn release(&mut self, webhook: WebhookId, delivery: DeliveryId) {
        if let Some(queue) = self.queues.get_mut(&webhook) {
            queue.recorded(delivery);
        }
    }
}
