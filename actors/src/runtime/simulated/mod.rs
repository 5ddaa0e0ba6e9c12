//! What a simulation stands on: a time that is moved by hand ([`clock`]), chance that can be had again ([`chance`]), the tables of
//! the store ([`tables`]) and the way to them ([`wire`]), on which everything can be late or lost. For tests only.
//!
//! The rooms beside this one have a `simulated` of their own, with what is done there by SQL or by actors.

pub(crate) mod chance;
pub(crate) mod clock;
pub(crate) mod ids;
pub(crate) mod tables;
pub(crate) mod tasks;
pub(crate) mod wire;
