//! The end of a write transaction whose connection is lost. The server may still receive or execute its `COMMIT`. Its
//! process is ended before any search for its rows: rows that are missing then are not committed later.
//!
//! A process that is committing is left alone. It may wait for a synchronous standby. If that wait is cancelled,
//! PostgreSQL commits on this server only, which all clients see and a failover takes back.

use std::time::Duration;

use sea_orm::{DbBackend, DbErr, Statement};
use tokio::sync::oneshot;

use super::PooledConnection;
use crate::store::{raw::ServerProcess, runtime::spawn};

/// The time for which a commit without an answer waits for the end of its process.
const END_WITHIN: Duration = Duration::from_secs(6);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Pause between two checks if an abandoned transaction is still committing.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The state of a process of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessState {
    /// It is gone: what it committed is there, and it commits nothing more.
    Gone,
    Committing,
    /// It was told to end.
    Ending,
}

impl PooledConnection {
    /// Returns when the process of a lost connection is gone, or after [`END_WITHIN`]. The search continues if the
    /// caller stops waiting: the permit is kept while the process commits.
    pub(in crate::store) async fn gone(mut self, process: ServerProcess) {
        let (tell, told) = oneshot::channel();
        spawn(async move {
            let gone = tokio::time::timeout(END_WITHIN, self.until_gone(&process)).await;
            // The caller may have left.
            let _ = tell.send(());
            if gone.is_err() {
                self.stay_while_committing(&process).await;
            }
        });
        let _ = told.await;
    }

    async fn until_gone(&mut self, process: &ServerProcess) {
        loop {
            match self.standing(process).await {
                Ok(ProcessState::Gone) => return,
                Ok(ProcessState::Committing | ProcessState::Ending) => {}
                Err(error) => {
                    tracing::debug!(%error, "could not check whether an abandoned transaction has ended; trying again")
                }
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    /// Ends an abandoned transaction, so that it holds no locks; while it commits, its permit is kept instead. If the
    /// server is unreachable, its own timeouts end the transaction.
    pub(super) async fn stay_while_committing(mut self, process: &ServerProcess) {
        loop {
            match self.standing(process).await {
                Ok(ProcessState::Committing) => tokio::time::sleep(LOOK_EVERY).await,
                Ok(ProcessState::Gone | ProcessState::Ending) => return,
                Err(error) => {
                    tracing::debug!(%error, "could not check an abandoned transaction; the server's timeouts end it");
                    return;
                }
            }
        }
    }

    /// Ends the process unless it commits, and returns its state. On another server no process has the same start
    /// time.
    async fn standing(&mut self, process: &ServerProcess) -> Result<ProcessState, DbErr> {
        const SQL: &str = "SELECT CASE WHEN wait_event IN ('SyncRep', 'WALSync', 'WALWrite') \
            OR state = 'active' AND query = 'COMMIT' THEN true ELSE NOT pg_terminate_backend(pid) END AS commits \
            FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2::text::timestamptz";
        self.reconnect().await?;
        let limit = self.home().limits().begin;
        let values = [process.id.into(), process.started_at.as_str().into()];
        let ask = Statement::from_sql_and_values(DbBackend::Postgres, SQL, values);
        let row = self.one(limit, &ask).await?;
        let commits: Option<bool> = row.map(|row| row.try_get("", "commits")).transpose()?;
        Ok(match commits {
            None => ProcessState::Gone,
            Some(true) => ProcessState::Committing,
            Some(false) => ProcessState::Ending,
        })
    }
}
