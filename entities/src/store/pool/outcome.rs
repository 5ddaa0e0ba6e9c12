//! How a transaction ended where nobody said so, and the end of one that nobody holds any more.
//!
//! A commit that waits for a synchronous standby is left waiting: who breaks that off makes it a commit of this server alone, which
//! everybody sees and a failover takes back. And where one is found committed, somebody else may have broken it off; so it is
//! believed after a later commit was answered, which the standby cannot have without it.

use std::time::Duration;

use sea_orm::{DbBackend, DbErr, Statement};
use tokio::sync::oneshot;

use super::Lease;
use crate::store::{
    fault::{SendFault, away},
    raw::{BEGIN_MARKED, Mark},
    runtime::spawn,
};

/// How long the outcome of a commit is asked for whose answer did not come.
const FIND_OUT_WITHIN: Duration = Duration::from_secs(6);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How often it is looked whether a transaction that nobody waits for any more still waits for a standby.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Open,
    /// It waits for a synchronous standby, with all that it locked.
    Waits,
    /// Whether it was committed, here at least.
    Ended(bool),
    /// Its number may be another's.
    Unknown,
}

impl Lease {
    /// How a transaction ended whose `COMMIT` was not answered. One that is still open is ended first: its `COMMIT` may be on
    /// the way, and must not arrive after the question. Where that cannot be known, who repeats it finds what it wrote by its keys.
    /// Who stops waiting does not stop the search: the seat is kept for as long as the transaction waits for a standby.
    pub(in crate::store) async fn committed(mut self, mark: Mark) -> Result<bool, DbErr> {
        let (tell, told) = oneshot::channel();
        spawn(async move {
            let found = tokio::time::timeout(FIND_OUT_WITHIN, self.find_out(&mark)).await;
            let found = found.unwrap_or_else(|_| Err(not_found_out()));
            let is_known = found.is_ok();
            // Whoever asked may have left.
            let _ = tell.send(found);
            if !is_known {
                self.stay_until_ended(&mark).await;
            }
        });
        told.await.unwrap_or_else(|_| Err(not_found_out()))
    }

    async fn find_out(&mut self, mark: &Mark) -> Result<bool, DbErr> {
        loop {
            let outcome = match self.outcome(mark).await {
                Ok(Outcome::Ended(true)) => self.prove(mark).await,
                other => other,
            };
            match outcome {
                Ok(Outcome::Ended(committed)) => return Ok(committed),
                Ok(Outcome::Open | Outcome::Waits) => {}
                Ok(Outcome::Unknown) => {
                    return Err(away(
                        "a commit was not answered, and another server has taken over since: whether it has it is not known",
                    ));
                }
                Err(error) => tracing::debug!(%error, "how a commit ended is not known yet"),
            }
            tokio::time::sleep(ASK_AGAIN_AFTER).await;
        }
    }

    /// A server that took over gives numbers again that it had not heard of: there they say nothing.
    async fn outcome(&mut self, mark: &Mark) -> Result<Outcome, DbErr> {
        self.reconnect().await?;
        let limit = self.home().limits().begin;
        let ask = format!(
            "SELECT CASE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) WHEN '{}' THEN pg_xact_status('{}'::xid8) \
             ELSE 'elsewhere' END AS status",
            mark.timeline, mark.transaction
        );
        let ask = Statement::from_string(DbBackend::Postgres, ask);
        let row = self.one(limit, &ask).await?;
        let status: Option<String> = row.map_or(Ok(None), |row| row.try_get("", "status"))?;
        match status.as_deref() {
            Some("committed") => Ok(Outcome::Ended(true)),
            Some("aborted") => Ok(Outcome::Ended(false)),
            Some("elsewhere") => Ok(Outcome::Unknown),
            _ => {
                let ended = self.one(limit, &end_of(mark)).await?;
                let waits = ended.map_or(Ok(false), |row| row.try_get("", "waits"))?;
                Ok(if waits { Outcome::Waits } else { Outcome::Open })
            }
        }
    }

    /// Commits something after a transaction that is committed here, on the same server.
    async fn prove(&mut self, mark: &Mark) -> Result<Outcome, DbErr> {
        let begun = self.begin(BEGIN_MARKED).await;
        begun.map_err(SendFault::executing)?;
        let here = self.mark.as_ref().map(|mark| mark.timeline.as_str());
        if here != Some(mark.timeline.as_str()) {
            return Ok(Outcome::Unknown);
        }
        let limit = self.home().limits().statement;
        self.unprepared(limit, COMMIT_AFTER).await?;
        self.end("COMMIT").await.map_err(SendFault::executing)?;
        Ok(Outcome::Ended(true))
    }

    /// Ends a transaction that nobody holds any more, so that it keeps no locks, or keeps its seat while it waits for a standby. If
    /// the server cannot be asked, it ends the transaction when it has waited for long enough.
    pub(super) async fn stay_until_ended(mut self, mark: &Mark) {
        loop {
            match self.outcome(mark).await {
                Ok(Outcome::Waits) => tokio::time::sleep(LOOK_EVERY).await,
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "an abandoned transaction is left to the server");
                    return;
                }
            }
        }
    }
}

fn not_found_out() -> DbErr {
    away("a commit was not answered, and how it ended could not be found out")
}

/// A commit of this waits for a standby as any other does.
const COMMIT_AFTER: &str = "UPDATE commit_probe SET commits = commits + 1";

/// Whether it waits for a standby; if not, it is ended. The mark is PostgreSQL's own answer: digits. A process that meanwhile does
/// something else is left alone.
fn end_of(mark: &Mark) -> Statement {
    let sql = format!(
        "SELECT CASE wait_event WHEN 'SyncRep' THEN true ELSE NOT pg_terminate_backend(pid) END AS waits \
         FROM pg_stat_activity WHERE pid = {} AND backend_xid = '{}'::xid8::xid",
        mark.process, mark.transaction
    );
    Statement::from_string(DbBackend::Postgres, sql)
}
