//! A circuit breaker: while open, it lets one probe at a time through to an endpoint that keeps failing. Waiting
//! deliveries keep their attempts; function calls are answered at once. Pure.

use dikala_entities::Millis;

/// Consecutive failures that open the circuit.
const OPENS_AFTER: u32 = 5;
const PAUSE_MS_MAX: i64 = 60_000;

/// The state of one endpoint's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Circuit {
    /// The first pause, in milliseconds; it doubles after each failed probe.
    pause_ms: i64,
    failed_in_row: u32,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    probe_at: Millis,
    /// Failed probes since the circuit opened.
    probes: u32,
    probing: bool,
}

/// The number of attempts that may begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admits {
    All,
    One,
    None,
}

impl Circuit {
    /// A closed circuit with this first pause.
    pub(crate) const fn new(pause_ms: i64) -> Self {
        Self {
            pause_ms,
            failed_in_row: 0,
            open: None,
        }
    }

    pub(crate) fn admits(&self, now: Millis) -> Admits {
        match self.open {
            None => Admits::All,
            Some(open) if !open.probing && now >= open.probe_at => Admits::One,
            Some(_) => Admits::None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The time of the next probe. None while the circuit is closed or a probe is under way.
    pub(crate) fn probe_at(&self) -> Option<Millis> {
        self.open
            .filter(|open| !open.probing)
            .map(|open| open.probe_at)
    }

    /// Records the start of an attempt.
    pub(crate) fn begun(&mut self) {
        if let Some(open) = &mut self.open {
            open.probing = true;
        }
    }

    /// Records that an attempt could not be made, for a reason that says nothing about the endpoint.
    pub(crate) fn not_made(&mut self) {
        if let Some(open) = &mut self.open {
            open.probing = false;
        }
    }

    pub(crate) fn succeeded(&mut self) {
        *self = Self::new(self.pause_ms);
    }

    /// Records a failure, whose delivery is tried again after `wait_ms`, or never. The pause is never longer than
    /// that wait, so a lone delivery keeps its schedule to the second.
    pub(crate) fn failed(&mut self, now: Millis, wait_ms: Option<i64>) {
        self.failed_in_row = self.failed_in_row.saturating_add(1);
        let probes = match self.open {
            None if self.failed_in_row < OPENS_AFTER => return,
            None => 0,
            Some(open) if open.probing => open.probes.saturating_add(1),
            // The attempt began before the circuit opened, so it tells nothing new.
            Some(_) => return,
        };
        let pause_ms = (self.pause_ms << probes.min(6)).min(PAUSE_MS_MAX);
        let pause_ms = wait_ms.map_or(pause_ms, |wait| wait.min(pause_ms));
        self.open = Some(Open {
            probe_at: now.plus_ms(pause_ms),
            probes,
            probing: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis::from_i64(1_000_000);

    fn opened() -> Circuit {
        let mut circuit = Circuit::new(1_000);
        for _ in 0..OPENS_AFTER {
            assert_eq!(circuit.admits(NOW), Admits::All);
            circuit.failed(NOW, Some(3_600_000));
        }
        circuit
    }

    #[test]
    fn it_opens_after_five_and_admits_one_probe_at_a_time_with_growing_pauses() {
        let mut circuit = opened();
        let mut now = NOW;
        for pause_ms in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
            assert_eq!(circuit.admits(now.plus_ms(pause_ms - 1)), Admits::None);
            now = now.plus_ms(pause_ms);
            assert_eq!(circuit.admits(now), Admits::One);
            circuit.begun();
            assert_eq!(circuit.admits(now), Admits::None);
            circuit.failed(now, None);
        }
        circuit.begun();
        circuit.succeeded();
        assert_eq!(circuit.admits(now), Admits::All);
        circuit.failed(now, None);
        assert!(!circuit.is_open());
    }

    #[test]
    fn a_probe_that_was_not_made_leaves_the_turn_open() {
        let mut circuit = opened();
        let now = NOW.plus_ms(1_000);
        circuit.begun();
        circuit.not_made();
        assert_eq!(circuit.admits(now), Admits::One);
    }

    #[test]
    fn what_was_under_way_when_it_opened_does_not_lengthen_the_pause() {
        let mut circuit = opened();
        for _ in 0..8 {
            circuit.failed(NOW, None);
        }
        assert_eq!(circuit.probe_at(), Some(NOW.plus_ms(1_000)));
    }

    #[test]
    fn the_pause_is_not_longer_than_the_wait_of_the_delivery_that_failed() {
        let mut circuit = Circuit::new(1_000);
        for _ in 0..OPENS_AFTER {
            circuit.failed(NOW, Some(300));
        }
        assert_eq!(circuit.probe_at(), Some(NOW.plus_ms(300)));
    }
}
