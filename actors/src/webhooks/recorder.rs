//! Group commit of what came of attempts: while one batch is being written the next one gathers.

use std::{rc::Rc, sync::atomic::Ordering::Relaxed, time::Duration};

use sea_orm::DbErr;

use super::{
    engine::{Engine, Finished, State},
    lane::Target,
    results::{self, DisabledNow, Done},
    retry::Verdict,
};

/// The first wait after a write that failed; doubled up to [`AGAIN_MAX`].
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

impl Engine {
    /// Writes what waits, unless a write is under way: that one goes on by itself.
    pub(super) fn record(self: &Rc<Self>) {
        let Some(batch) = self.state.borrow_mut().results.take() else {
            return;
        };
        let engine = Rc::clone(self);
        actix_rt::spawn(async move {
            let mut next = Some(batch);
            while let Some(batch) = next.take() {
                if !engine.record_batch(batch).await {
                    return;
                }
                let mut state = engine.state.borrow_mut();
                state.results.finished();
                next = state.results.take();
                drop(state);
                engine.changed.notify_waiters();
                engine.pump();
            }
        });
    }

    /// Writes one batch however long it takes; an attempt that was made is not made again because the database was away.
    /// Returns whether this engine still works.
    async fn record_batch(&self, batch: Vec<Finished>) -> bool {
        let (rows, waiters): (Vec<Done>, Vec<_>) = batch
            .into_iter()
            .map(|finished| (finished.done, finished.recorded))
            .unzip();
        let mut again = AGAIN;
        let disabled = loop {
            if self.state.borrow().dead {
                return false;
            }
            match self.write(&rows).await {
                Ok(disabled) => break disabled,
                Err(error) => {
                    tracing::warn!(%error, attempts = rows.len(), "attempts could not be recorded; trying again");
                    tokio::time::sleep(again).await;
                    again = (again * 2).min(AGAIN_MAX);
                }
            }
        };
        self.recorded(&rows, &disabled);
        for waiter in waiters.into_iter().flatten() {
            let _ = waiter.send(());
        }
        true
    }

    async fn write(&self, rows: &[Done]) -> Result<Vec<DisabledNow>, DbErr> {
        results::record(&self.services.store, rows).await
    }

    fn recorded(&self, rows: &[Done], disabled: &[DisabledNow]) {
        let mut state = self.state.borrow_mut();
        for done in rows {
            state.recorded(done);
            if matches!(done.verdict, Verdict::GivenUp | Verdict::Gone) {
                tracing::warn!(
                    delivery = %done.delivery, webhook = %done.webhook, tenant = %done.tenant, attempts = done.number,
                    status = done.status_code, error = done.error_kind, "a delivery failed for good"
                );
            }
        }
        for now in disabled {
            tracing::warn!(webhook = %now.webhook, reason = now.reason, "a webhook was disabled");
            self.stats.disabled.fetch_add(1, Relaxed);
            if let Some(lane) = state.lanes.get_mut(&now.webhook) {
                lane.target = Target::Disabled;
                lane.forget();
            }
        }
    }
}

impl State {
    fn recorded(&mut self, done: &Done) {
        self.unrecorded = self.unrecorded.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&done.webhook) {
            lane.recorded(done.delivery);
            lane.closing &= done.verdict != Verdict::Gone;
        }
        if let Verdict::Retry { at } = done.verdict {
            self.due(Some(at));
        }
    }
}
