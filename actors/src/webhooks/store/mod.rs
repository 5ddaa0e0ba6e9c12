//! Deliveries in the tables: [`pending`] ones, the nodes that deliver ([`lanes`]), and the [`results`] of attempts.

pub(super) mod lanes;
pub(super) mod pending;
pub(super) mod results;
