//! The lines of calls, and unacknowledged calls without one.

mod line_counts;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::{sync::Notify, time::Duration};

use self::line_counts::{LineCounts, UnacknowledgedCalls};
use crate::{
    limits::rate_limit::{RateCount, RateLimit},
    settings::Trunk,
};

/// Time after which an unacknowledged call loses its line. The sender of a forged INVITE never acknowledges.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Why a call without a free line is refused.
pub const ALL_TAKEN: &str = "all lines are taken";

/// Why a trunk may not begin one more call: the reason that is counted, and in words.
pub type NoLine = (&'static str, &'static str);

#[derive(Debug)]
pub struct Lines {
    counts: Mutex<LineCounts>,
    unacknowledged: Mutex<UnacknowledgedCalls<Arc<Notify>>>,
    /// Use of `calls_per_second`, by the trunk's name.
    rates: HashMap<String, Mutex<RateCount>>,
    begun: Instant,
}

/// A line of a call of this trunk, or the place of a second leg over it; released when it is dropped.
#[derive(Debug)]
pub struct LinePermit {
    lines: Arc<Lines>,
    trunk: String,
    is_second_leg: bool,
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
        let rate = |trunk: &Trunk| {
            let limit = RateLimit::a_second(trunk.calls_per_second?.max(1).into());
            Some((trunk.name.clone(), Mutex::new(RateCount::new(limit))))
        };
        Self {
            counts: Mutex::new(LineCounts::new(max_calls, &limits)),
            unacknowledged: Mutex::default(),
            rates: trunks.iter().filter_map(rate).collect(),
            begun: Instant::now(),
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

    /// Takes a line for a new call of this trunk.
    pub fn begin(self: &Arc<Self>, trunk: &Trunk) -> Result<LinePermit, NoLine> {
        self.may_begin(trunk)?;
        self.take(trunk).ok_or(("lines", ALL_TAKEN))
    }

    /// Takes a place for a second leg over this trunk, whose call is another trunk's.
    pub fn begin_second_leg(self: &Arc<Self>, trunk: &Trunk) -> Result<LinePermit, NoLine> {
        self.may_begin(trunk)?;
        let is_taken = self.counts().take_second_leg(&trunk.name, trunk.max_calls);
        let permit = is_taken.then(|| self.permit(trunk, true));
        permit.ok_or(("lines", ALL_TAKEN))
    }

    /// Takes a line again for a call of this trunk, if one is free for it.
    pub fn take(self: &Arc<Self>, trunk: &Trunk) -> Option<LinePermit> {
        let is_taken = self.counts().take(&trunk.name, trunk.max_calls);
        is_taken.then(|| self.permit(trunk, false))
    }

    fn permit(self: &Arc<Self>, trunk: &Trunk, is_second_leg: bool) -> LinePermit {
        LinePermit {
            lines: self.clone(),
            trunk: trunk.name.clone(),
            is_second_leg,
        }
    }

    fn may_begin(&self, trunk: &Trunk) -> Result<(), NoLine> {
        if trunk.is_out_of_service {
            return Err(("out_of_service", "the trunk is out of service"));
        }
        let Some(rate) = self.rates.get(&trunk.name) else {
            return Ok(());
        };
        let now = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut rate = rate.lock().unwrap_or_else(PoisonError::into_inner);
        match rate.admits(now) {
            true => Ok(()),
            false => Err(("rate", "the trunk begins too many calls at once")),
        }
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
        let mut counts = self.lines.counts();
        match self.is_second_leg {
            true => counts.give_back_second_leg(&self.trunk),
            false => counts.give_back(&self.trunk),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_legs_share_the_limits_of_their_trunk() {
        let trunk = |name: &str, max_calls, calls_per_second| Trunk {
            name: name.to_owned(),
            max_calls,
            calls_per_second,
            ..Trunk::default()
        };
        let (few, slow) = (trunk("few", Some(1), None), trunk("slow", None, Some(1)));
        let lines = Arc::new(Lines::new(100, &[few.clone(), slow.clone()]));
        let leg = lines.begin_second_leg(&few).expect("it is free");
        assert_eq!(lines.begin(&few).map(drop), Err(("lines", ALL_TAKEN)));
        drop(leg);
        let call = lines.begin(&few).expect("it is free again");
        let refused = lines.begin_second_leg(&few).map(drop);
        assert_eq!(refused, Err(("lines", ALL_TAKEN)));
        drop(call);
        assert_eq!(lines.taken(), 0);

        let broken = Trunk {
            is_out_of_service: true,
            ..few
        };
        for refused in [lines.begin(&broken), lines.begin_second_leg(&broken)] {
            let refused = refused.map(drop).map_err(|(reason, _)| reason);
            assert_eq!(refused, Err("out_of_service"));
        }

        // They take less than a second each.
        let begun = (0..100).map(|at| match at % 2 {
            0 => lines.begin_second_leg(&slow).map(drop),
            _ => lines.begin(&slow).map(drop),
        });
        let refused = begun.filter_map(Result::err).map(|(reason, _)| reason);
        assert!(refused.filter(|reason| *reason == "rate").count() > 90);
    }
}
