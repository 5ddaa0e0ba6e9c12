//! Interrupts SQLite statements that take too long. SQLite runs in this process and knows no timeouts, but calls back
//! regularly.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sea_orm::{SqlxError, sqlx::sqlite::SqliteConnection};

/// Steps of SQLite's virtual machine between two callbacks: well below a millisecond.
const STEPS: i32 = 10_000;
/// No statement has a deadline.
const NEVER: u64 = u64::MAX;

/// The deadline of a connection's present statement. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct StatementTimeout {
    longest: Duration,
    created_at: Instant,
    /// Milliseconds since `made`.
    expires_at: Arc<AtomicU64>,
}

impl StatementTimeout {
    /// Installs a timeout for the statements of a connection.
    pub(super) async fn of(
        connection: &mut SqliteConnection,
        longest: Duration,
    ) -> Result<Self, SqlxError> {
        let timeout = Self {
            longest,
            created_at: Instant::now(),
            expires_at: Arc::new(AtomicU64::new(NEVER)),
        };
        let watched = timeout.clone();
        connection
            .lock_handle()
            .await?
            .set_progress_handler(STEPS, move || !watched.has_expired());
        Ok(timeout)
    }

    /// Starts the timeout of a statement. The deadline stays after the caller left, because the work goes on.
    pub(super) fn start_timeout(&self) {
        let at = self.elapsed_ms().saturating_add(millis(self.longest));
        self.expires_at.store(at, Relaxed);
    }

    fn has_expired(&self) -> bool {
        self.elapsed_ms() >= self.expires_at.load(Relaxed)
    }

    fn elapsed_ms(&self) -> u64 {
        millis(self.created_at.elapsed())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NEVER)
}
