//! Transactions: their beginning and end on each kind of database.

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
    Store,
    fault::{AfterFault, SendFault, away},
    pool::{Connections, PooledConnection},
};
use crate::batch::{BatchWrite, in_blocks, together};

/// Timeout of a statement of a report that reads whole tables.
const SNAPSHOT_STATEMENT: Duration = Duration::from_secs(600);

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionKind {
    Write,
    /// A write for many tenants, which waits only briefly for a locked row.
    Shared,
    /// Reads of one snapshot, which may take long.
    Snapshot,
}

impl TransactionKind {
    /// On SQLite a deferred transaction that reads and then writes fails with `SQLITE_BUSY` at once, so writes are
    /// `BEGIN IMMEDIATE`.
    fn sql(self, backend: DbBackend) -> &'static str {
        match (backend, self) {
            (DbBackend::Postgres, Self::Write) => "BEGIN",
            (DbBackend::Postgres, Self::Shared) => "BEGIN; SET LOCAL lock_timeout = '1s'",
            (DbBackend::Postgres, Self::Snapshot) => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '590s'"
            }
            (_, Self::Write | Self::Shared) => "BEGIN IMMEDIATE",
            (_, Self::Snapshot) => "BEGIN",
        }
    }
}

impl Store {
    /// Begins a write transaction, except for calls and credit.
    pub async fn begin(&self) -> Result<Transaction, DbErr> {
        self.writer.begin(TransactionKind::Write).await
    }

    pub async fn begin_critical(&self) -> Result<Transaction, DbErr> {
        self.critical.begin(TransactionKind::Write).await
    }

    /// Like [`begin`](Self::begin), for the rows of many tenants. It waits at most one second for a locked row, see
    /// [`is_locked_out`](super::is_locked_out).
    pub async fn begin_shared(&self) -> Result<Transaction, DbErr> {
        self.writer.begin(TransactionKind::Shared).await
    }

    /// Like [`begin_critical`](Self::begin_critical), for the rows of many tenants.
    pub async fn begin_critical_shared(&self) -> Result<Transaction, DbErr> {
        self.critical.begin(TransactionKind::Shared).await
    }

    /// Begins a read-only transaction on one snapshot, which may take minutes.
    pub async fn begin_snapshot(&self) -> Result<Transaction, DbErr> {
        self.reader.begin(TransactionKind::Snapshot).await
    }
}

impl Connections {
    pub(super) async fn begin(&self, kind: TransactionKind) -> Result<Transaction, DbErr> {
        let mut connection = self.acquire_begun(kind.sql(self.backend())).await?;
        if kind != TransactionKind::Snapshot {
            connection.writes();
        }
        Ok(Transaction::new(connection, kind))
    }
}

/// An open transaction. Dropping it without [`commit`](Self::commit) rolls it back.
pub struct Transaction {
    connection: Mutex<PooledConnection>,
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
    fn new(connection: PooledConnection, kind: TransactionKind) -> Self {
        let home = connection.home();
        let limits = home.limits();
        Self {
            backend: home.backend(),
            limit: match kind {
                TransactionKind::Write | TransactionKind::Shared => limits.statement,
                TransactionKind::Snapshot => limits.statement.map(|_| SNAPSHOT_STATEMENT),
            },
            connection: Mutex::new(connection),
            failed: AtomicBool::new(false),
        }
    }

    /// Commits all or nothing. If no answer comes, the server's process is ended, so that nothing is committed later,
    /// and the error is [transient](super::is_transient). The outcome is open then: the caller looks for its rows by
    /// their keys, in a transaction that it [confirms](Self::confirm). A transaction number would not tell the
    /// outcome, because PostgreSQL reuses unflushed numbers after a crash.
    pub async fn commit(self) -> Result<(), DbErr> {
        let mut connection = self.connection.into_inner();
        if self.failed.load(Relaxed) {
            // The failed statement returned its reason; dropping rolls back.
            return Err(away("a statement of this transaction failed"));
        }
        let Err(fault) = connection.end("COMMIT").await else {
            return Ok(());
        };
        let Some(process) = connection
            .writer
            .take()
            .filter(|_| fault.after_fault() == AfterFault::Cut)
        else {
            return Err(fault.executing());
        };
        tracing::warn!(
            ?fault,
            "a commit was not answered; ending its process in the server"
        );
        connection.gone(process).await;
        Err(away("a commit was not answered; its outcome is not known"))
    }

    /// Commits, so that rows read in this transaction are known to last. If the wait for a synchronous standby was
    /// interrupted, PostgreSQL shows rows that are committed on this server only, and a failover takes them back.
    /// Once a later commit of the same server is answered, it cannot.
    pub async fn confirm(self) -> Result<(), DbErr> {
        if self.backend == DbBackend::Postgres {
            let after = "UPDATE commit_probe SET commits = commits + 1";
            self.execute_unprepared(after).await?;
        }
        self.commit().await
    }

    /// Executes writes, on PostgreSQL in one round trip. False if one changed fewer rows than it was given; then the
    /// transaction must be [rolled back](Self::rollback).
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
                for statement in in_blocks(writes) {
                    changed += self.execute_raw(statement).await?.rows_affected();
                }
                // No write changes more rows than it is given.
                Ok(changed == writes.iter().map(|write| write.count()).sum::<u64>())
            }
        }
    }

    pub async fn rollback(self) -> Result<(), DbErr> {
        let mut connection = self.connection.into_inner();
        if connection.is_spoilt() {
            return Ok(());
        }
        connection
            .end("ROLLBACK")
            .await
            .map_err(SendFault::executing)
    }

    /// Sends nothing after a failed statement. PostgreSQL would refuse it, and SQLite may have rolled back by itself
    /// and would commit it alone.
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
            self.connection
                .lock()
                .await
                .execute(self.limit, &statement)
                .await,
        )
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.refuse_after_failure()?;
        self.note(
            self.connection
                .lock()
                .await
                .unprepared(self.limit, sql)
                .await,
        )
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.refuse_after_failure()?;
        self.note(
            self.connection
                .lock()
                .await
                .one(self.limit, &statement)
                .await,
        )
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.refuse_after_failure()?;
        self.note(
            self.connection
                .lock()
                .await
                .all(self.limit, &statement)
                .await,
        )
    }
}
