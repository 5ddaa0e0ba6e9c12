//! Nodes, their store, bridges and tenants' servers in one thread, in a time of its own: what took hours or luck happens in
//! milliseconds, and the same seed makes the same happen again.
//!
//! What decides is the real thing: a call's driver with its machine and steps, the ledger's plan, what a batch makes of it and what
//! stands in its way, leases and membership, a bridge's presence, the scheduler of deliveries with its lanes, circuit and schedule.
//! Around it is a model: the store is tables in memory (`runtime/simulated/tables`) with the guards of the real statements
//! (`*/simulated`), which a test compares with SQLite; actors are tasks, SQL is a question that travels, is carried out whole at
//! some moment, and is answered or not.
//!
//! Left out: function invocations, transcripts, erasing, the event stream, what PostgreSQL does inside of a transaction.
//!
//! [`setting`] is what a seed means, [`world`] the machines and the time, [`process`] one node, [`phones`] the bridges and those who
//! call, [`checks`] what must hold.

mod base;
mod checks;
mod phones;
mod process;
mod setting;
#[cfg(test)]
mod tests;
mod world;

pub(crate) use self::{
    base::Base,
    setting::{Fault, Setting},
};
use futures_util::FutureExt;

use crate::runtime::simulated::tables::Flaw;

/// What a simulation came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Came {
    /// What must not be; none where all is well.
    pub(crate) breach: Option<String>,
    /// When it was over or broken, in milliseconds of its own time.
    pub(crate) at: i64,
    pub(crate) calls: usize,
    pub(crate) answered: usize,
    pub(crate) moved: usize,
    pub(crate) minutes: i64,
    pub(crate) attempts: usize,
    /// Questions to the store.
    pub(crate) questions: u64,
    pub(crate) log: Vec<String>,
}

/// Plays what a setting says.
pub(crate) fn play(base: &Base, setting: &Setting, flaw: Option<Flaw>, tells: bool) -> Came {
    // All of it is one poll of a test; what waits in it must not be made to yield to others of the test's runtime.
    let played = async { world::World::new(base, setting, flaw, tells).play() };
    let played = tokio::task::unconstrained(played).now_or_never();
    played.expect("nothing in it waits for the test's runtime")
}

/// The same with less in it, as long as that still breaks: fewer kinds of faults, fewer calls.
pub(crate) fn smallest(base: &Base, setting: &Setting, flaw: Option<Flaw>) -> Setting {
    let breaks = |setting: &Setting| play(base, setting, flaw, false).breach.is_some();
    let mut least = setting.clone();
    for fault in Fault::ALL {
        let mut less = least.clone();
        if less.faults.remove(&fault) && breaks(&less) {
            least = less;
        }
    }
    while least.calls > 1 {
        let less = Setting {
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
