//! Deliveries in the tables: [`pending`] ones, the [`log`] of events before them, the [`cursors`] of the nodes that deliver, and
//! the [`results`] of attempts, as far as they are [`recordable`].

pub(super) mod cursors;
pub(super) mod log;
pub(super) mod pending;
pub(super) mod recordable;
pub(super) mod results;
mod statement;
