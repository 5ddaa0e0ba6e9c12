//! A call: its pure state machine, and the task that runs it.

mod counters;
mod machine;
mod outlet;
mod task;

pub(crate) use counters::Counters;
pub use counters::Reading;
pub(crate) use machine::{Rules, unavailable};
pub(crate) use task::{Parts, run};
