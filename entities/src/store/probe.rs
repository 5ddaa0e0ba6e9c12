//! Whether a write can be committed now. A disk that is full still reads.
//!
//! One that is full refuses what is large before what is small, and a write that was refused leaves room in the log that a small
//! one fits into. So after anything was refused it takes a large commit to believe that there is room again.

use std::time::{Duration, Instant};

use rand::RngExt;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};

use tokio::sync::oneshot;

use super::{Store, fault::away, runtime::spawn};

/// How long it is believed that a write can be committed because one was.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// What is committed to see that there is room again: more than a request or an ordinary batch writes.
const ROOM_BYTES: usize = 1024 * 1024;

/// What the last try to commit showed.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// When that was, and whether it was possible.
    last: Option<(Instant, bool)>,
    /// So many refusals had been seen before a try that succeeded.
    settled: u64,
}

/// When the last commit began that was to confirm what was read before, and whether it succeeded.
pub(super) type Confirmation = Option<(Instant, bool)>;

impl Store {
    /// To be awaited before something is acknowledged because it was read that it is done. What PostgreSQL shows may be committed on
    /// this server alone, where the waiting for a synchronous standby was broken off, and a failover takes it back; but not once a
    /// later commit was answered. Those who ask at the same time share one.
    pub async fn confirm(&self) -> Result<(), DbErr> {
        if self.backend() != DbBackend::Postgres {
            return Ok(());
        }
        let asked = Instant::now();
        let mut last = self.confirmation.lock().await;
        match *last {
            Some((began, true)) if began >= asked => Ok(()),
            Some((began, false)) if began >= asked => {
                Err(away("it is not known whether what was done before lasts"))
            }
            _ => {
                let began = Instant::now();
                let confirmed = self.commit_probe(false).await;
                *last = Some((began, confirmed.is_ok()));
                confirmed
            }
        }
    }

    /// Whether what a call writes can be committed now; tried every two seconds at most, however often it is asked, and anew as
    /// soon as anything was refused. Who stops waiting for the answer does not stop the try.
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
                tracing::warn!(%error, "nothing can be committed");
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

/// Nothing that a database or a file system could make smaller, or has already.
fn fresh_bytes() -> Vec<u8> {
    let mut bytes = vec![0; ROOM_BYTES];
    rand::rng().fill(&mut bytes[..]);
    bytes
}
