//! The lines of calls, and unacknowledged calls without one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::places::{Late, Places};

#[derive(Debug)]
pub struct Lines {
    places: Mutex<Places>,
    late: Mutex<Late<Arc<Notify>>>,
}

/// A line of a call of this trunk; released when it is dropped.
#[derive(Debug)]
pub struct Place {
    lines: Arc<Lines>,
    trunk: String,
}

/// An unacknowledged call without a line.
#[derive(Debug)]
pub struct Waiting {
    lines: Arc<Lines>,
    trunk: String,
    number: u64,
    over: Arc<Notify>,
}

impl Lines {
    pub fn new(max_calls: usize, trunks: usize) -> Self {
        Self {
            places: Mutex::new(Places::new(max_calls, trunks)),
            late: Mutex::default(),
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn late(&self) -> MutexGuard<'_, Late<Arc<Notify>>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn taken(&self) -> usize {
        self.places().all()
    }

    /// Takes a line for a call of this trunk, if one is free for it.
    pub fn take(self: &Arc<Self>, trunk: &str) -> Option<Place> {
        self.places().take(trunk).then(|| Place {
            lines: self.clone(),
            trunk: trunk.to_owned(),
        })
    }

    /// Keeps a call of this trunk without a line until it is acknowledged, or newer ones displace it.
    pub fn wait_without(self: &Arc<Self>, trunk: &str) -> Waiting {
        let over = Arc::<Notify>::default();
        let (number, oldest) = self.late().add(trunk, over.clone());
        if let Some(oldest) = oldest {
            oldest.notify_one();
        }
        Waiting {
            lines: self.clone(),
            trunk: trunk.to_owned(),
            number,
            over,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lines.places().give_back(&self.trunk);
    }
}

impl Waiting {
    /// Completes when too many newer ones of its trunk wait.
    pub async fn over(&self) {
        self.over.notified().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.lines.late().remove(&self.trunk, self.number);
    }
}
