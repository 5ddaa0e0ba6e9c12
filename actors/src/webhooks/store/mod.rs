//! Deliveries in the tables: which are [`pending`] and who takes them, and the [`results`] of attempts.

pub(super) mod pending;
pub(super) mod results;
