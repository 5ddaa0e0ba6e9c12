//! Events. [`payload`] defines their data, [`outbox`] writes them and their deliveries in the transaction of their
//! cause, [`followers`] wakes the readers of live events.

pub mod followers;
pub mod outbox;
pub mod payload;
pub mod remote_events;
