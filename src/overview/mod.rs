//! This process's figures of the last 24 hours and its current problems. The console and `GET /operator/v1/overview`
//! show them.
//!
//! The ten figures are sampled every second into a [`history`] of fixed size. Everything else is sampled only while it is
//! watched: the first request starts a task, which stops half a minute after the last. [`judge`] derives the problems,
//! [`figures`] the figures; both are pure.

mod counters;
pub mod figures;
pub mod history;
pub mod judge;
mod ongoing;
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
use tokio::{sync::watch, time::MissedTickBehavior};

use self::{
    counters::FigureCounters,
    figures::Figure,
    history::{FigureHistory, OverviewPeriod},
    judge::{Severity, SlowSince},
    ongoing::ProblemHistory,
    ring::SampleRing,
    sample::OverviewSample,
    trouble::ExternalChecks,
};
pub use self::{
    ongoing::OngoingProblem,
    trouble::{ChangeKind, DiskSpace, RecentChange, room_at},
};
use crate::{
    http::{gate::Gate, meter::HttpMeter},
    node::Runtime,
    operator::health::HealthChecks,
};

/// Interval between samples.
const EVERY: Duration = Duration::from_secs(1);
/// Time after the last request for which sampling continues.
const WATCHED_FOR: Duration = Duration::from_secs(30);
/// Time that the first request waits for external checks.
const FIRST: Duration = Duration::from_millis(400);
/// A younger result is returned again.
const FRESH: Duration = Duration::from_millis(1_500);

/// Sources of the figures.
#[derive(Clone, Debug)]
pub struct OverviewSources {
    pub node: Runtime,
    pub loops: EventLoops,
    pub http: HttpMeter,
    /// Counters of tenants' rate limits.
    pub gate: Arc<Gate>,
    pub health: HealthChecks,
    /// The folder of an SQLite database.
    pub folder: Option<PathBuf>,
}

/// Handle of the sampler; cheap to clone.
#[derive(Clone, Debug)]
pub struct OverviewSampler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parts: OverviewSources,
    troubles: ExternalChecks,
    figures: Mutex<FigureHistory>,
    ring: Mutex<SampleRing>,
    problems: Mutex<ProblemHistory>,
    looked: Mutex<RequestState>,
    last: watch::Sender<Option<Arc<OverviewReading>>>,
}

/// State of the requests.
#[derive(Debug, Default)]
struct RequestState {
    last: Option<Instant>,
    is_watched: bool,
}

/// The overview at one moment.
#[derive(Clone, Debug)]
pub struct OverviewReading {
    pub at: Millis,
    /// Worst first; those that are snoozed too.
    pub problems: Vec<OngoingProblem>,
    /// The latest changes that may be the cause of a problem, newest first.
    pub changes: Vec<RecentChange>,
    /// Rate of handled messages per actor type, in thousandths per second.
    pub rates: Vec<(&'static str, Option<i64>)>,
    made: Instant,
}

impl OverviewReading {
    /// The severity of the worst problem that is not snoozed.
    pub fn severity(&self) -> Option<Severity> {
        self.open().map(|of| of.problem.severity).max()
    }

    /// The problems that are not snoozed.
    pub fn open(&self) -> impl Iterator<Item = &OngoingProblem> {
        let problems = self.problems.iter();
        problems.filter(|of| of.snoozed_until.is_none())
    }

    /// The number of critical problems that are not snoozed.
    pub fn critical(&self) -> usize {
        let is_critical = |of: &&OngoingProblem| of.problem.severity == Severity::Critical;
        self.open().filter(is_critical).count()
    }

    /// Rate of handled messages of an actor type, in thousandths per second.
    pub fn rate_of(&self, actor: &str) -> Option<i64> {
        let found = self.rates.iter().find(|(name, _)| *name == actor);
        found.and_then(|(_, rate)| *rate)
    }
}

impl OverviewSampler {
    pub fn new(parts: OverviewSources) -> Self {
        Self(Arc::new(Shared {
            parts,
            troubles: ExternalChecks::default(),
            figures: Mutex::default(),
            ring: Mutex::default(),
            problems: Mutex::default(),
            looked: Mutex::default(),
            last: watch::Sender::new(None),
        }))
    }

    /// Samples the figures from now on, once a second, until the sampler is dropped.
    pub fn begin(&self) {
        let shared = Arc::downgrade(&self.0);
        actix_web::rt::spawn(async move {
            let mut every = tokio::time::interval(EVERY);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                every.tick().await;
                let Some(shared) = shared.upgrade() else {
                    break;
                };
                let counters = FigureCounters::of(&shared.parts);
                lock(&shared.figures).push(counters);
            }
        });
    }

    /// The figures, with their history in that many steps of a period.
    pub fn figures(&self, period: OverviewPeriod, steps: usize) -> Vec<Figure> {
        let now = FigureCounters::of(&self.0.parts);
        let history = lock(&self.0.figures);
        let mut figures = history.figures(period, steps);
        for (figure, value) in figures.iter_mut().zip(history.values(&now)) {
            figure.value = value;
        }
        figures
    }

    /// The current overview. Starts the sampling or keeps it running.
    pub async fn look(&self) -> Arc<OverviewReading> {
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
                // A check that times out here is included in the next overview.
                let _ = tokio::time::timeout(FIRST, self.0.troubles.ask(&self.0.parts)).await;
                self.sample()
            }
        }
    }

    /// Takes over at once that a problem was snoozed or is shown again.
    pub async fn snoozes_changed(&self) {
        self.0.troubles.ask_snoozed(&self.0.parts).await;
        self.sample();
    }

    async fn watch(self) {
        while self.is_looked_at() {
            // External checks run in a task of their own, so that a hanging one does not stop the sampling.
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
        self.0.troubles.forget();
        self.0.last.send_replace(None);
    }

    /// True if there was a request recently; otherwise the next request restarts the sampling.
    fn is_looked_at(&self) -> bool {
        let mut looked = lock(&self.0.looked);
        let is_recent = looked.last.is_some_and(|last| last.elapsed() < WATCHED_FOR);
        looked.is_watched = is_recent;
        is_recent
    }

    fn sample(&self) -> Arc<OverviewReading> {
        let shared = &self.0;
        let sample = OverviewSample::of(&shared.parts);
        let mut ring = lock(&shared.ring);
        let mut troubles = shared.troubles.known();
        let snoozed = std::mem::take(&mut troubles.snoozed);
        let changes = std::mem::take(&mut troubles.changes);
        let state = judge::JudgeInput {
            slow_since: shared.slow_since(),
            window: ring.window(&sample),
            troubles,
            sample: &sample,
        };
        let (problems, at) = (judge::judge(&state), sample.at);
        let node = shared.parts.node.member.name();
        let problems = lock(&shared.problems).ongoing(problems, &snoozed, node, at);
        ring.push(sample);
        let look = Arc::new(OverviewReading {
            at,
            problems,
            changes,
            rates: figures::rates(&ring),
            made: Instant::now(),
        });
        shared.last.send_replace(Some(Arc::clone(&look)));
        look
    }
}

impl Shared {
    fn slow_since(&self) -> SlowSince {
        let figures = lock(&self.figures);
        SlowSince {
            acknowledgements: figures.over_limit_since("ack_p99"),
            commits: figures.over_limit_since("commit_p99"),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
