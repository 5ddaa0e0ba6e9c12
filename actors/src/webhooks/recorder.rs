//! Group commit of what came of attempts: while one batch is being written the next one gathers. A batch is written however long
//! that takes; an attempt that was made is not made again because the database was away. If its data makes a batch fail, it is
//! halved until the bad record is alone, which is then set aside.

use std::{cell::RefCell, time::Duration};

use dikala_entities::{Store, store::is_transient};
use tokio::sync::oneshot;

use super::{
    attempt::AttemptRecord,
    scheduler::UNRECORDED_MAX,
    store::results::{self, Recorded},
};
use crate::runtime::group_commit::GroupCommit;

/// Attempts in one write.
const RECORD_BATCH: usize = 256;
/// The first wait after a write that failed; doubled up to [`AGAIN_MAX`].
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// A record on its way to the table, and who waits for it to be there.
#[derive(Debug)]
struct Queued {
    record: AttemptRecord,
    recorded: Option<oneshot::Sender<()>>,
}

/// What waits to be written.
#[derive(Debug)]
pub(super) struct Recorder {
    queue: RefCell<GroupCommit<Queued>>,
}

/// Records in one write.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) records: Vec<AttemptRecord>,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        // No attempt begins beyond `UNRECORDED_MAX`, and this has room for those under way then.
        let queue = GroupCommit::new(RECORD_BATCH, UNRECORDED_MAX * 4);
        Self {
            queue: RefCell::new(queue),
        }
    }

    /// Queues a record. False where there is no room for it.
    pub(super) fn push(
        &self,
        record: AttemptRecord,
        recorded: Option<oneshot::Sender<()>>,
    ) -> bool {
        let queued = Queued { record, recorded };
        self.queue.borrow_mut().push(queued).is_ok()
    }

    /// The next batch, if none is being written. [`finished`](Self::finished) must follow.
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

    /// Writes nothing more: who waits for a record hears that it is not there.
    pub(super) fn close(&self) {
        *self.queue.borrow_mut() = GroupCommit::new(RECORD_BATCH, 0);
    }

    /// A batch is written.
    pub(super) fn finished(&self, batch: Batch) {
        for waiting in batch.waiting {
            let _ = waiting.send(());
        }
        self.queue.borrow_mut().finished();
    }
}

impl Batch {
    /// Writes what `node` did, as long as that is `wanted`. Returns none where it is not any more.
    pub(super) async fn write(
        &self,
        store: &Store,
        node: &str,
        wanted: impl Fn() -> bool,
    ) -> Option<Recorded> {
        let mut written = Recorded::default();
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
