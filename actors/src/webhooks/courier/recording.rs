//! Attempts on their way into the tables, in batches.

use std::{rc::Rc, time::Instant};

use tokio::sync::oneshot;

use super::{AGAIN, Courier};
use crate::{
    outbound::ErrorKind,
    webhooks::{
        attempt::AttemptRecord,
        recorder::{Batch, QueuedRecord},
        retry::AttemptVerdict,
        store::{recordable, results::RecordedBatch},
    },
};

impl Courier {
    /// Has an attempt written and notifies waiting callers.
    pub(in crate::webhooks) fn record(
        self: &Rc<Self>,
        record: AttemptRecord,
        recorded: Option<oneshot::Sender<()>>,
    ) {
        // Without room, the delivery is read from the table again and sent again.
        if self.recorder.push(QueuedRecord { record, recorded }) {
            self.scheduler.borrow_mut().recording();
        }
        self.write_records();
    }

    /// Writes what is queued, unless that is under way.
    fn write_records(self: &Rc<Self>) {
        let Some(batch) = self.recorder.take() else {
            return;
        };
        let courier = Rc::clone(self);
        actix_rt::spawn(async move {
            let mut next = Some(batch);
            while let Some(batch) = next {
                let began = Instant::now();
                // If the process became another node, other nodes record its old deliveries.
                let wanted = || !courier.is_dead() && courier.deps.node.is(&courier.node);
                let write = batch.write(&courier.deps.store, courier.cursor_owner(), wanted);
                let Some(recorded) = write.await else {
                    return;
                };
                let stats = &courier.stats.batches;
                stats.record(batch.records.len(), began);
                courier.recorded(&batch, &recorded);
                let locked = courier.recorder.finished(batch, &recorded);
                courier.wait_for_locked(locked);
                next = courier.recorder.take();
                courier.changed.notify_waiters();
                courier.go_on();
            }
        });
    }

    /// Queues records again once their rows are free. Until then they take room in the queues of their endpoints only.
    fn wait_for_locked(self: &Rc<Self>, mut locked: Vec<QueuedRecord>) {
        if locked.is_empty() {
            return;
        }
        let courier = Rc::clone(self);
        actix_rt::spawn(async move {
            while !locked.is_empty() && !courier.is_dead() {
                tokio::time::sleep(AGAIN).await;
                let records = locked.iter().map(|queued| &queued.record);
                let still = match recordable::locked(&courier.deps.store, records).await {
                    Ok(webhooks) => webhooks,
                    Err(error) => {
                        tracing::debug!(%error, "could not check whether rows of attempts are still locked");
                        continue;
                    }
                };
                let is_free = |queued: &mut QueuedRecord| !still.contains(&queued.record.webhook);
                for queued in locked.extract_if(.., is_free) {
                    let webhook = queued.record.webhook;
                    if courier.recorder.push(queued) {
                        courier.scheduler.borrow_mut().recording_again(webhook);
                    }
                }
                courier.write_records();
            }
        });
    }

    /// Handles a batch that was written, except deliveries of webhooks that other nodes have by now. This node forgets all of
    /// them.
    fn recorded(&self, batch: &Batch, recorded: &RecordedBatch) {
        let mut scheduler = self.scheduler.borrow_mut();
        for record in &batch.records {
            if recorded.set_aside.contains(&record.delivery)
                || recorded.locked.contains(&record.delivery)
            {
                scheduler.set_aside(record.webhook);
                continue;
            }
            scheduler.recorded(record.webhook, record.delivery, record.verdict);
            if recorded.refused.contains(&record.delivery) {
                tracing::warn!(
                    delivery = %record.delivery, webhook = %record.webhook, tenant = %record.tenant, attempts = record.number,
                    "an attempt was not recorded: another node delivers to the webhook, or has made that attempt"
                );
            } else if matches!(
                record.verdict,
                AttemptVerdict::GivenUp | AttemptVerdict::Gone
            ) {
                tracing::warn!(
                    delivery = %record.delivery, webhook = %record.webhook, tenant = %record.tenant, attempts = record.number,
                    status = record.status_code, error = record.error_kind.map(ErrorKind::as_str), "a delivery failed for good"
                );
            }
        }
        for now in &recorded.disabled {
            tracing::warn!(webhook = %now.webhook, reason = now.reason, "a webhook was disabled");
            scheduler.disabled(now.webhook);
        }
    }
}
