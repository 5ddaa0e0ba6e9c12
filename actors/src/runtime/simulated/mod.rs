//! The base of simulations: a time that is moved by hand ([`clock`]), reproducible randomness ([`chance`]), the
//! tables of the store ([`tables`]) and a network to them ([`wire`]) that delays and loses messages. For tests only.
//!
//! Each sibling module has a `simulated` of its own, for its SQL and actors.

pub(crate) mod chance;
pub(crate) mod clock;
pub(crate) mod ids;
pub(crate) mod tables;
pub(crate) mod tasks;
pub(crate) mod wire;
