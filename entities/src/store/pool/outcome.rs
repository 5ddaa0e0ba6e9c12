//! How a transaction ended where nobody said so, and the end of one that nobody holds any more.

use std::time::Duration;

use sea_orm::{DbBackend, DbErr, Statement};

use super::Connections;
use crate::store::{fault::away, raw::Mark, runtime::inside};

/// How long the outcome of a commit is asked for whose answer did not come.
const FIND_OUT_WITHIN: Duration = Duration::from_secs(6);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// How a transaction stands.
enum Outcome {
    Open,
    /// Whether it was committed.
    Ended(bool),
    /// Its number may be another's.
    Unknown,
}

impl Connections {
    /// How a transaction ended whose `COMMIT` was not answered. One that is still open is ended first: its `COMMIT` may be on
    /// the way, and must not arrive after the question. Where that cannot be known, who repeats it finds what it wrote by its keys.
    pub(in crate::store) async fn committed(&self, mark: &Mark) -> Result<bool, DbErr> {
        let find_out = async {
            loop {
                match self.outcome(mark).await {
                    Ok(Outcome::Ended(committed)) => return Ok(committed),
                    Ok(Outcome::Open) => {}
                    Ok(Outcome::Unknown) => {
                        return Err(away(
                            "a commit was not answered, and another server has taken over since: whether it has it is not known",
                        ));
                    }
                    Err(error) => tracing::debug!(%error, "how a commit ended is not known yet"),
                }
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        };
        inside(async { tokio::time::timeout(FIND_OUT_WITHIN, find_out).await })
            .await
            .unwrap_or_else(|_| {
                Err(away(
                    "a commit was not answered, and how it ended could not be found out",
                ))
            })
    }

    /// A server that took over gives numbers again that it had not heard of: there they say nothing.
    async fn outcome(&self, mark: &Mark) -> Result<Outcome, DbErr> {
        let mut lease = self.lease().await?;
        let limit = self.limits().begin;
        let ask = format!(
            "SELECT CASE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) WHEN '{}' THEN pg_xact_status('{}'::xid8) \
             ELSE 'elsewhere' END AS status",
            mark.timeline, mark.transaction
        );
        let ask = Statement::from_string(DbBackend::Postgres, ask);
        let row = lease.one(limit, &ask).await?;
        let status: Option<String> = row.map_or(Ok(None), |row| row.try_get("", "status"))?;
        match status.as_deref() {
            Some("committed") => Ok(Outcome::Ended(true)),
            Some("aborted") => Ok(Outcome::Ended(false)),
            Some("elsewhere") => Ok(Outcome::Unknown),
            _ => {
                lease.unprepared(limit, &end_of(mark)).await?;
                Ok(Outcome::Open)
            }
        }
    }

    /// Ends a transaction that nobody holds any more, so that it keeps no locks. If this does not succeed, the server ends it
    /// when it has waited for long enough.
    pub(super) async fn end_abandoned(&self, mark: &Mark) {
        let Ok(mut lease) = self.lease().await else {
            return;
        };
        let limit = self.limits().begin;
        if let Err(error) = lease.unprepared(limit, &end_of(mark)).await {
            tracing::debug!(%error, "an abandoned transaction is left to the server");
        }
    }
}

/// The mark is PostgreSQL's own answer: digits. A process that meanwhile does something else is left alone.
fn end_of(mark: &Mark) -> String {
    format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = {} AND backend_xid = '{}'::xid8::xid",
        mark.process, mark.transaction
    )
}
