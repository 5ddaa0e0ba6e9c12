//! Group commit of attempts' results: while one batch is written, the next gathers. A batch is written however long
//! that takes, because an attempt is not repeated for an outage of the database. A batch that fails because of its
//! data is halved until the faulty record is alone, which is then set aside. Records whose rows another session has
//! locked wait beside the queue until the rows are free.

use std::{cell::RefCell, time::Duration};

use dikala_entities::{
    Store,
    store::{is_locked_out, is_transient},
};
use sea_orm::DbErr;
use tokio::sync::oneshot;

use super::{
    attempt::AttemptRecord,
    scheduler::UNRECORDED_MAX,
    store::{
        recordable,
        results::{self, RecordedBatch},
    },
};
use crate::runtime::group_commit::GroupCommit;

/// Maximum number of attempts in one write.
const RECORD_BATCH: usize = 256;
/// The first backoff after a failed write; it doubles up to [`AGAIN_MAX`].
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// A record waiting to be written, with the caller that waits for it.
#[derive(Debug)]
pub(super) struct QueuedRecord {
    pub(super) record: AttemptRecord,
    pub(super) recorded: Option<oneshot::Sender<()>>,
}

/// The queue of records to be written.
#[derive(Debug)]
pub(super) struct Recorder {
    queue: RefCell<GroupCommit<QueuedRecord>>,
}

/// The records of one write.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<AttemptRecord>,
    waiting: Vec<Option<oneshot::Sender<()>>>,
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
    pub(super) fn push(&self, queued: QueuedRecord) -> bool {
        self.queue.borrow_mut().push(queued).is_ok()
    }

    /// The next batch, if none is being written. Call [`finished`](Self::finished) afterwards.
    pub(super) fn take(&self) -> Option<Batch> {
        let batch = self.queue.borrow_mut().take()?;
        let (records, waiting) = batch
            .into_iter()
            .map(|queued| (queued.record, queued.recorded))
            .unzip();
        Some(Batch { records, waiting })
    }

    /// Writes nothing more. Waiting callers learn that their record is missing.
    pub(super) fn close(&self) {
        *self.queue.borrow_mut() = GroupCommit::new(RECORD_BATCH, 0);
    }

    /// Reports that a batch is written. Returns its records that wait for locked rows.
    pub(super) fn finished(&self, batch: Batch, written: &RecordedBatch) -> Vec<QueuedRecord> {
        let mut locked = Vec::new();
        for (record, recorded) in batch.records.into_iter().zip(batch.waiting) {
            if written.locked.contains(&record.delivery) {
                locked.push(QueuedRecord { record, recorded });
            } else if let Some(recorded) = recorded {
                let _ = recorded.send(());
            }
        }
        self.queue.borrow_mut().finished();
        locked
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
        let mut rest = vec![self.records.iter().collect::<Vec<_>>()];
        while let Some(records) = rest.pop() {
            if !wanted() {
                return None;
            }
            match (results::record(store, node, &records).await, &*records) {
                (Ok(recorded), _) => {
                    written.disabled.extend(recorded.disabled);
                    written.refused.extend(recorded.refused);
                    again = AGAIN;
                }
                (Err(error), _) if is_locked_out(&error) => {
                    match without_locked(store, &mut written, &records).await {
                        Ok(free) => rest.extend(free),
                        Err(error) => {
                            tracing::warn!(%error, attempts = records.len(), "it is unknown which attempts' rows are locked; trying again");
                            rest.push(records);
                            tokio::time::sleep(again).await;
                            again = (again * 2).min(AGAIN_MAX);
                        }
                    }
                }
                (Err(error), _) if is_transient(&error) => {
                    tracing::warn!(%error, attempts = records.len(), "could not record attempts; trying again");
                    rest.push(records);
                    tokio::time::sleep(again).await;
                    again = (again * 2).min(AGAIN_MAX);
                }
                (Err(error), [record]) => {
                    tracing::error!(
                        %error, delivery = %record.delivery, webhook = %record.webhook, tenant = %record.tenant, attempts = record.number,
                        "an attempt cannot be recorded; its delivery is not sent again until this process restarts"
                    );
                    written.set_aside.insert(record.delivery);
                }
                (Err(error), _) => {
                    tracing::warn!(%error, attempts = records.len(), "a batch of attempts could not be recorded; trying its halves");
                    rest.extend(halves(records));
                }
            }
        }
        Some(written)
    }
}

/// Takes the records whose rows are locked out of a batch, and returns what is to be written now.
async fn without_locked<'a>(
    store: &Store,
    written: &mut RecordedBatch,
    records: &[&'a AttemptRecord],
) -> Result<Vec<Vec<&'a AttemptRecord>>, DbErr> {
    let webhooks = recordable::locked(store, records.iter().copied()).await?;
    let (locked, free): (Vec<_>, Vec<_>) = records
        .iter()
        .partition(|record| webhooks.contains(&record.webhook));
    // A row that was not asked about: halving finds it.
    if locked.is_empty() && free.len() > 1 {
        return Ok(halves(free).into());
    }
    let waiting = if locked.is_empty() { &free } else { &locked };
    tracing::warn!(
        ?webhooks,
        attempts = waiting.len(),
        "rows of webhooks or deliveries are locked by another session; their attempts are recorded later"
    );
    written
        .locked
        .extend(waiting.iter().map(|record| record.delivery));
    Ok(match locked.is_empty() || free.is_empty() {
        true => Vec::new(),
        false => vec![free],
    })
}

/// The second half first, because the last one is written next.
fn halves<T>(mut records: Vec<T>) -> [Vec<T>; 2] {
    let second = records.split_off(records.len() / 2);
    [second, records]
}
