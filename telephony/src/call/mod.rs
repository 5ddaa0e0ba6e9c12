//! A call: what follows from what happened (pure), and the task that carries it out.

mod counters;
mod machine;
mod outlet;
mod task;

pub(crate) use counters::Counters;
pub use counters::Reading;
pub(crate) use machine::{Rules, unavailable};
pub(crate) use task::{Parts, run};
