//! What the driver has carried out of a call: each step is asked for by name, writes what it has to, and changes the state
//! after that.

pub(super) mod answer;
pub(super) mod commands;
mod credit;
pub(super) mod deadlines;
pub(super) mod end;
pub(super) mod reopen;
pub(super) mod transcript;
