//! Fault tests: the real program under load, driven from outside, with a journal of everything acknowledged. A
//! fault happens, and afterwards one checker compares the journal with the store. docs/reliability.md lists the
//! results.
//!
//! Each fault is one `#[ignore]`d test. It has a short form, which `.ci/slow` runs, and a long one, which `.ci/faults`
//! runs. The environment can change its size (`sizes`).

mod bridges;
mod check;
mod clocks;
mod crashes;
mod database;
mod failover;
mod fleet;
mod journal;
mod load;
mod money;
mod patroni;
mod power_cuts;
mod proxy;
mod restarts;
mod sizes;
mod soak;
mod standby;
mod throughput;

pub use self::{
    fleet::{Fleet, FleetSettings},
    load::FaultLoad,
    sizes::FaultForm::Short,
};
