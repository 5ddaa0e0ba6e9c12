//! Breaks off what SQLite works on for too long. SQLite is in this process and knows no deadlines of its own; it asks from
//! time to time whether it may go on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sea_orm::{SqlxError, sqlx::sqlite::SqliteConnection};

/// Steps of SQLite's machine between two questions: well below a millisecond.
const STEPS: i32 = 10_000;
/// Nothing is to be broken off.
const NEVER: u64 = u64::MAX;

/// The deadline of what a connection works on. Cheap to clone; all clones share it.
#[derive(Clone, Debug)]
pub(super) struct Fuse {
    longest: Duration,
    made: Instant,
    /// Milliseconds since it was made.
    blows_at: Arc<AtomicU64>,
}

impl Fuse {
    /// One that breaks off statements of a connection after that time.
    pub(super) async fn of(
        connection: &mut SqliteConnection,
        longest: Duration,
    ) -> Result<Self, SqlxError> {
        let fuse = Self {
            longest,
            made: Instant::now(),
            blows_at: Arc::new(AtomicU64::new(NEVER)),
        };
        let asked = fuse.clone();
        connection
            .lock_handle()
            .await?
            .set_progress_handler(STEPS, move || !asked.has_blown());
        Ok(fuse)
    }

    /// A statement begins. Its deadline stays after whoever asked for it has left: so does its work.
    pub(super) fn light(&self) {
        let at = self.elapsed_ms().saturating_add(millis(self.longest));
        self.blows_at.store(at, Relaxed);
    }

    fn has_blown(&self) -> bool {
        self.elapsed_ms() >= self.blows_at.load(Relaxed)
    }

    fn elapsed_ms(&self) -> u64 {
        millis(self.made.elapsed())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NEVER)
}
