//! Writing a batch: tried again while the database is away, halved while something in it is wrong; and how large and how slow
//! batches are, for metrics.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use dikala_entities::store::is_outage;
use sea_orm::DbErr;

/// How often a batch is tried when the database is away: after a restart of PostgreSQL every connection of the pool may be
/// dead, and each try finds out about one.
const TRIES: u32 = 8;
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// No try begins later than this after the first: callers wait for the answer.
const TRY_FOR: Duration = Duration::from_secs(10);

/// Counts of the batches of one group commit.
#[derive(Debug, Default)]
pub struct BatchStats {
    batches: AtomicU64,
    items: AtomicU64,
    largest: AtomicU64,
    busy_us: AtomicU64,
}

/// What [`BatchStats`] shows at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchReading {
    pub batches: u64,
    pub items: u64,
    /// Items in the largest batch.
    pub largest: u64,
    /// Microseconds spent in batches, summed.
    pub busy_us: u64,
}

impl BatchStats {
    fn record(&self, items: usize, time: Duration) {
        let items = u64::try_from(items).unwrap_or(u64::MAX);
        self.batches.fetch_add(1, Relaxed);
        self.items.fetch_add(items, Relaxed);
        self.largest.fetch_max(items, Relaxed);
        self.busy_us
            .fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The counts now.
    pub fn reading(&self) -> BatchReading {
        BatchReading {
            batches: self.batches.load(Relaxed),
            items: self.items.load(Relaxed),
            largest: self.largest.load(Relaxed),
            busy_us: self.busy_us.load(Relaxed),
        }
    }
}

/// Writes a batch with `write`, one transaction a call, and hands each part with its outcome to `done`. A batch that fails by
/// its data is halved until what is wrong stands alone; one whose outcome is unknown is written again, which the keys of its
/// items make harmless.
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
            Err(error) if batch.len() > 1 && !is_outage(&error) => {
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
    stats.record(size, began.elapsed());
}

async fn with_retries<T, W>(
    batch: &[T],
    write: &impl AsyncFn(&[T]) -> Result<W, DbErr>,
) -> Result<W, DbErr> {
    let mut tries = 1;
    let began = Instant::now();
    loop {
        match write(batch).await {
            Err(error) if is_outage(&error) && tries < TRIES && began.elapsed() < TRY_FOR => {
                tracing::warn!(%error, tries, "the database is away; trying again");
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
    use crate::testing::postgres_store;

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

    /// A socket belongs to the runtime in which it was opened; the threads that serve HTTP end before others are done.
    #[test]
    fn a_connection_outlives_the_runtime_in_which_it_was_opened() {
        let runtime = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime")
        };
        let first = runtime();
        let Some(store) = first.block_on(postgres_store()) else {
            return;
        };
        let before = first.block_on(process(&store));
        drop(first);
        assert_eq!(runtime().block_on(process(&store)), before);
    }
}
