//! How long invocations take, by what came of them.

use std::{sync::Arc, time::Duration};

use super::{FaultCode, Outcome};
use crate::runtime::histogram::{ANSWER_US, Distribution, Histogram};

/// Times of all invocations since the start; all clones share them.
#[derive(Clone, Debug)]
pub(super) struct FunctionMeter(Arc<Times>);

#[derive(Debug)]
struct Times {
    ok: Histogram,
    faults: [Histogram; FaultCode::ALL.len()],
}

impl Default for FunctionMeter {
    fn default() -> Self {
        let new = |_| Histogram::new(ANSWER_US);
        Self(Arc::new(Times {
            ok: new(()),
            faults: [(); FaultCode::ALL.len()].map(new),
        }))
    }
}

impl FunctionMeter {
    pub(super) fn observe(&self, outcome: &Outcome, took: Duration) {
        let histogram = match outcome {
            Outcome::Ok { .. } => &self.0.ok,
            Outcome::Error { code, .. } => &self.0.faults[*code as usize],
        };
        histogram.observe_time(took);
    }

    pub(super) fn reading(&self) -> Vec<(&'static str, Distribution)> {
        let faults = FaultCode::ALL.iter().zip(&self.0.faults);
        let faults = faults.map(|(code, times)| (code.as_str(), times.reading()));
        [("ok", self.0.ok.reading())]
            .into_iter()
            .chain(faults)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_own_times() {
        let meter = FunctionMeter::default();
        let ok = Outcome::Ok {
            result: serde_json::Map::new(),
        };
        meter.observe(&ok, Duration::from_millis(3));
        for code in FaultCode::ALL {
            meter.observe(
                &Outcome::error(code, ""),
                Duration::from_millis(code as u64),
            );
        }
        let mut reading = meter.reading().into_iter();
        assert_eq!(
            reading.next().map(|(name, times)| (name, times.sum)),
            Some(("ok", 3_000))
        );
        for (code, (name, times)) in FaultCode::ALL.into_iter().zip(reading) {
            assert_eq!(
                (name, times.count(), times.sum),
                (code.as_str(), 1, code as u64 * 1_000)
            );
        }
    }
}
