//! The steps that the driver has carried out for a call. Each one writes first and changes the state after that.

pub(super) mod answer;
pub(super) mod commands;
mod credit;
pub(super) mod deadlines;
pub(super) mod end;
pub(super) mod join;
pub(super) mod reopen;
pub(super) mod transcript;
pub(super) mod turns;
