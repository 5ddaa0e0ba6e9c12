//! What a seed means: how many nodes and calls there are, and which kinds of faults befall them.

use std::{collections::BTreeSet, fmt, str::FromStr};

use crate::runtime::simulated::chance::Chance;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Processes are killed, and started again or not at once.
    Crashes,
    /// Processes stand still for up to a minute and a half.
    Pauses,
    /// A node cannot reach the store.
    Cuts,
    /// Nobody can.
    Outages,
    /// The store carries something out, and its answer is lost.
    LostAnswers,
    /// Single questions to the store take seconds.
    SlowStore,
    /// Messages of bridges are lost, doubled, delayed and overtake each other.
    Messages,
    /// Bridges lose their connection, and come back at any node.
    Moves,
    /// Bridges die with all their calls.
    BridgeDeaths,
    /// Clocks of nodes differ by up to two seconds, and run by up to a hundredth too fast or too slow.
    Clocks,
    /// Tenants' servers answer with faults.
    Receivers,
}

impl Fault {
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
    /// Those after which a node may not know what it has done.
    pub(crate) const OF_NODES: [Self; 5] = [
        Self::Crashes,
        Self::Pauses,
        Self::Cuts,
        Self::Outages,
        Self::LostAnswers,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|fault| fault.to_string() == word);
        found.ok_or_else(|| format!("{word:?} is none of {:?}", Self::ALL))
    }
}

/// One simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) bridges: usize,
    pub(crate) calls: usize,
    /// Of the tenant, to begin with.
    pub(crate) minutes: i64,
    pub(crate) faults: BTreeSet<Fault>,
}

impl Setting {
    /// In one of eight nothing goes wrong: there everything has to be exact.
    pub(crate) fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let is_calm = seed.is_multiple_of(8);
        let often = chance.pick(&[150, 400, 700]);
        let faults = Fault::ALL.into_iter();
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

    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// Whether nodes always know what they have done.
    pub(crate) fn spares_nodes(&self) -> bool {
        Fault::OF_NODES.iter().all(|fault| !self.has(*fault))
    }

    /// How to have the same again.
    pub(crate) fn again(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(Fault::to_string).collect();
        format!(
            "DIKALA_SIMULATION_SEED={} DIKALA_SIMULATION_FAULTS={} DIKALA_SIMULATION_CALLS={} \
             cargo test -p dikala-actors --lib simulation -- --ignored --nocapture",
            self.seed,
            faults.join(","),
            self.calls
        )
    }
}
