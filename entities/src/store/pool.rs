//! A bounded pool of connections, each used by one caller at a time.
//!
//! A connection returns to the pool only if nothing is open on it: after a statement that was answered, or after a
//! successful `COMMIT` or `ROLLBACK`. So an acquired connection is in no transaction. All others are closed. For
//! example, SQLite rolls back by itself when the disk is full, and later writes would go into a transaction that is
//! never committed.
//!
//! When the link to the server is cut, every connection made before is dropped along with the one that noticed.
//!
//! A transaction that waits for a synchronous standby keeps its permit even if its caller gave up. Otherwise each
//! further one would hold another idle connection of the server, until none were left for readers.
//!
//! sqlx's own pool cannot keep these rules. It frees a lost connection's permit while its commit may still wait. It
//! tests each returned connection with a round trip that has no timeout and runs on the caller's runtime.

mod abandoned;
mod connection;
mod reading;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sea_orm::{DbBackend, DbErr};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::reading::PoolReading;
use super::{
    fault::{PoolSignals, SendFault, away},
    raw::{Driver, RawConnection, ServerProcess, within},
    runtime::{inside, spawn},
};

/// A PostgreSQL connection that was idle for longer is tested before use.
const PROVEN_FOR: Duration = Duration::from_secs(5);
/// Timeout of such a test, and of cleaning up after a caller that left.
const PROOF_WITHIN: Duration = Duration::from_secs(2);
/// A PostgreSQL connection is replaced after this time, because its memory only grows.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// At closing, the time for statements of callers that left.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// Timeouts. SQLite needs none: it runs in this process, and its wait for another process's write has a timeout of
/// its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionTimeouts {
    /// To acquire a connection of the pool.
    pub acquire: Duration,
    /// To make a new connection.
    pub connect: Duration,
    /// For the answer to a statement or a commit.
    pub statement: Option<Duration>,
    /// For the answer to `BEGIN`, which waits for no lock.
    pub begin: Option<Duration>,
}

/// A pool of connections. Clones share it.
#[derive(Clone, Debug)]
pub struct Connections {
    shared: Arc<Shared>,
    /// With this, only one of its callers at a time has a connection or waits for one.
    turn: Option<Arc<Semaphore>>,
}

#[derive(Debug)]
struct Shared {
    target: Driver,
    limits: ConnectionTimeouts,
    careful: bool,
    most: u32,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<IdleConnection>>,
    signs: Arc<PoolSignals>,
    closed: AtomicBool,
}

#[derive(Debug)]
struct IdleConnection {
    raw: RawConnection,
    born: Instant,
    cuts: u64,
    since: Instant,
}

/// A connection in use by one caller.
#[derive(Debug)]
pub(super) struct PooledConnection {
    home: Connections,
    held: Option<OpenConnection>,
    state: State,
    /// The statement that begins the transaction, if it was not sent yet.
    opening: Option<&'static str>,
    /// The server's process that may commit writes of this connection, if there are any.
    pub writer: Option<ServerProcess>,
}

#[derive(Debug)]
struct OpenConnection {
    raw: RawConnection,
    born: Instant,
    cuts: u64,
    fresh: bool,
    seats: PoolPermits,
}

/// The pool's permit, and the permit of a handle that admits one caller at a time.
#[derive(Debug)]
struct PoolPermits {
    _permit: OwnedSemaphorePermit,
    _turn: Option<OwnedSemaphorePermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is open or in progress.
    Clean,
    /// A statement is in progress, and its answer was not seen yet.
    Asked,
    /// A transaction is open.
    Open,
    /// Not to be used again.
    Spoilt,
}

impl Connections {
    pub(super) fn new(
        target: Driver,
        limits: ConnectionTimeouts,
        most: u32,
        careful: bool,
        signs: Arc<PoolSignals>,
    ) -> Self {
        let shared = Shared {
            target,
            limits,
            careful,
            most,
            permits: Arc::new(Semaphore::new(most as usize)),
            idle: Mutex::default(),
            signs,
            closed: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
            turn: None,
        }
    }

    /// A handle on the same pool that admits one caller at a time. So others wait for at most one of its callers.
    pub(super) fn one_at_a_time(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            turn: Some(Arc::new(Semaphore::new(1))),
        }
    }

    pub(super) fn limits(&self) -> ConnectionTimeouts {
        self.shared.limits
    }

    pub(super) fn backend(&self) -> DbBackend {
        self.shared.target.backend()
    }

    /// If true, each statement is a transaction of its own, whose server process is ended if no answer comes.
    pub(super) fn is_careful(&self) -> bool {
        self.shared.careful
    }

    /// Acquires a connection on which nothing is open.
    pub(super) async fn acquire(&self) -> Result<PooledConnection, DbErr> {
        let limit = self.shared.limits.acquire;
        inside(async {
            tokio::time::timeout(limit, self.acquire_when_free())
                .await
                .unwrap_or_else(|_| Err(away(format!("no connection is free after {limit:?}"))))
        })
        .await
    }

    /// True if an idle connection of before that moment answers.
    pub(super) async fn has_lived_since(&self, moment: Instant) -> bool {
        match self.acquire().await {
            Ok(connection) => connection.has_lived_since(moment).await,
            Err(_) => false,
        }
    }

    async fn acquire_when_free(&self) -> Result<PooledConnection, DbErr> {
        // This permit first: a waiting caller must not hold a permit of the pool.
        let turn = match &self.turn {
            Some(turn) => Some(Arc::clone(turn).acquire_owned().await.map_err(away)?),
            None => None,
        };
        let permits = Arc::clone(&self.shared.permits);
        let seats = PoolPermits {
            _permit: permits.acquire_owned().await.map_err(away)?,
            _turn: turn,
        };
        if self.shared.closed.load(Relaxed) {
            return Err(away("the store is closed"));
        }
        while let Some(mut idle) = self.pop() {
            let untried = matches!(idle.raw, RawConnection::Postgres(..))
                && idle.since.elapsed() > PROVEN_FOR;
            if untried && let Err(fault) = within(Some(PROOF_WITHIN), idle.raw.ping()).await {
                tracing::info!(?fault, "an idle connection to the database was lost");
                self.cut();
                continue;
            }
            return Ok(self.wrap(idle.raw, idle.born, idle.cuts, false, seats));
        }
        let cuts = self.shared.signs.cuts();
        let raw = self.connect().await?;
        Ok(self.wrap(raw, Instant::now(), cuts, true, seats))
    }

    async fn connect(&self) -> Result<RawConnection, DbErr> {
        let limit = self.shared.limits.connect;
        let raw = within(Some(limit), self.shared.target.connect())
            .await
            .map_err(SendFault::connecting)?;
        if self.shared.careful
            && self.shared.signs.refuses_unsafe_sessions()
            && let Some(process) = raw
                .process()
                .filter(|process| !process.unsafe_settings.is_empty())
        {
            let words = format!(
                "a new session of the database has {}, so a crash would lose acknowledged commits",
                process.unsafe_settings
            );
            tracing::error!("{words}; change the setting of the server, the database or the role");
            return Err(
                SendFault::Said(sea_orm::SqlxError::Configuration(words.into())).connecting(),
            );
        }
        Ok(raw)
    }

    fn wrap(
        &self,
        raw: RawConnection,
        born: Instant,
        cuts: u64,
        fresh: bool,
        seats: PoolPermits,
    ) -> PooledConnection {
        PooledConnection {
            home: self.clone(),
            held: Some(OpenConnection {
                raw,
                born,
                cuts,
                fresh,
                seats,
            }),
            state: State::Clean,
            opening: None,
            writer: None,
        }
    }

    /// Drops every connection made until now.
    fn cut(&self) {
        self.shared.signs.note_cut();
        self.idle().clear();
    }

    fn pop(&self) -> Option<IdleConnection> {
        let cuts = self.shared.signs.cuts();
        let mut idle = self.idle();
        idle.retain(|idle| idle.cuts == cuts);
        idle.pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<IdleConnection>> {
        // Each change of the list is a single step, so it is consistent even after a panic.
        self.shared
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, held: OpenConnection) {
        let aged =
            matches!(held.raw, RawConnection::Postgres(..)) && held.born.elapsed() > LIFETIME;
        let cut = held.cuts != self.shared.signs.cuts();
        if aged || cut || self.shared.closed.load(Relaxed) {
            spawn(async move {
                let _ = within(Some(PROOF_WITHIN), held.raw.close()).await;
                drop(held.seats);
            });
            return;
        }
        self.idle().push(IdleConnection {
            raw: held.raw,
            born: held.born,
            cuts: held.cuts,
            since: Instant::now(),
        });
    }

    /// Acquires a connection and begins a transaction with `sql`. A dead connection is replaced, because nothing has
    /// happened on it yet.
    pub(super) async fn acquire_begun(&self, sql: &'static str) -> Result<PooledConnection, DbErr> {
        let mut replaced = 0;
        loop {
            let mut connection = self.acquire().await?;
            let fresh = connection.held.as_ref().is_some_and(|held| held.fresh);
            match connection.begin(sql).await {
                Ok(()) => return Ok(connection),
                Err(_) if !fresh && connection.is_spoilt() && replaced < self.shared.most => {
                    replaced += 1
                }
                Err(fault) => return Err(fault.executing()),
            }
        }
    }

    /// Closes all connections after their running statements, and grants no more.
    pub(super) async fn close(&self) {
        self.shared.closed.store(true, Relaxed);
        inside(async {
            let all = self.shared.permits.acquire_many(self.shared.most);
            if tokio::time::timeout(CLOSE_WITHIN, all).await.is_err() {
                tracing::warn!("closing the database while statements still run");
            }
            let idle = std::mem::take(&mut *self.idle());
            for idle in idle {
                if let Err(fault) = within(Some(CLOSE_WITHIN), idle.raw.close()).await {
                    tracing::warn!(?fault, "could not close a connection to the database");
                }
            }
        })
        .await;
        self.shared.permits.close();
    }
}
