//! Every fault survived: the real program under load, driven from outside, with a journal of what it acknowledged; then something
//! breaks, and afterwards one checker holds the journal against what is left. What was measured is in docs/reliability.md.
//!
//! Each fault has a short form among the tests, and a long one that is `#[ignore]`d and run by `.ci/faults`, whose sizes the
//! environment can change (`sizes`).

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
mod power_cuts;
mod proxy;
mod restarts;
mod sizes;
mod soak;
mod standby;
mod throughput;

pub use self::{
    fleet::{Fleet, Wanted},
    load::Load,
    sizes::Form::Short,
};
