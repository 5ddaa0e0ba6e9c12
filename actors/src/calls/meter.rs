//! Metrics of calls: active ones by status, and ended ones by status and reason.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
};

use dikala_entities::{CallStatus, HangupReason};

const STATUSES: usize = CallStatus::ALL.len();
const REASONS: usize = HangupReason::ALL.len();

/// Counts of this process's calls; all clones share them.
#[derive(Clone, Debug)]
pub struct CallMeter(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    active: [AtomicI64; STATUSES],
    over: [[AtomicU64; REASONS]; STATUSES],
}

impl Default for CallMeter {
    fn default() -> Self {
        Self(Arc::new(Counts {
            active: [const { AtomicI64::new(0) }; STATUSES],
            over: [const { [const { AtomicU64::new(0) }; REASONS] }; STATUSES],
        }))
    }
}

impl CallMeter {
    /// Calls that this process owns and that are not over, by status.
    pub fn active(&self) -> [(CallStatus, i64); 2] {
        let of = |status| (status, self.0.active[status as usize].load(Relaxed));
        [CallStatus::Ringing, CallStatus::Answered].map(of)
    }

    /// Ended calls since the start, by status and reason; without zeros.
    pub fn over(&self) -> Vec<(CallStatus, HangupReason, u64)> {
        let all = CallStatus::ALL.iter().flat_map(|status| {
            let reasons = HangupReason::ALL.iter();
            reasons.map(|reason| (*status, *reason))
        });
        let counted = all.map(|(status, reason)| {
            let count = &self.0.over[status as usize][reason as usize];
            (status, reason, count.load(Relaxed))
        });
        counted.filter(|(.., count)| *count > 0).collect()
    }

    pub(super) fn ended(&self, status: CallStatus, reason: HangupReason) {
        self.0.over[status as usize][reason as usize].fetch_add(1, Relaxed);
    }
}

/// One call's share in the active calls. Dropping it removes the share, so that a call with a dead actor is not counted for
/// ever.
#[derive(Debug)]
pub(super) struct ActiveCallGuard {
    meter: CallMeter,
    status: Option<CallStatus>,
}

impl ActiveCallGuard {
    pub(super) fn new(meter: CallMeter, status: CallStatus) -> Self {
        let mut place = Self {
            meter,
            status: None,
        };
        place.set_status(Some(status));
        place
    }

    /// Sets the call's status; `None` if another node owns it.
    pub(super) fn set_status(&mut self, status: Option<CallStatus>) {
        let count = |status: CallStatus, by| {
            self.meter.0.active[status as usize].fetch_add(by, Relaxed);
        };
        if let Some(before) = self.status {
            count(before, -1);
        }
        if let Some(now) = status {
            count(now, 1);
        }
        self.status = status;
    }
}

impl Drop for ActiveCallGuard {
    fn drop(&mut self) {
        self.set_status(None);
    }
}
