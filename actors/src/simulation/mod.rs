//! Simulations of nodes, their store, bridges and tenants' servers in one thread with a time of its own. Rare faults
//! occur in milliseconds, and a seed reproduces them.
//!
//! The decisions are made by the real code: a call's driver with its machine and steps, the ledger's plan and
//! batches, leases and membership, a bridge's presence, and the scheduler of deliveries with its queues, circuits and
//! retries. Around it is a model. The store is tables in memory (`runtime/simulated/tables`) with the guards of the
//! real statements (`*/simulated`), which a test compares with SQLite. Actors are tasks. A statement is a request
//! that travels, is carried out whole at some moment, and is answered or not.
//!
//! The model is not the real SQL over SQLite in memory, for two reasons. The 48 seeds of the tests make 255,000
//! requests in 11 s; SQLite takes 200 to 300 µs for each of their statements (debug build), so minutes in all. And its
//! pool waits in threads and in real time, so a seed would no longer be the same again.
//!
//! Left out: function invocations, transcripts, erasing, the event stream, and the inside of PostgreSQL's
//! transactions.
//!
//! [`setting`] is the meaning of a seed, [`world`] the machines and the time, [`process`] one node, [`phones`] the
//! bridges and callers, [`checks`] the invariants.

mod base;
mod checks;
mod phones;
mod process;
mod setting;
mod tenants;
#[cfg(test)]
mod tests;
mod world;

pub(crate) use self::{
    base::SharedBase,
    setting::{InjectedFault, SimulationSetting},
};
use futures_util::FutureExt;

use crate::runtime::simulated::tables::Flaw;

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimulationResult {
    /// The violated invariant; none if all held.
    pub(crate) breach: Option<String>,
    /// The end or the violation, in milliseconds of simulated time.
    pub(crate) at: i64,
    pub(crate) calls: usize,
    pub(crate) answered: usize,
    pub(crate) moved: usize,
    pub(crate) minutes: i64,
    pub(crate) attempts: usize,
    /// The number of requests to the store.
    pub(crate) questions: u64,
    pub(crate) log: Vec<String>,
}

/// Runs a simulation.
pub(crate) fn play(
    base: &SharedBase,
    setting: &SimulationSetting,
    flaw: Option<Flaw>,
    tells: bool,
) -> SimulationResult {
    // A simulation is one poll of a test, so nothing in it may yield to the test's runtime.
    let played = async { world::SimulatedWorld::new(base, setting, flaw, tells).play() };
    let played = tokio::task::unconstrained(played).now_or_never();
    played.expect("nothing in it waits for the test's runtime")
}

/// Shrinks a failing setting while it still fails: fewer kinds of faults, fewer calls.
pub(crate) fn smallest(
    base: &SharedBase,
    setting: &SimulationSetting,
    flaw: Option<Flaw>,
) -> SimulationSetting {
    let breaks = |setting: &SimulationSetting| play(base, setting, flaw, false).breach.is_some();
    let mut least = setting.clone();
    for fault in InjectedFault::ALL {
        let mut less = least.clone();
        if less.faults.remove(&fault) && breaks(&less) {
            least = less;
        }
    }
    while least.calls > 1 {
        let less = SimulationSetting {
            calls: least.calls / 2,
            ..least.clone()
        };
        if !breaks(&less) {
            break;
        }
        least = less;
    }
    least
}
