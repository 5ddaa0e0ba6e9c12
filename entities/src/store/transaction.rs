//! Transactions, and how they ended where nobody said so.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    prelude::async_trait::async_trait,
};
use tokio::sync::Mutex;

use super::{
    fault::{Fault, Leaves, away},
    pool::{Connections, Lease},
    raw::Mark,
    runtime::inside,
};
use crate::batch::{BatchWrite, one_by_one, together};

/// How long the outcome of a commit is asked for whose answer did not come.
const FIND_OUT_WITHIN: Duration = Duration::from_secs(6);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// What a report that reads whole tables may take for one of its statements.
const SNAPSHOT_STATEMENT: Duration = Duration::from_secs(600);

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    /// Reads that see one moment, and may take long.
    Snapshot,
}

impl Kind {
    /// On SQLite a deferred transaction that reads and then writes fails with `SQLITE_BUSY` at once, so writes are
    /// `BEGIN IMMEDIATE`. PostgreSQL says by which mark it knows the transaction.
    pub(super) fn sql(self, backend: DbBackend) -> &'static str {
        match (backend, self) {
            (DbBackend::Postgres, Self::Write) => {
                "BEGIN; SELECT pg_current_xact_id()::text, pg_backend_pid()::text"
            }
            (DbBackend::Postgres, Self::Snapshot) => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '590s'"
            }
            (_, Self::Write) => "BEGIN IMMEDIATE",
            (_, Self::Snapshot) => "BEGIN",
        }
    }
}

/// An open transaction. Dropped without [`commit`](Self::commit), it is rolled back.
pub struct Transaction {
    lease: Mutex<Lease>,
    backend: DbBackend,
    limit: Option<Duration>,
    /// A statement failed: the database may have rolled back already.
    failed: AtomicBool,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

impl Transaction {
    pub(super) fn new(lease: Lease, kind: Kind) -> Self {
        let home = lease.home();
        let limits = home.limits();
        Self {
            backend: home.get_database_backend(),
            limit: match kind {
                Kind::Write => limits.statement,
                Kind::Snapshot => limits.statement.map(|_| SNAPSHOT_STATEMENT),
            },
            lease: Mutex::new(lease),
            failed: AtomicBool::new(false),
        }
    }

    /// Makes everything durable, or nothing. Where the answer does not come, the outcome is found out; an error that is an
    /// [outage](super::is_outage) after that means that it could not be.
    pub async fn commit(self) -> Result<(), DbErr> {
        let mut lease = self.lease.into_inner();
        if self.failed.load(Relaxed) {
            // What failed has said why; the lease rolls back.
            return Err(away("a statement of this transaction failed"));
        }
        let Err(fault) = lease.end("COMMIT").await else {
            return Ok(());
        };
        let home = lease.home().clone();
        let Some(mark) = lease.mark.take().filter(|_| fault.leaves() == Leaves::Cut) else {
            return Err(fault.executing());
        };
        // Its place among the connections is needed to ask.
        drop(lease);
        tracing::warn!(
            ?fault,
            "a commit was not answered; finding out how it ended"
        );
        if home.committed(&mark).await? {
            Ok(())
        } else {
            Err(fault.executing())
        }
    }

    /// Carries out writes, on PostgreSQL in one round trip. Whether each changed as many rows as it was given; where one did
    /// not, the transaction is good for nothing but [`rollback`](Self::rollback).
    pub async fn write_all(&self, writes: &[BatchWrite]) -> Result<bool, DbErr> {
        let writes: Vec<&BatchWrite> = writes.iter().filter(|write| write.count() > 0).collect();
        match (self.backend, writes.as_slice()) {
            (_, []) => Ok(true),
            (DbBackend::Postgres, writes) => {
                let row = self.query_one_raw(together(writes)).await?;
                let row = row.ok_or_else(|| DbErr::RecordNotFound("no counts".to_owned()))?;
                for (number, write) in (1..).zip(writes) {
                    let changed: i64 = row.try_get("", &format!("n{number}"))?;
                    if u64::try_from(changed) != Ok(write.count()) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (_, writes) => {
                let mut changed = 0;
                for statement in one_by_one(writes) {
                    changed += self.execute_raw(statement).await?.rows_affected();
                }
                // None changes more than it is given.
                Ok(changed == writes.iter().map(|write| write.count()).sum::<u64>())
            }
        }
    }

    /// Undoes everything.
    pub async fn rollback(self) -> Result<(), DbErr> {
        let mut lease = self.lease.into_inner();
        if lease.is_spoilt() {
            return Ok(());
        }
        lease.end("ROLLBACK").await.map_err(Fault::executing)
    }

    /// After a statement that failed nothing more is sent: PostgreSQL would refuse it, and SQLite, where it rolled back by
    /// itself, would commit it alone.
    fn refuse_after_failure(&self) -> Result<(), DbErr> {
        if self.failed.load(Relaxed) {
            return Err(away("an earlier statement of this transaction failed"));
        }
        Ok(())
    }

    fn note<T>(&self, answer: Result<T, DbErr>) -> Result<T, DbErr> {
        if answer.is_err() {
            self.failed.store(true, Relaxed);
        }
        answer
    }
}

#[async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        self.backend
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.refuse_after_failure()?;
        self.note(
            self.lease
                .lock()
                .await
                .execute(self.limit, &statement)
                .await,
        )
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.refuse_after_failure()?;
        self.note(self.lease.lock().await.unprepared(self.limit, sql).await)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.refuse_after_failure()?;
        self.note(self.lease.lock().await.one(self.limit, &statement).await)
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.refuse_after_failure()?;
        self.note(self.lease.lock().await.all(self.limit, &statement).await)
    }
}

impl Connections {
    /// How a transaction ended whose `COMMIT` was not answered. One that is still open is ended first: its `COMMIT` may be on
    /// the way, and must not arrive after the question.
    async fn committed(&self, mark: &Mark) -> Result<bool, DbErr> {
        let find_out = async {
            loop {
                match self.outcome(mark).await {
                    Ok(Some(committed)) => return committed,
                    Ok(None) => {}
                    Err(error) => tracing::debug!(%error, "how a commit ended is not known yet"),
                }
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
        };
        inside(async { tokio::time::timeout(FIND_OUT_WITHIN, find_out).await })
            .await
            .map_err(|_| away("a commit was not answered, and how it ended could not be found out"))
    }

    /// None while it is open.
    async fn outcome(&self, mark: &Mark) -> Result<Option<bool>, DbErr> {
        let mut lease = self.lease().await?;
        let limit = self.limits().begin;
        let ask = format!(
            "SELECT pg_xact_status('{}'::xid8) AS status",
            mark.transaction
        );
        let ask = Statement::from_string(DbBackend::Postgres, ask);
        let row = lease.one(limit, &ask).await?;
        let status: Option<String> = row.map_or(Ok(None), |row| row.try_get("", "status"))?;
        match status.as_deref() {
            Some("committed") => Ok(Some(true)),
            Some("aborted") => Ok(Some(false)),
            _ => {
                lease.unprepared(limit, &end_of(mark)).await?;
                Ok(None)
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
