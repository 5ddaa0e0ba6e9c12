//! A call: its pure state machine, and the task that runs it.

mod counters;
mod machine;
mod notes;
mod outlet;
mod task;

pub(crate) use counters::CallCounters;
pub use counters::CallStatistics;
pub(crate) use machine::{CallOrigin, CallRules, unavailable};
pub use notes::CallNote;
pub use task::Providers;
pub(crate) use task::{TaskDeps, run};
