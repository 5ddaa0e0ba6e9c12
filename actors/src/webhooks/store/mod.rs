//! Deliveries in the tables: [`pending`] ones, the nodes that deliver ([`queue_owners`]), and the [`results`] of attempts, as far as they are
//! [`recordable`].

pub(super) mod pending;
pub(super) mod queue_owners;
pub(super) mod recordable;
pub(super) mod results;
