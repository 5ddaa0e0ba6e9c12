//! Calls: the pure [`machine`], the [`core`] that carries its decisions out, and the [`actor`] around both.

pub mod actor;
pub mod core;
pub mod ending;
mod erasing;
mod events;
mod invoke;
pub mod machine;
pub mod messages;
pub mod open;
pub mod settings;
pub mod versions;

#[cfg(test)]
mod tests;

pub use self::erasing::{without_personal_data, without_summary};
pub use core::{CallParts, PlanConcurrency};
pub use machine::{Call, Rules, Sign};
pub use messages::{CallError, Incoming, Input, InvokeFunction, Reply};
