//! Attempts that wait to be recorded. Too many of them stop all queues.

use dikala_entities::{DeliveryId, WebhookId};

use super::{EndpointQueue, Scheduler};
use crate::webhooks::retry::AttemptVerdict;

impl<E> Scheduler<E> {
    /// Counts an attempt as waiting to be recorded.
    pub(in crate::webhooks) fn recording(&mut self) {
        self.unrecorded += 1;
    }

    /// Handles an attempt that was recorded.
    pub(in crate::webhooks) fn recorded(
        &mut self,
        webhook: WebhookId,
        delivery: DeliveryId,
        verdict: AttemptVerdict,
    ) {
        self.unrecorded = self.unrecorded.saturating_sub(1);
        if let Some(queue) = self.queues.get_mut(&webhook) {
            queue.recorded(delivery);
            queue.closing &= verdict != AttemptVerdict::Gone;
        }
        if let AttemptVerdict::Retry { at } = verdict {
            self.due(Some(at));
        }
    }

    /// Handles an attempt that cannot be recorded. Its delivery stays known, so this process does not send it again.
    /// It takes room in its queue only: with too many of them that queue rests, and no other.
    pub(in crate::webhooks) fn set_aside(&mut self, webhook: WebhookId) {
        self.unrecorded = self.unrecorded.saturating_sub(1);
        self.queues
            .get_mut(&webhook)
            .into_iter()
            .for_each(EndpointQueue::set_aside);
    }

    /// Counts an attempt that was set aside as waiting to be recorded again.
    pub(in crate::webhooks) fn recording_again(&mut self, webhook: WebhookId) {
        self.unrecorded += 1;
        self.queues
            .get_mut(&webhook)
            .into_iter()
            .for_each(EndpointQueue::no_longer_aside);
    }
}
