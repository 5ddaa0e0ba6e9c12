//! Group commit of attempts' results: while one batch is written, the next gathers. A batch is written however long
//! that takes, because an attempt is not repeated for an outage of the database. A batch that fails because of its
//! data is halved until the faulty record is alone, which is then set aside.

use std::{cell::RefCell, time::Duration};

use dikala_entities::{Store, store::is_transient};
use tokio::sync::oneshot;

use super::{
    attempt::AttemptRecord,
    scheduler::UNRECORDED_MAX,
    store::results::{self, RecordedBatch},
};
use crate::runtime::group_commit::GroupCommit;

/// Maximum number of attempts in one write.
const RECORD_BATCH: usize = 256;
/// The first backoff after a failed write; it doubles up to [`AGAIN_MAX`].
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// A record waiting to be written, with the caller that waits for it.
#[derive(Debug)]
struct Queued {
    record: AttemptRecord,
    recorded: Option<oneshot::Sender<()>>,
}

/// The queue of records to be written.
#[derive(Debug)]
pub(super) struct Recorder {
    queue: RefCell<GroupCommit<Queued>>,
}

/// The records of one write.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<AttemptRecord>,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        // No attempt begins beyond `UNRECORDED_MAX`; this has room for attempts in progress then.
        let queue = GroupCommit::new(RECORD_BATCH, UNRECORDED_MAX * 4);
        Self {
            queue: RefCell::new(queue),
        }
    }

    /// Queues a record. False if there is no room.
    pub(super) fn push(
        &self,
        record: AttemptRecord,
        recorded: Option<oneshot::Sender<()>>,
    ) -> bool {
        let queued = Queued { record, recorded };
        self.queue.borrow_mut().push(queued).is_ok()
    }

    /// The next batch, if none is being written. Call [`finished`](Self::finished) afterwards.
    pub(super) fn take(&self) -> Option<Batch> {
        let batch = self.queue.borrow_mut().take()?;
        let (records, waiting): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|queued| (queued.record, queued.recorded))
            .unzip();
        Some(Batch {
            records,
            waiting: waiting.into_iter().flatten().collect(),
        })
    }

    /// Writes nothing more. Waiting callers learn that their record is missing.
    pub(super) fn close(&self) {
        *self.queue.borrow_mut() = GroupCommit::new(RECORD_BATCH, 0);
    }

    /// Reports that a batch is written.
    pub(super) fn finished(&self, batch: Batch) {
        for waiting in batch.waiting {
            let _ = waiting.send(());
        }
        self.queue.borrow_mut().finished();
    }
}

impl Batch {
    /// Writes the batch of `node`, as long as it is `wanted`. Returns none once it is not.
    pub(super) async fn write(
        &self,
        store: &Store,
        node: &str,
        wanted: impl Fn() -> bool,
    ) -> Option<RecordedBatch> {
        let mut written = RecordedBatch::default();
        let mut again = AGAIN;
        let mut rest = vec![self.records.as_slice()];
        while let Some(records) = rest.pop() {
            if !wanted() {
                return None;
            }
            match (results::record(store, node, records).await, records) {
                (Ok(recorded), _) => {
                    written.disabled.extend(recorded.disabled);
                    written.refused.extend(recorded.refused);
                    again = AGAIN;
                }
                (Err(error), _) if is_transient(&error) => {
                    tracing::warn!(%error, attempts = records.len(), "attempts could not be recorded; trying again");
                    rest.push(records);
                    tokio::time::sleep(again).await;
                    again = (again * 2).min(AGAIN_MAX);
                }
                (Err(error), [record]) => {
                    tracing::error!(
                        %error, delivery = %record.delivery, webhook = %record.webhook, tenant = %record.tenant, attempts = record.number,
                        "an attempt cannot be recorded; its delivery is not sent again before this process is started anew"
                    );
                    written.set_aside.insert(record.delivery);
                }
                (Err(error), _) => {
                    tracing::warn!(%error, attempts = records.len(), "a batch of attempts could not be recorded; trying its halves");
                    let (first, second) = records.split_at(records.len() / 2);
                    rest.extend([second, first]);
                }
            }
        }
        Some(written)
    }
}
