//! What goes on in this process, and what is wrong with it: figures of the last ten minutes beside their limits, and sentences that
//! say what to do, worst first. The console and `GET /operator/v1/overview` show it.
//!
//! Nothing is sampled while nobody looks. Who looks starts a task that reads what is counted anyway once a second, into a ring of
//! fixed size, and that ends half a minute after the last look. [`judge`] decides what is wrong, [`figures`] what is shown of
//! the ring; both are pure.

pub mod figures;
pub mod judge;
mod ring;
mod sample;
mod trouble;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use dikala_actors::runtime::lag::EventLoops;
use dikala_entities::Millis;
use tokio::sync::watch;

use self::{
    figures::Figure,
    judge::{Problem, Severity},
    ring::Ring,
    sample::Sample,
    trouble::Troubles,
};
use crate::{
    http::{gate::Gate, meter::HttpMeter},
    node::Node,
    operator::health::HealthParts,
};

/// How often it is read what is counted.
const EVERY: Duration = Duration::from_secs(1);
/// How long after the last look that goes on.
const WATCHED_FOR: Duration = Duration::from_secs(30);
/// How long the first look waits for what is asked of others.
const FIRST: Duration = Duration::from_millis(400);
/// A look that is younger than this is shown again.
const FRESH: Duration = Duration::from_millis(1_500);

/// Where it is counted.
#[derive(Clone, Debug)]
pub struct Parts {
    pub node: Node,
    pub loops: EventLoops,
    pub http: HttpMeter,
    /// Where tenants' limits are counted.
    pub gate: Arc<Gate>,
    pub health: HealthParts,
    /// The folder of the database, where that is a file.
    pub folder: Option<PathBuf>,
}

/// What is going on; cheap to clone.
#[derive(Clone, Debug)]
pub struct Overview(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parts: Parts,
    troubles: Troubles,
    ring: Mutex<Ring>,
    looked: Mutex<Looked>,
    last: watch::Sender<Option<Arc<Look>>>,
}

/// Who looked, and when.
#[derive(Debug, Default)]
struct Looked {
    last: Option<Instant>,
    is_watched: bool,
}

/// What somebody sees who looks.
#[derive(Clone, Debug)]
pub struct Look {
    pub at: Millis,
    /// Worst first.
    pub problems: Vec<Problem>,
    pub figures: Vec<Figure>,
    /// Messages that each type of actor handled in a second, in thousandths.
    pub rates: Vec<(&'static str, Option<i64>)>,
    made: Instant,
}

impl Look {
    /// How bad the worst is.
    pub fn severity(&self) -> Option<Severity> {
        self.problems.iter().map(|problem| problem.severity).max()
    }

    /// Messages that a type of actor handled in a second, in thousandths.
    pub fn rate_of(&self, actor: &str) -> Option<i64> {
        let found = self.rates.iter().find(|(name, _)| *name == actor);
        found.and_then(|(_, rate)| *rate)
    }
}

impl Overview {
    /// Nobody looks yet.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Shared {
            parts,
            troubles: Troubles::default(),
            ring: Mutex::default(),
            looked: Mutex::default(),
            last: watch::Sender::new(None),
        }))
    }

    /// What is seen now. Starts the sampling, or keeps it going.
    pub async fn look(&self) -> Arc<Look> {
        let begins = {
            let mut looked = lock(&self.0.looked);
            looked.last = Some(Instant::now());
            !std::mem::replace(&mut looked.is_watched, true)
        };
        if begins {
            actix_web::rt::spawn(self.clone().watch());
        }
        let last = self.0.last.borrow().clone();
        match last.filter(|last| last.made.elapsed() < FRESH) {
            Some(last) => last,
            None => {
                // What cannot be asked in this time is told by the next look.
                let _ = tokio::time::timeout(FIRST, self.0.troubles.ask(&self.0.parts)).await;
                self.sample()
            }
        }
    }

    async fn watch(self) {
        while self.is_looked_at() {
            // What is asked of others has a task of its own: what does not answer is no reason to stop counting.
            let asking = self.clone();
            actix_web::rt::spawn(async move {
                if asking.0.troubles.ask(&asking.0.parts).await {
                    asking.sample();
                }
            });
            tokio::time::sleep(EVERY).await;
            self.sample();
        }
        lock(&self.0.ring).clear();
        self.0.last.send_replace(None);
    }

    /// Whether somebody has looked a moment ago; otherwise the next look begins anew.
    fn is_looked_at(&self) -> bool {
        let mut looked = lock(&self.0.looked);
        let is_recent = looked.last.is_some_and(|last| last.elapsed() < WATCHED_FOR);
        looked.is_watched = is_recent;
        is_recent
    }

    fn sample(&self) -> Arc<Look> {
        let shared = &self.0;
        let sample = Sample::of(&shared.parts);
        let mut ring = lock(&shared.ring);
        let state = judge::State {
            window: ring.window(&sample),
            troubles: shared.troubles.known(),
            sample: &sample,
        };
        let problems = judge::judge(&state);
        let at = sample.at;
        ring.push(sample);
        let look = Arc::new(Look {
            at,
            problems,
            figures: figures::of(&ring),
            rates: figures::rates(&ring),
            made: Instant::now(),
        });
        shared.last.send_replace(Some(Arc::clone(&look)));
        look
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
