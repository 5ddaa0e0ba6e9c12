//! Events. [`payload`] defines their data, [`outbox`] writes them with their subscribers in the transaction of their
//! cause ([`sequences`] numbers them), [`followers`] wakes the readers of live events.

pub mod followers;
pub mod outbox;
pub mod payload;
pub mod remote_events;
pub mod sequences;
