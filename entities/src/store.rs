//! The connections to the database, and how a write begins on each kind.
//!
//! SQLite: WAL, `synchronous=FULL`, one writer connection for the whole process and pools of readers that cannot write. The
//! writer is handed out in the order of asking, but of all that is not a call or credit only one asks at a time: a call waits
//! for one such write at most, however many there are. PostgreSQL: pools; the ledger has connections of its own. On both, what a
//! call's opening reads has readers of its own: a crowd of API requests, a page far into a long list or a sweep
//! cannot starve a call. What the API reads for tenants has readers of its own too, and is broken off where
//! it takes too long: sweeps and deliveries do not wait behind it.
//!
//! Whatever is sent to PostgreSQL, and whatever is awaited from it, has a deadline here, on this side: a link that drops
//! packets says nothing for a quarter of an hour. What the server may take for itself is a little less, so that it is the
//! server who refuses where the link is well.

mod durability;
mod fault;
mod file;
mod fuse;
mod notices;
mod pool;
mod probe;
mod raw;
mod reservation;
mod rights;
mod runtime;
mod schema;
mod single;
mod statements;
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
    notices::Notices,
    pool::{Connections, PoolReading},
    reservation::Reservation,
    statements::StatementReading,
    transaction::Transaction,
};
use self::{
    fault::{SendFault, Signs},
    file::{folder_of, prepare_file, probe_name, unwritable},
    notices::Listening,
    pool::Limits,
    probe::{Confirmation, Probe},
    raw::Driver,
};

/// How long a write waits for another process's write on the same SQLite file.
const SQLITE_BUSY_TIMEOUT_MS: u64 = 10_000;
/// Prepared statements that an SQLite connection keeps.
const SQLITE_STATEMENTS: usize = 256;
const READERS: u32 = 8;
const POSTGRES_WRITERS: u32 = 8;
const POSTGRES_CRITICAL: u32 = 6;
/// Readers of what tenants ask the API for: as many statements of theirs run at once, beside calls on the same cores.
pub const API_READERS: u32 = 4;
/// How long the database works on one of those. PostgreSQL is told so; SQLite is interrupted.
const API_STATEMENT: Duration = Duration::from_secs(3);
const SQLITE_LIMITS: Limits = Limits {
    acquire: Duration::from_secs(10),
    connect: Duration::from_secs(10),
    statement: None,
    begin: None,
};
const POSTGRES_LIMITS: Limits = Limits {
    acquire: Duration::from_secs(5),
    connect: Duration::from_secs(3),
    statement: Some(Duration::from_secs(7)),
    begin: Some(Duration::from_secs(3)),
};
/// Of the connection that renews this node's lease, and of nothing else: a renewal that takes longer comes too late to try again.
const LEASE_LIMITS: Limits = Limits {
    acquire: Duration::from_millis(1_500),
    connect: Duration::from_millis(1_500),
    statement: Some(Duration::from_millis(1_500)),
    begin: Some(Duration::from_millis(1_500)),
};
/// What PostgreSQL is told at each connection: how long a statement and a lock may take, and how soon it gives up a client
/// that it does not hear of, with all that this client had locked. Milliseconds, but keepalives in seconds.
const POSTGRES_OPTIONS: [(&str, &str); 7] = [
    ("statement_timeout", "6000"),
    ("lock_timeout", "4000"),
    ("idle_in_transaction_session_timeout", "5000"),
    ("tcp_user_timeout", "10000"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];
/// What calls need is read and written by key, whatever PostgreSQL believes of the sizes of the tables: it keeps plans that it made
/// when they were empty.
const POSTGRES_BY_KEY: [(&str, &str); 3] = [
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];
/// Only the text of statements, without what is bound to them; asked for with `sqlx::query=debug`.
const STATEMENTS_LOGGED: log::LevelFilter = log::LevelFilter::Debug;
/// Statements that take longer are marked as slow where they are logged.
const SLOW: Duration = Duration::from_secs(1);
/// Readers of what calls and bridges need, and nobody else.
const CRITICAL_READERS: u32 = 4;
/// All of them, with the one that renews the lease and the one that listens.
const POSTGRES_CONNECTIONS: u32 =
    READERS + POSTGRES_WRITERS + POSTGRES_CRITICAL + CRITICAL_READERS + API_READERS + 2;
/// The file of SQLite's log is cut back to this when it begins anew.
const SQLITE_LOG_BYTES: u64 = 64 * 1024 * 1024;
/// When so many pages of 4 KiB are in the log that nobody has copied into the file beside them, see [`Store::copy_log`], a commit
/// does it. With SQLite's own 1,000 pages every third commit under load would.
const SQLITE_LOG_PAGES: u32 = 16_000;
/// Rows that SQLite's thread reads before it waits for who asked.
const SQLITE_ROWS_AHEAD: usize = 1_024;
/// A log smaller than this is not worth a checkpoint of its own.
const SQLITE_LOG_SMALL_BYTES: u64 = 4 * 1024 * 1024;

/// The database of one running program.
#[derive(Clone, Debug)]
pub struct Store {
    reader: Connections,
    writer: Connections,
    critical: Connections,
    critical_reader: Connections,
    api_reader: Connections,
    /// Renews this node's lease; none on SQLite, where the file's lock is the lease.
    lease: Option<Connections>,
    /// Hears of other nodes; none on SQLite.
    listening: Option<Listening>,
    /// Copies SQLite's log into the file.
    copier: Option<Connections>,
    url: Arc<str>,
    signs: Arc<Signs>,
    probe: Arc<Mutex<Probe>>,
    confirmation: Arc<Mutex<Confirmation>>,
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
    #[error(
        "the database file {file:?} cannot be opened: {reason}; let database.url name a file that this user may read and write"
    )]
    File {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
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
        /// What became of the attempt.
        reason: String,
    },
    #[error(
        "the database user has not the right to {right} in the schema {schema:?}; run: {remedy}"
    )]
    Rights {
        /// What it may not do.
        right: &'static str,
        /// Where.
        schema: String,
        /// What gives the right.
        remedy: String,
    },
    #[error(
        "the database has no schema {schema:?}, which the search_path of its user names; create it: {remedy}"
    )]
    NoSchema {
        /// The schema.
        schema: String,
        /// What makes it.
        remedy: String,
    },
    #[error(
        "the PostgreSQL database {place} is encoded in {encoding}, which has not all that people write; make another one: \
         CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding {
        /// Host, port and database.
        place: String,
        /// Its encoding.
        encoding: String,
    },
    #[error(
        "between dikala and PostgreSQL at {place} stands a pooler that keeps no session for each connection, as pgbouncer: {found}; \
         let database.url name PostgreSQL itself, of which a node keeps at most {POSTGRES_CONNECTIONS} connections"
    )]
    Pooler {
        /// Host, port and database.
        place: String,
        /// What shows it.
        found: &'static str,
    },
    #[error(
        "another dikala serves the database {path:?} already; stop it first, or give this one another database.url"
    )]
    Served {
        /// The database's file.
        path: PathBuf,
    },
}

impl Store {
    /// Connects to `sqlite://path` or `postgres://…`. Makes the SQLite file and its folder if they are not there.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let store = if let Some(path) = sqlite_file(url) {
            prepare_file(&path)?;
            Self::over_sqlite(&path, url)
        } else if is_postgres(url) {
            rights::reach(url, POSTGRES_LIMITS.connect).await?;
            Self::over_postgres(url).map_err(StoreError::Unreachable)?
        } else {
            return Err(StoreError::UnknownKind);
        };
        // The writer first: on SQLite it makes the file and switches it to WAL.
        for connections in [
            &store.writer,
            &store.reader,
            &store.critical,
            &store.critical_reader,
            &store.api_reader,
        ] {
            let lease = connections.lease().await;
            drop(lease.map_err(StoreError::Unreachable)?);
        }
        Ok(store)
    }

    /// The SQLite file that a URL names; none for PostgreSQL.
    pub fn sqlite_file(url: &str) -> Option<PathBuf> {
        sqlite_file(url)
    }

    /// The SQLite file that a URL names and that is not there yet.
    pub fn missing_file(url: &str) -> Option<PathBuf> {
        sqlite_file(url).filter(|path| !path.exists())
    }

    /// Whether the SQLite file that is not there yet could be made. Leaves everything as it is.
    pub fn could_make(path: &Path) -> Result<(), StoreError> {
        let folder = folder_of(path);
        let there = folder.ancestors().find(|folder| folder.exists());
        let there = there.filter(|there| !there.as_os_str().is_empty());
        let probe = there.unwrap_or(Path::new(".")).join(probe_name());
        let write = || {
            std::fs::write(&probe, b"")?;
            std::fs::remove_file(&probe)
        };
        write().map_err(|reason| unwritable(path, reason))
    }

    fn over_sqlite(path: &Path, url: &str) -> Self {
        let signs = Arc::<Signs>::default();
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
        // Waits for nobody.
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
        let signs = Arc::<Signs>::default();
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
            listening: Some(Listening::new(options, Arc::clone(&signs))),
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

    /// For the short reads, by key, that calls and bridges cannot do without. Nothing else may keep these busy.
    pub fn critical_reader(&self) -> &Connections {
        &self.critical_reader
    }

    /// For what tenants ask the API for. A statement that takes too long here is broken off, see [`took_too_long`].
    pub fn api_reader(&self) -> &Connections {
        &self.api_reader
    }

    /// For this node's lease alone, so that no crowd keeps it from being renewed; none on SQLite, where nobody else may serve the
    /// file.
    pub fn lease(&self) -> Option<&Connections> {
        self.lease.as_ref()
    }

    /// For single statements; transactions begin with [`begin`](Self::begin).
    pub fn writer(&self) -> &Connections {
        &self.writer
    }

    /// Which SQL is spoken.
    pub fn backend(&self) -> DbBackend {
        self.reader.get_database_backend()
    }

    /// The pools by name. Asks nobody.
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

    /// Whether the database answers now.
    pub async fn ping(&self) -> Result<(), DbErr> {
        for readers in [&self.reader, &self.critical_reader, &self.api_reader] {
            readers
                .query_one_raw(Statement::from_string(self.backend(), "SELECT 1"))
                .await?;
        }
        Ok(())
    }

    /// Copies what SQLite's log has into the file, beside all readers and writers, so that little is left for the commit that finds
    /// the log too long. What is changed again and again meanwhile, as the ends of indexes are, is copied once. On PostgreSQL there
    /// is nothing to do.
    pub async fn copy_log(&self) -> Result<(), DbErr> {
        let Some(copier) = &self.copier else {
            return Ok(());
        };
        let copied = copier.execute_unprepared("PRAGMA wal_checkpoint(PASSIVE)");
        copied.await.map(drop)
    }

    /// Empties SQLite's log where it has grown, if that can be done now without holding up a commit: its content is copied
    /// first, and only cutting it off takes the writers' lock, if nobody has it. Returns how many bytes it had if it was cut off.
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

    /// Closes all connections after what is running on them.
    pub async fn close(&self) {
        for one in [&self.copier, &self.lease].into_iter().flatten() {
            one.close().await;
        }
        tokio::join!(
            self.reader.close(),
            self.critical_reader.close(),
            self.api_reader.close()
        );
        // Last: who closes an SQLite file as the last one empties its log, and readers may not.
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
