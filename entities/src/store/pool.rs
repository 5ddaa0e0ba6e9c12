//! A bounded set of connections, each used by one at a time.
//!
//! A connection is given back only by who can say that nothing is open on it: after a statement that was answered, or after a
//! `COMMIT` or `ROLLBACK` that succeeded. So one that is taken is in no transaction. All others are closed; SQLite rolls back by
//! itself when its disk is full, and whoever went on there would write into a transaction that nobody commits.
//!
//! When the way to the server is cut, every connection that was made before is given up with the one that found out.
//!
//! A transaction that waits for a synchronous standby keeps its seat, whoever has given up waiting for it: else each that follows
//! would leave the server one more connection that does nothing, until it has none left for those who read.

mod abandoned;
mod lease;
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
    fault::{SendFault, Signs, away},
    raw::{Driver, Process, Raw, within},
    runtime::{inside, spawn},
};

/// A connection to PostgreSQL that has not been used for this long proves first that it is there.
const PROVEN_FOR: Duration = Duration::from_secs(5);
/// How long such a proof, and the cleaning up after a caller that left, may take.
const PROOF_WITHIN: Duration = Duration::from_secs(2);
/// A connection to PostgreSQL is replaced after this long: its memory only grows.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// How long a caller that left may still have something running when the connections are closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// How long things may take. SQLite is in this process and has no link that falls silent; what it waits for, another process's
/// write, is bounded by its own timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// For a connection of the pool.
    pub acquire: Duration,
    /// For a new connection.
    pub connect: Duration,
    /// For the answer to a statement or a commit.
    pub statement: Option<Duration>,
    /// For the answer to `BEGIN`, which has nothing to wait for.
    pub begin: Option<Duration>,
}

/// Connections of one kind. Cheap to clone; all clones share them.
#[derive(Clone, Debug)]
pub struct Connections {
    shared: Arc<Shared>,
    /// Of those who come through here, one at a time has a connection or waits for one.
    turn: Option<Arc<Semaphore>>,
}

#[derive(Debug)]
struct Shared {
    target: Driver,
    limits: Limits,
    careful: bool,
    most: u32,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    signs: Arc<Signs>,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Idle {
    raw: Raw,
    born: Instant,
    cuts: u64,
    since: Instant,
}

/// A connection in the hands of one.
#[derive(Debug)]
pub(super) struct Lease {
    home: Connections,
    held: Option<Held>,
    state: State,
    /// What begins the transaction, where it is not sent yet.
    opening: Option<&'static str>,
    /// The server's process that may commit writes of this connection; none if there are none.
    pub writer: Option<Process>,
}

#[derive(Debug)]
struct Held {
    raw: Raw,
    born: Instant,
    cuts: u64,
    fresh: bool,
    seats: Seats,
}

/// The seat among the connections, and the turn of who came through a door where one goes at a time.
#[derive(Debug)]
struct Seats {
    _permit: OwnedSemaphorePermit,
    _turn: Option<OwnedSemaphorePermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is open or under way.
    Clean,
    /// Something is under way whose answer nobody has seen.
    Asked,
    /// A transaction is open.
    Open,
    /// Not to be used again.
    Spoilt,
}

impl Connections {
    pub(super) fn new(
        target: Driver,
        limits: Limits,
        most: u32,
        careful: bool,
        signs: Arc<Signs>,
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

    /// The same connections for a crowd, of which one at a time asks: who asks the others for one waits for one of the crowd
    /// at most.
    pub(super) fn one_at_a_time(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            turn: Some(Arc::new(Semaphore::new(1))),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.shared.limits
    }

    pub(super) fn backend(&self) -> DbBackend {
        self.shared.target.backend()
    }

    /// If true, each statement is a transaction of its own, whose process is ended if the answer does not come.
    pub(super) fn is_careful(&self) -> bool {
        self.shared.careful
    }

    /// A connection on which nothing is open.
    pub(super) async fn lease(&self) -> Result<Lease, DbErr> {
        let limit = self.shared.limits.acquire;
        inside(async {
            tokio::time::timeout(limit, self.lease_when_free())
                .await
                .unwrap_or_else(|_| Err(away(format!("no connection is free after {limit:?}"))))
        })
        .await
    }

    async fn lease_when_free(&self) -> Result<Lease, DbErr> {
        // The turn first: who waits for it stands in nobody's way.
        let turn = match &self.turn {
            Some(turn) => Some(Arc::clone(turn).acquire_owned().await.map_err(away)?),
            None => None,
        };
        let permits = Arc::clone(&self.shared.permits);
        let seats = Seats {
            _permit: permits.acquire_owned().await.map_err(away)?,
            _turn: turn,
        };
        if self.shared.closed.load(Relaxed) {
            return Err(away("the store is closed"));
        }
        while let Some(mut idle) = self.pop() {
            let untried =
                matches!(idle.raw, Raw::Postgres(..)) && idle.since.elapsed() > PROVEN_FOR;
            if untried && let Err(fault) = within(Some(PROOF_WITHIN), idle.raw.ping()).await {
                tracing::info!(?fault, "a connection that waited to be used is gone");
                self.cut();
                continue;
            }
            return Ok(self.leased(idle.raw, idle.born, idle.cuts, false, seats));
        }
        let cuts = self.shared.signs.cuts();
        let raw = self.connect().await?;
        Ok(self.leased(raw, Instant::now(), cuts, true, seats))
    }

    async fn connect(&self) -> Result<Raw, DbErr> {
        let limit = self.shared.limits.connect;
        within(Some(limit), self.shared.target.connect())
            .await
            .map_err(SendFault::connecting)
    }

    fn leased(&self, raw: Raw, born: Instant, cuts: u64, fresh: bool, seats: Seats) -> Lease {
        Lease {
            home: self.clone(),
            held: Some(Held {
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

    /// Gives up every connection that was made until now.
    fn cut(&self) {
        self.shared.signs.note_cut();
        self.idle().clear();
    }

    fn pop(&self) -> Option<Idle> {
        let cuts = self.shared.signs.cuts();
        let mut idle = self.idle();
        idle.retain(|idle| idle.cuts == cuts);
        idle.pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        // Each change of the list is one step: it is whole also after a panic.
        self.shared
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, held: Held) {
        let aged = matches!(held.raw, Raw::Postgres(..)) && held.born.elapsed() > LIFETIME;
        let cut = held.cuts != self.shared.signs.cuts();
        if aged || cut || self.shared.closed.load(Relaxed) {
            spawn(async move {
                let _ = within(Some(PROOF_WITHIN), held.raw.close()).await;
                drop(held.seats);
            });
            return;
        }
        self.idle().push(Idle {
            raw: held.raw,
            born: held.born,
            cuts: held.cuts,
            since: Instant::now(),
        });
    }

    /// A connection on which a transaction is begun with `sql`. One that turns out to be gone is replaced: nothing has happened
    /// yet.
    pub(super) async fn lease_begun(&self, sql: &'static str) -> Result<Lease, DbErr> {
        let mut replaced = 0;
        loop {
            let mut lease = self.lease().await?;
            let fresh = lease.held.as_ref().is_some_and(|held| held.fresh);
            match lease.begin(sql).await {
                Ok(()) => return Ok(lease),
                Err(_) if !fresh && lease.is_spoilt() && replaced < self.shared.most => {
                    replaced += 1
                }
                Err(fault) => return Err(fault.executing()),
            }
        }
    }

    /// Closes all connections after what is running on them, and hands out no more.
    pub(super) async fn close(&self) {
        self.shared.closed.store(true, Relaxed);
        inside(async {
            let all = self.shared.permits.acquire_many(self.shared.most);
            if tokio::time::timeout(CLOSE_WITHIN, all).await.is_err() {
                tracing::warn!("something still ran on the database when it was closed");
            }
            let idle = std::mem::take(&mut *self.idle());
            for idle in idle {
                if let Err(fault) = within(Some(CLOSE_WITHIN), idle.raw.close()).await {
                    tracing::warn!(?fault, "closing the database");
                }
            }
        })
        .await;
        self.shared.permits.close();
    }
}
