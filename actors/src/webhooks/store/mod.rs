//! Deliveries in the tables: which are [`pending`], who delivers to whom ([`lanes`]), and the [`results`] of attempts.

pub(super) mod lanes;
pub(super) mod pending;
pub(super) mod results;
