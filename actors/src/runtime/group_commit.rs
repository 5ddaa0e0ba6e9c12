//! Group commit: while one batch is in flight, the next gathers. No batch waits to fill up: under light load it has
//! one item, under heavy load batches grow.
//!
//! [`GroupCommit`] is the queue. [`commit`] writes a batch, with retries while the database is unavailable; a batch
//! with a faulty item is halved. [`BatchStats`] counts sizes and times.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use dikala_entities::store::{is_locked_out, is_transient};
use sea_orm::DbErr;

use super::histogram::{ANSWER_US, Distribution, Histogram, ITEMS};

/// Tries per batch while the database is unavailable. After a restart of PostgreSQL every connection of the pool may
/// be dead, and each try discovers one.
const TRIES: u32 = 8;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// No try begins later than this after the first, because callers wait for the answer.
pub(crate) const TRY_FOR: Duration = Duration::from_secs(10);

/// The queue of a group commit: bounded, with at most one batch in flight.
#[derive(Debug)]
pub struct GroupCommit<T> {
    queue: VecDeque<T>,
    batch_max: usize,
    queue_max: usize,
    in_flight: bool,
}

impl<T> GroupCommit<T> {
    /// An empty queue for batches of at most `batch_max`. It refuses items beyond `queue_max`.
    pub fn new(batch_max: usize, queue_max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            batch_max,
            queue_max,
            in_flight: false,
        }
    }

    /// Queues an item, or returns it if the queue is full.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.queue.len() >= self.queue_max {
            return Err(item);
        }
        self.queue.push_back(item);
        Ok(())
    }

    /// The next batch, if none is in flight and items wait. Call [`finished`](Self::finished) afterwards.
    pub fn take(&mut self) -> Option<Vec<T>> {
        if self.in_flight || self.queue.is_empty() {
            return None;
        }
        self.in_flight = true;
        let size = self.queue.len().min(self.batch_max);
        Some(self.queue.drain(..size).collect())
    }

    /// Reports that the batch from [`take`](Self::take) is done.
    pub fn finished(&mut self) {
        self.in_flight = false;
    }

    /// The number of waiting items.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// True if nothing waits and nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.in_flight
    }
}

/// Sizes and times of the batches of one group commit.
#[derive(Debug)]
pub struct BatchStats {
    items: Histogram,
    commit: Histogram,
}

/// A reading of [`BatchStats`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchReading {
    /// Items per batch.
    pub items: Distribution,
    /// Time from taking a batch until all of it is committed or refused, in microseconds.
    pub commit: Distribution,
}

impl Default for BatchStats {
    fn default() -> Self {
        Self {
            items: Histogram::new(ITEMS),
            commit: Histogram::new(ANSWER_US),
        }
    }
}

impl BatchStats {
    /// Records a batch that is done.
    pub(crate) fn record(&self, items: usize, began: Instant) {
        self.items.observe(u64::try_from(items).unwrap_or(u64::MAX));
        self.commit.observe_since(began);
    }

    pub fn reading(&self) -> BatchReading {
        BatchReading {
            items: self.items.reading(),
            commit: self.commit.reading(),
        }
    }
}

/// Writes a batch with `write`, one transaction a call, and passes each part with its outcome to `done`. A batch that
/// fails because of its data or a locked row is halved until the cause stands alone. A batch whose outcome is unknown
/// is written again, which its items' keys make harmless.
pub async fn commit<T, W>(
    mut batch: Vec<T>,
    stats: &BatchStats,
    write: impl AsyncFn(&[T]) -> Result<W, DbErr>,
    mut done: impl FnMut(Vec<T>, Result<W, DbErr>),
) {
    let began = Instant::now();
    let size = batch.len();
    let mut rest = Vec::new();
    loop {
        match with_retries(&batch, &write).await {
            Err(error) if batch.len() > 1 && (!is_transient(&error) || is_locked_out(&error)) => {
                rest.push(batch.split_off(batch.len() / 2));
            }
            outcome => {
                done(batch, outcome);
                match rest.pop() {
                    Some(next) => batch = next,
                    None => break,
                }
            }
        }
    }
    stats.record(size, began);
}

async fn with_retries<T, W>(
    batch: &[T],
    write: &impl AsyncFn(&[T]) -> Result<W, DbErr>,
) -> Result<W, DbErr> {
    let mut tries = 1;
    let began = Instant::now();
    loop {
        match write(batch).await {
            // A row of one item is locked by another transaction; halving finds it.
            Err(error) if batch.len() > 1 && is_locked_out(&error) => return Err(error),
            Err(error) if is_transient(&error) && tries < TRIES && began.elapsed() < TRY_FOR => {
                tracing::warn!(%error, tries, "could not commit a batch, because the database is unavailable; trying again");
                tries += 1;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use dikala_entities::Store;
    use sea_orm::{ConnectionTrait, DbBackend, Statement};

    use super::*;

    #[test]
    fn one_batch_at_a_time_and_no_more_than_fit() {
        let mut queue = GroupCommit::new(2, 3);
        assert_eq!(queue.take(), None);
        assert!((1..=3).all(|n| queue.push(n).is_ok()));
        assert_eq!(queue.push(4), Err(4));
        assert_eq!(queue.take(), Some(vec![1, 2]));
        assert_eq!(queue.take(), None);
        queue.finished();
        assert_eq!(queue.take(), Some(vec![3]));
        queue.finished();
        assert!(queue.is_idle());
    }

    #[actix::test]
    async fn what_is_wrong_stands_alone_in_the_end() {
        let written = RefCell::new(Vec::new());
        let refused = RefCell::new(Vec::new());
        let write = async |batch: &[i32]| {
            if batch.contains(&5) {
                Err(DbErr::Custom("five".to_owned()))
            } else {
                Ok(())
            }
        };
        commit(
            (0..9).collect(),
            &BatchStats::default(),
            write,
            |batch, outcome| match outcome {
                Ok(()) => written.borrow_mut().extend(batch),
                Err(_) => refused.borrow_mut().extend(batch),
            },
        )
        .await;
        assert_eq!(*written.borrow(), [0, 1, 2, 3, 4, 6, 7, 8]);
        assert_eq!(*refused.borrow(), [5]);
    }

    async fn process(store: &Store) -> i32 {
        let ask = Statement::from_string(DbBackend::Postgres, "SELECT pg_backend_pid() AS pid");
        let row = store.reader().query_one_raw(ask).await.expect("answers");
        row.expect("a row").try_get("", "pid").expect("a number")
    }

    /// A socket belongs to the runtime that opened it, and the HTTP threads end before others.
    #[test]
    fn a_connection_outlives_the_runtime_in_which_it_was_opened() {
        let runtime = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime")
        };
        let first = runtime();
        let Some((_keep, store)) = first.block_on(dikala_testkit::postgres()) else {
            return;
        };
        let before = first.block_on(process(&store));
        drop(first);
        assert_eq!(runtime().block_on(process(&store)), before);
    }
}
