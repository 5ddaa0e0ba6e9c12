//! The database's connections, and how a write transaction begins on each kind of database.
//!
//! SQLite: WAL, `synchronous=FULL`, one writer connection for the process, and pools of read-only connections. The
//! writer is granted in order, but among writes that are no call or credit only one may wait for it. So a call waits
//! for one other write at most. PostgreSQL: pools, and connections of its own for the ledger.
//!
//! Both have separate readers for calls' openings, so that API requests, long lists or sweeps cannot starve a call.
//! API reads have their own readers and a timeout, so that sweeps and deliveries do not wait for them.
//!
//! Everything sent to PostgreSQL has a timeout on this side: a link that drops packets would stay silent for a
//! quarter of an hour. The server's own timeouts are a little shorter, so that on a good link the server is the one
//! that refuses.

mod durability;
mod fault;
mod file;
mod locked;
mod notices;
mod pool;
mod probe;
mod raw;
mod reservation;
mod rights;
mod runtime;
mod schema;
mod single;
mod statement_timeout;
mod transaction;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, Statement,
    sqlx::{ConnectOptions as _, postgres::PgConnectOptions, sqlite::SqliteConnectOptions},
};
use tokio::sync::Mutex;

pub use self::{
    durability::unsafe_settings_sql,
    fault::{in_words, is_locked_out, is_transient, lost_a_race, took_too_long},
    locked::SharedRows,
    notices::NoticeConnection,
    pool::{Connections, PoolReading},
    reservation::Reservation,
    transaction::{Durability, PendingCommit, Transaction},
};
use self::{
    fault::{PoolSignals, SendFault},
    file::{folder_of, prepare_file, probe_name, resolved, unwritable},
    notices::NoticeOptions,
    pool::ConnectionTimeouts,
    probe::{Confirmation, Probe},
    raw::Driver,
};

/// Timeout of a write that waits for another process's write on the same SQLite file.
const SQLITE_BUSY_TIMEOUT_MS: u64 = 10_000;
/// Prepared statements kept by an SQLite connection.
const SQLITE_STATEMENTS: usize = 256;
const READERS: u32 = 8;
const POSTGRES_WRITERS: u32 = 8;
const POSTGRES_CRITICAL: u32 = 6;
/// Readers of the tenants' API: the number of its statements that run at once, beside calls on the same cores.
pub const API_READERS: u32 = 4;
/// Timeout of a statement on these readers. PostgreSQL enforces it; SQLite is interrupted.
const API_STATEMENT: Duration = Duration::from_secs(3);
const SQLITE_LIMITS: ConnectionTimeouts = ConnectionTimeouts {
    acquire: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    statement: None,
    begin: None,
};
const POSTGRES_LIMITS: ConnectionTimeouts = ConnectionTimeouts {
    acquire: Duration::from_secs(5),
    connect: Duration::from_secs(3),
    statement: Some(Duration::from_secs(7)),
    begin: Some(Duration::from_secs(3)),
};
/// Time for the first answer of PostgreSQL at the start of a program, and tries of each first connection: a busy machine
/// is no reason to refuse a command.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
const FIRST_TRIES: u32 = 3;
const FIRST_TRIES_APART: Duration = Duration::from_millis(200);
/// Limits of the connection that renews this node's lease: a slower renewal would leave no time for another try.
const LEASE_LIMITS: ConnectionTimeouts = ConnectionTimeouts {
    acquire: Duration::from_millis(1_500),
    connect: Duration::from_millis(1_500),
    statement: Some(Duration::from_millis(1_500)),
    begin: Some(Duration::from_millis(1_500)),
};
/// PostgreSQL settings of each connection: timeouts of statements and locks, and how soon the server gives up a
/// silent client and its locks. In milliseconds, but keepalives in seconds.
const POSTGRES_OPTIONS: [(&str, &str); 7] = [
    ("statement_timeout", "6000"),
    ("lock_timeout", "4000"),
    ("idle_in_transaction_session_timeout", "5000"),
    ("tcp_user_timeout", "10000"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];
/// Calls read and write by key, whatever PostgreSQL assumes about table sizes: it keeps plans made while the tables
/// were empty. Each statement is planned once for a connection; planning a large one takes longer than its execution.
/// Nothing is compiled (`jit`): estimates for tables with partitions are high, and compiling takes longer than reading by key.
const POSTGRES_BY_KEY: [(&str, &str); 5] = [
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];
/// Logs statements' text without bound values; enabled with `sqlx::query=debug`.
const STATEMENTS_LOGGED: log::LevelFilter = log::LevelFilter::Debug;
/// Slower statements are marked as slow in the log.
const SLOW: Duration = Duration::from_secs(1);
/// Writes to the log and nothing else, so that a commit waits for everything before it, and for no other session's lock.
/// <https://www.postgresql.org/docs/current/functions-admin.html>
const BARRIER: &str = "SELECT pg_logical_emit_message(true, 'dikala', '')";
/// Readers reserved for calls and bridges.
const CRITICAL_READERS: u32 = 4;
/// All of them, with the connections for lease and notices.
const POSTGRES_CONNECTIONS: u32 =
    READERS + POSTGRES_WRITERS + POSTGRES_CRITICAL + CRITICAL_READERS + API_READERS + 2;
/// SQLite's log is truncated to this size when it restarts.
const SQLITE_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// With this many pages of 4 KiB in the log, a commit runs a checkpoint, unless [`Store::copy_log`] did so before.
/// With SQLite's default of 1,000 pages every third commit under load would.
const SQLITE_LOG_PAGES: u32 = 16_000;
/// Rows that SQLite's thread reads ahead of the caller.
const SQLITE_ROWS_AHEAD: usize = 1_024;
/// A smaller log is not worth a checkpoint of its own.
const SQLITE_LOG_SMALL_BYTES: u64 = 4 * 1024 * 1024;

/// The database of a running program.
#[derive(Clone, Debug)]
pub struct Store {
    reader: Connections,
    writer: Connections,
    critical: Connections,
    critical_reader: Connections,
    api_reader: Connections,
    /// For renewing this node's lease. None on SQLite, where the file's lock is the lease.
    lease: Option<Connections>,
    /// For notices of other nodes. None on SQLite.
    listening: Option<NoticeOptions>,
    /// For checkpoints of SQLite's log.
    copier: Option<Connections>,
    url: Arc<str>,
    signs: Arc<PoolSignals>,
    probe: Arc<Mutex<Probe>>,
    confirmation: Arc<Mutex<Option<Confirmation>>>,
}

/// The reason why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("database.url must begin with sqlite:// or postgres://")]
    UnknownKind,
    #[error(
        "the database folder {folder:?} cannot be written: {reason}; create it or give this user the right to write there"
    )]
    Folder {
        folder: PathBuf,
        /// The operating system's error.
        reason: std::io::Error,
    },
    #[error(
        "the database file {file:?} cannot be opened: {reason}; let database.url name a file that this user may read and write"
    )]
    File {
        file: PathBuf,
        /// The operating system's error.
        reason: std::io::Error,
    },
    #[error("the database does not answer: {words}; check database.url and that the server runs", words = in_words(.0))]
    Unreachable(#[source] DbErr),
    #[error(
        "PostgreSQL at {place} cannot be reached: {reason}; check database.url and that the server runs"
    )]
    Postgres {
        /// Host, port and database.
        place: String,
        /// The result of the attempt.
        reason: String,
    },
    #[error("the database user lacks the right to {right} in the schema {schema:?}; run: {remedy}")]
    Rights {
        /// The missing right.
        right: &'static str,
        /// The schema to which it applies.
        schema: String,
        /// The statement that grants it.
        remedy: String,
    },
    #[error(
        "the database has no schema {schema:?}, which the search_path of its user names; create it: {remedy}"
    )]
    NoSchema {
        schema: String,
        /// The statement that creates it.
        remedy: String,
    },
    #[error(
        "the PostgreSQL database {place} is encoded in {encoding}, which lacks characters that people write; create another one: \
         CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding {
        /// Host, port and database.
        place: String,
        encoding: String,
    },
    #[error(
        "a connection pooler such as pgbouncer is between dikala and PostgreSQL at {place}: {found}; let database.url name \
         PostgreSQL itself, of which a node keeps at most {POSTGRES_CONNECTIONS} connections"
    )]
    Pooler {
        /// Host, port and database.
        place: String,
        /// The evidence.
        found: &'static str,
    },
    #[error(
        "another dikala serves the database {path:?} already; stop it first, or give this one another database.url"
    )]
    Served { path: PathBuf },
}

impl Store {
    /// Connects to `sqlite://path` or `postgres://…`. Creates the SQLite file and its folder if they are missing.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let store = if let Some(path) = sqlite_file(url) {
            prepare_file(&path)?;
            Self::over_sqlite(&path, url)
        } else if is_postgres(url) {
            rights::reach(url, STARTS_WITHIN).await?;
            Self::over_postgres(url).map_err(StoreError::Unreachable)?
        } else {
            return Err(StoreError::UnknownKind);
        };
        // The writer comes first: on SQLite it creates the file and switches it to WAL.
        for connections in [
            &store.writer,
            &store.reader,
            &store.critical,
            &store.critical_reader,
            &store.api_reader,
        ] {
            let mut failed = 0;
            while let Err(error) = connections.acquire().await.map(drop) {
                failed += 1;
                if failed == FIRST_TRIES || store.lease.is_none() {
                    return Err(StoreError::Unreachable(error));
                }
                tokio::time::sleep(FIRST_TRIES_APART).await;
            }
        }
        Ok(store)
    }

    /// The SQLite file of a URL; none for PostgreSQL.
    pub fn sqlite_file(url: &str) -> Option<PathBuf> {
        sqlite_file(url)
    }

    /// The file that the path of an SQLite URL leads to, by symbolic links too.
    pub fn real_sqlite_file(url: &str) -> Option<PathBuf> {
        sqlite_file(url).map(|path| resolved(&path))
    }

    /// The SQLite file of a URL, if it does not exist yet.
    pub fn missing_file(url: &str) -> Option<PathBuf> {
        sqlite_file(url).filter(|path| !path.exists())
    }

    /// Checks that the SQLite file could be created. Changes nothing.
    pub fn could_make(path: &Path) -> Result<(), StoreError> {
        let folder = folder_of(path);
        let existing = folder.ancestors().find(|folder| folder.exists());
        let existing = existing.filter(|existing| !existing.as_os_str().is_empty());
        let probe = existing.unwrap_or(Path::new(".")).join(probe_name());
        let write = || {
            std::fs::write(&probe, b"")?;
            std::fs::remove_file(&probe)
        };
        write().map_err(|reason| unwritable(path, reason))
    }

    fn over_sqlite(path: &Path, url: &str) -> Self {
        let signs = Arc::<PoolSignals>::default();
        let options = sqlite_options(path);
        // Page caches in KiB. The readers' are small: there are several, and the operating system caches the file.
        let reading = options
            .clone()
            .pragma("query_only", "ON")
            .pragma("cache_size", "-2000");
        let writing = options
            .pragma("cache_size", "-16000")
            .pragma("wal_autocheckpoint", SQLITE_LOG_PAGES.to_string())
            .row_buffer_size(SQLITE_ROWS_AHEAD);
        let connections = |options: SqliteConnectOptions, most, longest| {
            let target = Driver::Sqlite(Box::new(options), longest);
            Connections::new(target, SQLITE_LIMITS, most, false, Arc::clone(&signs))
        };
        // A checkpoint never waits for a lock.
        let copying = sqlite_options(path)
            .create_if_missing(false)
            .busy_timeout(Duration::ZERO);
        let writer = connections(writing, 1, None);
        Self {
            critical_reader: connections(reading.clone(), CRITICAL_READERS, None),
            api_reader: connections(reading.clone(), API_READERS, Some(API_STATEMENT)),
            reader: connections(reading, READERS, None),
            critical: writer.clone(),
            writer: writer.one_at_a_time(),
            lease: None,
            listening: None,
            copier: Some(connections(copying, 1, None)),
            url: Arc::from(url),
            signs,
            probe: Arc::default(),
            confirmation: Arc::default(),
        }
    }

    fn over_postgres(url: &str) -> Result<Self, DbErr> {
        let signs = Arc::<PoolSignals>::default();
        let options: PgConnectOptions = url
            .parse()
            .map_err(|error| SendFault::Said(error).connecting())?;
        let options = options
            .log_statements(STATEMENTS_LOGGED)
            .log_slow_statements(STATEMENTS_LOGGED, SLOW)
            .options(POSTGRES_OPTIONS);
        let connections = |options: &PgConnectOptions, most, careful| {
            let target = Driver::Postgres(Box::new(options.clone()));
            Connections::new(target, POSTGRES_LIMITS, most, careful, Arc::clone(&signs))
        };
        let longest = API_STATEMENT.as_millis().to_string();
        let for_api = options
            .clone()
            .options([("statement_timeout", longest.as_str())]);
        let by_key = options.clone().options(POSTGRES_BY_KEY);
        let target = Driver::Postgres(Box::new(options.clone()));
        let lease = Connections::new(target, LEASE_LIMITS, 1, false, Arc::clone(&signs));
        Ok(Self {
            reader: connections(&options, READERS, false),
            writer: connections(&options, POSTGRES_WRITERS, true),
            critical: connections(&by_key, POSTGRES_CRITICAL, true),
            critical_reader: connections(&by_key, CRITICAL_READERS, false),
            api_reader: connections(&for_api, API_READERS, false),
            lease: Some(lease),
            listening: Some(NoticeOptions::new(options, Arc::clone(&signs))),
            copier: None,
            url: Arc::from(url),
            signs,
            probe: Arc::default(),
            confirmation: Arc::default(),
        })
    }

    /// For reads. On SQLite these connections refuse to write.
    pub fn reader(&self) -> &Connections {
        &self.reader
    }

    /// For short reads by key that calls and bridges need. Use it for nothing else.
    pub fn critical_reader(&self) -> &Connections {
        &self.critical_reader
    }

    /// For reads of the tenants' API. A statement that exceeds its timeout fails with [`took_too_long`].
    pub fn api_reader(&self) -> &Connections {
        &self.api_reader
    }

    /// Only for this node's lease, so that load cannot delay its renewal. None on SQLite, whose file only one process
    /// can serve.
    pub fn lease(&self) -> Option<&Connections> {
        self.lease.as_ref()
    }

    /// For single statements; transactions begin with [`begin`](Self::begin).
    pub fn writer(&self) -> &Connections {
        &self.writer
    }

    /// The SQL dialect.
    pub fn backend(&self) -> DbBackend {
        self.reader.get_database_backend()
    }

    /// Readings of the pools by name. Makes no request.
    pub fn pools(&self) -> Vec<(&'static str, PoolReading)> {
        let critical = Some(&self.critical).filter(|critical| !critical.are(&self.writer));
        let pools = [
            ("writer", Some(&self.writer)),
            ("critical", critical),
            ("reader", Some(&self.reader)),
            ("critical_reader", Some(&self.critical_reader)),
            ("api_reader", Some(&self.api_reader)),
            ("lease", self.lease.as_ref()),
        ];
        let there = pools.into_iter();
        there
            .filter_map(|(name, pool)| Some((name, pool?.reading())))
            .collect()
    }

    /// Fails if the database does not answer now.
    pub async fn ping(&self) -> Result<(), DbErr> {
        for readers in [&self.reader, &self.critical_reader, &self.api_reader] {
            readers
                .query_one_raw(Statement::from_string(self.backend(), "SELECT 1"))
                .await?;
        }
        Ok(())
    }

    /// Runs a checkpoint of SQLite's log beside readers and writers, so that little is left for the commit that finds
    /// the log too long. Pages that change often, such as the ends of indexes, are copied once. Does nothing on
    /// PostgreSQL.
    pub async fn copy_log(&self) -> Result<(), DbErr> {
        let Some(copier) = &self.copier else {
            return Ok(());
        };
        let copied = copier.execute_unprepared("PRAGMA wal_checkpoint(PASSIVE)");
        copied.await.map(drop)
    }

    /// Truncates SQLite's log if it has grown, unless that would delay a commit. The content is copied first; only
    /// the truncation takes the writers' lock, if it is free. Returns the number of bytes, if it was truncated.
    pub async fn empty_log(&self) -> Result<Option<u64>, DbErr> {
        let (Some(copier), Some(file)) = (&self.copier, sqlite_file(&self.url)) else {
            return Ok(None);
        };
        let mut log = file.into_os_string();
        log.push("-wal");
        let bytes = std::fs::metadata(&log).map_or(0, |metadata| metadata.len());
        if bytes < SQLITE_LOG_SMALL_BYTES {
            return Ok(None);
        }
        self.copy_log().await?;
        let cut = Statement::from_string(self.backend(), "PRAGMA wal_checkpoint(TRUNCATE)");
        let row = copier.query_one_raw(cut).await?;
        let busy = row.map_or(Ok(1), |row| row.try_get::<i64>("", "busy"))?;
        Ok((busy == 0).then_some(bytes))
    }

    /// Closes all connections after their running statements.
    pub async fn close(&self) {
        for one in [&self.copier, &self.lease].into_iter().flatten() {
            one.close().await;
        }
        tokio::join!(
            self.reader.close(),
            self.critical_reader.close(),
            self.api_reader.close()
        );
        // Last: closing an SQLite file's last connection empties its log, which readers may not do.
        tokio::join!(self.critical.close(), self.writer.close());
    }
}

fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .log_statements(STATEMENTS_LOGGED)
        .log_slow_statements(STATEMENTS_LOGGED, SLOW)
        .busy_timeout(Duration::from_millis(SQLITE_BUSY_TIMEOUT_MS))
        .pragma("journal_mode", "WAL")
        .pragma("synchronous", "FULL")
        .pragma("foreign_keys", "ON")
        .pragma("temp_store", "MEMORY")
        .pragma("journal_size_limit", SQLITE_LOG_BYTES.to_string())
        .statement_cache_capacity(SQLITE_STATEMENTS)
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn sqlite_file(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite://")?;
    Some(path.split('?').next().unwrap_or(path).into())
}

#[cfg(test)]
mod tests;
