//! The setting of a simulation, derived from a seed: the number of nodes and calls, and the kinds of faults.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::runtime::simulated::chance::Chance;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InjectedFault {
    /// Processes are killed, and restarted sooner or later.
    Crashes,
    /// Processes pause for up to a minute and a half.
    Pauses,
    /// One node cannot reach the store.
    Cuts,
    /// No node can reach the store.
    Outages,
    /// The store carries out a request, and the answer is lost.
    LostAnswers,
    /// Single requests to the store take seconds.
    SlowStore,
    /// Messages of bridges are lost, duplicated, delayed and reordered.
    Messages,
    /// Bridges lose their connection and reconnect at any node.
    Moves,
    /// Bridges die with all their calls.
    BridgeDeaths,
    /// Nodes' clocks differ by up to two seconds, and run up to one percent fast or slow.
    Clocks,
    /// Tenants' servers answer with errors.
    Receivers,
}

impl InjectedFault {
    pub(crate) const ALL: [Self; 11] = [
        Self::Crashes,
        Self::Pauses,
        Self::Cuts,
        Self::Outages,
        Self::LostAnswers,
        Self::SlowStore,
        Self::Messages,
        Self::Moves,
        Self::BridgeDeaths,
        Self::Clocks,
        Self::Receivers,
    ];
    /// Faults after which a node may not know what it has done.
    pub(crate) const OF_NODES: [Self; 5] = [
        Self::Crashes,
        Self::Pauses,
        Self::Cuts,
        Self::Outages,
        Self::LostAnswers,
    ];
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for InjectedFault {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|fault| fault.to_string() == word);
        found.ok_or_else(|| format!("{word:?} is none of {:?}", Self::ALL))
    }
}

/// The setting of one simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SimulationSetting {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) bridges: usize,
    pub(crate) calls: usize,
    /// The tenant's minutes at the start.
    pub(crate) minutes: i64,
    pub(crate) faults: BTreeSet<InjectedFault>,
}

impl SimulationSetting {
    /// The setting for a seed. One in eight has no faults and must be exact.
    pub(crate) fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let is_calm = seed.is_multiple_of(8);
        let often = chance.pick(&[150, 400, 700]);
        let faults = InjectedFault::ALL.into_iter();
        Self {
            seed,
            nodes: if chance.happens(600) { 2 } else { 3 },
            bridges: if chance.happens(500) { 1 } else { 2 },
            calls: usize::try_from(chance.between(4, 14)).unwrap_or(4),
            minutes: chance.pick(&[2, 5, 12, 40, 100]),
            faults: faults
                .filter(|_| chance.happens(often) && !is_calm)
                .collect(),
        }
    }

    pub(crate) fn has(&self, fault: InjectedFault) -> bool {
        self.faults.contains(&fault)
    }

    /// True if nodes always know what they have done.
    pub(crate) fn spares_nodes(&self) -> bool {
        InjectedFault::OF_NODES
            .iter()
            .all(|fault| !self.has(*fault))
    }

    /// The command that reproduces this simulation.
    pub(crate) fn again(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(InjectedFault::to_string).collect();
        format!(
            "DIKALA_SIMULATION_SEED={} DIKALA_SIMULATION_FAULTS={} DIKALA_SIMULATION_CALLS={} \
             cargo test -p dikala-actors --lib simulation -- --ignored --nocapture",
            self.seed,
            faults.join(","),
            self.calls
        )
    }
}
