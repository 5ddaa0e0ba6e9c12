//! The connections to the database, and how a write begins on each kind.
//!
//! SQLite: WAL, `synchronous=FULL`, one writer connection for the whole process (its pool hands it out in the order of
//! asking) and pools of readers that cannot write. PostgreSQL: pools; the ledger and the journal have connections of their
//! own. On both, what a call's opening reads has readers of its own: a crowd of API requests, a page far into a long list,
//! `/metrics` or a sweep cannot starve a call.
//!
//! Write transactions begin here and nowhere else: on SQLite a deferred transaction that reads and then writes fails with
//! `SQLITE_BUSY` at once, so every one is `BEGIN IMMEDIATE`.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::Duration,
};

use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend,
    DbErr, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait, Value,
};

/// How long a write waits for another process's write on the same SQLite file.
const SQLITE_BUSY_TIMEOUT_MS: u64 = 10_000;
/// How long a caller waits for a connection before the store counts as away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements that take longer are marked as slow where they are logged.
const SLOW: Duration = Duration::from_secs(1);
const READERS: u32 = 8;
const POSTGRES_WRITERS: u32 = 8;
const POSTGRES_CORE: u32 = 6;
/// Readers of what calls and bridges need, and nobody else.
const CORE_READERS: u32 = 4;
/// The file of SQLite's log is cut back to this when it begins anew.
const SQLITE_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// A log smaller than this is not worth a checkpoint of its own.
const SQLITE_LOG_SMALL_BYTES: u64 = 4 * 1024 * 1024;

/// The database of one running program.
#[derive(Clone, Debug)]
pub struct Store {
    reader: DatabaseConnection,
    writer: DatabaseConnection,
    core: DatabaseConnection,
    core_reader: DatabaseConnection,
    backend: DbBackend,
    /// Where SQLite's file is.
    file: Option<PathBuf>,
}

/// The database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("database.url must begin with sqlite:// or postgres://")]
    UnknownKind,
    #[error(
        "the database folder {folder:?} cannot be written: {reason}; create it or give this user the right to write there"
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        reason: std::io::Error,
    },
    #[error("the database does not answer: {0}; check database.url and that the server runs")]
    Unreachable(#[source] DbErr),
    #[error(
        "another dikala serves the database {path:?} already; stop it first, or give this one another database.url"
    )]
    Served {
        /// The database's file.
        path: PathBuf,
    },
}

/// The right to serve a database, until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct Reservation(#[expect(dead_code, reason = "held for its lock")] Option<File>);

impl Store {
    /// Connects to `sqlite://path` or `postgres://…`. Makes the SQLite file and its folder if they are not there.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        if let Some(path) = sqlite_file(url) {
            prepare_file(&path)?;
            Self::connect_sqlite(&path)
                .await
                .map_err(StoreError::Unreachable)
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Self::connect_postgres(url)
                .await
                .map_err(StoreError::Unreachable)
        } else {
            Err(StoreError::UnknownKind)
        }
    }

    /// Keeps others from serving the same SQLite file: two processes would take each other's calls for their own. On
    /// PostgreSQL owners and epochs tell nodes apart.
    pub fn reserve(url: &str) -> Result<Reservation, StoreError> {
        let Some(path) = sqlite_file(url) else {
            return Ok(Reservation(None));
        };
        prepare_file(&path)?;
        let mut lock = path.clone().into_os_string();
        lock.push("-serving");
        let file = private_file(Path::new(&lock)).map_err(|reason| unwritable(&path, reason))?;
        match file.try_lock() {
            Ok(()) => Ok(Reservation(Some(file))),
            Err(TryLockError::WouldBlock) => Err(StoreError::Served { path }),
            // A file system without locks: then nobody can be kept off.
            Err(TryLockError::Error(_)) => Ok(Reservation(None)),
        }
    }

    /// The SQLite file that a URL names; none for PostgreSQL.
    pub fn sqlite_file(url: &str) -> Option<PathBuf> {
        sqlite_file(url)
    }

    /// The SQLite file that a URL names and that is not there yet.
    pub fn missing_file(url: &str) -> Option<PathBuf> {
        sqlite_file(url).filter(|path| !path.exists())
    }

    async fn connect_sqlite(file: &Path) -> Result<Self, DbErr> {
        let path = file.display();
        let options = |connections: u32, read_only: bool| {
            let mut options = base_options(format!("sqlite://{path}?mode=rwc"));
            options
                .max_connections(connections)
                .min_connections(1)
                .map_sqlx_sqlite_opts(move |sqlite| {
                    let sqlite = sqlite
                        .busy_timeout(Duration::from_millis(SQLITE_BUSY_TIMEOUT_MS))
                        .pragma("journal_mode", "WAL")
                        .pragma("synchronous", "FULL")
                        .pragma("foreign_keys", "ON")
                        .pragma("temp_store", "MEMORY")
                        .pragma("journal_size_limit", SQLITE_LOG_BYTES.to_string())
                        .statement_cache_capacity(256);
                    // Page caches in KiB. The readers' are small: there are several, and the operating system caches the file.
                    if read_only {
                        sqlite
                            .pragma("query_only", "ON")
                            .pragma("cache_size", "-2000")
                    } else {
                        sqlite.pragma("cache_size", "-16000")
                    }
                });
            options
        };
        // The writer first: it makes the file and switches it to WAL.
        let writer = Database::connect(options(1, false)).await?;
        Ok(Self {
            reader: Database::connect(options(READERS, true)).await?,
            core_reader: Database::connect(options(CORE_READERS, true)).await?,
            core: writer.clone(),
            writer,
            backend: DbBackend::Sqlite,
            file: Some(file.to_owned()),
        })
    }

    async fn connect_postgres(url: &str) -> Result<Self, DbErr> {
        let options = |connections: u32| {
            let mut options = base_options(url.to_owned());
            options
                .max_connections(connections)
                .min_connections(1)
                .map_sqlx_postgres_opts(|postgres| {
                    // What a node held that lost its power or its network is free again after this.
                    postgres.options([("idle_in_transaction_session_timeout", "10000")])
                });
            options
        };
        Ok(Self {
            reader: Database::connect(options(READERS)).await?,
            writer: Database::connect(options(POSTGRES_WRITERS)).await?,
            core: Database::connect(options(POSTGRES_CORE)).await?,
            core_reader: Database::connect(options(CORE_READERS)).await?,
            backend: DbBackend::Postgres,
            file: None,
        })
    }

    /// For reads. On SQLite these connections refuse to write.
    pub fn reader(&self) -> &DatabaseConnection {
        &self.reader
    }

    /// For the short reads, by key, that calls and bridges cannot do without. Nothing else may keep these busy.
    pub fn core_reader(&self) -> &DatabaseConnection {
        &self.core_reader
    }

    /// For schema changes and single statements; transactions begin with [`begin`](Self::begin).
    pub fn writer(&self) -> &DatabaseConnection {
        &self.writer
    }

    /// Which SQL is spoken.
    pub fn backend(&self) -> DbBackend {
        self.backend
    }

    /// Begins a write transaction for everything but calls and credit.
    pub async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        begin_write(&self.writer).await
    }

    /// Begins a write transaction of the ledger or the journal. On PostgreSQL it gives up after a few seconds rather than hold a call up.
    pub async fn begin_core(&self) -> Result<DatabaseTransaction, DbErr> {
        let txn = begin_write(&self.core).await?;
        if self.backend == DbBackend::Postgres {
            txn.execute_unprepared(
                "SET LOCAL lock_timeout = '5s'; SET LOCAL statement_timeout = '10s'",
            )
            .await?;
        }
        Ok(txn)
    }

    /// Whether the database answers now.
    pub async fn ping(&self) -> Result<(), DbErr> {
        for readers in [&self.reader, &self.core_reader] {
            readers
                .query_one_raw(Statement::from_string(self.backend, "SELECT 1"))
                .await?;
        }
        Ok(())
    }

    /// Empties SQLite's log where it has grown, if that can be done now without holding up a commit: its content is copied
    /// into the file beside all readers and writers, and only cutting it off takes the writers' lock, if nobody has it.
    /// Returns how many bytes it had if it was cut off; on PostgreSQL there is nothing to do.
    pub async fn checkpoint(&self) -> Result<Option<u64>, DbErr> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let mut log = file.clone().into_os_string();
        log.push("-wal");
        let bytes = std::fs::metadata(&log).map_or(0, |metadata| metadata.len());
        if bytes < SQLITE_LOG_SMALL_BYTES {
            return Ok(None);
        }
        // A connection of its own, so that nobody waits for it; it does not wait for anybody either.
        let mut options = base_options(format!("sqlite://{}?mode=rw", file.display()));
        options
            .max_connections(1)
            .map_sqlx_sqlite_opts(|sqlite| sqlite.busy_timeout(Duration::ZERO));
        let own = Database::connect(options).await?;
        let emptied = async {
            own.execute_unprepared("PRAGMA wal_checkpoint(PASSIVE)")
                .await?;
            let cut = Statement::from_string(self.backend, "PRAGMA wal_checkpoint(TRUNCATE)");
            let row = own.query_one_raw(cut).await?;
            row.map_or(Ok(1), |row| row.try_get::<i64>("", "busy"))
        };
        let busy = emptied.await;
        own.close().await?;
        Ok((busy? == 0).then_some(bytes))
    }

    /// Closes all connections after what is running on them.
    pub async fn close(&self) {
        for connection in [&self.reader, &self.core_reader, &self.writer, &self.core] {
            if let Err(error) = connection.clone().close().await {
                tracing::warn!(%error, "closing the database");
            }
        }
    }
}

fn base_options(url: String) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    options
        .connect_timeout(CONNECT_TIMEOUT)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // Only the text of statements, without what is bound to them; asked for with `sqlx::query=debug`.
        .sqlx_logging(true)
        .sqlx_logging_level(log::LevelFilter::Debug)
        .sqlx_slow_statements_logging_settings(log::LevelFilter::Debug, SLOW)
        .test_before_acquire(false);
    options
}

async fn begin_write(connection: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let sqlite = connection.get_database_backend() == DbBackend::Sqlite;
    connection
        .begin_with_options(TransactionOptions {
            sqlite_transaction_mode: sqlite.then_some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        })
        .await
}

fn sqlite_file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite://")?;
    Some(path.split('?').next().unwrap_or(path).into())
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn unwritable(path: &Path, reason: std::io::Error) -> StoreError {
    StoreError::Folder {
        folder: folder_of(path),
        reason,
    }
}

/// Makes the database's file, which only its owner may read: callers' numbers and what they said are in it. SQLite gives the
/// files beside it the same rights.
fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let folder = folder_of(path);
    let writable = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        let probe = folder.join(format!(".dikala-write-test-{}", std::process::id()));
        std::fs::write(&probe, b"")?;
        std::fs::remove_file(&probe)?;
        private_file(path).map(drop)
    };
    writable().map_err(|reason| unwritable(path, reason))
}

fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The type of a column in a [`json_rows`] source, as PostgreSQL names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    BigInt,
    Boolean,
}

/// A table source that reads the rows of a batch out of one JSON parameter: `(SELECT …) AS rows`. One parameter keeps a
/// statement's text, and so its plan, the same for batches of any size.
///
/// The parameter is an array of objects with the named columns; [`json_statement`] binds it.
pub fn json_rows(backend: DbBackend, columns: &[(&str, Kind)]) -> String {
    match backend {
        DbBackend::Postgres => {
            let columns: Vec<String> = columns
                .iter()
                .map(|(name, kind)| {
                    let kind = match kind {
                        Kind::Text => "text",
                        Kind::BigInt => "bigint",
                        Kind::Boolean => "boolean",
                    };
                    format!("\"{name}\" {kind}")
                })
                .collect();
            format!(
                "json_to_recordset($1::json) AS rows({})",
                columns.join(", ")
            )
        }
        _ => {
            let columns: Vec<String> = columns
                .iter()
                .map(|(name, _)| format!("value->>'{name}' AS \"{name}\""))
                .collect();
            format!("(SELECT {} FROM json_each(?1)) AS rows", columns.join(", "))
        }
    }
}

/// A statement whose only parameter is a batch for [`json_rows`].
pub fn json_statement<T: serde::Serialize>(
    backend: DbBackend,
    sql: String,
    batch: &[T],
) -> Result<Statement, DbErr> {
    let batch = serde_json::to_string(batch).map_err(|e| DbErr::Json(e.to_string()))?;
    Ok(Statement::from_sql_and_values(
        backend,
        sql,
        [Value::from(batch)],
    ))
}
