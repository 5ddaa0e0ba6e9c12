//! The lines of calls, and unacknowledged calls without one.

mod line_counts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{sync::Notify, time::Duration};

use self::line_counts::{LineCounts, UnacknowledgedCalls};
use crate::settings::Trunk;

/// Time after which an unacknowledged call loses its line. The sender of a forged INVITE never acknowledges.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Why a call without a free line is refused.
pub const ALL_TAKEN: &str = "all lines are taken";

#[derive(Debug)]
pub struct Lines {
    counts: Mutex<LineCounts>,
    unacknowledged: Mutex<UnacknowledgedCalls<Arc<Notify>>>,
}

/// A line of a call of this trunk; released when it is dropped.
#[derive(Debug)]
pub struct LinePermit {
    lines: Arc<Lines>,
    trunk: String,
}

/// An unacknowledged call without a line.
#[derive(Debug)]
pub struct UnacknowledgedCall {
    lines: Arc<Lines>,
    trunk: String,
    number: u64,
    over: Arc<Notify>,
}

impl Lines {
    pub fn new(max_calls: usize, trunks: &[Trunk]) -> Self {
        let limits: Vec<_> = trunks.iter().map(|trunk| trunk.max_calls).collect();
        Self {
            counts: Mutex::new(LineCounts::new(max_calls, &limits)),
            unacknowledged: Mutex::default(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, LineCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unacknowledged(&self) -> MutexGuard<'_, UnacknowledgedCalls<Arc<Notify>>> {
        self.unacknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn taken(&self) -> usize {
        self.counts().all()
    }

    /// Takes a line for a call of this trunk, if one is free for it.
    pub fn take(self: &Arc<Self>, trunk: &Trunk) -> Option<LinePermit> {
        let is_taken = self.counts().take(&trunk.name, trunk.max_calls);
        is_taken.then(|| LinePermit {
            lines: self.clone(),
            trunk: trunk.name.clone(),
        })
    }

    /// Keeps a call of this trunk without a line until it is acknowledged, or newer ones displace it.
    pub fn wait_without(self: &Arc<Self>, trunk: &str) -> UnacknowledgedCall {
        let over = Arc::<Notify>::default();
        let (number, oldest) = self.unacknowledged().add(trunk, over.clone());
        if let Some(oldest) = oldest {
            oldest.notify_one();
        }
        UnacknowledgedCall {
            lines: self.clone(),
            trunk: trunk.to_owned(),
            number,
            over,
        }
    }
}

impl Drop for LinePermit {
    fn drop(&mut self) {
        self.lines.counts().give_back(&self.trunk);
    }
}

impl UnacknowledgedCall {
    /// Completes when too many newer ones of its trunk wait. Never without a call.
    pub async fn over(waiting: Option<&Self>) {
        match waiting {
            Some(waiting) => waiting.over.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for UnacknowledgedCall {
    fn drop(&mut self) {
        self.lines.unacknowledged().remove(&self.trunk, self.number);
    }
}
