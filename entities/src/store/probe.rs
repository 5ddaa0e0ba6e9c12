//! Checks that writes can be committed now. A full disk can still be read.
//!
//! A full disk refuses large writes first, and a refused write leaves room in the log for small ones. So after a
//! refusal only a large commit proves that there is room again.

use std::time::{Duration, Instant};

use rand::RngExt;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};

use tokio::sync::oneshot;

use super::{Store, fault::away, runtime::spawn};

/// A successful commit is trusted for this time.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// Size of the test commit: more than a request or an ordinary batch writes.
const ROOM_BYTES: usize = 1024 * 1024;

/// The result of the last try.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// Its time, and true if it succeeded.
    last: Option<(Instant, bool)>,
    /// The number of refusals before the last successful try.
    settled: u64,
}

/// The last confirming commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Confirmation {
    began: Instant,
    /// The time at which its connection was made; none if the commit failed.
    over: Option<Instant>,
}

impl Store {
    /// Await this before acknowledging something that was read as done. PostgreSQL shows rows that a crash takes back, if their
    /// commit [did not wait](super::Durability::AfterConfirm) for the disk. A failover takes back those whose wait for a
    /// synchronous standby was interrupted. Once a later commit is answered, neither can, because
    /// its log is written in order. Concurrent callers share one commit.
    ///
    /// The commit must come from the server that was read, at `read_at` or later. A newer connection may lead to one that has
    /// crashed meanwhile and started again, unless an older connection still lives: a crash ends all of them.
    pub async fn confirm(&self, read_at: Instant) -> Result<(), DbErr> {
        if self.backend() != DbBackend::Postgres {
            return Ok(());
        }
        let asked = Instant::now();
        let mut last = self.confirmation.lock().await;
        if last.is_none_or(|last| last.began < asked) {
            let began = Instant::now();
            let over = self.commit_barrier().await;
            *last = Some(Confirmation {
                began,
                over: over.as_ref().ok().copied(),
            });
            over?;
        }
        let over = last.and_then(|last| last.over);
        drop(last);
        match over {
            Some(born) if born <= read_at || self.has_lived_since(read_at).await => Ok(()),
            _ => Err(away("it is not known whether what was done before lasts")),
        }
    }

    /// True if a reader's connection of before that moment still answers.
    async fn has_lived_since(&self, moment: Instant) -> bool {
        for readers in [&self.critical_reader, &self.reader, &self.api_reader] {
            if readers.has_lived_since(moment).await {
                return true;
            }
        }
        false
    }

    /// True if a call's writes can be committed now. Tried at most every two seconds, and again after any refusal.
    /// The try goes on if the caller stops waiting.
    pub async fn can_commit(&self) -> bool {
        let (store, (tell, told)) = (self.clone(), oneshot::channel());
        spawn(async move {
            let _ = tell.send(store.try_commit().await);
        });
        told.await.unwrap_or(false)
    }

    async fn try_commit(&self) -> bool {
        let mut probe = self.probe.lock().await;
        let refusals = self.signs.refusals();
        let doubted = refusals != probe.settled;
        if let Some((when, could)) = probe.last
            && when.elapsed() < PROBE_EVERY
            && !(could && doubted)
        {
            return could;
        }
        let could = match self.commit_probe(doubted).await {
            Ok(()) => {
                probe.settled = refusals;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "could not commit a probe; writes are refused until a commit succeeds");
                false
            }
        };
        probe.last = Some((Instant::now(), could));
        could
    }

    async fn commit_probe(&self, needs_room: bool) -> Result<(), DbErr> {
        let txn = self.begin_critical().await?;
        let place = match txn.get_database_backend() {
            DbBackend::Postgres => "$1",
            _ => "?1",
        };
        let sql = format!("UPDATE commit_probe SET commits = commits + 1, padding = {place}");
        let padding = needs_room.then(fresh_bytes);
        let update =
            Statement::from_sql_and_values(txn.get_database_backend(), sql, [padding.into()]);
        txn.execute_raw(update).await?;
        txn.commit().await
    }
}

/// Bytes that no database or file system can compress or deduplicate.
fn fresh_bytes() -> Vec<u8> {
    let mut bytes = vec![0; ROOM_BYTES];
    rand::rng().fill(&mut bytes[..]);
    bytes
}
