//! The quality of calls: what their media counts, and an estimate of how it sounds.
//!
//! The media of each leg reports once a second and at its end. The reports of running calls, and of the last calls that ended, are
//! kept in memory; the last report of each leg is counted in the histograms of [`QualityStatistics`].

mod e_model;
mod histograms;
mod percentile;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use self::{
    e_model::{Impairments, mos},
    histograms::{DirectionStatistics, QualityStatistics},
};
pub(crate) use self::{histograms::QualityHistograms, percentile::JitterSamples};

/// Ended calls that are kept.
const ENDED_MAX: usize = 10_000;

/// The quality of one direction of a leg.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionQuality {
    /// That came, or that we sent.
    pub packets: u64,
    /// Not there when they were due. Of what we sent: as the other side reports it, `None` before its first report.
    pub lost: Option<u64>,
    /// Of the lost ones, those that came later; `None` of what we sent, because no report says that.
    pub late: Option<u64>,
    /// The 95th percentile of the interarrival jitter (RFC 3550, 6.4.1), in milliseconds.
    pub jitter_p95_ms: Option<u32>,
    /// Audio that was made up in place of lost packets; `None` of what we sent.
    pub concealed_ms: Option<u64>,
    /// Mean opinion score in hundredths, 100 to 441; `None` while nothing is known.
    pub mos: Option<u16>,
}

impl DirectionQuality {
    /// Packets that were due. Late ones are in both other counts.
    pub(crate) fn due(&self) -> u64 {
        let late = self.late.unwrap_or_default();
        let heard = self.packets.saturating_sub(late);
        heard.saturating_add(self.lost.unwrap_or_default())
    }
}

/// The quality of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegQuality {
    /// The name of the codec.
    pub codec: &'static str,
    /// The last one; `None` if the other side sends no reports.
    pub round_trip_ms: Option<u32>,
    /// From the other side.
    pub received: DirectionQuality,
    /// To the other side.
    pub sent: DirectionQuality,
}

/// The quality of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallQuality {
    pub caller: Option<LegQuality>,
    /// The last person to whom the caller was transferred.
    pub person: Option<LegQuality>,
}

/// Which leg of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LegRole {
    Caller,
    Person,
}

/// The qualities of running calls and of the last ones that ended.
#[derive(Debug, Default)]
pub(crate) struct Qualities(Mutex<QualityTable>);

#[derive(Debug, Default)]
struct QualityTable {
    calls: HashMap<Arc<str>, KeptQuality>,
    /// In the order of their ends.
    ended: VecDeque<Arc<str>>,
}

#[derive(Debug, Default)]
struct KeptQuality {
    quality: CallQuality,
    /// Legs whose media runs.
    running: usize,
}

/// Reports the quality of one leg until it is dropped.
#[derive(Debug)]
pub(crate) struct QualityReporter {
    qualities: Arc<Qualities>,
    id: Arc<str>,
    role: LegRole,
}

impl Qualities {
    fn table(&self) -> MutexGuard<'_, QualityTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the reports of a leg of the call with this id.
    pub fn reporter(self: &Arc<Self>, id: Arc<str>, role: LegRole) -> QualityReporter {
        self.table().calls.entry(id.clone()).or_default().running += 1;
        QualityReporter {
            qualities: self.clone(),
            id,
            role,
        }
    }

    /// The quality of the call with this id; `None` if it had no media, or is forgotten.
    pub fn read(&self, id: &str) -> Option<CallQuality> {
        let table = self.table();
        table.calls.get(id).map(|kept| kept.quality)
    }
}

impl QualityReporter {
    pub fn is_of_caller(&self) -> bool {
        matches!(self.role, LegRole::Caller)
    }

    pub fn report(&self, quality: LegQuality) {
        let mut table = self.qualities.table();
        let Some(kept) = table.calls.get_mut(&self.id) else {
            return;
        };
        let leg = match self.role {
            LegRole::Caller => &mut kept.quality.caller,
            LegRole::Person => &mut kept.quality.person,
        };
        *leg = Some(quality);
    }
}

impl Drop for QualityReporter {
    fn drop(&mut self) {
        let mut table = self.qualities.table();
        let Some(kept) = table.calls.get_mut(&self.id) else {
            return;
        };
        kept.running -= 1;
        if kept.running > 0 {
            return;
        }
        table.ended.push_back(self.id.clone());
        if table.ended.len() > ENDED_MAX
            && let Some(oldest) = table.ended.pop_front()
            && table
                .calls
                .get(&oldest)
                .is_some_and(|kept| kept.running == 0)
        {
            table.calls.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(packets: u64) -> LegQuality {
        LegQuality {
            codec: "PCMA",
            round_trip_ms: None,
            received: DirectionQuality {
                packets,
                ..DirectionQuality::default()
            },
            sent: DirectionQuality::default(),
        }
    }

    #[test]
    fn running_calls_are_kept_and_of_the_ended_ones_the_last() {
        let qualities = Arc::<Qualities>::default();
        let running = qualities.reporter("running".into(), LegRole::Caller);
        running.report(quality(1));
        for number in 0..=ENDED_MAX {
            let id: Arc<str> = number.to_string().into();
            let caller = qualities.reporter(id.clone(), LegRole::Caller);
            caller.report(quality(2));
            qualities.reporter(id, LegRole::Person).report(quality(3));
        }
        assert_eq!(qualities.read("0"), None);
        let both = CallQuality {
            caller: Some(quality(2)),
            person: Some(quality(3)),
        };
        assert_eq!(qualities.read("1"), Some(both));
        let caller = qualities.read("running").and_then(|call| call.caller);
        assert_eq!(caller, Some(quality(1)));
        drop(running);
        assert_eq!(qualities.read("1"), None);
        assert_eq!(qualities.table().calls.len(), ENDED_MAX);
    }
}
