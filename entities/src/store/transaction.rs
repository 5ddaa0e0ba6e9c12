//! Transactions: their beginning and end on each kind of database.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    prelude::async_trait::async_trait,
};
use tokio::sync::Mutex;

use super::{
    BARRIER, Store,
    fault::{AfterFault, SendFault, away, found_other_rows},
    pool::{Connections, PooledConnection},
};
use crate::batch::{ArrayStatement, BatchWrite, as_transaction, at_once, in_blocks, together};

/// Timeout of a statement of a report that reads whole tables.
const SNAPSHOT_STATEMENT: Duration = Duration::from_secs(600);

/// A write for many tenants waits this long for a locked row.
const LOCK_TIMEOUT: (&str, &str) = ("lock_timeout", "1s");
const SHARED: &str = "BEGIN; SET LOCAL lock_timeout = '1s'";
const SHARED_PENDING: &str =
    "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL synchronous_commit = off";

/// The moment from which a commit survives a crash of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the commit returns.
    OnReturn,
    /// When its [`PendingCommit`] is confirmed. The commit itself does not wait for the disk, so its locks are held for a
    /// shorter time. Until it is confirmed others see its rows, and a crash may take them back. On SQLite, which has one
    /// writer, this is the same as `OnReturn`.
    AfterConfirm,
}

/// A commit that may not be durable yet. Nobody may be told of it before it is confirmed.
#[derive(Debug)]
#[must_use = "a crash of the database may take it back until it is confirmed"]
pub struct PendingCommit(Option<PooledConnection>);

impl PendingCommit {
    /// Of a commit that is durable.
    pub fn durable() -> Self {
        Self(None)
    }

    /// Returns when the commit survives a crash. An error leaves the outcome open, as after [`Transaction::commit`].
    ///
    /// A later commit of the same server process proves it, because PostgreSQL's log is written in order and a crash ends all
    /// processes. A commit over another connection might be one of a server that has crashed and started again.
    pub async fn confirm(self) -> Result<(), DbErr> {
        match self.0 {
            Some(connection) => connection.commit_barrier().await.map(drop),
            None => Ok(()),
        }
    }
}

/// The purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionKind {
    Write,
    /// A write for many tenants, which waits only briefly for a locked row.
    Shared,
    /// The same, with a commit that does not wait for the disk.
    SharedPending,
    /// Reads of one snapshot, which may take long.
    Snapshot,
}

impl TransactionKind {
    /// On SQLite a deferred transaction that reads and then writes fails with `SQLITE_BUSY` at once, so writes are
    /// `BEGIN IMMEDIATE`.
    fn sql(self, backend: DbBackend) -> &'static str {
        match (backend, self) {
            (DbBackend::Postgres, Self::Write) => "BEGIN",
            (DbBackend::Postgres, Self::Shared) => SHARED,
            (DbBackend::Postgres, Self::SharedPending) => SHARED_PENDING,
            (DbBackend::Postgres, Self::Snapshot) => {
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '590s'"
            }
            (_, Self::Write | Self::Shared | Self::SharedPending) => "BEGIN IMMEDIATE",
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

    /// Like [`begin_critical_shared`](Self::begin_critical_shared), for [`Transaction::commit_pending`].
    pub async fn begin_critical_pending(&self) -> Result<Transaction, DbErr> {
        self.critical.begin(TransactionKind::SharedPending).await
    }

    /// Executes writes in a transaction of their own, in one round trip, but for many rows on SQLite. It waits at most one
    /// second for a locked row. `None`, and nothing is changed, if a write changed fewer rows than it was given. If no answer comes,
    /// the outcome is open, as after [`Transaction::commit`].
    pub async fn write_at_once(
        &self,
        writes: &[BatchWrite],
        durable: Durability,
    ) -> Result<Option<PendingCommit>, DbErr> {
        let writes = with_rows(writes);
        if writes.is_empty() {
            return Ok(Some(PendingCommit::durable()));
        }
        let written = match self.backend() {
            DbBackend::Postgres => self.write_as_one_statement(&writes, durable).await,
            _ => self.write_in_transaction(&writes).await,
        };
        match written {
            Err(error) if found_other_rows(&error) => Ok(None),
            written => written,
        }
    }

    async fn write_in_transaction(
        &self,
        writes: &[&BatchWrite],
    ) -> Result<Option<PendingCommit>, DbErr> {
        if let Some(statement) = as_transaction(writes) {
            let connection = self.critical.acquire().await?;
            connection.transaction(&statement).await?;
            return Ok(Some(PendingCommit::durable()));
        }
        let txn = self.begin_critical_shared().await?;
        if txn.write(writes).await? {
            return txn.commit_pending().await.map(Some);
        }
        txn.rollback().await.map(|()| None)
    }

    async fn write_as_one_statement(
        &self,
        writes: &[&BatchWrite],
        durable: Durability,
    ) -> Result<Option<PendingCommit>, DbErr> {
        let settings: &[_] = match durable {
            Durability::OnReturn => &[LOCK_TIMEOUT],
            Durability::AfterConfirm => &[LOCK_TIMEOUT, ("synchronous_commit", "off")],
        };
        let statement = at_once(writes, settings);
        let mut connection = self.critical.acquire().await?;
        connection.writes();
        let limit = connection.home().limits().statement;
        match connection.arrays(limit, &statement).await {
            Ok(_) => Ok(Some(PendingCommit(
                (durable == Durability::AfterConfirm).then_some(connection),
            ))),
            Err(fault) => Err(connection.unanswered(fault).await),
        }
    }

    /// Commits over a connection for calls and credit. Returns the time at which that connection was made.
    pub(super) async fn commit_barrier(&self) -> Result<Instant, DbErr> {
        self.critical.acquire().await?.commit_barrier().await
    }

    /// Begins a read-only transaction on one snapshot, which may take minutes.
    pub async fn begin_snapshot(&self) -> Result<Transaction, DbErr> {
        self.reader.begin(TransactionKind::Snapshot).await
    }
}

/// The writes that write something.
fn with_rows(writes: &[BatchWrite]) -> Vec<&BatchWrite> {
    writes.iter().filter(|write| write.count() > 0).collect()
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

impl PooledConnection {
    /// Makes a commit that waits for everything before it in the log. Returns the time at which this connection was made.
    async fn commit_barrier(mut self) -> Result<Instant, DbErr> {
        let barrier = ArrayStatement {
            sql: BARRIER.to_owned(),
            parameters: Vec::new(),
        };
        self.writes();
        let (born, limit) = (self.born(), self.home().limits().statement);
        match self.arrays(limit, &barrier).await {
            Ok(_) => Ok(born),
            Err(fault) => Err(self.unanswered(fault).await),
        }
    }

    /// The error of a commit with this fault. If no answer came, the server's process is ended first, so that nothing is
    /// committed later.
    async fn unanswered(mut self, fault: SendFault) -> DbErr {
        let Some(process) = self
            .writer
            .take()
            .filter(|_| fault.after_fault() == AfterFault::Cut)
        else {
            return fault.executing();
        };
        tracing::warn!(
            ?fault,
            "a commit was not answered; ending its process in the server"
        );
        self.gone(process).await;
        away("a commit was not answered; its outcome is not known")
    }
}

/// An open transaction. Dropping it without [`commit`](Self::commit) rolls it back.
pub struct Transaction {
    kind: TransactionKind,
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
            kind,
            backend: home.backend(),
            limit: match kind {
                TransactionKind::Write
                | TransactionKind::Shared
                | TransactionKind::SharedPending => limits.statement,
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
        self.end().await.map(drop)
    }

    /// Commits. Of a transaction of [`Store::begin_critical_pending`] the commit is not durable before it is confirmed.
    pub async fn commit_pending(self) -> Result<PendingCommit, DbErr> {
        let is_pending =
            self.kind == TransactionKind::SharedPending && self.backend == DbBackend::Postgres;
        let connection = self.end().await?;
        Ok(PendingCommit(is_pending.then_some(connection)))
    }

    async fn end(self) -> Result<PooledConnection, DbErr> {
        let mut connection = self.connection.into_inner();
        if self.failed.load(Relaxed) {
            // The failed statement returned its reason; dropping rolls back.
            return Err(away("a statement of this transaction failed"));
        }
        match connection.end("COMMIT").await {
            Ok(()) => Ok(connection),
            Err(fault) => Err(connection.unanswered(fault).await),
        }
    }

    /// Commits, so that rows read in this transaction are known to last, like [`Store::confirm`].
    pub async fn confirm(self) -> Result<(), DbErr> {
        if self.backend == DbBackend::Postgres {
            self.execute_unprepared(BARRIER).await?;
        }
        self.commit().await
    }

    /// Executes writes, on PostgreSQL in one round trip. False if one changed fewer rows than it was given; then the
    /// transaction must be [rolled back](Self::rollback).
    pub async fn write_all(&self, writes: &[BatchWrite]) -> Result<bool, DbErr> {
        match with_rows(writes).as_slice() {
            [] => Ok(true),
            writes => self.write(writes).await,
        }
    }

    async fn write(&self, writes: &[&BatchWrite]) -> Result<bool, DbErr> {
        match self.backend {
            DbBackend::Postgres => {
                self.refuse_after_failure()?;
                let mut connection = self.connection.lock().await;
                let counted = connection.arrays(self.limit, &together(writes)).await;
                drop(connection);
                let row = self.note(counted.map_err(SendFault::executing))?;
                for (number, write) in (1..).zip(writes) {
                    let changed: i64 = row.try_get("", &format!("n{number}"))?;
                    if u64::try_from(changed) != Ok(write.count()) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => {
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
